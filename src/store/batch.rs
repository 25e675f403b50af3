//! What one transaction writes, and the encoding of entries.

use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::DeadLetter;
use super::series::{Series, Window};
use crate::changelog::{Progress, WindowKey, write_window_key, write_window_value};
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

    /// Key and value of a window's entry.
    pub(super) fn entry(&mut self, series: &Series, window: &Window, aggregate: &Aggregate) -> (&[u8], &[u8]) {
        self.bytes.clear();
        write_window_key(&mut self.bytes, &key_of(series, window));
        let key_bytes = self.bytes.len();
        write_window_value(&mut self.bytes, window.start_ms, aggregate);
        self.bytes.split_at(key_bytes)
    }
}

fn key_of<'a>(series: &'a Series, window: &Window) -> WindowKey<'a> {
    WindowKey {
        definition: window.definition,
        device: series.device(),
        metric: series.metric(),
        start_ms: window.start_ms,
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
    pub(super) fn put(&mut self, series: &Series, window: &Window, aggregate: &Aggregate) -> u128 {
        let start = self.bytes.len();
        write_window_key(&mut self.bytes, &key_of(series, window));
        let middle = self.bytes.len();
        write_window_value(&mut self.bytes, window.start_ms, aggregate);
        self.ends.push((start, middle, self.bytes.len()));
        xxh3_128(self.bytes.get(start..).unwrap_or(&[]))
    }

    /// Adds a tombstone.
    pub(super) fn tombstone(&mut self, series: &Series, window: &Window) {
        let start = self.bytes.len();
        write_window_key(&mut self.bytes, &key_of(series, window));
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
