//! The small examples in `tests/cases`, whose results the page's readers agreed on.

use std::collections::BTreeSet;

use hotspare::semantics::Semantics;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{beside, tried};

/// The cases of what a later version brings. Each must be refused as such, so that this list cannot grow stale.
const NOT_SUPPORTED_YET: [&str; 14] = [
    "17-local-days",
    "18-hour-that-comes-twice",
    "19-half-hour-zone",
    "30-variance-of-a-population",
    "33-dedup-by-id",
    "34-dedup-by-reading",
    "44-senml",
    "45-influx-lines",
    "46-hopping",
    "47-sessions",
    "48-idle-close",
    "49-idle-close-by-fact",
    "50-backlog-is-not-silence",
    "51-retention",
];

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

#[test]
fn every_case_gives_the_bytes_of_the_page() {
    let mut checked = 0;
    for (name, text) in all() {
        if NOT_SUPPORTED_YET.contains(&name.as_str()) {
            continue;
        }
        let case: Case<'_> = serde_json::from_str(&text).expect("a case");
        let records: String =
            case.records.iter().map(|record| format!("{}\n", record.get().replace('\n', " "))).collect();
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
    assert_eq!(checked + NOT_SUPPORTED_YET.len(), 51);
}

#[test]
fn what_a_later_version_brings_is_refused_as_not_supported_yet() {
    let mut found = BTreeSet::new();
    for (name, text) in all() {
        let case: Case<'_> = serde_json::from_str(&text).expect("a case");
        if let Err(errors) = Semantics::from_toml(&case.config) {
            for error in &errors {
                let is_clear = error.message.contains("not supported yet by this version") && !error.key.is_empty();
                assert!(is_clear, "{name}: {error}");
            }
            found.insert(name);
        }
    }
    let wanted: BTreeSet<_> = NOT_SUPPORTED_YET.map(str::to_owned).into();
    assert_eq!(found, wanted);
}
