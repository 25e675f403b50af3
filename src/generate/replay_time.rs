//! Times as they stand in files: read, and moved without changing how they are written.

use jiff::{SignedDuration, Timestamp, civil::DateTime, tz::TimeZone};

/// A time with the way in which it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum FileTime {
    /// A whole number of a unit, which is so many nanoseconds.
    Whole { number: i128, unit_ns: i128 },
    /// Seconds with a fraction.
    Seconds(f64),
    /// Text with an offset.
    Instant(Timestamp),
    /// Text without one, taken for UTC.
    Local(DateTime),
}

impl FileTime {
    /// Reads a JSON value: a number, or a text.
    pub(super) fn of(json: &str) -> Option<Self> {
        if let Ok(number) = json.parse::<i128>() {
            // As `unit = "auto"` does (SEMANTICS 3.3).
            let size = number.unsigned_abs();
            let units =
                [(100_000_000_000, 1_000_000_000), (100_000_000_000_000, 1_000_000), (100_000_000_000_000_000, 1000)];
            let unit_ns = units.into_iter().find(|(below, _)| size < *below).map_or(1, |(_, unit_ns)| unit_ns);
            return Some(Self::Whole { number, unit_ns });
        }
        if let Ok(seconds) = json.parse::<f64>() {
            return seconds.is_finite().then_some(Self::Seconds(seconds));
        }
        let text: String = serde_json::from_str(json).ok()?;
        let text = text.trim();
        let instant = text.parse().ok().map(Self::Instant);
        instant.or_else(|| text.parse().ok().map(Self::Local))
    }

    /// Milliseconds since 1970.
    pub(super) fn ms(&self) -> i64 {
        match self {
            Self::Whole { number, unit_ns } => i64::try_from(number * unit_ns / 1_000_000).unwrap_or(0),
            Self::Seconds(seconds) => (seconds * 1000.0) as i64,
            Self::Instant(instant) => instant.as_millisecond(),
            Self::Local(local) => TimeZone::UTC.to_timestamp(*local).map_or(0, |instant| instant.as_millisecond()),
        }
    }

    /// As JSON, moved by so many milliseconds.
    pub(super) fn moved(&self, by_ms: i64) -> String {
        let by = SignedDuration::from_millis(by_ms);
        match self {
            Self::Whole { number, unit_ns } => (number + i128::from(by_ms) * 1_000_000 / unit_ns).to_string(),
            Self::Seconds(seconds) => (seconds + by_ms as f64 / 1000.0).to_string(),
            Self::Instant(instant) => format!("\"{}\"", instant.saturating_add(by).unwrap_or(*instant)),
            Self::Local(local) => format!("\"{}\"", local.saturating_add(by)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FileTime;

    #[test]
    fn times_are_moved_as_they_are_written() {
        for (json, ms, moved) in [
            ("1594598424.5023336", 1_594_598_424_502, "1594598425.5023336"),
            ("1594598424", 1_594_598_424_000, "1594598425"),
            ("1594598424502", 1_594_598_424_502, "1594598425502"),
            ("1594598424502000000", 1_594_598_424_502, "1594598425502000000"),
            ("\"2015-07-10 14:24:00\"", 1_436_538_240_000, "\"2015-07-10T14:24:01\""),
            ("\"2015-07-10T14:24:00+02:00\"", 1_436_531_040_000, "\"2015-07-10T12:24:01Z\""),
        ] {
            let time = FileTime::of(json).expect(json);
            assert_eq!((time.ms(), time.moved(1000).as_str()), (ms, moved));
        }
        assert_eq!(FileTime::of("null"), None);
        assert_eq!(FileTime::of("\"soon\""), None);
    }
}
