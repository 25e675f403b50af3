//! Durations and sizes that are written with their unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, written as a whole number and one of `ms s m h d`: `300ms`, `1s`, `5m`, `1h`, `1d`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timespan {
    ms: u64,
}

impl Timespan {
    /// So many milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Timespan {
        Timespan { ms }
    }

    /// So many seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Timespan {
        Timespan { ms: secs.saturating_mul(1000) }
    }

    /// In milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.ms
    }

    /// As the standard library has it.
    #[must_use]
    pub const fn get(self) -> Duration {
        Duration::from_millis(self.ms)
    }

    /// So many times this one; the longest there is if it is beyond that.
    #[must_use]
    pub const fn times(self, factor: u64) -> Timespan {
        Timespan { ms: self.ms.saturating_mul(factor) }
    }
}

impl From<Timespan> for Duration {
    fn from(timespan: Timespan) -> Duration {
        timespan.get()
    }
}

/// A number of bytes, written as a whole number and one of `B KiB MiB GiB TiB`: `64MiB`. `0` needs no unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize {
    bytes: u64,
}

impl ByteSize {
    /// So many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> ByteSize {
        ByteSize { bytes }
    }

    /// So many KiB of 1024 bytes.
    #[must_use]
    pub const fn from_kib(kib: u64) -> ByteSize {
        ByteSize { bytes: kib.saturating_mul(1024) }
    }

    /// So many MiB of 1024 KiB.
    #[must_use]
    pub const fn from_mib(mib: u64) -> ByteSize {
        ByteSize { bytes: mib.saturating_mul(1024 * 1024) }
    }

    /// In bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.bytes
    }
}

/// Units, largest first.
const TIME_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
const SIZE_UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// What is wrong with a duration or size, and how to write it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// A number alone.
    #[error("{text} has no unit; write {examples}")]
    NoUnit {
        /// As it was written.
        text: String,
        /// The same number with units.
        examples: String,
    },
    /// A unit that is not known here.
    #[error("\"{text}\" has the unit \"{unit}\"; it must be a whole number and one of {known}")]
    UnknownUnit {
        /// As it was written.
        text: String,
        /// The unit.
        unit: String,
        /// Those known.
        known: String,
    },
    /// No number at the beginning.
    #[error("\"{text}\" is no {what}; write a whole number and one of {known}")]
    NotOne {
        /// As it was written.
        text: String,
        /// "duration" or "size".
        what: &'static str,
        /// The units known.
        known: String,
    },
    /// Beyond 64 bits.
    #[error("\"{text}\" is too large")]
    TooLarge {
        /// As it was written.
        text: String,
    },
}

fn parse(text: &str, units: &[(&str, u64)], what: &'static str) -> Result<u64, UnitError> {
    let known = || units.iter().rev().map(|(unit, _)| *unit).collect::<Vec<_>>().join(" ");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(UnitError::NotOne { text: text.to_owned(), what, known: known() });
    }
    if unit.is_empty() {
        let examples = units.iter().rev().take(3).map(|(unit, _)| format!("\"{number}{unit}\"")).collect::<Vec<_>>();
        return Err(UnitError::NoUnit { text: text.to_owned(), examples: examples.join(" or ") });
    }
    let Some((_, factor)) = units.iter().find(|(known, _)| *known == unit) else {
        return Err(UnitError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned(), known: known() });
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(*factor));
    value.ok_or_else(|| UnitError::TooLarge { text: text.to_owned() })
}

/// In the largest unit that divides it.
fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let smallest = units.last().copied().unwrap_or(("", 1));
    let fits = |(_, size): &&(&str, u64)| value != 0 && value.is_multiple_of(*size);
    let (unit, size) = units.iter().find(fits).copied().unwrap_or(smallest);
    write!(f, "{}{unit}", value / size)
}

impl FromStr for Timespan {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Timespan, UnitError> {
        parse(text, &TIME_UNITS, "duration").map(Timespan::from_ms)
    }
}

impl fmt::Display for Timespan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.ms, &TIME_UNITS)
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<ByteSize, UnitError> {
        if text == "0" {
            return Ok(ByteSize::default());
        }
        parse(text, &SIZE_UNITS, "size").map(ByteSize::from_bytes)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.bytes, &SIZE_UNITS)
    }
}

/// Reads text; a bare number is given to the same parser, which says what is missing.
struct Text<T> {
    expected: &'static str,
    parse: fn(&str) -> Result<T, UnitError>,
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        if number < 0 {
            return Err(E::invalid_type(Unexpected::Signed(number), &self));
        }
        (self.parse)(&number.to_string()).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        (self.parse)(&number.to_string()).map_err(E::custom)
    }
}

impl<'de> Deserialize<'de> for Timespan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timespan, D::Error> {
        deserializer.deserialize_any(Text { expected: "a duration such as \"300ms\"", parse: Timespan::from_str })
    }
}

impl Serialize for Timespan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        deserializer.deserialize_any(Text { expected: "a size such as \"64MiB\"", parse: ByteSize::from_str })
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_reads_back_as_the_same() {
        for text in ["0ms", "1ms", "999ms", "1s", "90s", "2m", "1h", "36h", "2d"] {
            assert_eq!(text.parse::<Timespan>().unwrap().to_string(), text);
        }
        for text in ["0B", "1B", "1000B", "8KiB", "64MiB", "3GiB", "1TiB"] {
            assert_eq!(text.parse::<ByteSize>().unwrap().to_string(), text);
        }
        assert_eq!("60s".parse::<Timespan>().unwrap(), Timespan::from_secs(60));
        assert_eq!("0".parse::<ByteSize>().unwrap(), ByteSize::default());
        assert_eq!("50MiB".parse::<ByteSize>().unwrap(), ByteSize::from_mib(50));
    }

    #[test]
    fn what_is_wrong_is_said_with_the_right_way_to_write_it() {
        let time = |text: &str| text.parse::<Timespan>().unwrap_err().to_string();
        let size = |text: &str| text.parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(time("300"), "300 has no unit; write \"300ms\" or \"300s\" or \"300m\"");
        assert_eq!(time("0"), "0 has no unit; write \"0ms\" or \"0s\" or \"0m\"");
        assert_eq!(time("5min"), "\"5min\" has the unit \"min\"; it must be a whole number and one of ms s m h d");
        assert_eq!(time("1.5s"), "\"1.5s\" has the unit \".5s\"; it must be a whole number and one of ms s m h d");
        assert_eq!(time("soon"), "\"soon\" is no duration; write a whole number and one of ms s m h d");
        assert_eq!(time(""), "\"\" is no duration; write a whole number and one of ms s m h d");
        assert_eq!(time("-1s"), "\"-1s\" is no duration; write a whole number and one of ms s m h d");
        assert_eq!(time("213503982335d"), "\"213503982335d\" is too large");
        assert_eq!(size("64"), "64 has no unit; write \"64B\" or \"64KiB\" or \"64MiB\"");
        assert_eq!(
            size("64MB"),
            "\"64MB\" has the unit \"MB\"; it must be a whole number and one of B KiB MiB GiB TiB"
        );
        assert_eq!(size("99999999TiB"), "\"99999999TiB\" is too large");
    }
}
