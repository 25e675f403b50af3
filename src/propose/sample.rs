//! A file of samples to records: lines as `hotspare try` reads them, payloads one a line, or one JSON document.

use crate::reading::InputRecord;
use crate::record_file::{Line, OwnRecord};
use hotspare_cluster::Offset;

/// A file that is one JSON array with more elements than this holds records, not one record.
const ARRAY_OF_ONE_RECORD_MAX: usize = 100;

/// The records of a file.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) records: Vec<SampleRecord>,
    /// How the file was read, for people.
    pub(super) how: &'static str,
    /// Whether the file has timestamps, keys and headers, not payloads only.
    pub(super) is_whole: bool,
}

/// A record with bytes of its own.
#[derive(Debug)]
pub(super) struct SampleRecord {
    pub(super) timestamp_ms: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<String>)>,
    pub(super) value: Option<Vec<u8>>,
}

impl SampleRecord {
    fn payload(value: Vec<u8>) -> Self {
        Self { timestamp_ms: -1, key: None, headers: Vec::new(), value: Some(value) }
    }

    fn of(record: OwnRecord<'_>) -> Self {
        let OwnRecord { timestamp_ms, key, value, headers, .. } = record;
        Self { timestamp_ms, key: key.map(Into::into), headers, value: value.map(Into::into) }
    }

    pub(super) fn at(&self, offset: i64) -> InputRecord<'_> {
        let headers = self.headers.iter();
        InputRecord {
            offset: Offset(offset),
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: headers.map(|(name, text)| (name.into(), text.as_deref().map(str::as_bytes))).collect(),
        }
    }
}

impl Sample {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let lines = || bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        let parsed: Result<Vec<_>, _> = lines().map(Line::parse).collect();
        if let Ok(parsed) = parsed {
            let record = |line| if let Line::Record(_, record) = line { Some(SampleRecord::of(*record)) } else { None };
            let records = parsed.into_iter().filter_map(record).collect();
            return Self { records, how: "records, as hotspare try reads them", is_whole: true };
        }
        let payloads = |records, how| Self { records, how, is_whole: false };
        if let Ok(document) = serde_json::from_slice::<serde_json::Value>(bytes) {
            return match document {
                serde_json::Value::Array(elements) if elements.len() > ARRAY_OF_ONE_RECORD_MAX => {
                    let of = |element: &serde_json::Value| SampleRecord::payload(element.to_string().into_bytes());
                    payloads(elements.iter().map(of).collect(), "the elements of one JSON array")
                }
                _ => payloads(vec![SampleRecord::payload(bytes.to_vec())], "one payload"),
            };
        }
        let records = lines().map(|line| SampleRecord::payload(line.trim_ascii_end().to_vec())).collect();
        payloads(records, "payloads, one a line")
    }
}
