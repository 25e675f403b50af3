//! The small examples in `tests/cases`, whose results the page's readers agreed on.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{beside, tried};

#[derive(Deserialize)]
struct Case<'a> {
    config: String,
    #[serde(borrow)]
    records: Vec<&'a RawValue>,
    expect: Expected<'a>,
}

#[derive(Deserialize)]
struct Expected<'a> {
    #[serde(borrow)]
    outputs: Vec<&'a RawValue>,
    #[serde(borrow)]
    dead_letters: Vec<&'a RawValue>,
    #[serde(borrow)]
    counters: &'a RawValue,
    #[serde(borrow)]
    open: Vec<&'a RawValue>,
}

/// Names without `.json`, and texts.
fn all() -> Vec<(String, String)> {
    let mut cases: Vec<_> = std::fs::read_dir(beside("cases"))
        .expect("tests/cases")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a text"))
        })
        .collect();
    cases.sort();
    cases
}

fn lines_of(case: &Case<'_>) -> String {
    case.records.iter().map(|record| format!("{}\n", record.get().replace('\n', " "))).collect()
}

/// Name, configuration and records of each.
pub fn inputs() -> Vec<(String, String, String)> {
    let inputs = all().into_iter().map(|(name, text)| {
        let case: Case<'_> = serde_json::from_str(&text).expect("a case");
        (name, case.config.clone(), lines_of(&case))
    });
    inputs.collect()
}

#[test]
fn every_case_gives_the_bytes_of_the_page() {
    let mut checked = 0;
    for (name, text) in all() {
        let case: Case<'_> = serde_json::from_str(&text).expect("a case");
        let records = lines_of(&case);
        let expected = &case.expect;
        let lines = |kind: &str, items: &[&RawValue]| -> String {
            items.iter().map(|item| format!("{{\"{kind}\":{}}}\n", item.get())).collect()
        };
        let wanted = [
            lines("output", &expected.outputs),
            lines("dead_letter", &expected.dead_letters),
            lines("counters", &[expected.counters]),
            lines("open", &expected.open),
        ];
        assert_eq!(tried(&case.config, &records), wanted.concat(), "{name}");
        checked += 1;
    }
    assert_eq!(checked, 51);
}
