//! Records as devices send them when things go wrong: every form of time, number, text and damage.

#[path = "messy/config.rs"]
mod config;
#[path = "messy/influx.rs"]
mod influx;
#[path = "messy/senml.rs"]
mod senml;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

const BASE_MS: i64 = 1_704_067_200_000;

/// Makes records and configurations; the same seed makes the same ones.
pub struct Messy {
    format: &'static str,
    seed: u64,
    random: ChaCha8Rng,
    /// Something depends on log time: it should not leap to the end of time at once.
    has_silence: bool,
    /// The value of the record before, for copies.
    last: Option<serde_json::Value>,
}

const DEVICES: [&str; 14] = [
    "\"a\"",
    "\"a\"",
    "\"a\"",
    "\"b\"",
    "\"b\"",
    "\"x/a/y\"",
    "\"\\u0061\"",
    "\"é\"",
    "\"\\ud83c\\udf21\"",
    "1.0",
    "2882429806056571124",
    "null",
    "\"\"",
    "true",
];

const VALUES: [&str; 50] = [
    "1",
    "2.5",
    "21.5",
    "-3e2",
    "0.1",
    "0.2",
    "1e-7",
    "12345678901234567890",
    "9007199254740993",
    "1e308",
    "-1e308",
    "1.7e308",
    "5e-324",
    "-0",
    "-0.0",
    "1e999",
    "-1e999",
    "0.000001",
    "1E+5",
    "null",
    "\"\"",
    "\" \\t\\r\\n\"",
    "\" 21.5 \"",
    "\"21.5\"",
    "\"+.5\"",
    "\"5.\"",
    "\"1e\"",
    "\"NA\"",
    "\" NA\"",
    "\"na\"",
    "\"nan\"",
    "\"-Infinity\"",
    "\"inf\"",
    "\"0x10\"",
    "\"1,5\"",
    "true",
    "false",
    "[]",
    "{}",
    "[1,2]",
    "{\"value\":1}",
    "999.9",
    "-200",
    "-200.0",
    "\"-2e2\"",
    "0",
    "\"1_0\"",
    "\"١\"",
    "2.4703282292062327208e-324",
    "179769313486231580793728971405301e276",
];

const TIMES: [&str; 36] = [
    "null",
    "\"\"",
    "\"  \"",
    "true",
    "[]",
    "{}",
    "\"now\"",
    "0",
    "-1",
    "-0.5",
    "1e30",
    "1e31",
    "1e5000",
    "99999999999",
    "100000000000",
    "\"2024-02-30T00:00Z\"",
    "\"2024-03-10T02:30:00\"",
    "\"2024-11-03T01:30:00\"",
    "\"2024-03-31T01:30\"",
    "\"2024-10-27 01:30:00.5\"",
    "\"2023-12-31T23:59:60Z\"",
    "\"2024-01-01T00:00:61Z\"",
    "\"0001-01-01T00:00:00Z\"",
    "\"0000-12-31T00:00:00Z\"",
    "\"9999-01-01T00:00Z\"",
    "\"9998-12-31T23:59:59.9999Z\"",
    "\"1970-01-01t00:00:00,1z\"",
    "\"2024-01-01\"",
    "\"2024-01-01T00:00:00+24:00\"",
    "\"2024-01-01T00:00:00-0530\"",
    "\"2024-01-01T00:00+05\"",
    "\"2024-01-01T00:00+05:\"",
    "\"9999-12-31T23:59:60\"",
    "-1704067200",
    "\"1704067200.9999999\"",
    "\"+1704067200\"",
];

impl Messy {
    /// `format` as in a configuration.
    pub fn new(format: &'static str, seed: u64) -> Self {
        Self { format, seed, random: ChaCha8Rng::seed_from_u64(seed), has_silence: false, last: None }
    }

    fn pick(&mut self, texts: &[impl AsRef<str>]) -> String {
        texts.choose(&mut self.random).expect("a text").as_ref().to_owned()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.random_range(0..100) < percent
    }

    /// One line of a file of records.
    pub fn record(&mut self, offset: usize) -> String {
        let partition = if self.chance(80) { 0 } else { 1 };
        if self.chance(1) {
            return json!({ "partition": partition, "log_time": BASE_MS + self.random.random_range(-9..9) * 3_600_000 }).to_string();
        }
        let now_ms = BASE_MS + i64::try_from(offset).expect("small") * 30_000;
        let timestamp = match self.random.random_range(0..if self.has_silence { 1000 } else { 40 }) {
            0 => -1,
            1 => i64::MAX,
            2 => 0,
            3 => now_ms + 86_400_000,
            _ => now_ms + self.random.random_range(-60_000..60_000),
        };
        let (device, time) = (self.device(), self.time(now_ms));
        let key = if self.chance(50) { device.trim_matches('"').to_owned() } else { time.trim_matches('"').to_owned() };
        let mut record = json!({ "partition": partition, "offset": offset, "timestamp": timestamp, "key": key });
        if self.chance(5) {
            record["key"] = json!(null);
        } else if self.chance(3) {
            record["key_base64"] = json!("/3s=");
        }
        let mut headers =
            vec![json!(["d", self.device().trim_matches('"')]), json!(["t", self.time(now_ms).trim_matches('"')])];
        if self.chance(10) {
            headers.push(json!([self.pick(&["d", "t", "x"]), null]));
        }
        headers.truncate(self.random.random_range(1..4));
        record["headers"] = json!(headers);
        if let Some(last) = self.last.clone().filter(|_| self.has_silence && self.random.random_range(0..10) == 0) {
            record["value"] = last;
        } else {
            self.value(&mut record, now_ms);
        }
        self.last = record.get("value").cloned();
        record.to_string()
    }

    fn value(&mut self, record: &mut serde_json::Value, now_ms: i64) {
        match self.random.random_range(0..100) {
            0 => {}
            1 => record["value"] = json!(null),
            2 => {
                record["value_base64"] = json!(self.pick(&[
                    "",
                    "AAAAAAd7ImRldmljZV9pZCI6IkEifQ==",
                    "/3s=",
                    "77u/e30=",
                    "Ilx1ZDgzYyI=",
                    "eyJhIjoi7aCAIn0=",
                    "bSBmPTH/Cg==",
                    "77u/bSxkZXZpY2VfaWQ9YSBmPTEK"
                ]))
            }
            _ => {
                let mut text = match self.format {
                    "senml" => self.pack(now_ms),
                    "influx" => self.lines(now_ms),
                    _ => self.document(now_ms),
                };
                if self.chance(4) {
                    self.damage(&mut text);
                }
                record["value"] = json!(text);
            }
        }
    }

    /// Cuts the text off somewhere, or puts something in.
    fn damage(&mut self, text: &mut String) {
        let mut at = self.random.random_range(0..=text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if self.chance(30) {
            text.truncate(at);
        } else {
            let what = self.pick(&[
                ",", "\"", "\\", "}", "]", "{", "[", "\u{1}", "\u{feff}", " ", "0", "\\ud83c", "\\n", "nan", "\u{a0}",
                "/**/", "=", "\n", "\r\n", "#", "\\ ", "\"=\"",
            ]);
            text.insert_str(at, &what);
        }
    }

    fn document(&mut self, now_ms: i64) -> String {
        let body = self.body(now_ms);
        match self.random.random_range(0..12) {
            0..=4 => body,
            5 => format!("[{body},{}]", self.body(now_ms)),
            6 => format!(
                "[{}]",
                (0..self.random.random_range(0..4)).map(|_| self.body(now_ms)).collect::<Vec<_>>().join(",")
            ),
            7..=9 => {
                let first = if self.chance(50) { json!(self.body(now_ms)).to_string() } else { self.body(now_ms) };
                let device = self.device();
                format!(
                    "{{\"device_id\":{device}, \"r\":[{first},{},7] ,\"ts\":{}}}",
                    self.body(now_ms),
                    self.time(now_ms)
                )
            }
            10 => json!(body).to_string(),
            _ => self.pick(&["7", "\"x\"", "[]", "{}", "null", " ", "{\"r\":{}}", "{\"r\":[]}", "\"21.5\""]),
        }
    }

    fn body(&mut self, now_ms: i64) -> String {
        let mut members = vec![
            ("device_id", self.device()),
            ("ts", self.time(now_ms)),
            ("value", self.pick(&VALUES)),
            ("w", format!("[{},0]", self.pick(&VALUES))),
        ];
        if self.chance(40) {
            let inner = format!("{{\"value\":{}}}", self.pick(&VALUES));
            members.push(("p", if self.chance(70) { json!(inner).to_string() } else { inner }));
        }
        if self.chance(15) {
            let name = self.pick(&["value", "ts", "\\u0076alue", "x"]);
            let value = self.pick(&VALUES);
            members.push((
                if name == "x" {
                    "x\\\\"
                } else if name == "ts" {
                    "ts"
                } else if name == "value" {
                    "value"
                } else {
                    "\\u0076alue"
                },
                value,
            ));
        }
        while self.chance(25) {
            let at = self.random.random_range(0..members.len());
            members.remove(at);
            if members.is_empty() {
                break;
            }
        }
        if !members.is_empty() {
            let by = self.random.random_range(0..members.len());
            members.rotate_left(by);
        }
        let blank = self.pick(&["", "", "", " ", "\n\t"]);
        let members: Vec<_> = members.iter().map(|(name, value)| format!("\"{name}\":{blank}{value}{blank}")).collect();
        format!("{{{blank}{}}}", members.join(","))
    }

    fn device(&mut self) -> String {
        if self.chance(80) { self.pick(&DEVICES[..5]) } else { self.pick(&DEVICES) }
    }

    /// Mostly a time near now, in one of many forms.
    fn time(&mut self, now_ms: i64) -> String {
        if self.chance(20) {
            return self.pick(&TIMES);
        }
        let time_ms = now_ms + self.random.random_range(-4_000_000..60_000);
        let (seconds, rest) = (time_ms / 1000, time_ms % 1000);
        match self.random.random_range(0..16) {
            0..=4 => time_ms.to_string(),
            5 => seconds.to_string(),
            6 => format!("{seconds}.{rest:03}9"),
            7 => format!("\" {time_ms}\""),
            8 => format!("{time_ms}000"),
            9 => format!("{time_ms}999999"),
            10 => format!("{seconds}.{rest:03}e0"),
            11 => format!("{}.{:06}E6", time_ms / 1_000_000, time_ms % 1_000_000),
            _ => {
                let instant = jiff::Timestamp::from_millisecond(time_ms).expect("a time");
                let form = self.pick(&[
                    "%Y-%m-%dT%H:%M:%S",
                    "%Y-%m-%d %H:%M:%S.%3f",
                    "%Y-%m-%dt%H:%M",
                    "%Y-%m-%d %H:%M:%S,%6f",
                ]);
                let zone = self.pick(&["Z", "z", "+00", "+0000", "-00:00", "", ""]);
                format!("\"{}{zone}\"", instant.strftime(&form))
            }
        }
    }
}
