use proptest::prelude::*;

use super::{BadJson, Content, Place, Scratch};
use crate::semantics::Pointer;

fn is_json(text: impl AsRef<[u8]>) -> bool {
    Scratch::default().parse(text.as_ref(), None).is_ok()
}

/// What a pointer leads to, as text that shows its type.
fn look(text: &str, decode: Option<&str>, pointer: &str) -> Result<Option<String>, BadJson> {
    let pointers = (decode.and_then(Pointer::parse), Pointer::parse(pointer).expect("a pointer"));
    let mut scratch = Scratch::default();
    let document = scratch.parse(text.as_bytes(), pointers.0.as_ref())?;
    let place = document.resolve(Place::ROOT, &pointers.1);
    Ok(place.map(|place| match document.content(place) {
        Content::Null => "null".to_owned(),
        Content::Bool(value) => value.to_string(),
        Content::Number(written) => written.to_owned(),
        Content::Text(text) => format!("{text:?}"),
        Content::Container => "container".to_owned(),
    }))
}

fn found(text: &str, pointer: &str) -> Option<String> {
    look(text, None, pointer).expect("JSON")
}

#[test]
fn what_is_not_json_is_refused_wherever_it_stands() {
    let deep = "[".repeat(128) + &"]".repeat(128);
    for text in [
        "",
        " ",
        "nan",
        "NaN",
        "Infinity",
        "-Infinity",
        "[1,]",
        "{} {}",
        "01",
        "-",
        "1.",
        ".5",
        "1e",
        "+1",
        "\"\t\"",
        "\"a",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "{a:1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1 2]",
        "tru",
        "nulll",
        "[",
        "{\"a\":1",
        "]",
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\ud800x\n""#,
        r#""\ud800\n""#,
        r#""\ud800\u0041""#,
        "'a'",
        "/**/1",
        "\u{feff}\u{feff}1",
        "1\u{a0}",
        deep.as_str(),
    ] {
        assert!(!is_json(text), "{text}");
        assert!(!is_json(format!("{{\"skipped\":[{text}],\"b\":1}}")) || text.trim().is_empty(), "{text}");
    }
    assert!(!is_json(b"\"\xff\""));
    assert!(!is_json(b"\"\xed\xa0\x80\"")); // a surrogate in UTF-8
}

#[test]
fn what_is_json_is_read() {
    let deep = "[".repeat(127) + &"]".repeat(127);
    let brackets = format!("\"{}\"", "[".repeat(200));
    for text in [
        r#""\ud83c\udf21""#,
        r#""\\ud800""#,
        "1e999",
        "-0",
        "0.10E-007",
        " [ ] ",
        "{ \"a\" : [ 1 , { } ] }\r\n\t",
        "\u{feff}1",
        "\"\u{7f}\u{2028}\"",
        r#""\/\b\f\n\r\t\"\\""#,
        deep.as_str(),
        brackets.as_str(),
    ] {
        assert!(is_json(text), "{text}");
    }
}

#[test]
fn pointers_lead_where_the_rfc_says() {
    let document = r#"{"a/b":{"m~n":[1,{"":2}]},"01":3,"":4,"c":"é\n\ud83c\udf21","d":[[5,6],7]}"#;
    for (pointer, wanted) in [
        ("", Some("container")),
        ("/a~1b/m~0n/0", Some("1")),
        ("/a~1b/m~0n/1/", Some("2")),
        ("/01", Some("3")),
        ("/", Some("4")),
        ("/c", Some("\"é\\n🌡\"")),
        ("/d/0/1", Some("6")),
        ("/d/1", Some("7")),
        ("/x", None),
        ("/a~1b/m~0n/00", None),
        ("/a~1b/m~0n/-", None),
        ("/a~1b/m~0n/2", None),
        ("/01/0", None),
        ("/c/0", None),
    ] {
        assert_eq!(found(document, pointer).as_deref(), wanted, "{pointer}");
    }
}

#[test]
fn of_equal_names_the_last_counts_however_it_is_escaped() {
    assert_eq!(found(r#"{"a":{"b":1},"\u0061":{"c":2},"b":0}"#, "/a/c").as_deref(), Some("2"));
    assert_eq!(found(r#"{"a":{"b":1},"a":{"c":2}}"#, "/a/b"), None);
    assert_eq!(found(r#"{"a":1,"a":null}"#, "/a").as_deref(), Some("null"));
}

#[test]
fn numbers_stay_as_they_are_written() {
    for number in ["1.0", "1E3", "-0", "2882429806056571124", "1e+05", "123456789012345678901234567890.00"] {
        assert_eq!(found(&format!("[{number}]"), "/0").as_deref(), Some(number));
    }
}

#[test]
fn a_decoded_text_takes_its_place() {
    let decoded = |text: &str, decode: &str, pointer: &str| look(text, Some(decode), pointer);
    let text = r#"{"p":"{\"t\":[1,\"\\u00e9\"],\"p\":2}","t":3,"a":[0,"[4,5]",6]}"#;
    assert_eq!(decoded(text, "/p", "/p/t/1"), Ok(Some("\"é\"".to_owned())));
    assert_eq!(decoded(text, "/p", "/p/p"), Ok(Some("2".to_owned())));
    assert_eq!(decoded(text, "/p", "/p"), Ok(Some("container".to_owned())));
    assert_eq!(decoded(text, "/p", "/t"), Ok(Some("3".to_owned())));
    assert_eq!(decoded(text, "/a/1", "/a/1/1"), Ok(Some("5".to_owned())));
    assert_eq!(decoded(text, "/a/1", "/a/2"), Ok(Some("6".to_owned())));
    assert_eq!(decoded(text, "/t", "/t"), Ok(Some("3".to_owned())));
    assert_eq!(decoded(text, "/x", "/t"), Ok(Some("3".to_owned())));
    assert_eq!(decoded(r#""{\"a\":1}""#, "", "/a"), Ok(Some("1".to_owned())));
    assert_eq!(decoded(r#""\"{}\"""#, "", ""), Ok(Some("\"{}\"".to_owned())));
    for bad in [r#"{"p":""}"#, r#"{"p":"{"}"#, r#"{"p":"\ufeff1"}"#, r#"{"p":"\"\\ud800\""}"#] {
        assert!(decoded(bad, "/p", "/t").is_err_and(|bad| bad.is_inner), "{bad}");
    }
}

#[test]
fn an_element_that_was_decoded_is_an_element_still() {
    let (decode, records) = (Pointer::parse("/0").expect("a pointer"), Pointer::parse("").expect("a pointer"));
    let mut scratch = Scratch::default();
    let document = scratch.parse(br#"["{\"v\":1}",{"v":2}]"#, Some(&decode)).expect("JSON");
    let array = document.resolve(Place::ROOT, &records).expect("the root");
    let pointer = Pointer::parse("/v").expect("a pointer");
    let values: Vec<_> = document
        .elements(array)
        .map(|element| document.resolve(element, &pointer).map(|place| document.content(place)))
        .collect();
    assert_eq!(values, [Some(Content::Number("1")), Some(Content::Number("2"))]);
}

/// Any JSON value, with messy but valid text.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::hash_map("[a-c\"\\\\é/~]{0,2}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn pointers_lead_to_what_serde_json_finds(value in json(), pointer in "(/[a-c0-2\"\\\\é]{0,2}){0,3}") {
        let text = value.to_string();
        let wanted = value.pointer(&pointer).map(|node| match node {
            serde_json::Value::String(text) => format!("{text:?}"),
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => "container".to_owned(),
            other => other.to_string(),
        });
        prop_assert_eq!(found(&text, &pointer), wanted);
    }

    #[test]
    fn bytes_that_are_taken_are_json_for_serde_json_too(text in "[\\[\\]{}\",:\\\\u0dDcC8e+.1 -]{0,12}") {
        if is_json(&text) {
            prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        }
    }

    #[test]
    fn bytes_of_any_kind_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = is_json(&bytes);
    }
}
