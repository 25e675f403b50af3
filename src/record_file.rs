//! Records in a file, one JSON object a line: what `hotspare try` reads and `tests/cases` hold.

use std::borrow::Cow;

use base64::Engine;
use hotspare_cluster::{Offset, PartitionId};
use serde::Deserialize;

use crate::reading::InputRecord;

/// A line of the file as it is written.
#[derive(Debug, Deserialize)]
struct Written<'a> {
    partition: u32,
    log_time: Option<i64>,
    offset: Option<i64>,
    timestamp: Option<i64>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    key_base64: Option<Cow<'a, str>>,
    value: Option<Cow<'a, str>>,
    value_base64: Option<Cow<'a, str>>,
    #[serde(default)]
    headers: Vec<(String, Option<String>)>,
}

/// What a line says.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    /// The line is blank.
    Blank,
    /// Log time of a partition is this, in milliseconds.
    LogTime(PartitionId, i64),
    /// A record of a partition.
    Record(PartitionId, Box<OwnRecord<'a>>),
}

/// A record whose bytes are those of the line, or were decoded from it.
#[derive(Debug)]
pub(crate) struct OwnRecord<'a> {
    pub(crate) offset: Offset,
    pub(crate) timestamp_ms: i64,
    pub(crate) key: Option<Cow<'a, [u8]>>,
    pub(crate) value: Option<Cow<'a, [u8]>>,
    pub(crate) headers: Vec<(String, Option<String>)>,
}

impl<'a> Line<'a> {
    /// Reads a line; an error says what is wrong with it.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, String> {
        if line.trim_ascii().is_empty() {
            return Ok(Self::Blank);
        }
        let line: Written<'_> = serde_json::from_slice(line).map_err(|error| format!("no record: {error}"))?;
        let partition = PartitionId(line.partition);
        if let Some(log_time_ms) = line.log_time {
            return Ok(Self::LogTime(partition, log_time_ms));
        }
        let missing = |name: &str| format!("no record: missing field `{name}`");
        let record = OwnRecord {
            offset: Offset(line.offset.ok_or_else(|| missing("offset"))?),
            timestamp_ms: line.timestamp.ok_or_else(|| missing("timestamp"))?,
            key: bytes_of("key_base64", line.key, line.key_base64.as_deref())?,
            value: bytes_of("value_base64", line.value, line.value_base64.as_deref())?,
            headers: line.headers,
        };
        Ok(Self::Record(partition, Box::new(record)))
    }
}

impl OwnRecord<'_> {
    pub(crate) fn borrowed(&self) -> InputRecord<'_> {
        let headers = self.headers.iter();
        InputRecord {
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers: headers
                .map(|(name, text)| (Cow::Borrowed(name.as_str()), text.as_deref().map(str::as_bytes)))
                .collect(),
        }
    }
}

fn bytes_of<'a>(name: &str, text: Option<Cow<'a, str>>, base64: Option<&str>) -> Result<Option<Cow<'a, [u8]>>, String> {
    match base64 {
        None => Ok(text.map(|text| match text {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        })),
        Some(base64) => base64::engine::general_purpose::STANDARD
            .decode(base64)
            .map(|bytes| Some(Cow::Owned(bytes)))
            .map_err(|error| format!("{name} is not base64: {error}")),
    }
}
