//! What becomes of a candidate for a reading: exactly one outcome each.

use std::fmt;

/// Why a candidate, or a whole record, is rejected.
///
/// The numbers stand in progress records: they are never changed and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Reason {
    /// The value begins with a zero byte, as the framing of schema registries does.
    SchemaRegistryFraming = 0,
    /// The value is not JSON by the strict rules of RFC 8259.
    BadJson = 1,
    /// The value is no SenML pack.
    BadSenml = 2,
    /// The value, or a line of it, is not in line protocol.
    BadInflux = 3,
    /// The pointer `records` does not lead to an array.
    NoRecords = 4,
    /// The record holds more candidates than `max_readings_per_record`.
    TooManyReadings = 5,
    /// No device is named.
    NoDevice = 6,
    /// The device's name is neither text nor a number, or not UTF-8.
    BadDevice = 7,
    /// The device's name is longer than `max_device_id`.
    DeviceTooLong = 8,
    /// The metric's name is longer than `max_device_id`.
    MetricTooLong = 9,
    /// No time is given.
    NoTime = 10,
    /// The time is local and no zone is configured.
    NoZone = 11,
    /// The time cannot be read, or is out of range.
    BadTime = 12,
    /// The time is before `min_time`.
    BeforeMinTime = 13,
    /// The time is after the record's timestamp by more than `max_future`.
    Future = 14,
    /// There is no value.
    NoValue = 15,
    /// The value is no number.
    NotNumeric = 16,
    /// The value is beyond the doubles, infinite or not a number.
    NotFinite = 17,
    /// hotspare's own code failed on the record. A defect: please report it with the record.
    InternalError = 18,
}

impl Reason {
    /// How many reasons there are.
    pub const COUNT: usize = 19;

    /// All reasons in the order of their numbers.
    pub const ALL: [Reason; Reason::COUNT] = [
        Reason::SchemaRegistryFraming,
        Reason::BadJson,
        Reason::BadSenml,
        Reason::BadInflux,
        Reason::NoRecords,
        Reason::TooManyReadings,
        Reason::NoDevice,
        Reason::BadDevice,
        Reason::DeviceTooLong,
        Reason::MetricTooLong,
        Reason::NoTime,
        Reason::NoZone,
        Reason::BadTime,
        Reason::BeforeMinTime,
        Reason::Future,
        Reason::NoValue,
        Reason::NotNumeric,
        Reason::NotFinite,
        Reason::InternalError,
    ];

    /// The name in counters, metrics and dead letters.
    pub fn name(self) -> &'static str {
        match self {
            Reason::SchemaRegistryFraming => "schema_registry_framing",
            Reason::BadJson => "bad_json",
            Reason::BadSenml => "bad_senml",
            Reason::BadInflux => "bad_influx",
            Reason::NoRecords => "no_records",
            Reason::TooManyReadings => "too_many_readings",
            Reason::NoDevice => "no_device",
            Reason::BadDevice => "bad_device",
            Reason::DeviceTooLong => "device_too_long",
            Reason::MetricTooLong => "metric_too_long",
            Reason::NoTime => "no_time",
            Reason::NoZone => "no_zone",
            Reason::BadTime => "bad_time",
            Reason::BeforeMinTime => "before_min_time",
            Reason::Future => "future",
            Reason::NoValue => "no_value",
            Reason::NotNumeric => "not_numeric",
            Reason::NotFinite => "not_finite",
            Reason::InternalError => "internal_error",
        }
    }

    /// The number in progress records.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The reason of a number; None for numbers that this version does not know.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is in at least one window.
    Counted,
    /// No window takes it any more.
    Late,
    /// Nothing was measured.
    Missing,
    /// A copy of a counted reading.
    Duplicate,
    /// The record's value is null.
    NullRecord,
    /// Refused.
    Rejected(Reason),
}

impl From<Reason> for Outcome {
    fn from(reason: Reason) -> Self {
        Outcome::Rejected(reason)
    }
}

impl Outcome {
    /// The outcome's name, and that of the reason for rejections, as dead letters show it.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Counted => "counted",
            Outcome::Late => "late",
            Outcome::Missing => "missing",
            Outcome::Duplicate => "duplicate",
            Outcome::NullRecord => "null_record",
            Outcome::Rejected(reason) => reason.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Reason;

    #[test]
    fn every_reason_has_its_own_number_and_name() {
        for (index, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(reason.code()), index);
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
            assert_eq!(Reason::ALL.iter().filter(|other| other.name() == reason.name()).count(), 1);
        }
        assert_eq!(Reason::from_code(19), None);
    }
}
