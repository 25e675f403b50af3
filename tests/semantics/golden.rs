//! Real data with the results of the reference, byte for byte. See `tests/data/golden/README.md`.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use hotspare::reading::InputRecord;
use hotspare::semantics::Semantics;
use hotspare::store::Store;
use hotspare::{Epoch, Offset, PartitionId};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::beside;

/// A partition that is fed record by record and commits now and then.
struct Run {
    store: Store,
    next: Offset,
    lines: String,
}

impl Run {
    fn new(config: &str) -> Self {
        let text = std::fs::read_to_string(beside("data/golden").join(config)).expect("a configuration");
        let semantics = Semantics::from_toml(&text).expect("a configuration");
        Self { store: Store::new(Arc::new(semantics), PartitionId(0)), next: Offset(0), lines: String::new() }
    }

    fn apply(&mut self, timestamp_ms: i64, key: &str, value: &str) {
        let (key, value) = (Some(key.as_bytes()), Some(value.as_bytes()));
        self.store.apply(&InputRecord { offset: self.next, timestamp_ms, key, value, headers: vec![] });
        self.next.0 += 1;
        if self.next.0 % 777 == 0 {
            self.commit();
        }
    }

    fn commit(&mut self) {
        for output in self.store.batch(Epoch(1), self.next).outputs {
            self.lines += std::str::from_utf8(&output.value).expect("UTF-8");
            self.lines.push('\n');
        }
        self.store.committed();
    }

    fn check(mut self, name: &str) {
        self.commit();
        assert_eq!(self.store.digest(), self.store.recompute_digest());
        for window in self.store.open_windows() {
            self.lines += &window;
            self.lines.push('\n');
        }
        let wanted = golden(name);
        for (index, (found, wanted)) in self.lines.lines().zip(wanted.lines()).enumerate() {
            assert_eq!(found, wanted, "{name} line {}", index + 1);
        }
        assert!(self.lines == wanted, "{name} has other windows");
        let all = std::fs::read_to_string(beside("data/golden/counters.json")).expect("counters");
        let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
        let counters = self.store.counters();
        for (field, count) in [
            ("records", counters.records),
            ("counted", counters.counted),
            ("late", counters.late),
            ("missing", counters.missing),
            ("duplicate", counters.duplicate),
            ("null_record", counters.null_record),
        ] {
            assert_eq!(all[name][field], count, "{name} {field}");
        }
        assert_eq!(counters.rejected.total(), 0);
        assert_eq!(counters.windows_final + self.store.entries(), wanted.lines().count() as u64);
    }
}

fn golden(name: &str) -> String {
    let folder = beside("data/golden");
    std::fs::read_to_string(folder.join(format!("{name}.jsonl")))
        .unwrap_or_else(|_| unpacked(&folder.join(format!("{name}.jsonl.gz"))))
}

pub fn unpacked(path: &Path) -> String {
    let file = std::fs::File::open(path).expect("a file");
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("gzip");
    text
}

#[derive(Deserialize)]
struct Telemetry<'a> {
    device_id: &'a str,
    #[serde(borrow)]
    ts: &'a RawValue,
}

fn iot(text: &str, name: &str) {
    let mut run = Run::new("iot-telemetry.hourly.toml");
    let readings: Vec<&RawValue> = serde_json::from_str(text).expect("an array");
    for reading in readings {
        let fields: Telemetry<'_> = serde_json::from_str(reading.get()).expect("a reading");
        let (seconds, fraction) = fields.ts.get().split_once('.').unwrap_or((fields.ts.get(), ""));
        let milliseconds: String = fraction.chars().chain("000".chars()).take(3).collect();
        let timestamp_ms = format!("{seconds}{milliseconds}").parse().expect("a time");
        run.apply(timestamp_ms, fields.device_id, reading.get());
    }
    run.check(name);
}

/// Names of devices and texts.
pub fn nab_files() -> Vec<(String, String)> {
    let mut paths: Vec<_> = std::fs::read_dir(beside("data/nab"))
        .expect("tests/data/nab")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "csv"))
        .collect();
    paths.sort();
    let file = |path: std::path::PathBuf| {
        let device = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (device, std::fs::read_to_string(&path).expect("a text"))
    };
    paths.into_iter().map(file).collect()
}

fn nab(config: &str, name: &str) {
    let mut run = Run::new(config);
    for (device, text) in nab_files() {
        for line in text.lines().skip(1) {
            let (time, value) = line.split_once(',').expect("two fields");
            let civil: jiff::civil::DateTime = time.parse().expect("a time");
            let timestamp_ms = jiff::tz::TimeZone::UTC.to_timestamp(civil).expect("a time").as_millisecond();
            let text = format!("{{\"device_id\":\"{device}\",\"ts\":\"{time}\",\"value\":{value}}}");
            run.apply(timestamp_ms, &device, &text);
        }
    }
    run.check(name);
}

#[test]
fn ten_thousand_readings_of_three_devices() {
    let text = std::fs::read_to_string(beside("data/iot-telemetry/raw_data_large.json")).expect("a text");
    iot(&text, "iot-telemetry-large.hourly");
}

#[test]
fn fifty_thousand_readings_of_three_devices() {
    iot(&unpacked(&beside("data/iot-telemetry/raw_data_xlarge.json.gz")), "iot-telemetry-xlarge.hourly");
}

#[test]
fn hours_of_nine_devices() {
    nab("nab.hourly.toml", "nab.hourly");
}

#[test]
fn five_minutes_of_nine_devices_without_grace() {
    nab("nab.5m.grace-0.toml", "nab.5m.grace-0");
}

#[test]
fn five_minutes_of_nine_devices_with_an_hour_of_grace() {
    nab("nab.5m.grace-1h.toml", "nab.5m.grace-1h");
}
