//! The state and the open batch: what is changed in place, and how it is undone.

use std::sync::Arc;

use bytes::Bytes;
use hotspare_cluster::{Epoch, Offset, PartitionId};

use super::batch::{Batch, Output, Pending, Records};
use super::dead_letter::{DeadLetter, Lost};
use super::series::{SeriesId, State, Window, due_ms};
use crate::changelog::{Counters, Progress, VERSION};
use crate::reading::{InputRecord, Outcome, Reading};
use crate::semantics::{Emit, Semantics, WindowRules};
use crate::window::Aggregate;

/// About how many bytes an entry takes besides the names.
const ENTRY_BYTES: usize = 96;

/// The state of a partition with the open batch.
#[derive(Debug)]
pub(super) struct Active {
    partition: PartitionId,
    pub(super) state: State,
    pub(super) totals: Totals,
    pub(super) committed: Totals,
    pub(super) digest: u128,
    pub(super) entries: u64,
    open: OpenBatch,
}

/// What is counted, and log time.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) counters: Counters,
    pub(super) log_time_ms: i64,
    /// Candidates and null records as they came in: the left side of the law of conservation.
    pub(super) consumed: u64,
}

/// What was done since the last commit.
#[derive(Debug, Default)]
struct OpenBatch {
    /// In the order of first touch, one for each changed window.
    changes: Vec<Change>,
    outputs: Vec<Output>,
    dead_letters: Vec<Arc<DeadLetter>>,
    records: u64,
    bytes: usize,
    /// Set by `batch()`, invalid as soon as anything is applied.
    prepared: Option<Prepared>,
}

/// A window that the open batch changed, and what it was at the last commit.
#[derive(Debug)]
struct Change {
    series: SeriesId,
    place: (u8, i64),
    /// None: it was not there.
    old: Option<Aggregate>,
}

/// What becomes true with the commit.
#[derive(Debug)]
struct Prepared {
    progress: Progress,
    /// The hash of each change's entry.
    hashes: Vec<u128>,
}

impl Active {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self {
            partition,
            state: State::default(),
            totals: Totals::default(),
            committed: Totals::default(),
            digest: 0,
            entries: 0,
            open: OpenBatch::default(),
        }
    }

    pub(super) fn partition(&self) -> PartitionId {
        self.partition
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.totals.counters
    }

    pub(super) fn consumed(&self) -> u64 {
        self.totals.consumed
    }

    pub(super) fn log_time_ms(&self) -> i64 {
        self.totals.log_time_ms
    }

    pub(super) fn digest(&self) -> u128 {
        self.digest
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) fn pending(&self) -> Pending {
        Pending { entries: self.open.changes.len(), bytes: self.open.bytes, records: self.open.records }
    }

    pub(super) fn has_changes(&self) -> bool {
        self.open.records > 0 || self.totals.log_time_ms != self.committed.log_time_ms
    }

    /// Begins a record, before anything of it is read.
    pub(super) fn begin(&mut self, record: &InputRecord<'_>) {
        self.open.prepared = None;
        self.open.records += 1;
        self.totals.counters.records += 1;
        self.raise_log_time(record.timestamp_ms);
    }

    pub(super) fn raise_log_time(&mut self, log_time_ms: i64) {
        if log_time_ms > self.totals.log_time_ms {
            self.open.prepared = None;
            self.totals.log_time_ms = log_time_ms;
        }
    }

    pub(super) fn count(&mut self, outcome: Outcome) {
        self.totals.consumed += 1;
        self.totals.counters.count(outcome);
    }

    /// Ends a record: what was lost of it becomes a dead letter.
    pub(super) fn end(&mut self, semantics: &Semantics, record: &InputRecord<'_>, lost: Option<Lost>) {
        let Some(lost) = lost else { return };
        let letter = lost.into_letter(semantics.topic(), self.partition, record);
        self.totals.counters.dead_letters += 1;
        self.open.bytes += letter.bytes();
        self.open.dead_letters.push(Arc::new(letter));
    }

    /// Reads a reading into the windows that take it, and closes those that are due.
    pub(super) fn read(&mut self, rules: &[WindowRules], reading: &Reading<'_>) -> Outcome {
        let mut id = self.state.find(reading.device, reading.metric);
        let watermark_ms = id.and_then(|id| self.state.get(id)).map_or(i64::MIN, |series| series.watermark_ms);
        let mut is_counted = false;
        for (definition, rule) in (0u8..).zip(rules) {
            let place = (definition, rule.shape.start_of(reading.time_ms));
            // Judged before the reading moves the watermark.
            if watermark_ms >= due_ms(rules, place) {
                continue;
            }
            id = id.or_else(|| self.state.find_or_insert(reading.device, reading.metric));
            if let Some(id) = id {
                self.add(id, rules, place, reading);
                is_counted = true;
            }
        }
        if !is_counted {
            return Outcome::Late;
        }
        if let Some(id) = id {
            self.move_watermark(id, rules, reading.time_ms);
        }
        Outcome::Counted
    }

    fn add(&mut self, id: SeriesId, rules: &[WindowRules], place: (u8, i64), reading: &Reading<'_>) {
        let Some(series) = self.state.get_mut(id) else {
            return;
        };
        if let Some(window) = series.window_mut(place) {
            if !window.is_touched {
                let old = window.aggregate.clone();
                self.open.touch(id, place, reading, old);
                window.is_touched = true;
            }
            match &mut window.aggregate {
                Some(aggregate) => aggregate.add(reading.time_ms, reading.value),
                none => *none = Some(Aggregate::of(reading.time_ms, reading.value)),
            }
        } else {
            self.open.touch(id, place, reading, None);
            let aggregate = Some(Aggregate::of(reading.time_ms, reading.value));
            let (definition, start_ms) = place;
            series.insert(Window { definition, start_ms, aggregate, is_touched: true, entry_hash: 0 });
        }
        series.due_ms = series.due_ms.min(due_ms(rules, place));
    }

    fn move_watermark(&mut self, id: SeriesId, rules: &[WindowRules], time_ms: i64) {
        let Some(series) = self.state.get_mut(id) else {
            return;
        };
        series.watermark_ms = series.watermark_ms.max(time_ms);
        if series.watermark_ms < series.due_ms {
            return;
        }
        let mut next_due_ms = i64::MAX;
        for index in 0..series.windows().len() {
            let Some((window, aggregate)) = series.windows().get(index).and_then(Window::open) else {
                continue;
            };
            let due_ms = due_ms(rules, window.place());
            if series.watermark_ms < due_ms {
                next_due_ms = next_due_ms.min(due_ms);
                continue;
            }
            let text = series.show(self.partition, rules, window, aggregate, true);
            self.totals.counters.windows_final += 1;
            self.open.give(series.device(), text);
            let Some(window) = series.windows_mut().get_mut(index) else {
                continue;
            };
            let old = window.aggregate.take();
            if !window.is_touched {
                self.open.changes.push(Change { series: id, place: window.place(), old });
                window.is_touched = true;
            }
        }
        series.due_ms = next_due_ms;
    }

    /// What one transaction writes. One pass over the changes.
    pub(super) fn batch(
        &mut self,
        semantics: &Semantics,
        epoch: Epoch,
        commit: u64,
        next_input_offset: Offset,
    ) -> Batch {
        self.check_conservation();
        let mut records = Records::with_capacity(self.open.changes.len());
        let mut hashes = Vec::with_capacity(self.open.changes.len());
        let (mut digest, mut entries) = (self.digest, self.entries);
        for change in &self.open.changes {
            let found = self.state.get(change.series).and_then(|series| Some((series, series.window(change.place)?)));
            let mut hash = 0;
            if let Some((series, window)) = found {
                if change.old.is_some() {
                    digest = digest.wrapping_sub(window.entry_hash);
                    entries = entries.saturating_sub(1);
                }
                if let Some(aggregate) = &window.aggregate {
                    hash = records.put(series, window, aggregate);
                    digest = digest.wrapping_add(hash);
                    entries += 1;
                } else if change.old.is_some() {
                    records.tombstone(series, window);
                }
            }
            hashes.push(hash);
        }
        let progress = Progress {
            format: VERSION,
            epoch,
            commit,
            next_input_offset,
            log_time_ms: self.totals.log_time_ms,
            counters: self.totals.counters.clone(),
            digest,
            entries,
            semantics_hash: semantics.hash(),
        };
        self.open.prepared = Some(Prepared { progress: progress.clone(), hashes });
        let mut outputs = self.open.outputs.clone();
        if semantics.emit() == Emit::Changes {
            outputs.extend(self.changes(semantics.windows()));
        }
        Batch { entries: records.finish(), outputs, dead_letters: self.open.dead_letters.clone(), progress }
    }

    /// The open windows that were counted into, by device, metric and start.
    fn changes(&self, rules: &[WindowRules]) -> impl Iterator<Item = Output> {
        let mut changed: Vec<_> = self
            .open
            .changes
            .iter()
            .filter_map(|change| {
                let series = self.state.get(change.series)?;
                let (window, aggregate) = series.window(change.place)?.open()?;
                Some((series, window, aggregate))
            })
            .collect();
        changed.sort_unstable_by_key(|(series, window, _)| (series.device(), series.metric(), window.place()));
        changed.into_iter().map(move |(series, window, aggregate)| {
            output(series.device(), series.show(self.partition, rules, window, aggregate, false))
        })
    }

    /// A record is one null record or at least one candidate, each with one outcome.
    fn check_conservation(&self) {
        let Totals { counters, consumed, .. } = &self.totals;
        debug_assert_eq!(counters.consumed(), *consumed, "an outcome is missing or was counted twice");
        debug_assert!(*consumed >= counters.records, "a record is without an outcome");
    }

    /// Ends the batch that `batch()` gave last; None, and nothing is done, when there is none.
    pub(super) fn committed(&mut self) -> Option<Progress> {
        let Prepared { progress, hashes } = self.open.prepared.take()?;
        for (change, hash) in self.open.changes.drain(..).zip(hashes) {
            let Some(series) = self.state.get_mut(change.series) else {
                continue;
            };
            let Some(window) = series.window_mut(change.place) else {
                continue;
            };
            window.is_touched = false;
            window.entry_hash = hash;
            if window.aggregate.is_none() {
                series.remove(change.place);
                self.state.remove_if_empty(change.series);
            }
        }
        self.open.clear();
        self.committed = self.totals.clone();
        (self.digest, self.entries) = (progress.digest, progress.entries);
        Some(progress)
    }

    /// Back to the last commit.
    pub(super) fn undo(&mut self, rules: &[WindowRules]) {
        for change in self.open.changes.drain(..).rev() {
            let Some(series) = self.state.get_mut(change.series) else {
                continue;
            };
            match (change.old, series.window_mut(change.place)) {
                (Some(old), Some(window)) => {
                    window.aggregate = Some(old);
                    window.is_touched = false;
                }
                (None, Some(_)) => {
                    series.remove(change.place);
                }
                (_, None) => {} // a panic came between the note of the change and the change
            }
            series.refresh(rules);
            self.state.remove_if_empty(change.series);
        }
        self.open.clear();
        self.totals = self.committed.clone();
    }
}

impl OpenBatch {
    /// Notes the first change of a window, before it is made.
    fn touch(&mut self, series: SeriesId, place: (u8, i64), reading: &Reading<'_>, old: Option<Aggregate>) {
        self.bytes += ENTRY_BYTES + reading.device.len() + reading.metric.len();
        self.changes.push(Change { series, place, old });
    }

    fn give(&mut self, device: &str, text: String) {
        self.bytes += device.len() + text.len();
        self.outputs.push(output(device, text));
    }

    /// Ready for the next batch, in the same room.
    fn clear(&mut self) {
        self.changes.clear();
        self.outputs.clear();
        self.dead_letters.clear();
        (self.records, self.bytes, self.prepared) = (0, 0, None);
    }
}

fn output(device: &str, text: String) -> Output {
    Output { key: Bytes::copy_from_slice(device.as_bytes()), value: Bytes::from(text) }
}
