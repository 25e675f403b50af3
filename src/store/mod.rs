//! One partition's whole state in memory, with undo of what was not committed.
//!
//! The active applies records, takes the batch that one transaction writes, and then says that it was committed or
//! undoes it. A standby applies changelog records. Both end in the same state, which the digest shows.

mod active;
mod batch;
mod dead_letter;
mod series;
mod standby;

use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};

pub use batch::{Batch, ChangelogRecord, Output, Pending};
pub use dead_letter::DeadLetter;

use crate::changelog::{ChangelogError, Counters, Entry, Progress, WindowKey, decode_window};
use crate::reading::{Candidate, InputRecord, Outcome, Reader, Reason};
use crate::semantics::Semantics;
use active::Active;
use batch::Encoder;
use dead_letter::Lost;

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
            semantics,
            reader: Reader::default(),
            active: Active::new(partition),
            encoder: Encoder::default(),
            progress: None,
        }
    }

    /// Reads a record into the state: active only. Records must come in the order of their offsets.
    pub fn apply(&mut self, record: &InputRecord<'_>) {
        let Self { semantics, reader, active, .. } = self;
        active.begin(record);
        let mut lost = None;
        reader.read(semantics.input(), record, |candidate| take(semantics, active, &mut lost, &candidate));
        active.end(semantics, record, lost);
    }

    /// Counts a record on which this code panicked as one rejection, `internal_error`, and makes its dead letter: active
    /// only, after [`Store::undo`] and with the other records of the batch applied again in their order.
    pub fn reject_internal(&mut self, record: &InputRecord<'_>) {
        let Self { semantics, active, .. } = self;
        active.begin(record);
        let mut lost = None;
        let outcome = Outcome::Rejected(Reason::InternalError);
        take(semantics, active, &mut lost, &Candidate { body: None, metric: None, reading: Err(outcome) });
        active.end(semantics, record, lost);
    }

    /// Raises log time as a record's timestamp does: a log-time fact (SEMANTICS 7). Lower times change nothing.
    pub fn raise_log_time(&mut self, log_time_ms: i64) {
        self.active.raise_log_time(log_time_ms);
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
        self.active.undo(self.semantics.windows());
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
                self.active.adopt(&progress);
                self.progress = Some(progress.clone());
                Ok(Applied::Progress(Box::new(progress)))
            }
            Entry::Window(window) => self.apply_window(&window, key, value),
            Entry::Unknown => Ok(Applied::Unknown),
        }
    }

    fn apply_window(
        &mut self,
        window: &WindowKey<'_>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Applied, ChangelogError> {
        let rules = self
            .semantics
            .windows()
            .get(usize::from(window.definition))
            .filter(|rules| rules.shape.start_of(window.start_ms) == window.start_ms)
            .ok_or_else(|| ChangelogError::corrupt(key, value, "the configuration has no such window"))?;
        match value {
            Some(value) => {
                let end_ms = rules.shape.end_of(window.start_ms);
                let aggregate = decode_window(key, value, window.start_ms, end_ms)?;
                let hash = self.encoder.hash(key, value);
                self.active.put(window, aggregate, hash, self.semantics.windows());
                Ok(Applied::Entry)
            }
            None => {
                self.active.remove(window, self.semantics.windows());
                Ok(Applied::Tombstone)
            }
        }
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

    /// The number of series.
    #[must_use]
    pub fn series(&self) -> usize {
        self.active.state().len()
    }

    /// Calls the function with key and value of each entry, the same bytes as in the changelog, in no certain order;
    /// with what the open batch changed.
    pub fn for_each_entry(&self, mut each: impl FnMut(&[u8], &[u8])) {
        let mut encoder = Encoder::default();
        for (series, window, aggregate) in self.active.state().open() {
            let (key, value) = encoder.entry(series, window, aggregate);
            each(key, value);
        }
    }

    /// The open windows as objects of SEMANTICS 8 with `"final":false`, by device, metric and start; with what the open
    /// batch changed.
    #[must_use]
    pub fn open_windows(&self) -> Vec<String> {
        let mut open: Vec<_> = self.active.state().open().collect();
        open.sort_unstable_by_key(|(series, window, _)| (series.device(), series.metric(), window.place()));
        let partition = self.active.partition();
        let rules = self.semantics.windows();
        open.into_iter()
            .map(|(series, window, aggregate)| series.show(partition, rules, window, aggregate, false))
            .collect()
    }
}

/// Gives a candidate its outcome.
fn take(semantics: &Semantics, active: &mut Active, lost: &mut Option<Lost>, candidate: &Candidate<'_>) {
    let outcome = match &candidate.reading {
        Ok(reading) => active.read(semantics.windows(), reading),
        Err(outcome) => *outcome,
    };
    active.count(outcome);
    if semantics.keeps(outcome) {
        lost.get_or_insert_with(Lost::default).add(candidate.body, candidate.metric, outcome);
    }
}

#[cfg(test)]
mod tests;
