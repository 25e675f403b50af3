//! `hotspare try --explain`: what it says became of the readings is what became of them.

use std::collections::BTreeMap;

use crate::messy::Messy;
use crate::{cases, explained, tried};

/// The parts of a line, which are parted by `; ` outside of texts in quotes.
fn parts(line: &str) -> Vec<&str> {
    let (mut parts, mut start, mut is_quoted, mut is_escaped) = (Vec::new(), 0, false, false);
    for (at, character) in line.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted && line[at..].starts_with("; ") => {
                parts.push(&line[start..at]);
                start = at + 2;
            }
            _ => {}
        }
    }
    assert!(!is_quoted, "{line}");
    parts.push(&line[start..]);
    parts
}

/// The outcome in a line, and its reason.
pub fn outcome(line: &str) -> (&str, &str) {
    let (place, _) = line.split_once(": ").expect("a place");
    let last = *parts(line).last().expect("an outcome");
    let last = last.strip_prefix(place).map_or(last, |rest| &rest[2..]);
    last.split_once(": ").expect("an outcome and why")
}

fn assert_explained(name: &str, config: &str, records: &str) {
    let text = explained(config, records);
    let (mut found, mut wanted) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        let (outcome, why) = outcome(line);
        assert!(!why.trim().is_empty(), "{name}: {line}");
        *found.entry(outcome.strip_prefix("rejected ").unwrap_or(outcome).to_owned()).or_insert(0) += 1;
    }
    let tried = tried(config, records);
    let counters = tried.lines().find(|line| line.starts_with("{\"counters\"")).expect("counters");
    let counters: serde_json::Value = serde_json::from_str(counters).expect("JSON");
    let counters = counters["counters"].as_object().expect("an object");
    for (outcome, count) in counters.iter().chain(counters["rejected"].as_object().expect("an object")) {
        if let Some(count) = count.as_u64().filter(|count| *count > 0 && outcome != "records") {
            wanted.insert(outcome.clone(), count);
        }
    }
    assert_eq!(found, wanted, "{name}");
}

#[test]
fn the_outcomes_of_every_case_are_those_of_its_counters() {
    for (name, config, records) in cases::inputs() {
        assert_explained(&name, &config, &records);
    }
}

#[test]
fn the_outcomes_of_messy_records_are_those_of_their_counters() {
    for format in ["json", "senml", "influx"] {
        for seed in 100..110 {
            let mut messy = Messy::new(format, seed);
            let config = messy.config();
            let records: String = (0..300).map(|offset| messy.record(offset) + "\n").collect();
            assert_explained(&format!("{format} {seed}"), &config, &records);
        }
    }
}

const CONFIG: &str = "[input]\ntopic = \"t\"\nrecords = \"/r\"\nmissing = [-200]\nmissing_text = [\"NA\"]\n\
    [input.device]\nfrom = \"document\"\npointer = \"/topic\"\nsegment = 1\n[input.dedup]\nby = \"reading\"\n[[input.value]]\n\
    name = \"temp\"\npointer = \"/value\"\n[window]\nsize = \"10m\"\ngrace = \"1m\"\n";

/// Records at 2020-01-01T17:00 with these values.
fn records(values: &[&str]) -> String {
    let line = |(offset, value): (usize, &&str)| {
        let record =
            serde_json::json!({ "partition": 3, "offset": offset, "timestamp": 1_577_898_000_000i64, "value": value });
        format!("{record}\n")
    };
    values.iter().enumerate().map(line).collect()
}

#[test]
fn a_line_tells_what_was_looked_at_and_why() {
    let body = |ts: &str, value: &str| format!("{{\"ts\":\"{ts}\",\"value\":{value}}}");
    let of = |bodies: &[String]| format!("{{\"topic\":\"x/a1\",\"r\":[{}]}}", bodies.join(","));
    let first = of(&[
        body("2020-01-01T17:00:00.3Z", "\"21.50\""),
        body("2020-01-01T17:00:00.3Z", "\"n/a\""),
        body("2020-01-01T17:00:00.3Z", "-2e2"),
        body("2020-01-01T17:00:00.3Z", "\" NA\""),
        body("2020-01-01T17:00:00.3Z", "21.5"),
        body("2020-01-01T17:05:00.001Z", "1"),
        body("2020-01-01T17:00", "1"),
        "{\"ts\":1577898000}".to_owned(),
    ]);
    let late = of(&[body("2020-01-01T16:48:59Z", "1")]);
    let text = explained(CONFIG, &records(&[&first, &late, "{\"r\":{}", "{\"topic\":7,\"r\":[{}]}", "{}"]));
    let (device, metric) =
        ("device \"a1\" from segment 1 of \"x/a1\" at /topic of the document", "metric \"temp\" from /value");
    let time = "time 1577898000300 from \"2020-01-01T17:00:00.3Z\" at /ts";
    let start = |offset: u32, body: u32| format!("p3 o{offset} body {body}: {device}; {metric}");
    let wanted = [
        format!("{}; {time}; value 21.5 from \"21.50\"; counted: in [1577898000000, 1577898600000)", start(0, 0)),
        format!("{}; {time}; rejected not_numeric: \"n/a\" is text and no number", start(0, 1)),
        format!("{}; {time}; missing: -2e2 is -200, which is in missing", start(0, 2)),
        format!("{}; {time}; missing: \" NA\" is in missing_text", start(0, 3)),
        format!(
            "{}; {time}; value 21.5 from 21.5; duplicate: a reading with the identity 0000016f620cbfac4035800000000000 was \
             counted at log time 1577898000000 and is kept for 3600000 ms, log time is 1577898000000",
            start(0, 4)
        ),
        format!(
            "{}; rejected future: time 1577898300001 from \"2020-01-01T17:05:00.001Z\" at /ts is after the record's timestamp \
             1577898000000 + input.limits.max_future of 300000 ms",
            start(0, 5)
        ),
        format!(
            "{}; rejected no_zone: \"2020-01-01T17:00\" at /ts is without an offset, and input.time.zone is not set",
            start(0, 6)
        ),
        format!(
            "p3 o0 body 7: {device}; time 1577898000000 from 1577898000 at /ts; rejected no_value: nothing at /value"
        ),
        format!(
            "{}; time 1577897339000 from \"2020-01-01T16:48:59Z\" at /ts; value 1 from 1; late: window [1577896800000, \
             1577897400000): the watermark 1577898000300 has reached its end 1577897400000 + grace of 60000 ms",
            start(1, 0)
        ),
        "p3 o2: rejected bad_json: the value is not JSON (RFC 8259) at its byte 7".to_owned(),
        "p3 o3 body 0: rejected no_device: segment 1 of 7 at /topic of the document is absent or empty".to_owned(),
        "p3 o4: rejected no_records: the pointer input.records does not lead to an array".to_owned(),
    ];
    for (found, wanted) in text.lines().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(text.lines().count(), wanted.len());
}
