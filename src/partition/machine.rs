//! The replica itself: what it may do next, as a function of what it was told. No clock, no Kafka, no threads.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bytes::Bytes;
use hotspare_cluster::{
    Epoch, Offset, PartitionId,
    invariants::{self, Between},
};

use super::devices::{Devices, Split};
use crate::{
    changelog::{Progress, Unreadable},
    log::{Committed, Message, Topic},
    reading::InputRecord,
    semantics::Semantics,
    store::{Applied, ChangelogRecord, DeadLetter, Store},
};

/// One node's copy of a partition's state, with its place in the changelog.
#[derive(Debug)]
pub struct Replica {
    store: Store,
    semantics_hash: u64,
    next: Offset,
    epoch_seen: Epoch,
    following: bool,
    doubt: Option<Doubt>,
    unreadable: Unreadable,
    checks: Checks,
    /// Where it tells of its devices.
    devices: Option<Devices>,
    /// Input records on which our own code panicked: they are rejected instead of applied.
    poisoned: BTreeSet<Offset>,
}

/// How often the digest was compared with the active's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checks {
    /// Commits at which it was equal.
    pub equal: u64,
    /// Commits at which it was proved to differ.
    pub different: u64,
}

impl Checks {
    /// Adds others.
    pub fn add(&mut self, others: Checks) {
        self.equal += others.equal;
        self.different += others.different;
    }
}

/// A commit at which the digests differ. Before the end of the log that proves nothing, for compaction may have removed
/// entries that a later one replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Doubt {
    commit: u64,
    active: u128,
}

/// A replica whose state differs from the active's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Divergence {
    /// The commit at which it shows.
    pub commit: u64,
    /// Digest that the active wrote.
    pub active: u128,
    /// Digest of this replica.
    pub here: u128,
    /// Whether this replica's digest is that of its own entries: if not, this replica is the wrong one.
    pub sound: bool,
}

/// The state was made under other rules, so the changelog cannot be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the changelog was written with other [input], [window] or [output] settings (semantics hash {found:016x}, here \
     {here:016x}): use those settings on this node, or a new cluster name for new ones"
)]
pub struct OtherSemantics {
    /// Hash in the changelog.
    pub found: u64,
    /// Hash of this node's settings.
    pub here: u64,
}

/// What a replica is worth where everything in the changelog is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Worth {
    /// It is the active's state.
    Level,
    /// Records that cannot be read stand in the changelog, and the state lacks what they say: it must not be promoted,
    /// but may go on, for the next records of their keys repair it. With the words for the operator.
    Lacking(String),
    /// So many records cannot be read that it is to be built again. With the words for the operator.
    Unreadable(String),
    /// It differs and nothing explains why: it is to be built again.
    Diverged(Divergence),
}

/// Whether a replica may begin a tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eligible {
    /// It may.
    Yes,
    /// A tenure at or above the one ordered stands in the changelog.
    Overtaken(Epoch),
}

/// Our own code panicked on an input record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked {
    /// The record.
    pub offset: Offset,
    /// From where the batch has to be read again.
    pub again_from: Offset,
}

impl Replica {
    /// An empty replica, to read the changelog from an offset.
    #[must_use]
    pub fn empty(semantics: &Arc<Semantics>, partition: PartitionId, next: Offset) -> Self {
        Self::from_store(Store::new(Arc::clone(semantics), partition), semantics, next)
    }

    /// A replica whose state was loaded; `next` is the first changelog offset that is not part of it.
    #[must_use]
    pub fn from_store(store: Store, semantics: &Arc<Semantics>, next: Offset) -> Self {
        Self {
            epoch_seen: store.progress().map_or(Epoch(0), |progress| progress.epoch),
            store,
            semantics_hash: semantics.hash(),
            next,
            following: false,
            doubt: None,
            unreadable: Unreadable::default(),
            checks: Checks::default(),
            devices: None,
            poisoned: BTreeSet::new(),
        }
    }

    /// From now on tells which devices it has, until it is dropped.
    pub fn tell_devices(&mut self, devices: Devices) {
        self.store.watch_devices();
        self.devices = Some(devices);
        self.note_devices();
    }

    fn note_devices(&mut self) {
        let Some(devices) = &self.devices else { return };
        let found = devices.note(&mut self.store);
        if found.is_empty() {
            return;
        }
        let named: Vec<_> =
            found.iter().map(|Split { device, partitions }| format!("{device:?} on {partitions:?}")).collect();
        tracing::warn!(
            event = "device_on_two_partitions",
            devices = named.join(", "),
            "the windows of these devices are split by partition: produce their records with the device as the key"
        );
    }

    /// The partition.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.store.partition()
    }

    /// The next changelog offset to apply.
    #[must_use]
    pub fn next(&self) -> Offset {
        self.next
    }

    /// The highest epoch in the changelog so far.
    #[must_use]
    pub fn epoch_seen(&self) -> Epoch {
        self.epoch_seen
    }

    /// Whether the end of the changelog was reached once, so that the state is whole.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.following
    }

    /// The state, to look at.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The last progress record.
    #[must_use]
    pub fn progress(&self) -> Option<&Progress> {
        self.store.progress()
    }

    /// Comparisons of the digest so far.
    #[must_use]
    pub fn checks(&self) -> Checks {
        self.checks
    }

    /// Whether the digest of the last commit equals the active's; none before the first.
    #[must_use]
    pub fn digest_equal(&self) -> Option<bool> {
        self.progress().map(|_| self.doubt.is_none())
    }

    // --- standby

    /// Applies one committed changelog record; true at a progress record, where the state is that of a commit.
    ///
    /// # Errors
    /// See [`OtherSemantics`]; the replica must not be used any further.
    pub fn follow(&mut self, offset: Offset, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<bool, OtherSemantics> {
        let partition = Some(self.partition());
        invariants::uphold(invariants::changelog_in_order(self.next, offset), partition);
        let before = self.progress().map(Progress::as_commit);
        let key = key.unwrap_or_default();
        let applied = self.store.apply_changelog(key, value);
        self.next = Offset(offset.0 + 1);
        let first = self.unreadable.is_empty();
        if self.unreadable.note(offset, key, value, applied.as_ref().err().cloned()) && first {
            tracing::error!(partition = %self.partition(), record = %self.unreadable, "changelog record cannot be read");
        }
        let Ok(Applied::Progress(progress)) = applied else { return Ok(false) };
        if progress.semantics_hash != self.semantics_hash {
            return Err(OtherSemantics { found: progress.semantics_hash, here: self.semantics_hash });
        }
        if let Some(before) = before {
            let checked = invariants::succession(&before, &progress.as_commit(), Between::Compacted);
            invariants::uphold(checked, partition);
        }
        self.epoch_seen = self.epoch_seen.max(progress.epoch);
        self.doubt = self.compare();
        self.checks.equal += u64::from(self.doubt.is_none());
        self.note_devices();
        Ok(true)
    }

    /// Whether the state is the one of the last progress record.
    fn compare(&self) -> Option<Doubt> {
        let of = |progress: &Progress| (progress.commit, progress.digest, progress.entries);
        let (commit, digest, entries) = self.progress().map_or((0, 0, 0), of);
        let equal = digest == self.store.digest() && entries == self.store.entries();
        (!equal).then_some(Doubt { commit, active: digest })
    }

    /// The end of the changelog, up to which everything was applied.
    #[must_use]
    pub fn reached_end(&mut self, end: Offset) -> Worth {
        self.next = self.next.max(end);
        let worth = self.worth();
        self.following |= worth == Worth::Level;
        worth
    }

    /// What it is worth where everything up to the last stable offset is applied. There a difference of digests is a proof,
    /// also after the last progress record: a commit ends with one, so what follows it was not written by an active.
    #[must_use]
    pub fn worth(&mut self) -> Worth {
        if self.unreadable.is_too_many() {
            return Worth::Unreadable(format!(
                "the changelog cannot be read: {}. Repair: upgrade this node if it is older than the active; else create \
                 the changelog anew under a new cluster name",
                self.unreadable
            ));
        }
        self.doubt = self.compare();
        if self.unreadable.has_progress() || (self.doubt.is_some() && !self.unreadable.is_empty()) {
            return Worth::Lacking(format!(
                "a changelog record cannot be read, so this replica is not promoted: {}. Repair: none while there is an \
                 active, which replaces it with its next record of this key; if the version is too new, upgrade this node",
                self.unreadable
            ));
        }
        let Some(Doubt { commit, active }) = self.doubt else { return Worth::Level };
        self.checks.different += 1;
        let here = self.store.digest();
        let sound = self.store.recompute_digest() == here;
        Worth::Diverged(Divergence { commit, active, here, sound })
    }

    /// What is wrong with the changelog though this replica has the active's state, for the operator.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (!self.unreadable.is_empty()).then(|| {
            format!(
                "a changelog record cannot be read: {}. This replica lacks nothing, for its digest is the active's, but one \
                 that is built from the changelog may. Repair: stop the active in order (SIGTERM): the next one writes the \
                 key anew",
                self.unreadable
            )
        })
    }

    /// Changelog records that cannot be read and were not replaced yet.
    #[must_use]
    pub fn unreadable_records(&self) -> usize {
        self.unreadable.len()
    }

    /// Whether everything before this offset is applied.
    #[must_use]
    pub fn has_applied(&self, until: Offset) -> bool {
        self.next >= until
    }

    // --- promotion

    /// Whether a tenure of this epoch may begin. `renewed`: this process had the tenure before and was fenced, perhaps
    /// by nobody, so that its own epoch may stand in the changelog.
    #[must_use]
    pub fn may_begin(&self, epoch: Epoch, renewed: bool) -> Eligible {
        let free = self.epoch_seen < epoch || (renewed && self.epoch_seen == epoch);
        if free { Eligible::Yes } else { Eligible::Overtaken(self.epoch_seen) }
    }

    /// Where the input goes on; none where nothing was ever consumed.
    #[must_use]
    pub fn next_input(&self) -> Option<Offset> {
        self.progress().map(|progress| progress.next_input_offset)
    }

    // --- active

    /// Applies an input record.
    ///
    /// # Errors
    /// Our own code panicked: the batch is undone and must be read again; this record will then be rejected as
    /// `internal_error`, so that it cannot take the fleet down one node after the other.
    pub fn read(&mut self, record: &InputRecord<'_>, batch_begin: Offset) -> Result<(), Panicked> {
        if self.poisoned.contains(&record.offset) {
            self.store.reject_internal(record);
            return Ok(());
        }
        let store = &mut self.store;
        let applied = catch_unwind(AssertUnwindSafe(|| {
            fail::fail_point!("apply_panic", |_| panic!("failpoint apply_panic"));
            store.apply(record);
        }));
        if applied.is_ok() {
            return Ok(());
        }
        self.store.undo();
        self.poisoned.insert(record.offset);
        Err(Panicked { offset: record.offset, again_from: batch_begin })
    }

    /// Raises log time to a record's timestamp before it is read, doing at most about `acts_max` of what is due because of
    /// that; false if there is more: commit with this record's offset as the next one, and call it again.
    pub fn raise_log_time(&mut self, log_time_ms: i64, acts_max: usize) -> bool {
        self.store.raise_log_time(log_time_ms, acts_max)
    }

    /// Writes a log-time fact before the input record of this offset, if silence closes or forgets anything by then.
    /// Like [`Replica::raise_log_time`] it may go only a part of the way.
    pub fn log_time_fact(&mut self, before: Offset, log_time_ms: i64, acts_max: usize) {
        if self.store.is_silence_due(log_time_ms) {
            self.store.log_time_fact(before, log_time_ms, acts_max);
        }
    }

    /// All that one transaction has to write, the progress record last.
    pub fn transaction(&mut self, epoch: Epoch, next_input: Offset) -> Transaction {
        let before = self.progress().map(Progress::as_commit);
        let batch = self.store.batch(epoch, next_input);
        let after = batch.progress.as_commit();
        let checked = before.map_or(Ok(()), |before| invariants::succession(&before, &after, Between::Nothing));
        invariants::uphold(checked, Some(self.partition()));
        let message = |topic, key, value| Message { topic, key, value, headers: Vec::new() };
        let mut messages = Vec::with_capacity(batch.entries.len() + batch.outputs.len() + batch.dead_letters.len() + 1);
        let repaired = self.repair(&batch.entries);
        messages.extend(repaired.into_iter().map(|(key, value)| message(Topic::Changelog, Some(key), value)));
        messages.extend(batch.entries.into_iter().map(|e| message(Topic::Changelog, Some(e.key), e.value)));
        messages.extend(batch.outputs.into_iter().map(|o| message(Topic::Output, Some(o.key), Some(o.value))));
        let letters_at = messages.len();
        messages.extend(batch.dead_letters.iter().map(|letter| letter_message(letter)));
        let progress = Bytes::from(batch.progress.encode());
        messages.push(message(Topic::Changelog, Some(Bytes::from_static(Progress::key())), Some(progress)));
        Transaction { messages, letters: batch.dead_letters, letters_at, progress: batch.progress }
    }

    /// The state of the keys of unreadable records, besides those that are written anyway.
    fn repair(&self, written: &[ChangelogRecord]) -> BTreeMap<Bytes, Option<Bytes>> {
        let written: BTreeSet<&[u8]> = written.iter().map(|entry| &*entry.key).chain([Progress::key()]).collect();
        let keys = self.unreadable.keys().filter(|key| !written.contains(key));
        let mut repaired: BTreeMap<_, _> = keys.map(|key| (Bytes::copy_from_slice(key), None)).collect();
        if !repaired.is_empty() {
            self.store.for_each_entry(|key, value| {
                if let Some(repair) = repaired.get_mut(key) {
                    *repair = Some(Bytes::copy_from_slice(value));
                }
            });
        }
        repaired
    }

    /// The transaction is committed.
    pub fn committed(&mut self, transaction: &Transaction, committed: Committed) {
        self.store.committed();
        self.unreadable.clear();
        self.next = committed.changelog_next;
        self.epoch_seen = self.epoch_seen.max(transaction.progress.epoch);
        self.poisoned.clear();
        self.note_devices();
    }

    /// The transaction is not committed, or nobody knows: back to the last commit that is known.
    pub fn undo(&mut self) {
        self.store.undo();
    }

    /// The tenure is over: what follows is read from the changelog.
    pub fn stand_by(&mut self) {
        self.doubt = None;
        self.following = false;
        // To see that it is missed (docs/SIMULATION.md).
        fail::fail_point!("stand_by_without_undo", |_| ());
        self.store.undo();
    }

    /// The state of the open batch, to decide when to commit.
    #[must_use]
    pub fn pending(&self) -> crate::store::Pending {
        self.store.pending()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Some(devices) = &self.devices {
            devices.forget(self.partition());
        }
    }
}

/// What one transaction writes.
#[derive(Debug)]
pub struct Transaction {
    /// In the order in which they are written.
    pub messages: Vec<Message>,
    /// The progress record among them.
    pub progress: Progress,
    letters: Vec<Arc<DeadLetter>>,
    letters_at: usize,
}

impl Transaction {
    /// Leaves the value out of a dead letter that is larger than the broker takes, and at the second time all of the
    /// record. False for any other message.
    pub fn shorten(&mut self, index: usize) -> bool {
        let letter = index.checked_sub(self.letters_at).and_then(|place| self.letters.get(place));
        let Some(letter) = letter else { return false };
        let shorter = [letter.without_value(), letter.without_record()].map(|letter| letter_message(&letter));
        let now = &self.messages[index];
        let shorter = shorter.into_iter().find(|shorter| size(shorter) < size(now));
        shorter.map(|shorter| self.messages[index] = shorter).is_some()
    }
}

fn size(message: &Message) -> usize {
    let length = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
    let headers = message.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
    length(&message.key) + length(&message.value) + headers.sum::<usize>()
}

fn letter_message(letter: &DeadLetter) -> Message {
    Message {
        topic: Topic::DeadLetters,
        key: letter.key.clone().map(Bytes::from),
        value: letter.value.clone().map(Bytes::from),
        headers: letter.headers.clone(),
    }
}

#[cfg(test)]
mod tests;
