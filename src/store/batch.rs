//! What one transaction writes, and the encoding of entries.

use std::sync::Arc;

use bytes::Bytes;
use hotspare_cluster::Offset;
use xxhash_rust::xxh3::xxh3_128;

use super::DeadLetter;
use super::series::{Series, Window};
use crate::changelog::{
    Life, Progress, SeriesKey, WindowKey, write_fact_key, write_identity_key, write_log_time_value, write_series_key,
    write_series_value, write_window_key, write_window_value,
};
use crate::reading::Identity;
use crate::window::Aggregate;

/// The size of the open batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Changed entries.
    pub entries: usize,
    /// About how many bytes the transaction will have.
    pub bytes: usize,
    /// Records applied.
    pub records: u64,
}

impl Pending {
    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries == 0 && self.records == 0
    }
}

/// What one transaction writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changed entries in full, and tombstones.
    pub entries: Vec<ChangelogRecord>,
    /// Final outputs in their order, then changes.
    pub outputs: Vec<Output>,
    /// Dead letters by offset.
    pub dead_letters: Vec<Arc<DeadLetter>>,
    /// The progress record, to be written to the changelog with the entries, after them.
    pub progress: Progress,
}

/// A record of the changelog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangelogRecord {
    /// The key.
    pub key: Bytes,
    /// The value; None for a tombstone.
    pub value: Option<Bytes>,
}

/// A record of the output topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The device.
    pub key: Bytes,
    /// The object of SEMANTICS 8.
    pub value: Bytes,
}

/// Encodes and hashes entries in room that is used again.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// The hash of an entry: XXH3-128 of its key and value.
    pub(super) fn hash(&mut self, key: &[u8], value: &[u8]) -> u128 {
        self.bytes.clear();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        xxh3_128(&self.bytes)
    }

    /// Key and value of an entry.
    pub(super) fn encode(&mut self, entry: &Entry<'_>) -> (&[u8], &[u8]) {
        self.bytes.clear();
        entry.write_key(&mut self.bytes);
        let key_bytes = self.bytes.len();
        entry.write_value(&mut self.bytes);
        self.bytes.split_at(key_bytes)
    }
}

/// The hash of an entry: XXH3-128 of its key and value.
pub(super) fn hash_of(entry: &Entry<'_>) -> u128 {
    let mut bytes = Vec::with_capacity(64);
    entry.write_key(&mut bytes);
    entry.write_value(&mut bytes);
    xxh3_128(&bytes)
}

/// An entry of the state.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry<'a> {
    Window(&'a Series, &'a Window, &'a Aggregate),
    /// A window that is closed: it has a key only.
    WindowKey(&'a Series, &'a Window),
    Series(SeriesKey<'a>, Life),
    Identity(SeriesKey<'a>, Identity, i64),
    LogTime(Offset, i64),
}

impl Entry<'_> {
    fn write_key(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Window(series, window, _) | Entry::WindowKey(series, window) => {
                let SeriesKey { device, metric } = series.key();
                let (definition, start_ms) = window.place();
                write_window_key(out, &WindowKey { definition, device, metric, start_ms });
            }
            Entry::Series(series, _) => write_series_key(out, *series),
            Entry::Identity(series, identity, _) => write_identity_key(out, *series, identity),
            Entry::LogTime(before, _) => write_fact_key(out, *before),
        }
    }

    fn write_value(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Window(_, window, aggregate) => write_window_value(out, window.start_ms, aggregate),
            Entry::WindowKey(..) => {}
            Entry::Series(_, life) => write_series_value(out, life),
            Entry::Identity(_, _, log_time_ms) | Entry::LogTime(_, log_time_ms) => {
                write_log_time_value(out, *log_time_ms);
            }
        }
    }
}

/// Changelog records one after the other in one piece of memory.
#[derive(Debug, Default)]
pub(super) struct Records {
    bytes: Vec<u8>,
    /// Where each record's key begins, its value begins and it ends; equal ends for a tombstone.
    ends: Vec<(usize, usize, usize)>,
}

impl Records {
    pub(super) fn with_capacity(records: usize) -> Self {
        Self { bytes: Vec::with_capacity(records * 112), ends: Vec::with_capacity(records) }
    }

    /// Adds an entry and gives its hash.
    pub(super) fn put(&mut self, entry: &Entry<'_>) -> u128 {
        let start = self.bytes.len();
        entry.write_key(&mut self.bytes);
        let middle = self.bytes.len();
        entry.write_value(&mut self.bytes);
        self.ends.push((start, middle, self.bytes.len()));
        xxh3_128(self.bytes.get(start..).unwrap_or(&[]))
    }

    /// Adds a tombstone.
    pub(super) fn tombstone(&mut self, entry: &Entry<'_>) {
        let start = self.bytes.len();
        entry.write_key(&mut self.bytes);
        self.ends.push((start, self.bytes.len(), self.bytes.len()));
    }

    pub(super) fn finish(self) -> Vec<ChangelogRecord> {
        let bytes = Bytes::from(self.bytes);
        let record = |(start, middle, end): (usize, usize, usize)| ChangelogRecord {
            key: bytes.slice(start..middle),
            value: if middle == end { None } else { Some(bytes.slice(middle..end)) },
        };
        self.ends.into_iter().map(record).collect()
    }
}
