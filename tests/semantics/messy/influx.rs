//! Messy lines of line protocol.

use rand::Rng;

use super::Messy;

const MEASUREMENTS: [&str; 10] = ["m", "m", "m", "a.b", "a\\,b", "x\\ y", "\\\\m", "m=1", "m\\=", "é"];
const TAG_KEYS: [&str; 6] = ["site", "site", "k\\=", "k\\,\\ ", "\\x", "é"];
const TAG_TEXTS: [&str; 10] = ["a", "b", "x/a/y", "x\\ y", "\\=", "\\\\", "\"", "1.0", "é", "a=b"];
const FIELD_KEYS: [&str; 8] = ["f", "f", "g", "h\\ i", "t", "g\\=", "\"f", "é.x"];
const FIELD_VALUES: [&str; 46] = [
    "1",
    "2.5",
    "21.5",
    "-3e2",
    "+.5",
    "5.",
    "0",
    "-0",
    "-200",
    "999.9",
    "1e308",
    "1.7e308",
    "1e999",
    "5e-324",
    "12345678901234567890",
    "7i",
    "-7i",
    "0i",
    "007i",
    "9223372036854775807i",
    "18446744073709551615u",
    "3u",
    "1.5e1",
    "t",
    "F",
    "true",
    "False",
    "TRUE",
    "nan",
    "-Inf",
    "+Infinity",
    "NaN",
    "\"21.5\"",
    "\"NA\"",
    "\"x\"",
    "\"\"",
    "\" 1 \"",
    "\"a b,c=d\"",
    "\"a\\\"b\"",
    "\"\\\\\"",
    "\"a\nb\"",
    "\"1\\\\x\"",
    "\"nan\"",
    "\"#\r\n\"",
    "\"é\"",
    "\"2024-01-01T00:00:00Z\"",
];
const BAD_VALUES: [&str; 15] = [
    "",
    "1x",
    "1i1",
    "-1u",
    "+1i",
    "9223372036854775808i",
    "18446744073709551616u",
    "tRUE",
    "i",
    "\"a",
    "\"a\"b",
    "1\\ 2",
    "0x1",
    "=",
    "1_0",
];
const TIMESTAMPS: [&str; 12] = [
    "0",
    "-1",
    "-0",
    "1",
    "99999999999999999999",
    "1e9",
    "1.5",
    "x",
    "+1",
    "-",
    "1704067200",
    "0001704067200000000000",
];

impl Messy {
    /// Some lines, comments and blanks.
    pub(super) fn lines(&mut self, now_ms: i64) -> String {
        let mut text = String::new();
        for _ in 0..self.random.random_range(1..5) {
            let line = match self.random.random_range(0..20) {
                0 => self.pick(&["# a comment", "  # f=\"", "", " ", "\t", "#"]),
                1 => self.pick(&[
                    "m",
                    "m f",
                    "m,",
                    "m,a f=1",
                    "m,a= f=1",
                    ",a=b f=1",
                    "m =1",
                    "m f=1,",
                    "m  ",
                    "\r",
                    "m,a=1,a=2 f=1",
                ]),
                _ => self.line(now_ms),
            };
            text += &line;
            text += &self.pick(&["\n", "\n", "\n", "\r\n", "\n\n", "\r\r\n"]);
        }
        if self.chance(30) {
            text.pop();
        }
        if self.chance(2) {
            text.insert(0, '\u{feff}');
        }
        text
    }

    fn line(&mut self, now_ms: i64) -> String {
        let mut line = self.pick(&["", "", "", "", " ", "  "]) + &self.pick(&MEASUREMENTS);
        if self.chance(85) {
            let device = self.pick(&["a", "a", "b", "x/a/y", "1.0", "é", "\\,a", "longer-than-most"]);
            line += &format!(",device_id={device}");
        }
        while self.chance(30) {
            line += &format!(",{}={}", self.pick(&TAG_KEYS), self.pick(&TAG_TEXTS));
        }
        line += &self.pick(&[" ", " ", " ", "  "]);
        for index in 0..self.random.random_range(1..4) {
            let value = if self.chance(3) { self.pick(&BAD_VALUES) } else { self.pick(&FIELD_VALUES) };
            let key = if index == 0 { "f".to_owned() } else { self.pick(&FIELD_KEYS[2..]) };
            line += &format!("{}{key}={value}", if index == 0 { "" } else { "," });
        }
        if self.chance(5) {
            line += &format!(",t={}", now_ms - self.random.random_range(0..4_000_000));
        }
        if self.chance(85) {
            let time_ms = now_ms + self.random.random_range(-4_000_000..60_000);
            let timestamp = match self.random.random_range(0..10) {
                0 => self.pick(&TIMESTAMPS),
                1 => time_ms.to_string(),
                2 => (time_ms / 1000).to_string(),
                3 => format!("{time_ms}999999"),
                _ => format!("{time_ms}000000"),
            };
            line += &format!("{}{timestamp}{}", self.pick(&[" ", " ", "   "]), self.pick(&["", "", " "]));
        }
        line
    }
}
