use proptest::prelude::*;

use super::Scratch;
use super::lines::lines;
use crate::reading::tests::outcomes;

const CONFIG: &str = "[input]\ntopic = \"t\"\nformat = \"influx\"\n";

fn read(text: &str) -> Vec<String> {
    outcomes(CONFIG, text.as_bytes())
}

#[test]
fn lines_end_where_the_page_says() {
    let text = " # c =\"\n\nm f=\"a\nb\\\"c\"\r\n m g=1\n";
    let found: Vec<_> = lines(text).map(|range| &text[range]).collect();
    assert_eq!(found, ["m f=\"a\nb\\\"c\"", "m g=1"]);
    // A quote before the fields, or not right after an unescaped =, begins no string.
    let text = "m,a=\" f=1\nm f\\=\"=2\nm f=x\"\n\r\n   \r\nm f=\"\n";
    let found: Vec<_> = lines(text).map(|range| &text[range]).collect();
    assert_eq!(found, ["m,a=\" f=1", "m f\\=\"=2", "m f=x\"", "m f=\"\n"]);
}

#[test]
fn every_kind_of_field_is_read() {
    let text = "m,device_id=a a=1,b=-.5e1,c=7i,d=-0i,e=18446744073709551615u,f=nan,g=T,h=\"1\",i=+5.,j=-Infinity 1704067200000000000";
    let wanted = [
        "0 a m.a 1704067200000 1",
        "0 a m.b 1704067200000 -5",
        "0 a m.c 1704067200000 7",
        "0 a m.d 1704067200000 0",
        "0 a m.e 1704067200000 18446744073709552000",
        "0 m.f not_finite",
        "0 a m.i 1704067200000 5",
        "0 m.j not_finite",
    ];
    assert_eq!(read(text), wanted);
    let config = format!("{CONFIG}booleans = true\nmissing = [1]\nmissing_text = [\"nan\"]\n");
    let found = outcomes(&config, text.as_bytes());
    assert_eq!((found[0].as_str(), found[5].as_str()), ("0 m.a missing", "0 m.f missing"));
    assert_eq!(found[6], "0 m.g missing");
}

#[test]
fn names_are_unescaped_and_metrics_do_not_collide() {
    let text = "a.b\\,\\x,device_id=x\\ y\\=\\z,k\\==v c\\ d.e=1";
    assert_eq!(read(text), ["0 x y=\\z a\\.b,\\\\x.c d.e 1704067200000 1"]);
    let config = format!(
        "{CONFIG}[input.device]\npointer = \"/tags/k=\"\n[[input.value]]\nname = \"n\"\npointer = \"/fields/c d.e\"\n\
         [[input.value]]\nname = \"name\"\npointer = \"/name\"\n[[input.value]]\nname = \"tags\"\npointer = \"/tags\"\n\
         [[input.value]]\nname = \"deep\"\npointer = \"/name/0\"\n[[input.value]]\nname = \"time\"\npointer = \"/timestamp\"\n"
    );
    let found = outcomes(&config, text.as_bytes());
    assert_eq!(found, ["0 v n 1704067200000 1", "0 name not_numeric", "0 tags not_numeric"]);
    assert_eq!(
        outcomes(&config, format!("{text}  7 ").as_bytes()).last().map(String::as_str),
        Some("0 time before_min_time")
    );
}

#[test]
fn a_bad_line_is_rejected_by_itself() {
    for line in [
        "m",
        "m f",
        "m f=",
        ",a=b f=1",
        "m,a f=1",
        "m,a= f=1",
        "m,a=b=c f=1",
        "m,a=1,a=2 f=1",
        "m f=1,f=2",
        "m f=1 x",
        "m f=\"a\"b",
        "m f=1,",
        "m =1",
        "m f=1i1",
        "m f=-1u",
        "m f=9223372036854775808i",
        "m f=+1i",
        "m f=tRUE",
        "m f=1 1.5",
        "m f=1 -",
        "m f=1 +1",
        "m f=1 1 1",
        "m,=b f=1",
        "m, f=1",
        "m\\ f=1",
        "m f=i",
        "m f\\==1,f\\==2",
        "m f=18446744073709551616u",
        "m f=1\\ 2",
    ] {
        let text = format!("{line}\nm,device_id=a f=1\n");
        assert_eq!(read(&text), ["0 bad_influx", "1 a m.f 1704067200000 1"], "{line}");
    }
    assert_eq!(read("m f=\"a\nm,device_id=a f=1"), ["0 bad_influx"]);
    assert_eq!(read("\u{feff}# none\n\n"), ["- no_value"]);
    assert_eq!(outcomes(CONFIG, b"m f=1\xff"), ["- bad_influx"]);
}

#[test]
fn many_fields_are_compared_too() {
    let fields: Vec<_> = (0..40).map(|number| format!("f{number}=1")).collect();
    let line = format!("m,device_id=a {}", fields.join(","));
    assert_eq!(read(&line).len(), 40);
    assert_eq!(read(&format!("{line},f7=2")), ["0 bad_influx"]);
}

#[test]
fn too_many_are_counted_by_what_is_read() {
    let config = format!("{CONFIG}[input.limits]\nmax_readings_per_record = 2\n");
    let count = |text: &str| outcomes(&config, text.as_bytes());
    assert_eq!(count("m,device_id=a f=1,g=2,h=3"), ["- too_many_readings"]);
    assert_eq!(count("m,device_id=a f=1\nm f=t\nx"), ["- too_many_readings"]);
    assert_eq!(count("m,device_id=a f=1,g=2,h=t,i=\"x\"").len(), 2);
}

proptest! {
    #[test]
    fn texts_of_any_kind_never_panic(text in "[mf,= \\\\\"#\n\r1it.é-]{0,40}") {
        prop_assert!(!read(&text).is_empty());
        let mut scratch = Scratch::default();
        prop_assert!(scratch.parse(text.as_bytes()).is_ok());
    }
}
