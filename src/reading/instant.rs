//! Times: numbers with a unit and ISO 8601 text, to milliseconds since 1970 UTC. The one place that reads time.

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use super::number;
use crate::semantics::TimeUnit;

/// 0001-01-01T00:00:00Z.
pub(crate) const TIME_MIN_MS: i64 = -62_135_596_800_000;
/// 9998-12-31T23:59:59.999Z.
pub(crate) const TIME_MAX_MS: i64 = 253_370_764_799_999;

/// Why a text gives no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeError {
    /// It is none, or out of range.
    BadTime,
    /// It is local, and no zone is configured.
    NoZone,
}

/// The time, if it is in the years 0001 to 9998.
pub(crate) fn in_range(time_ms: i64) -> Result<i64, TimeError> {
    if (TIME_MIN_MS..=TIME_MAX_MS).contains(&time_ms) { Ok(time_ms) } else { Err(TimeError::BadTime) }
}

/// Reads number text in the unit, exactly, and floors it.
pub(crate) fn from_number(text: &str, unit: TimeUnit) -> Result<i64, TimeError> {
    if let Some(number) = short_whole(text) {
        return in_range(whole_to_ms(number, unit));
    }
    let unit = match unit {
        TimeUnit::Auto => {
            let size = number::floor_shifted(number::unsigned(text), 0).ok_or(TimeError::BadTime)?;
            unit_by_size(size)
        }
        unit => unit,
    };
    let shift = match unit {
        TimeUnit::S => 3,
        TimeUnit::Ms | TimeUnit::Auto => 0,
        TimeUnit::Us => -3,
        TimeUnit::Ns => -6,
    };
    let time_ms = number::floor_shifted(text, shift).ok_or(TimeError::BadTime)?;
    in_range(i64::try_from(time_ms).map_err(|_| TimeError::BadTime)?)
}

/// Most times are plain whole numbers.
fn short_whole(text: &str) -> Option<i64> {
    let is_plain = text.len() <= 18 && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { Some(text.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))) } else { None }
}

fn whole_to_ms(number: i64, unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::S => number.saturating_mul(1000),
        TimeUnit::Ms => number,
        TimeUnit::Us => number.div_euclid(1000),
        TimeUnit::Ns => number.div_euclid(1_000_000),
        TimeUnit::Auto => whole_to_ms(number, unit_by_size(i128::from(number))),
    }
}

fn unit_by_size(size: i128) -> TimeUnit {
    let limits =
        [(100_000_000_000, TimeUnit::S), (100_000_000_000_000, TimeUnit::Ms), (100_000_000_000_000_000, TimeUnit::Us)];
    let unit = limits.into_iter().find(|(limit, _)| size < *limit);
    unit.map_or(TimeUnit::Ns, |(_, unit)| unit)
}

/// Reads `YYYY-MM-DD`, one of `T`, `t` and space, `hh:mm[:ss[.digits]]`, then nothing, `Z`, `z` or an offset.
pub(crate) fn from_iso(text: &str, zone: Option<&TimeZone>) -> Result<i64, TimeError> {
    let mut scanner = Scanner { rest: text.as_bytes() };
    let local = scanner.local().ok_or(TimeError::BadTime)?;
    let place = scanner.place().ok_or(TimeError::BadTime)?;
    let local_ms = local.to_ms().ok_or(TimeError::BadTime)?;
    match (place, zone) {
        (Place::Offset { minutes }, _) => in_range(local_ms - minutes * 60_000),
        (Place::Local, Some(zone)) => in_range(local_ms - local.offset_ms(zone).ok_or(TimeError::BadTime)?),
        (Place::Local, None) => Err(TimeError::NoZone),
    }
}

/// What the wall clock showed.
struct Local {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    millisecond: i64,
}

enum Place {
    Local,
    Offset { minutes: i64 },
}

impl Local {
    /// Milliseconds since 1970 by this clock; None when there is no such date or time.
    fn to_ms(&self) -> Option<i64> {
        let days = self.days_since_1970()?;
        if self.hour > 23 || self.minute > 59 || self.second > 60 {
            return None;
        }
        Some((((days * 24 + self.hour) * 60 + self.minute) * 60 + self.second) * 1000 + self.millisecond)
    }

    /// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `days_from_civil`.
    fn days_since_1970(&self) -> Option<i64> {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let days_of_month = match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 => 28 + i64::from(is_leap),
            _ => return None,
        };
        if self.year < 1 || self.day < 1 || self.day > days_of_month {
            return None;
        }
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        Some(era * 146_097 + day_of_era - 719_468)
    }

    /// The zone's offset at this local time: of a time that comes twice that of the earlier one, of a skipped one
    /// that before the change.
    fn offset_ms(&self, zone: &TimeZone) -> Option<i64> {
        let narrow = |number: i64| i8::try_from(number).ok();
        let year = i16::try_from(self.year).ok()?;
        let (month, day, hour, minute) =
            (narrow(self.month)?, narrow(self.day)?, narrow(self.hour)?, narrow(self.minute)?);
        // Second 60 is the first of the next minute.
        let (second, carry) = if self.second == 60 { (59, 1) } else { (self.second, 0) };
        let nanosecond = i32::try_from(self.millisecond * 1_000_000).ok()?;
        let time = DateTime::new(year, month, day, hour, minute, narrow(second)?, nanosecond).ok()?;
        let time = time.checked_add(jiff::SignedDuration::from_secs(carry)).ok()?;
        let offset = match zone.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        Some(i64::from(offset.seconds()) * 1000)
    }
}

/// Reads a text from its beginning; every method gives None when the text does not go on as it must.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    fn local(&mut self) -> Option<Local> {
        let year = self.digits(4)?;
        self.one_of(b"-")?;
        let month = self.digits(2)?;
        self.one_of(b"-")?;
        let day = self.digits(2)?;
        self.one_of(b"Tt ")?;
        let hour = self.digits(2)?;
        self.one_of(b":")?;
        let minute = self.digits(2)?;
        let (mut second, mut millisecond) = (0, 0);
        if self.one_of(b":").is_some() {
            second = self.digits(2)?;
            if self.one_of(b".,").is_some() {
                millisecond = self.milliseconds()?;
            }
        }
        Some(Local { year, month, day, hour, minute, second, millisecond })
    }

    fn place(&mut self) -> Option<Place> {
        if self.rest.is_empty() {
            return Some(Place::Local);
        }
        let sign = match self.one_of(b"Zz+-")? {
            b'+' => 1,
            b'-' => -1,
            _ => {
                return if self.rest.is_empty() { Some(Place::Offset { minutes: 0 }) } else { None };
            }
        };
        let hours = self.digits(2)?;
        let mut minutes = 0;
        if !self.rest.is_empty() {
            let _ = self.one_of(b":");
            minutes = self.digits(2)?;
        }
        let is_valid = self.rest.is_empty() && hours <= 23 && minutes <= 59;
        if is_valid { Some(Place::Offset { minutes: sign * (hours * 60 + minutes) }) } else { None }
    }

    fn one_of(&mut self, bytes: &[u8]) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        if !bytes.contains(first) {
            return None;
        }
        self.rest = rest;
        Some(*first)
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.rest = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    /// Any number of digits, at least one; those after the third are floored away.
    fn milliseconds(&mut self) -> Option<i64> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        if digits.is_empty() {
            return None;
        }
        self.rest = rest;
        let padded = digits.iter().copied().chain([b'0', b'0']);
        Some(padded.take(3).fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests {
    use super::{TIME_MAX_MS, TIME_MIN_MS, TimeError, from_iso, from_number};
    use crate::semantics::TimeUnit;

    const BASE: i64 = 1_704_067_200_000;

    fn zone(name: &str) -> jiff::tz::TimeZone {
        jiff::tz::TimeZoneDatabase::bundled().get(name).expect("a zone")
    }

    #[test]
    fn iso_forms_of_one_instant() {
        for text in [
            "2024-01-01T00:00:00Z",
            "2024-01-01t00:00z",
            "2024-01-01 05:30+05:30",
            "2023-12-31T19:00:00.0-0500",
            "2023-12-31T23:59:60Z",
            "2024-01-01T01:00:00,000999+01",
        ] {
            assert_eq!(from_iso(text, None), Ok(BASE), "{text}");
        }
        assert_eq!(from_iso("2024-01-01T00:00:00.1Z", None), Ok(BASE + 100));
    }

    #[test]
    fn local_times_that_come_twice_or_never() {
        let zone = zone("America/New_York");
        assert_eq!(from_iso("2024-11-03T01:30:00", Some(&zone)), from_iso("2024-11-03T05:30:00Z", None));
        assert_eq!(from_iso("2024-03-10T02:30:00", Some(&zone)), from_iso("2024-03-10T07:30:00Z", None));
        assert_eq!(from_iso("2024-03-10T01:59:60", Some(&zone)), from_iso("2024-03-10T07:00:00Z", None));
    }

    #[test]
    fn what_is_no_time() {
        let utc = zone("UTC");
        for text in [
            "2024-01-01",
            "2024-02-30T00:00Z",
            "2023-02-29T00:00Z",
            "1900-02-29T00:00Z",
            "2024-01-01T24:00Z",
            "2024-01-01T00:60Z",
            "2024-01-01T00:00:61Z",
            "0000-01-01T00:00Z",
            "now",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00+24",
            "2024-01-01T00:00+01:60",
            "2024-01-01T00:00+1",
            "2024-01-01T00:00Z ",
            "9999-01-01T00:00Z",
            "0001-01-01T00:00+01:00",
            "2024-1-01T00:00Z",
            "2024-01-01T00:00+01:",
            "9999-12-31T23:59:60",
        ] {
            assert_eq!(from_iso(text, Some(&utc)), Err(TimeError::BadTime), "{text}");
        }
        assert_eq!(from_iso("2024-01-01T00:00", None), Err(TimeError::NoZone));
        assert_eq!(from_iso("2024-02-30T00:00", None), Err(TimeError::BadTime));
    }

    #[test]
    fn units_by_size() {
        for text in ["1704067200", "1704067200000", "1704067200000000", "1704067200000000000", "1.7040672e9"] {
            assert_eq!(from_number(text, TimeUnit::Auto), Ok(BASE), "{text}");
        }
        assert_eq!(from_number("-1", TimeUnit::Auto), Ok(-1000));
        assert_eq!(from_number("-99999999999.5", TimeUnit::Auto), Err(TimeError::BadTime));
        assert_eq!(from_number("-100000000000", TimeUnit::Auto), Ok(-100_000_000_000));
        assert_eq!(from_number("1e31", TimeUnit::Auto), Err(TimeError::BadTime));
    }

    #[test]
    fn the_range_has_both_ends() {
        assert_eq!(from_number(&TIME_MAX_MS.to_string(), TimeUnit::Ms), Ok(TIME_MAX_MS));
        assert_eq!(from_number(&(TIME_MAX_MS + 1).to_string(), TimeUnit::Ms), Err(TimeError::BadTime));
        assert_eq!(from_number(&TIME_MIN_MS.to_string(), TimeUnit::Ms), Ok(TIME_MIN_MS));
        assert_eq!(from_number(&(TIME_MIN_MS - 1).to_string(), TimeUnit::Ms), Err(TimeError::BadTime));
        assert_eq!(from_number("999999999999999999", TimeUnit::S), Err(TimeError::BadTime));
        assert_eq!(from_iso("0001-01-01T00:00Z", None), Ok(TIME_MIN_MS));
        assert_eq!(from_iso("9998-12-31T23:59:59.9999Z", None), Ok(TIME_MAX_MS));
    }
}
