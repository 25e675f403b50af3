//! `docs/FORMATS.md` does what it says.

use std::collections::BTreeSet;

use base64::Engine;
use hotspare::reading::Reason;

use crate::explain::outcome;
use crate::explained;

/// A configuration of the page and the lines of the table below it: values and outcomes.
struct Section {
    config: String,
    rows: Vec<(String, String)>,
}

fn sections() -> Vec<Section> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/FORMATS.md");
    let (mut sections, mut is_config) = (Vec::<Section>::new(), false);
    for line in std::fs::read_to_string(path).expect("the page").lines() {
        match (line, sections.last_mut()) {
            ("```toml", _) => {
                is_config = true;
                sections.push(Section { config: String::new(), rows: Vec::new() });
            }
            ("```", _) => is_config = false,
            (line, Some(section)) if is_config => section.config += &format!("{line}\n"),
            (line, Some(section)) if line.starts_with("| `") => {
                let (value, rest) = line["| `".len()..].split_once("` | ").expect("a value");
                let (outcomes, _) = rest.split_once(" | ").expect("outcomes");
                section.rows.push((value.to_owned(), outcomes.to_owned()));
            }
            _ => {}
        }
    }
    sections
}

fn record(offset: usize, value: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = value;
    while let Some(hex) = rest.strip_prefix("\\x") {
        bytes.push(u8::from_str_radix(&hex[..2], 16).expect("two hexadecimal digits"));
        rest = &hex[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    let mut record = serde_json::json!({
        "partition": 0, "offset": offset, "timestamp": 1_704_067_200_000i64, "key": "site/a1/t", "headers": [["msg", "7"]],
    });
    if value != "(null)" {
        record["value_base64"] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
    }
    format!("{record}\n")
}

#[test]
fn every_line_of_the_page_has_the_outcome_that_it_says() {
    let mut met = BTreeSet::new();
    for Section { config, rows } in sections() {
        assert!(!rows.is_empty(), "{config}");
        let records: String = rows.iter().enumerate().map(|(offset, (value, _))| record(offset, value)).collect();
        let text = explained(&config, &records);
        for (offset, (value, wanted)) in rows.iter().enumerate() {
            let place = format!("p0 o{offset}");
            let is_here = |line: &&str| {
                line.strip_prefix(&place).is_some_and(|rest| rest.starts_with(':') || rest.starts_with(" body"))
            };
            let lines: Vec<_> = text.lines().filter(is_here).collect();
            let found: Vec<_> = lines.iter().map(|line| outcome(line).0).collect();
            assert_eq!(found.join(", "), *wanted, "{value}\n{lines:?}");
            met.extend(found.into_iter().map(str::to_owned));
        }
    }
    // What can happen is on the page.
    let rejected = Reason::ALL.into_iter().filter(|reason| *reason != Reason::InternalError);
    let all = rejected.map(|reason| format!("rejected {reason}"));
    let others = ["counted", "late", "missing", "duplicate", "null_record"].map(str::to_owned);
    assert_eq!(met, all.chain(others).collect());
}
