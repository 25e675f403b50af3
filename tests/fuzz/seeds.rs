//! First inputs of each target: what the cases of the page hold, as the target takes it.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use hotspare::reading::InputRecord;
use hotspare::semantics::Semantics;
use hotspare::store::Store;
use hotspare::{Epoch, Offset, PartitionId};
use serde_json::Value;

fn cases() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("tests/cases").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let text = |path: &Path| std::fs::read_to_string(path).expect("a text");
    paths.iter().map(|path| serde_json::from_str(&text(path)).expect("a case")).collect()
}

fn config(case: &Value) -> &str {
    case["config"].as_str().expect("a configuration")
}

fn values(case: &Value) -> Vec<Vec<u8>> {
    let records = case["records"].as_array().expect("records").iter();
    let base64 = |text: &str| base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
    let value = |record: &Value| {
        let text = record["value"].as_str().map(|text| text.as_bytes().to_vec());
        text.or_else(|| record["value_base64"].as_str().map(base64))
    };
    records.filter_map(value).collect()
}

/// The changelog records of a case: the length of the key, key and value.
fn changelog_of(case: &Value) -> Vec<Vec<u8>> {
    let Ok(semantics) = Semantics::from_toml(config(case)) else { return Vec::new() };
    let mut store = Store::new(Arc::new(semantics), PartitionId(0));
    for (offset, value) in (0..).zip(values(case)) {
        let (key, value) = (Some(&b"a"[..]), Some(value.as_slice()));
        store.apply(&InputRecord {
            offset: Offset(offset),
            timestamp_ms: 1_704_067_200_000 + offset * 60_000,
            key,
            value,
            headers: Vec::new(),
        });
    }
    let batch = store.batch(Epoch(1), Offset(9));
    let record = |key: &[u8], value: &[u8]| {
        let length = u8::try_from(key.len()).ok()?;
        Some([&[length], key, value].concat())
    };
    let entries = batch.entries.iter().filter_map(|entry| record(&entry.key, entry.value.as_deref().unwrap_or(b"")));
    entries.chain(record(hotspare::changelog::Progress::key(), &batch.progress.encode())).collect()
}

pub fn of(target: &str) -> Vec<Vec<u8>> {
    let is_format = |case: &Value| {
        let format = ["senml", "influx"].into_iter().find(|format| config(case).contains(format)).unwrap_or("json");
        format == target
    };
    let cases = cases();
    match target {
        "changelog" => cases.iter().flat_map(changelog_of).collect(),
        "checkpoint" => Vec::new(),
        "config" => cases.iter().map(|case| config(case).as_bytes().to_vec()).collect(),
        _ => cases.iter().filter(|case| is_format(case)).flat_map(values).collect(),
    }
}
