//! Random configurations: everything that `[input]` may say, in every combination.

use rand::Rng;
use rand::seq::IndexedRandom;
use serde_json::json;

use super::Messy;

const ZONES: [&str; 5] = ["UTC", "America/New_York", "Asia/Kolkata", "Europe/London", "Australia/Lord_Howe"];
const JSON_POINTERS: [&str; 8] = ["/value", "/w/0", "/w", "/p/value", "/p", "", "/ts", "/r/0/value"];
const INFLUX_POINTERS: [&str; 9] =
    ["/fields/f", "/fields/g", "/fields/h i", "/tags/site", "/timestamp", "/name", "", "/fields", "/fields/f/0"];
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
        text += "[input.limits]\n";
        self.option(&mut text, 30, "max_future", &["\"off\"", "\"0s\"", "\"1h\"", "\"30d\""]);
        self.option(
            &mut text,
            30,
            "min_time",
            &["\"1960-01-01T00:00Z\"", "\"0001-01-01T00:00:00Z\"", "\"2023-12-31T20:00Z\""],
        );
        self.option(&mut text, 20, "max_device_id", &["1", "2", "4", "7"]);
        self.option(&mut text, 20, "max_readings_per_record", &["1", "2", "3", "5"]);
        self.values(&mut text);
        if self.chance(50) {
            text += "[input.dedup]\n";
            self.option(&mut text, 100, "by", &["\"reading\"", "\"header:t\"", "\"id:/value\"", "\"id:/w/0\""]);
            self.option(&mut text, 60, "keep", &["\"1ms\"", "\"20m\"", "\"3650d\""]);
        }
        let from_1970 = !text.contains("min_time = \"1960") && !text.contains("min_time = \"0001");
        self.windows(&mut text, from_1970);
        text += "[output]\n";
        self.option(&mut text, 60, "variance", &["\"sample\"", "\"population\""]);
        if self.chance(60) {
            let kept: Vec<_> = OUTCOMES.iter().filter(|_| self.random.random_range(0..2) == 0).collect();
            text += &format!("dead_letter = {}\n", json!(kept));
        }
        text
    }

    /// Windows of any kind; those of the calendar need times of 1970 or later.
    fn windows(&mut self, text: &mut String, from_1970: bool) {
        *text += "[window]\n";
        match self.random.random_range(0..4) {
            0 => self.option(text, 100, "kind = \"hopping\"\nadvance", &["\"1s\"", "\"7m\"", "\"59m\"", "\"1h\""]),
            1 => self.option(text, 100, "kind = \"session\"\ngap", &["\"1ms\"", "\"5m\"", "\"3h\"", "\"400d\""]),
            2 if from_1970 => {
                let units = ["\"hour\"", "\"day\"", "\"week\"", "\"month\""];
                self.option(text, 100, "kind = \"calendar\"\nunit", &units);
                let zone = ZONES.choose(&mut self.random).expect("a zone");
                *text += &format!("zone = \"{zone}\"\n");
            }
            _ => self.option(text, 60, "size", &["\"1s\"", "\"7m\"", "\"10m\"", "\"1d\"", "\"365d\""]),
        }
        if text.contains("advance = \"1s\"") {
            *text += "size = \"900s\"\n";
        }
        self.option(text, 60, "grace", &["\"30m\"", "\"2h\"", "\"3650d\""]);
        self.option(text, 40, "idle_close", &["\"1ms\"", "\"10m\"", "\"2h\""]);
        self.option(text, 40, "retention", &["\"2h\"", "\"5h\"", "\"60d\""]);
    }

    /// A line `key = value`, or none.
    fn option(&mut self, text: &mut String, percent: u32, key: &str, values: &[&str]) {
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
