//! `hotspare config init`: what it proposes for samples whose meaning is known.

use hotspare::propose::{ProposeError, propose};
use hotspare::semantics::Semantics;

use crate::{beside, cases};

fn proposed(sample: &str) -> String {
    let text = propose(sample.as_bytes(), "iot").unwrap_or_else(|error| panic!("{error}\n{sample}"));
    Semantics::from_toml(&text).expect("a configuration");
    text
}

/// Without comments and blanks, each table in one line.
fn settings(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.split("  # ").next().unwrap_or(line).trim());
    let mut tables: Vec<String> = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match tables.last_mut() {
            Some(table) if !line.starts_with('[') => *table += &format!(" {line}"),
            _ => tables.push(line.to_owned()),
        }
    }
    tables
}

fn case(name: &str) -> String {
    let (_, _, records) = cases::inputs().into_iter().find(|(found, ..)| found == name).expect("a case");
    records
}

#[test]
fn every_sample_gives_a_configuration_or_an_error_that_says_why_not() {
    let mut proposals = 0;
    for (name, _, records) in cases::inputs() {
        match propose(records.as_bytes(), "iot") {
            Ok(text) => {
                Semantics::from_toml(&text).unwrap_or_else(|errors| panic!("{name}: {errors:?}\n{text}"));
                assert!(text.contains("\n# Tried on them: "), "{text}");
                proposals += 1;
            }
            // Most of the records of these two are damaged.
            Err(error) => {
                assert!(["20-not-finite", "43-unreadable-records"].contains(&name.as_str()), "{name}: {error}")
            }
        }
    }
    assert!(proposals >= 45, "{proposals}");
}

#[test]
fn real_telemetry_is_recognised_and_counts_whole() {
    let text = std::fs::read_to_string(beside("data/iot-telemetry/raw_data_large.json")).expect("a text");
    let text = proposed(&text);
    assert!(text.contains("# Tried on them: counted 49975 of 49975 readings"), "{text}");
    assert!(text.contains("pointer = \"/device_id\"  # in 9995 of 9995 bodies; 3 different"), "{text}");
    let value = |name: &str| format!("[[input.value]] name = \"{name}\" pointer = \"/data/{name}\"");
    let mut wanted = vec![
        "[input] topic = \"iot\" format = \"json\"".to_owned(),
        "[input.device] pointer = \"/device_id\"".to_owned(),
        "[input.time] pointer = \"/ts\" unit = \"s\"".to_owned(),
    ];
    wanted.extend(["co", "humidity", "lpg", "smoke", "temp"].map(value));
    assert_eq!(settings(&text), wanted);
}

#[test]
fn local_times_need_a_zone_and_sentinels_are_suspected() {
    let csv = std::fs::read_to_string(beside("data/nab/speed_6005.csv")).expect("a text");
    let lines: Vec<_> = csv.lines().skip(1).filter_map(|line| line.split_once(',')).collect();
    let payload = |(index, (time, value)): (usize, &(&str, &str))| {
        let value = if index % 100 == 7 { "-9999" } else { value };
        format!("{{\"station\":\"6005\",\"datetime\":\"{time}\",\"speed\":{value},\"quality\":\"{}\"}}\n", index % 3)
    };
    let text = proposed(&lines.iter().enumerate().map(payload).collect::<String>());
    let wanted = [
        "[input] topic = \"iot\" format = \"json\"",
        "[input.device] pointer = \"/station\"",
        "[input.time] pointer = \"/datetime\" zone = \"UTC\"",
        "[[input.value]] name = \"quality\" pointer = \"/quality\"",
        "[[input.value]] name = \"speed\" pointer = \"/speed\" missing = [-9999.0]",
    ];
    assert_eq!(settings(&text), wanted);
    assert!(text.contains("UNSURE: far from the others (25 of 2500)"), "{text}");
    assert!(text.contains("counted 4975, missing 25 of 5000 readings"), "{text}");
}

#[test]
fn nested_texts_arrays_keys_and_lines_are_recognised() {
    for (name, wanted) in [
        (
            "40-json-in-a-string",
            &[
                "[input] topic = \"iot\" format = \"json\" decode = \"/payload\"",
                "[input.device] pointer = \"/clientid\"",
            ][..],
        ),
        (
            "41-array-of-readings",
            &[
                "[input] topic = \"iot\" format = \"json\" records = \"/metrics\"",
                "[input.device] pointer = \"/tags/device\"",
                "[input.time] pointer = \"/timestamp\" unit = \"s\"",
                "[[input.value]] name = \"temp\" pointer = \"/fields/temp\" missing_text = [\"bad\"]",
            ],
        ),
        (
            "36-device-from-the-key",
            &["[input.device] from = \"key\" segment = 1", "[input.time] pointer = \"/ts\" unit = \"ms\""],
        ),
        ("44-senml", &["[input] topic = \"iot\" format = \"senml\""]),
        (
            "45-influx-lines",
            &[
                "[input] topic = \"iot\" format = \"influx\"",
                "[input.device] pointer = \"/tags/device_id\"",
                "[input.time] pointer = \"/timestamp\" unit = \"ns\"",
            ],
        ),
        ("15-iso-times", &["[input.time] pointer = \"/ts\" zone = \"UTC\""]),
    ] {
        let text = proposed(&case(name));
        let found = settings(&text);
        for table in wanted {
            assert!(found.iter().any(|found| found == table), "{name}: {table}\n{text}");
        }
    }
}

#[test]
fn what_is_of_the_whole_document_and_in_headers_is_found() {
    let document = "{\"gateway\":\"g1\",\"time\":1704067200,\"list\":[{\"t\":1.5},{\"t\":2}]}\n".repeat(3);
    let found = settings(&proposed(&document));
    assert!(found.contains(&"[input.device] from = \"document\" pointer = \"/gateway\"".to_owned()), "{found:?}");
    assert!(
        found.contains(&"[input.time] from = \"document\" pointer = \"/time\" unit = \"s\"".to_owned()),
        "{found:?}"
    );
    let record = "{\"partition\":0,\"offset\":0,\"timestamp\":1704067200000,\"headers\":[[\"Device-Id\",\"a\"]],\"value\":\"{\\\"x\\\":1}\"}\n";
    let found = settings(&proposed(record));
    assert!(found.contains(&"[input.device] from = \"header:Device-Id\"".to_owned()), "{found:?}");
    assert!(found.contains(&"[input.time] from = \"record\"".to_owned()), "{found:?}");
    let packs = "[{\"n\":\"urn:dev:1:temp\",\"v\":1},{\"n\":\"urn:dev:2:temp\",\"v\":2}]\n".repeat(2);
    let found = settings(&proposed(&packs));
    assert!(found.contains(&"[input.senml] split = \":\"".to_owned()), "{found:?}");
}

#[test]
fn what_is_no_sample_is_refused_with_the_numbers() {
    assert_eq!(propose(b"\n\n", "t"), Err(ProposeError::Empty));
    let csv = propose(b"timestamp,value\n2015-08-31 18:22:00,90\n", "t").expect_err("no format");
    assert_eq!(csv, ProposeError::UnknownFormat { records: 2, json: 0, influx: 0 });
}
