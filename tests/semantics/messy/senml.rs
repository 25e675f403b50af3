//! Messy packs of SenML.

use rand::Rng;
use serde_json::json;

use super::{Messy, VALUES};

const BASE_NAMES: [&str; 12] = [
    "\"a\"",
    "\"a-\"",
    "\"room/\"",
    "\"x/a::\"",
    "\"\"",
    "\"é_\"",
    "\"\\u0061:\"",
    "\"::\"",
    "\"-\"",
    "\"a.\"",
    "7",
    "null",
];
const NAMES: [&str; 11] = [
    "\"t\"",
    "\"hum\"",
    "\"\"",
    "\"a::t\"",
    "\":t\"",
    "\"value\"",
    "\"é\"",
    "\"\\ud83c\\udf21\"",
    "\"b/x/t\"",
    "true",
    "\"a\"",
];
const NUMBERS: [&str; 12] =
    ["0", "-0.5", "1e-9", "268435455.999", "268435456", "1e30", "1e5000", "-1e22", "-60", "\"1\"", "null", "1e-400"];

impl Messy {
    /// A pack, or what is nearly one.
    pub(super) fn pack(&mut self, now_ms: i64) -> String {
        if self.chance(3) {
            return self.pick(&["[]", "{}", "7", "[7]", "[[]]", "[{}]", "\"[]\"", "{\"n\":\"a\",\"v\":1}"]);
        }
        let entries: Vec<_> = (0..self.random.random_range(1..5)).map(|index| self.entry(now_ms, index)).collect();
        let blank = self.pick(&["", "", " ", "\n"]);
        format!("[{blank}{}{blank}]", entries.join(&format!("{blank},")))
    }

    fn entry(&mut self, now_ms: i64, index: usize) -> String {
        let mut members: Vec<(&str, String)> = Vec::new();
        if self.chance(if index == 0 { 70 } else { 10 }) {
            members.push(("bn", self.mostly(&BASE_NAMES, 10)));
        }
        if self.chance(if index == 0 { 70 } else { 10 }) {
            members.push(("bt", self.seconds(now_ms)));
        }
        if self.chance(10) {
            let value = self.pick(&VALUES[..19]);
            members.push(("bv", value));
        }
        if self.chance(3) {
            members.push(("bver", self.pick(&["10", "5", "1e1", "10.1", "11", "-3", "\"10\"", "null"])));
        }
        if self.chance(80) {
            members.push(("n", self.mostly(&NAMES, 9)));
        }
        if self.chance(50) {
            let time = if self.chance(50) {
                format!("-{}", self.random.random_range(0..5000))
            } else {
                self.mostly(&NUMBERS, 9)
            };
            members.push(("t", time));
        }
        let field = self.pick(&["v", "v", "v", "v", "vb", "vs", "vd"]);
        let value = self.pick(&VALUES);
        let value = match field.as_str() {
            "vb" if self.chance(80) => self.pick(&["true", "false"]),
            "vs" if self.chance(50) => json!(value).to_string(),
            _ => value,
        };
        members.push((
            match field.as_str() {
                "v" => "v",
                "vb" => "\\u0076b",
                "vs" => "vs",
                _ => "vd",
            },
            value,
        ));
        if self.chance(15) {
            let value = self.pick(&VALUES);
            let name = ["v", "vb", "n", "t", "u", "x"][self.random.random_range(0..6)];
            members.push((name, if name == "n" { "\"t\"".to_owned() } else { value }));
        }
        if self.chance(1) {
            members.push((["x_", "\\u005f", "n_"][self.random.random_range(0..3)], "1".to_owned()));
        }
        let by = self.random.random_range(0..members.len());
        members.rotate_left(by);
        let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    }

    /// One of the first texts, now and then one of the others.
    fn mostly(&mut self, texts: &[&str], good: usize) -> String {
        let bad = self.chance(2);
        self.pick(if bad { &texts[good..] } else { &texts[..good] })
    }

    fn seconds(&mut self, now_ms: i64) -> String {
        let time_ms = now_ms + self.random.random_range(-4_000_000..60_000);
        match self.random.random_range(0..6) {
            0 => format!("{}.{:03}e0", time_ms / 1000, time_ms % 1000),
            1 => format!("{}.{:03}999999", time_ms / 1000, time_ms % 1000),
            2 => self.mostly(&NUMBERS, 9),
            _ => (time_ms / 1000).to_string(),
        }
    }
}
