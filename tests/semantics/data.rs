//! Real data through this code and through the reference, with windows and rules that the golden files do not have.

use std::fmt::Write;

use crate::golden::{nab_files, unpacked};
use crate::reference::compare_records;
use crate::{beside, tried};

/// Every so many records one comes again, as a sender does that saw no acknowledgement.
const COPY_EACH: usize = 50;

fn write_record(records: &mut String, offset: usize, timestamp_ms: i64, value: &str) {
    let record = serde_json::json!({ "partition": 0, "offset": offset, "timestamp": timestamp_ms, "value": value });
    writeln!(records, "{record}").expect("written");
}

fn telemetry(text: &str) -> String {
    let readings: Vec<&serde_json::value::RawValue> = serde_json::from_str(text).expect("an array");
    let (mut records, mut offset) = (String::new(), 0);
    for (index, reading) in readings.iter().enumerate() {
        let fields: serde_json::Value = serde_json::from_str(reading.get()).expect("a reading");
        #[allow(clippy::cast_possible_truncation, reason = "a record's timestamp may be any")]
        let timestamp_ms = (fields["ts"].as_f64().expect("seconds") * 1000.0) as i64;
        for _ in 0..=usize::from(index % COPY_EACH == 0) {
            write_record(&mut records, offset, timestamp_ms, reading.get());
            offset += 1;
        }
    }
    records
}

/// All devices one after the other: record times leap back each time.
fn nab() -> String {
    let (mut records, mut offset) = (String::new(), 0);
    for (device, text) in nab_files() {
        for (index, line) in text.lines().skip(1).enumerate() {
            let (time, value) = line.split_once(',').expect("two fields");
            let civil: jiff::civil::DateTime = time.parse().expect("a time");
            let timestamp_ms = jiff::tz::TimeZone::UTC.to_timestamp(civil).expect("a time").as_millisecond();
            let body = format!("{{\"device_id\":\"{device}\",\"ts\":\"{time}\",\"value\":{value}}}");
            for _ in 0..=usize::from(index % COPY_EACH == 0) {
                write_record(&mut records, offset, timestamp_ms, &body);
                offset += 1;
            }
        }
    }
    records
}

const IOT: &str = "[input]\ntopic = \"iot\"\n[input.time]\nunit = \"s\"\n[[input.value]]\nname = \"temp\"\npointer = \"/data/temp\"\n\
    [[input.value]]\nname = \"motion\"\npointer = \"/data/motion\"\nbooleans = true\n[input.dedup]\nby = \"reading\"\nkeep = \"10m\"\n";
const NAB: &str = "[input]\ntopic = \"iot\"\n[input.time]\nzone = \"America/New_York\"\n[input.limits]\nmax_future = \"off\"\n\
    [input.dedup]\nby = \"reading\"\n";

fn compare(config: &str, records: &str, wanted: &str) {
    compare_records("real data", config, records);
    let counters = tried(config, records);
    let counters = counters.lines().find(|line| line.starts_with("{\"counters\"")).expect("counters");
    assert!(counters.contains(wanted), "{counters}");
}

#[test]
fn hopping_windows_of_ten_thousand_records_with_copies() {
    let text = std::fs::read_to_string(beside("data/iot-telemetry/raw_data_large.json")).expect("a text");
    let config = format!("{IOT}[window]\nkind = \"hopping\"\nsize = \"1h\"\nadvance = \"10m\"\ngrace = \"1m\"\n");
    compare(&config, &telemetry(&text), "\"duplicate\":400,");
}

#[test]
fn sessions_of_fifty_thousand_records_with_idle_close() {
    let text = unpacked(&beside("data/iot-telemetry/raw_data_xlarge.json.gz"));
    let config = format!("{IOT}[window]\nkind = \"session\"\ngap = \"8s\"\nidle_close = \"1m\"\nretention = \"1h\"\n");
    compare(&config, &telemetry(&text), "\"records\":");
}

#[test]
fn hopping_windows_of_nine_devices_with_idle_close_and_retention() {
    let config = format!(
        "{NAB}[window]\nkind = \"hopping\"\nsize = \"2h\"\nadvance = \"30m\"\nidle_close = \"1h\"\nretention = \"1d\"\n"
    );
    compare(&config, &nab(), "\"records\":");
}
