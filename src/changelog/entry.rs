//! The record of an open window.

use hotspare_cluster::Offset;

use super::bytes::{Reader, write_bytes, write_signed, write_varint};
use super::extra::{self, SeriesKey};
use super::{ChangelogError, VERSION, kind, versioned};
use crate::reading::Identity;
use crate::window::{Aggregate, ExactSquares, ExactSum, Shape};

/// Which window an entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowKey<'a> {
    /// Index of the window definition.
    pub(crate) definition: u8,
    pub(crate) device: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) start_ms: i64,
}

/// What the key of a changelog record is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Progress,
    Window(WindowKey<'a>),
    Series(SeriesKey<'a>),
    /// The fact that stands before the input record of this offset.
    LogTime(Offset),
    Identity(SeriesKey<'a>, Identity),
    /// A kind that this version does not know.
    Unknown,
}

/// Writes the key: kind, definition, device, metric, start. The start's sign is flipped, so that keys sort by time.
pub(crate) fn write_window_key(out: &mut Vec<u8>, key: &WindowKey<'_>) {
    out.extend_from_slice(&[kind::WINDOW, key.definition]);
    write_bytes(out, key.device.as_bytes());
    write_bytes(out, key.metric.as_bytes());
    out.extend_from_slice(&(key.start_ms ^ i64::MIN).to_be_bytes());
}

/// Writes the value: version, count, sum (number of zero bytes, bytes), min, max, time of first from the start, first,
/// time of last from the first, last; where a variance is shown, the sum of the squares (zero bytes, bytes).
pub(crate) fn write_window_value(out: &mut Vec<u8>, start_ms: i64, aggregate: &Aggregate) {
    out.push(VERSION);
    write_varint(out, aggregate.count);
    aggregate.sum.with_canonical(|zeros, bytes| {
        write_varint(out, zeros as u64);
        write_bytes(out, bytes);
    });
    write_double(out, aggregate.min);
    write_double(out, aggregate.max);
    write_signed(out, aggregate.first_ms.wrapping_sub(start_ms));
    write_double(out, aggregate.first);
    write_signed(out, aggregate.last_ms.wrapping_sub(aggregate.first_ms));
    write_double(out, aggregate.last);
    if let Some(squares) = &aggregate.squares {
        squares.with_canonical(|zeros, bytes| {
            write_varint(out, zeros as u64);
            write_bytes(out, bytes);
        });
    }
}

fn write_double(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_be_bytes());
}

impl<'a> Entry<'a> {
    /// Reads the key of a changelog record.
    pub(crate) fn of_key(key: &'a [u8]) -> Result<Self, ChangelogError> {
        match key.split_first() {
            None => Err("its key is empty"),
            Some((&kind::PROGRESS, [])) => Ok(Entry::Progress),
            Some((&kind::PROGRESS, _)) => Err("it is no key of a progress record"),
            Some((&kind::WINDOW, rest)) => {
                read_window_key(&mut Reader::new(rest)).map(Entry::Window).ok_or("it is no key of a window")
            }
            Some((&kind::SERIES, rest)) => {
                extra::read_series_key(rest).map(Entry::Series).ok_or("it is no key of a series")
            }
            Some((&kind::LOG_TIME, rest)) => {
                extra::read_fact_key(rest).map(Entry::LogTime).ok_or("it is no key of a log-time fact")
            }
            Some((&kind::IDENTITY, rest)) => extra::read_identity_key(rest)
                .map(|(series, identity)| Entry::Identity(series, identity))
                .ok_or("it is no key of an identity"),
            Some(_) => Ok(Entry::Unknown),
        }
        .map_err(|what| ChangelogError::corrupt(key, None, what))
    }
}

fn read_window_key<'a>(reader: &mut Reader<'a>) -> Option<WindowKey<'a>> {
    let key = WindowKey {
        definition: reader.byte()?,
        device: std::str::from_utf8(reader.bytes()?).ok()?,
        metric: std::str::from_utf8(reader.bytes()?).ok()?,
        start_ms: reader.i64()? ^ i64::MIN,
    };
    if reader.is_at_end() { Some(key) } else { None }
}

/// Reads the value of a window's record. Its times are checked to be in the window; whether it has the sum of the squares
/// is a matter of the configuration.
pub(crate) fn decode_window(
    key: &[u8],
    value: &[u8],
    start_ms: i64,
    shape: &Shape,
    has_squares: bool,
) -> Result<Aggregate, ChangelogError> {
    let rest = versioned(key, value)?;
    read_aggregate(&mut Reader::new(rest), start_ms, has_squares)
        .filter(|aggregate| {
            start_ms <= aggregate.first_ms && aggregate.last_ms < shape.end_of(start_ms, aggregate.last_ms)
        })
        .ok_or_else(|| ChangelogError::corrupt(key, Some(value), "it is no aggregate of such a window"))
}

fn read_aggregate(reader: &mut Reader<'_>, start_ms: i64, has_squares: bool) -> Option<Aggregate> {
    let count = reader.varint().filter(|count| *count > 0)?;
    let zeros = reader.length()?;
    let sum = ExactSum::from_canonical(zeros, reader.bytes()?)?;
    let (min, max) = (reader.double()?, reader.double()?);
    let first_ms = start_ms.checked_add(reader.signed()?)?;
    let first = reader.double()?;
    let last_ms = first_ms.checked_add(reader.signed()?)?;
    let last = reader.double()?;
    let squares = if has_squares {
        let zeros = reader.length()?;
        Some(Box::new(ExactSquares::from_canonical(zeros, reader.bytes()?)?))
    } else {
        None
    };
    let range = min..=max;
    let is_sound = first_ms <= last_ms && range.contains(&first) && range.contains(&last) && reader.is_at_end();
    let aggregate = Aggregate { count, sum, min, max, first_ms, first, last_ms, last, squares };
    if is_sound && aggregate.is_possible() { Some(aggregate) } else { None }
}

#[cfg(test)]
mod tests {
    use super::{Entry, WindowKey, decode_window, write_window_key, write_window_value};
    use crate::changelog::ChangelogError;
    use crate::window::{Aggregate, Shape};
    use proptest::prelude::*;

    const START_MS: i64 = 1_704_067_200_000;

    const HOURS: Shape = Shape::Tumbling { size_ms: 3_600_000 };

    fn aggregate(has_squares: bool) -> Aggregate {
        let mut aggregate = Aggregate::of(START_MS + 300, 21.5, has_squares);
        aggregate.add(START_MS + 1000, -1.0);
        aggregate
    }

    fn key(start_ms: i64) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_window_key(&mut bytes, &WindowKey { definition: 0, device: "é1", metric: "temp", start_ms });
        bytes
    }

    fn value(start_ms: i64, aggregate: &Aggregate) -> Vec<u8> {
        let mut bytes = Vec::new();
        write_window_value(&mut bytes, start_ms, aggregate);
        bytes
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        assert_eq!(hex(&key(START_MS)), ["01", "00", "03c3a931", "0474656d70", "8000018cc251f400"].concat());
        let wanted = [
            "01",
            "02",
            "8601", // 134 zero bytes, then 20.5
            "0152",
            "bff0000000000000",
            "4035800000000000",
            "d804",
            "4035800000000000",
            "f80a",
            "bff0000000000000",
        ];
        let wanted = wanted.concat();
        assert_eq!(hex(&value(START_MS, &aggregate(false))), wanted);
        // 2148 bits are 268 zero bytes and four bits: 463.25 times 2^4 is 0x1cf4.
        assert_eq!(hex(&value(START_MS, &aggregate(true))), format!("{wanted}8c0202f41c"));
    }

    #[test]
    fn records_come_back_as_they_were() {
        let window = WindowKey { definition: 0, device: "é1", metric: "temp", start_ms: START_MS };
        assert_eq!(Entry::of_key(&key(START_MS)), Ok(Entry::Window(window)));
        let bytes = value(START_MS, &aggregate(false));
        assert_eq!(decode_window(&[1], &bytes, START_MS, &HOURS, false), Ok(aggregate(false)));
        assert!(decode_window(&[1], &bytes, START_MS, &Shape::Tumbling { size_ms: 1000 }, false).is_err());
    }

    #[test]
    fn keys_sort_by_time_below_zero_too() {
        let keys = [i64::MIN, -1, 0, 1, i64::MAX].map(key);
        assert!(keys.is_sorted());
    }

    #[test]
    fn kinds_of_later_versions_are_told_apart_from_damage() {
        assert_eq!(Entry::of_key(&[0]), Ok(Entry::Progress));
        assert_eq!(Entry::of_key(&[5, 1, b'a', 1, b'b']), Ok(Entry::Unknown));
        assert!(Entry::of_key(&[]).is_err());
        assert!(Entry::of_key(&key(0)[..5]).is_err());
        let mut bytes = value(START_MS, &aggregate(false));
        bytes[0] = 9;
        assert_eq!(
            decode_window(&[1], &bytes, START_MS, &HOURS, false),
            Err(ChangelogError::Newer { kind: 1, version: 9 })
        );
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_are_read_in_one_way_or_refused(
            mut any_bytes in prop::collection::vec(any::<u8>(), 0..80), at in any::<prop::sample::Index>(), byte in any::<u8>()
        ) {
            let _ = Entry::of_key(&any_bytes);
            let _ = decode_window(&[1], &any_bytes, START_MS, &HOURS, false);
            any_bytes.splice(0..0, [1, 0]);
            if let Ok(Entry::Window(window)) = Entry::of_key(&any_bytes) {
                let mut again = Vec::new();
                write_window_key(&mut again, &window);
                prop_assert_eq!(again, any_bytes);
            }
            for has_squares in [false, true] {
                let mut bytes = value(START_MS, &aggregate(has_squares));
                let at = at.index(bytes.len());
                bytes[at] = byte;
                if let Ok(aggregate) = decode_window(&[1], &bytes, START_MS, &HOURS, has_squares) {
                    prop_assert_eq!(value(START_MS, &aggregate), bytes);
                }
            }
        }
    }
}
