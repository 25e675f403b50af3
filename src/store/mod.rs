//! One partition's whole state in memory, with undo of what was not committed.
//!
//! The active applies records, takes the batch that one transaction writes, and then says that it was committed or
//! undoes it. A standby applies changelog records. Both end in the same state, which the digest shows.

mod active;
mod batch;
mod changes;
mod dead_letter;
mod explain;
mod series;
mod silence;
mod standby;

use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};
use xxhash_rust::xxh3::xxh3_64;

pub use batch::{Batch, ChangelogRecord, Output, Pending};
pub use dead_letter::DeadLetter;
pub use series::{DeviceMove, SeriesId};

use crate::changelog::{
    ChangelogError, Counters, Entry, Progress, WindowKey, decode_log_time, decode_series, decode_window,
};
use crate::reading::{Candidate, Fault, InputRecord, Outcome, Reader};
use crate::semantics::{Semantics, Variance};
use active::Active;
use batch::{Encoder, Entry as EntryRef};
use dead_letter::Lost;
use explain::Judged;
use series::Window;

/// What a changelog record was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// An entry was put in place.
    Entry,
    /// An entry was taken away, or was not there.
    Tombstone,
    /// How far the input was consumed. Its digest and entries are to be compared with those of the store.
    Progress(Box<Progress>),
    /// A kind of record that this version does not know. It was left out.
    Unknown,
}

/// One partition's whole state in memory.
#[derive(Debug)]
pub struct Store {
    semantics: Arc<Semantics>,
    reader: Reader,
    active: Active,
    encoder: Encoder,
    progress: Option<Progress>,
}

impl Store {
    /// An empty state.
    #[must_use]
    pub fn new(semantics: Arc<Semantics>, partition: PartitionId) -> Self {
        Self {
            active: Active::new(&semantics, partition),
            semantics,
            reader: Reader::default(),
            encoder: Encoder::default(),
            progress: None,
        }
    }

    /// Reads a record into the state: active only. Records must come in the order of their offsets.
    pub fn apply(&mut self, record: &InputRecord<'_>) {
        self.apply_watched(record, |_| {});
    }

    /// As [`Store::apply`]; gives for each candidate the position of its body in the record (None for the record as a
    /// whole) and, in words, what was read, its outcome and why.
    pub fn apply_explained(&mut self, record: &InputRecord<'_>, mut each: impl FnMut(Option<u32>, String)) {
        self.apply_watched(record, |judged| each(judged.candidate.body, judged.in_words()));
    }

    fn apply_watched(&mut self, record: &InputRecord<'_>, mut watch: impl FnMut(Judged<'_>)) {
        let Self { semantics, reader, active, .. } = self;
        active.begin(semantics, record);
        let mut lost = None;
        reader.read(semantics.input(), record, |candidate| {
            let outcome = take(semantics, active, &mut lost, &candidate);
            watch(Judged { semantics, active, candidate: &candidate, outcome });
        });
        active.end(semantics, record, lost);
    }

    /// Counts a record on which this code panicked as one rejection, `internal_error`, and makes its dead letter: active
    /// only, after [`Store::undo`] and with the other records of the batch applied again in their order.
    pub fn reject_internal(&mut self, record: &InputRecord<'_>) {
        let Self { semantics, active, .. } = self;
        active.begin(semantics, record);
        let mut lost = None;
        take(semantics, active, &mut lost, &Candidate::whole_record(Fault::Internal));
        active.end(semantics, record, lost);
    }

    /// Raises log time to a record's timestamp before that record is applied: active only. [`Store::apply`] does so too,
    /// but without a bound: here at most about `acts_max` windows are closed and series and identities forgotten. False
    /// if there is more to do: commit with this record's offset as the next one, and call it again.
    pub fn raise_log_time(&mut self, log_time_ms: i64, acts_max: usize) -> bool {
        self.active.raise_log_time(&self.semantics, log_time_ms, acts_max)
    }

    /// Raises log time as a record's timestamp does: a log-time fact (SEMANTICS 7) that stands before the input record
    /// of this offset: active only. Lower times change nothing. False as in [`Store::raise_log_time`].
    pub fn log_time_fact(&mut self, before: Offset, log_time_ms: i64, acts_max: usize) -> bool {
        self.active.log_time_fact(&self.semantics, before, log_time_ms, acts_max)
    }

    /// The log-time facts of the last days of log time, by the input offset before which they stand, in milliseconds.
    pub fn facts(&self) -> impl Iterator<Item = (Offset, i64)> {
        self.active.facts.iter().map(|(before, log_time_ms)| (*before, *log_time_ms))
    }

    /// Whether silence closes or forgets anything when log time rises to this time in milliseconds: active only.
    pub fn is_silence_due(&mut self, log_time_ms: i64) -> bool {
        self.active.is_silence_due(&self.semantics, log_time_ms)
    }

    /// The size of the open batch.
    #[must_use]
    pub fn pending(&self) -> Pending {
        self.active.pending()
    }

    /// Whether anything was applied since the last commit.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.active.has_changes()
    }

    /// What one transaction writes: everything since the last commit. The batch stays open until [`Store::committed`]
    /// or [`Store::undo`]; until then this gives the same again.
    pub fn batch(&mut self, epoch: Epoch, next_input_offset: Offset) -> Batch {
        let commit = self.progress.as_ref().map_or(0, |progress| progress.commit).saturating_add(1);
        self.active.batch(&self.semantics, epoch, commit, next_input_offset)
    }

    /// The batch that [`Store::batch`] gave last is committed. Nothing may have been applied since; if something was,
    /// or there was no batch, nothing is committed here.
    pub fn committed(&mut self) {
        let progress = self.active.committed();
        debug_assert!(progress.is_some(), "committed without a batch");
        if progress.is_some() {
            self.progress = progress;
        }
    }

    /// Back to the last commit, bit for bit. Also sound after a panic in [`Store::apply`].
    pub fn undo(&mut self) {
        self.active.undo(&self.semantics);
    }

    /// Applies a changelog record: standby only, with no batch open.
    ///
    /// # Errors
    /// [`ChangelogError`] when a later version wrote it or it is damaged; the state is as before.
    pub fn apply_changelog(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<Applied, ChangelogError> {
        debug_assert!(!self.has_changes(), "a changelog record in an open batch");
        match Entry::of_key(key)? {
            Entry::Progress => {
                let value = value.ok_or_else(|| ChangelogError::corrupt(key, None, "progress without a value"))?;
                let progress = Progress::decode(value)?;
                self.active.adopt(&self.semantics, &progress);
                self.progress = Some(progress.clone());
                Ok(Applied::Progress(Box::new(progress)))
            }
            Entry::Window(window) => self.apply_window(&window, key, value),
            // Of other rules: the progress record will say so.
            _ if !self.semantics.keeps_series() => Ok(Applied::Unknown),
            Entry::Series(series) => {
                let life = value.map(|value| decode_series(key, value)).transpose()?;
                let hash = value.map(|value| self.encoder.hash(key, value));
                self.active.put_series(&self.semantics, series, life, hash.unwrap_or(0));
                Ok(applied(value))
            }
            Entry::Identity(series, identity) => {
                let since_ms = value.map(|value| decode_log_time(key, value)).transpose()?;
                let hash = value.map(|value| self.encoder.hash(key, value));
                self.active.put_identity(series, identity, since_ms, hash);
                Ok(applied(value))
            }
            Entry::LogTime(before) => {
                let log_time_ms = value.map(|value| decode_log_time(key, value)).transpose()?;
                let hash = value.map(|value| self.encoder.hash(key, value));
                self.active.put_fact(before, log_time_ms, hash);
                Ok(applied(value))
            }
            Entry::Unknown => Ok(Applied::Unknown),
        }
    }

    fn apply_window(
        &mut self,
        window: &WindowKey<'_>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Applied, ChangelogError> {
        let semantics = &self.semantics;
        let rules = semantics
            .windows()
            .get(usize::from(window.definition))
            .filter(|rules| rules.shape.is_start(window.start_ms))
            .ok_or_else(|| ChangelogError::corrupt(key, value, "the configuration has no such window"))?;
        match value {
            Some(value) => {
                let has_squares = semantics.variance() != Variance::None;
                let aggregate = decode_window(key, value, window.start_ms, &rules.shape, has_squares)?;
                let end_ms = rules.shape.end_of(window.start_ms, aggregate.last_ms);
                let hash = self.encoder.hash(key, value);
                self.active.put_window(semantics, window, end_ms, aggregate, hash);
            }
            None => self.active.remove_window(semantics, window),
        }
        Ok(applied(value))
    }

    /// The last committed progress record; None before the first.
    #[must_use]
    pub fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.active.partition()
    }

    /// The counters, with what the open batch added.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        self.active.counters()
    }

    /// Candidates and null records as they came in, with the open batch: the left side of the law of conservation,
    /// counted apart from [`Counters::consumed`] since the state was last restored.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.active.consumed()
    }

    /// Log time in milliseconds, with the open batch.
    #[must_use]
    pub fn log_time_ms(&self) -> i64 {
        self.active.log_time_ms()
    }

    /// The sum of the hashes of all entries as of the last commit: 128 bits, wrapping, of XXH3-128 of key and value.
    /// Maintained as entries change; a progress record is no entry.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.active.digest()
    }

    /// The same sum computed from all entries, with what the open batch changed.
    #[must_use]
    pub fn recompute_digest(&self) -> u128 {
        let (mut digest, mut encoder) = (0u128, Encoder::default());
        self.for_each_entry(|key, value| digest = digest.wrapping_add(encoder.hash(key, value)));
        digest
    }

    /// The number of entries as of the last commit.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.active.entries()
    }

    /// The number of open windows.
    #[must_use]
    pub fn windows_open(&self) -> u64 {
        self.active.state().open().map(|_| 1).sum()
    }

    /// From now on keeps, for [`Store::take_device_moves`], which series come and go, beginning with those that are there.
    pub fn watch_devices(&mut self) {
        self.active.state.watch_moves();
    }

    /// Which series came and went since this was asked last.
    pub fn take_device_moves(&mut self) -> Vec<DeviceMove> {
        self.active.state.take_moves()
    }

    /// The device of a series, if it is still the one of this hash.
    #[must_use]
    pub fn device_of(&self, series: SeriesId, device_hash: u64) -> Option<&str> {
        let device = self.active.state.get(series)?.device();
        if xxh3_64(device.as_bytes()) == device_hash { Some(device) } else { None }
    }

    /// The number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.active.state().len()
    }

    /// Calls the function with key and value of each entry, the same bytes as in the changelog, in no certain order;
    /// with what the open batch changed.
    pub fn for_each_entry(&self, mut each: impl FnMut(&[u8], &[u8])) {
        let mut encoder = Encoder::default();
        self.for_each(|entry| {
            let (key, value) = encoder.encode(&entry);
            each(key, value);
        });
    }

    fn for_each(&self, mut each: impl FnMut(EntryRef<'_>)) {
        for series in self.active.state().all() {
            for (window, aggregate) in series.windows().iter().filter_map(Window::open) {
                each(EntryRef::Window(series, window, aggregate));
            }
            if let Some(life) = series.life() {
                each(EntryRef::Series(series.key(), life));
            }
            let identities = series.kept.iter().flat_map(|kept| &kept.identities);
            for (identity, since_ms) in identities.filter_map(|(identity, it)| Some((identity, it.since_ms?))) {
                each(EntryRef::Identity(series.key(), *identity, since_ms));
            }
        }
        for (before, log_time_ms) in self.facts() {
            each(EntryRef::LogTime(before, log_time_ms));
        }
    }

    /// The open windows as objects of SEMANTICS 8 with `"final":false`, by device, metric and start; with what the open
    /// batch changed.
    #[must_use]
    pub fn open_windows(&self) -> Vec<String> {
        let mut open: Vec<_> = self.active.state().open().collect();
        open.sort_unstable_by_key(|(series, window, _)| (series.device(), series.metric(), window.place()));
        let partition = self.active.partition();
        let variance = self.semantics.variance();
        open.into_iter()
            .map(|(series, window, aggregate)| series.show(partition, variance, window, aggregate, false))
            .collect()
    }
}

fn applied(value: Option<&[u8]>) -> Applied {
    if value.is_some() { Applied::Entry } else { Applied::Tombstone }
}

/// Gives a candidate its outcome.
fn take(semantics: &Semantics, active: &mut Active, lost: &mut Option<Lost>, candidate: &Candidate<'_>) -> Outcome {
    let outcome = match &candidate.reading {
        Ok(reading) => active.read(semantics, reading),
        Err(outcome) => *outcome,
    };
    active.count(outcome);
    if semantics.keeps(outcome) {
        lost.get_or_insert_with(Lost::default).add(candidate.body, candidate.metric, outcome);
    }
    outcome
}

#[cfg(test)]
mod tests;
