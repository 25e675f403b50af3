//! The records of what is not a window: series, log-time facts and identities.

use hotspare_cluster::Offset;

use super::bytes::{Reader, write_bytes};
use super::{ChangelogError, VERSION, kind, versioned};
use crate::reading::Identity;

/// Which series an entry is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeriesKey<'a> {
    pub(crate) device: &'a str,
    pub(crate) metric: &'a str,
}

/// What a series knows beyond its windows. Times are milliseconds since 1970, or the smallest i64 for never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// Largest time among its counted readings.
    pub(crate) watermark_ms: i64,
    /// Largest end of the windows that it gave final outputs for.
    pub(crate) closed_end_ms: i64,
    /// Log time at which its newest reading was counted.
    pub(crate) active_ms: i64,
}

impl Life {
    /// Before the first reading.
    pub(crate) const NEVER: Life = Life { watermark_ms: i64::MIN, closed_end_ms: i64::MIN, active_ms: i64::MIN };
}

pub(crate) fn write_series_key(out: &mut Vec<u8>, key: SeriesKey<'_>) {
    out.push(kind::SERIES);
    write_names(out, key);
}

/// Writes the value: version, watermark, closed end, active time.
pub(crate) fn write_series_value(out: &mut Vec<u8>, life: &Life) {
    out.push(VERSION);
    for time_ms in [life.watermark_ms, life.closed_end_ms, life.active_ms] {
        out.extend_from_slice(&time_ms.to_be_bytes());
    }
}

/// Writes the key of a log-time fact: it stands before the input record of this offset.
pub(crate) fn write_fact_key(out: &mut Vec<u8>, before: Offset) {
    out.push(kind::LOG_TIME);
    out.extend_from_slice(&before.0.to_be_bytes());
}

/// Writes the value of a fact or an identity: version and a log time in milliseconds since 1970.
pub(crate) fn write_log_time_value(out: &mut Vec<u8>, log_time_ms: i64) {
    out.push(VERSION);
    out.extend_from_slice(&log_time_ms.to_be_bytes());
}

pub(crate) fn write_identity_key(out: &mut Vec<u8>, key: SeriesKey<'_>, identity: &Identity) {
    out.push(kind::IDENTITY);
    write_names(out, key);
    out.extend_from_slice(&identity.0);
}

fn write_names(out: &mut Vec<u8>, key: SeriesKey<'_>) {
    write_bytes(out, key.device.as_bytes());
    write_bytes(out, key.metric.as_bytes());
}

fn read_names<'a>(reader: &mut Reader<'a>) -> Option<SeriesKey<'a>> {
    let device = std::str::from_utf8(reader.bytes()?).ok()?;
    let metric = std::str::from_utf8(reader.bytes()?).ok()?;
    Some(SeriesKey { device, metric })
}

/// Reads what follows the kind in the key of a series.
pub(super) fn read_series_key(rest: &[u8]) -> Option<SeriesKey<'_>> {
    let mut reader = Reader::new(rest);
    let key = read_names(&mut reader)?;
    if reader.is_at_end() { Some(key) } else { None }
}

/// Reads what follows the kind in the key of an identity.
pub(super) fn read_identity_key(rest: &[u8]) -> Option<(SeriesKey<'_>, Identity)> {
    let mut reader = Reader::new(rest);
    let key = read_names(&mut reader)?;
    let identity = Identity(reader.array()?);
    if reader.is_at_end() { Some((key, identity)) } else { None }
}

/// Reads what follows the kind in the key of a fact.
pub(super) fn read_fact_key(rest: &[u8]) -> Option<Offset> {
    let offset = i64::from_be_bytes(rest.try_into().ok()?);
    if offset >= 0 { Some(Offset(offset)) } else { None }
}

/// Reads the value of a series' record.
pub(crate) fn decode_series(key: &[u8], value: &[u8]) -> Result<Life, ChangelogError> {
    let mut reader = Reader::new(versioned(key, value)?);
    let mut read =
        || Some(Life { watermark_ms: reader.i64()?, closed_end_ms: reader.i64()?, active_ms: reader.i64()? });
    let life = read();
    life.filter(|_| reader.is_at_end())
        .ok_or_else(|| ChangelogError::corrupt(key, Some(value), "it is no record of a series"))
}

/// Reads the value of a fact or an identity.
pub(crate) fn decode_log_time(key: &[u8], value: &[u8]) -> Result<i64, ChangelogError> {
    let mut reader = Reader::new(versioned(key, value)?);
    let time_ms = reader.i64();
    time_ms.filter(|_| reader.is_at_end()).ok_or_else(|| ChangelogError::corrupt(key, Some(value), "it is no log time"))
}

#[cfg(test)]
mod tests {
    use super::{
        Life, SeriesKey, decode_log_time, decode_series, write_fact_key, write_identity_key, write_log_time_value,
        write_series_key, write_series_value,
    };
    use crate::changelog::Entry;
    use crate::reading::Identity;
    use hotspare_cluster::Offset;
    use proptest::prelude::*;

    const KEY: SeriesKey<'static> = SeriesKey { device: "é1", metric: "temp" };
    const LIFE: Life = Life { watermark_ms: 1_704_067_200_000, closed_end_ms: i64::MIN, active_ms: -1 };
    const IDENTITY: Identity = Identity([7; 16]);

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        assert_eq!(hex(&written(|out| write_series_key(out, KEY))), "0203c3a9310474656d70");
        let value = ["01", "0000018cc251f400", "8000000000000000", "ffffffffffffffff"].concat();
        assert_eq!(hex(&written(|out| write_series_value(out, &LIFE))), value);
        assert_eq!(hex(&written(|out| write_fact_key(out, Offset(258)))), "030000000000000102");
        assert_eq!(hex(&written(|out| write_log_time_value(out, 258))), "010000000000000102");
        let identity = ["04", "03c3a931", "0474656d70", &"07".repeat(16)].concat();
        assert_eq!(hex(&written(|out| write_identity_key(out, KEY, &IDENTITY))), identity);
    }

    #[test]
    fn records_come_back_as_they_were() {
        let key = written(|out| write_series_key(out, KEY));
        assert_eq!(Entry::of_key(&key), Ok(Entry::Series(KEY)));
        assert_eq!(decode_series(&key, &written(|out| write_series_value(out, &LIFE))), Ok(LIFE));
        let key = written(|out| write_identity_key(out, KEY, &IDENTITY));
        assert_eq!(Entry::of_key(&key), Ok(Entry::Identity(KEY, IDENTITY)));
        assert!(Entry::of_key(&key[..key.len() - 1]).is_err());
        let key = written(|out| write_fact_key(out, Offset(9)));
        assert_eq!(Entry::of_key(&key), Ok(Entry::LogTime(Offset(9))));
        assert!(Entry::of_key(&written(|out| write_fact_key(out, Offset(-1)))).is_err());
        assert_eq!(decode_log_time(&key, &written(|out| write_log_time_value(out, -5))), Ok(-5));
        assert!(decode_log_time(&key, &[1, 0]).is_err());
        assert!(decode_series(&key, &[1; 26]).is_err());
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..60), kind in 2..5u8) {
            let _ = decode_series(&[2], &bytes);
            let _ = decode_log_time(&[3], &bytes);
            bytes.insert(0, kind);
            let _ = Entry::of_key(&bytes);
        }
    }
}
