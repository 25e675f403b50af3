//! Random configurations: everything that `[input]` may say, in every combination.

use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::json;

use super::Messy;

const ZONES: [&str; 5] = ["UTC", "America/New_York", "Asia/Kolkata", "Europe/London", "Australia/Lord_Howe"];
const JSON_POINTERS: [&str; 8] = ["/value", "/w/0", "/w", "/p/value", "/p", "", "/ts", "/r/0/value"];
const INFLUX_POINTERS: [&str; 9] =
    ["/fields/f", "/fields/g", "/fields/h i", "/tags/site", "/timestamp", "/name", "", "/fields", "/fields/f/0"];
const KINDS: [&str; 4] = ["tumbling", "hopping", "session", "calendar"];
const VARIANCES: [&str; 3] = ["none", "sample", "population"];
const OUTCOMES: [&str; 5] = ["late", "rejected", "missing", "duplicate", "null_record"];

impl Messy {
    /// A configuration of the format.
    pub fn config(&mut self) -> String {
        let mut text = format!("[input]\ntopic = \"t\"\nformat = \"{}\"\n", self.format);
        if self.format == "json" {
            self.option(&mut text, 35, "records", &["\"/r\"", "\"\"", "\"/w\""]);
            self.option(&mut text, 35, "decode", &["\"/p\"", "\"\"", "\"/r/0\"", "\"/value\""]);
        }
        self.numbers(&mut text);
        self.device_source(&mut text);
        self.time_source(&mut text);
        if self.format == "senml" && self.chance(50) {
            text += "[input.senml]\n";
            self.option(&mut text, 100, "split", &["\"base\"", "\":\"", "\"::\"", "\"/\"", "\"é\"", "\"a\""]);
        }
        // By turns, so that a few seeds meet all of them.
        let kind = KINDS[usize::try_from(self.seed).expect("small") % KINDS.len()];
        text += "[input.limits]\n";
        self.option(&mut text, 30, "max_future", &["\"off\"", "\"0s\"", "\"1h\"", "\"30d\""]);
        let times = ["\"2023-12-31T20:00Z\"", "\"1960-01-01T00:00Z\"", "\"0001-01-01T00:00:00Z\""];
        // Of calendars older rules of zones are not known.
        self.option(&mut text, 30, "min_time", if kind == "calendar" { &times[..1] } else { &times });
        let names_are_short = self.seed % 5 == 2;
        self.option(&mut text, if names_are_short { 100 } else { 15 }, "max_device_id", &["1", "2", "2", "4"]);
        self.option(&mut text, 20, "max_readings_per_record", &["1", "2", "3", "5"]);
        self.dedup(&mut text);
        if !names_are_short {
            self.values(&mut text);
        }
        self.windows(&mut text, kind);
        text += "[output]\n";
        self.option(&mut text, 60, "variance", &VARIANCES.map(|name| json!(name).to_string()));
        if self.chance(60) {
            let kept: Vec<_> = OUTCOMES.iter().filter(|_| self.random.random_range(0..2) == 0).collect();
            text += &format!("dead_letter = {}\n", json!(kept));
        }
        text
    }

    fn dedup(&mut self, text: &mut String) {
        if self.chance(40) {
            let id = match self.format {
                "json" => "id:/value",
                "senml" => "id:/n",
                _ => "id:/tags/site",
            };
            *text += &format!("[input.dedup]\nby = \"{}\"\n", self.pick(&["reading", "reading", "header:d", id]));
            self.option(text, 70, "keep", &["\"1m\"", "\"20m\"", "\"2h\"", "\"3650d\""]);
            self.has_silence = true;
        }
    }

    fn windows(&mut self, text: &mut String, kind: &str) {
        *text += &format!("[window]\nkind = \"{kind}\"\n");
        match kind {
            "hopping" => {
                let sizes = [
                    "size = \"10m\"\nadvance = \"3m\"\n",
                    "size = \"1h\"\nadvance = \"10m\"\n",
                    "size = \"7m\"\nadvance = \"7m\"\n",
                ];
                *text += &self.pick(&sizes);
            }
            "session" => self.option(text, 100, "gap", &["\"1ms\"", "\"30s\"", "\"5m\"", "\"1h\""]),
            "calendar" => {
                self.option(text, 100, "unit", &["\"hour\"", "\"day\"", "\"week\"", "\"month\""]);
                self.option(text, 70, "zone", &ZONES.map(|zone| json!(zone).to_string()));
            }
            _ => self.option(text, 60, "size", &["\"1s\"", "\"7m\"", "\"10m\"", "\"1d\"", "\"365d\""]),
        }
        self.option(text, 60, "grace", &["\"30m\"", "\"2h\"", "\"3650d\""]);
        if self.chance(40) {
            self.option(text, 70, "idle_close", &["\"1m\"", "\"10m\"", "\"1h\""]);
            self.option(text, 70, "retention", &["\"1h\"", "\"2h\"", "\"1d\""]);
            self.has_silence = true;
        }
    }

    /// A line `key = value`, or none.
    fn option(&mut self, text: &mut String, percent: u32, key: &str, values: &[impl AsRef<str>]) {
        if self.chance(percent) {
            *text += &format!("{key} = {}\n", self.pick(values));
        }
    }

    fn numbers(&mut self, text: &mut String) {
        self.option(text, 30, "missing", &["[0]", "[-200, 999.9, 1]", "[21.5, 2]", "[]"]);
        self.option(text, 30, "missing_text", &["[\"NA\"]", "[\"nan\", \"21.5\"]", "[\"NA\", \"x\", \"inf\"]"]);
        self.option(text, 40, "booleans", &["true", "false"]);
        self.option(text, 30, "numeric_strings", &["false", "true"]);
    }

    fn device_source(&mut self, text: &mut String) {
        *text += "[input.device]\n";
        if self.chance(30) {
            *text += &format!("from = \"{}\"\n", self.pick(&["key", "header:d", "header:none"]));
        } else if self.format == "json" {
            self.option(text, 25, "from", &["\"document\""]);
            self.option(text, 25, "pointer", &["\"/w/0\"", "\"/r/0/device_id\"", "\"/p\""]);
        } else if self.format == "influx" {
            self.option(
                text,
                40,
                "pointer",
                &["\"/tags/site\"", "\"/name\"", "\"/fields/f\"", "\"/timestamp\"", "\"/tags\""],
            );
        }
        self.option(text, 30, "segment", &["0", "0", "1", "2"]);
    }

    fn time_source(&mut self, text: &mut String) {
        *text += "[input.time]\n";
        self.option(text, 30, "on_implausible", &["\"record_time\"", "\"reject\""]);
        if self.chance(20) {
            *text += "from = \"record\"\n";
        } else if self.format != "senml" && self.chance(30) {
            *text += &format!("from = \"{}\"\n", self.pick(&["key", "header:t"]));
        } else if self.format == "json" {
            self.option(text, 25, "from", &["\"document\""]);
            self.option(text, 15, "pointer", &["\"/r/0/ts\"", "\"/value\""]);
        } else if self.format == "influx" {
            self.option(text, 25, "pointer", &["\"/fields/t\"", "\"/tags/site\"", "\"/timestamp\""]);
        }
        if self.format != "senml" {
            let percent = if self.format == "json" { 40 } else { 15 };
            self.option(text, percent, "unit", &["\"auto\"", "\"auto\"", "\"s\"", "\"ms\"", "\"us\"", "\"ns\""]);
            if self.chance(40) {
                let zone = ZONES.choose(&mut self.random).expect("a zone");
                *text += &format!("zone = \"{zone}\"\n");
            }
        }
    }

    fn values(&mut self, text: &mut String) {
        let names = ["value", "v\\\"\\n", "é", "t"];
        let count = if self.chance(40) { 0 } else { self.random.random_range(1..=names.len()) };
        for name in names.iter().take(count) {
            *text += &format!("[[input.value]]\nname = \"{name}\"\n");
            match self.format {
                "json" => *text += &format!("pointer = \"{}\"\n", self.pick(&JSON_POINTERS)),
                "influx" => *text += &format!("pointer = \"{}\"\n", self.pick(&INFLUX_POINTERS)),
                _ => self.option(text, 70, "metric", &["\"t\"", "\"hum\"", "\"value\"", "\"a::t\"", "\"é\""]),
            }
            if self.chance(30) {
                self.numbers(text);
            }
        }
    }
}
