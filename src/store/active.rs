//! The state and the open batch: what is changed in place.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotspare_cluster::{Offset, PartitionId, invariants};

use super::batch::Pending;
use super::changes::{Change, OpenBatch};
use super::dead_letter::Lost;
use super::series::{Place, Remembered, Series, SeriesId, State, Window};
use super::silence::Silence;
use crate::changelog::Counters;
use crate::reading::{InputRecord, Outcome, Reading};
use crate::semantics::{Semantics, Variance, WindowRules};
use crate::window::Aggregate;

/// The state of a partition with the open batch.
#[derive(Debug)]
pub(super) struct Active {
    partition: PartitionId,
    pub(super) state: State,
    /// Log-time facts: before the input record of this offset log time rose to this.
    pub(super) facts: BTreeMap<Offset, i64>,
    pub(super) silence: Silence,
    pub(super) totals: Totals,
    pub(super) committed: Totals,
    pub(super) digest: u128,
    pub(super) entries: u64,
    pub(super) open: OpenBatch,
    /// The windows that take the reading at hand; room that is used again.
    taking: Vec<Taking>,
}

/// What is counted, and log time.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) counters: Counters,
    pub(super) log_time_ms: i64,
    /// Candidates and null records as they came in: the left side of the law of conservation.
    pub(super) consumed: u64,
}

/// A window that takes a reading.
#[derive(Clone, Copy, Debug)]
struct Taking {
    place: Place,
    end_ms: i64,
}

/// Up to where a series' windows take no readings any more. SEMANTICS 5.
#[derive(Clone, Copy, Debug)]
struct Edge {
    watermark_ms: i64,
    closed_end_ms: i64,
    /// Ends up to this one were given up by the rule of retention: log time - retention.
    oldest_end_ms: i64,
    log_time_ms: i64,
}

/// Why a window takes no readings any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    Watermark { watermark_ms: i64, end_ms: i64, grace_ms: i64 },
    FinalOutputs { closed_end_ms: i64 },
    Retention { oldest_end_ms: i64, log_time_ms: i64, retention_ms: i64 },
}

impl Edge {
    fn by_watermark(&self, rules: &WindowRules, end_ms: i64) -> Option<Closed> {
        let (watermark_ms, grace_ms) = (self.watermark_ms, rules.grace_ms);
        let is_closed = watermark_ms >= end_ms.saturating_add(grace_ms);
        is_closed.then_some(Closed::Watermark { watermark_ms, end_ms, grace_ms })
    }

    fn by_closed_end(&self, is_closed: bool) -> Option<Closed> {
        is_closed.then_some(Closed::FinalOutputs { closed_end_ms: self.closed_end_ms })
    }

    fn by_retention(&self, is_closed: bool) -> Option<Closed> {
        let Edge { oldest_end_ms, log_time_ms, .. } = *self;
        let retention_ms = log_time_ms.saturating_sub(oldest_end_ms);
        is_closed.then_some(Closed::Retention { oldest_end_ms, log_time_ms, retention_ms })
    }
}

impl Active {
    /// An empty state under these rules.
    pub(super) fn new(semantics: &Semantics, partition: PartitionId) -> Self {
        Self {
            partition,
            state: State::new(semantics.keeps_series()),
            facts: BTreeMap::new(),
            silence: Silence::default(),
            totals: Totals::default(),
            committed: Totals::default(),
            digest: 0,
            entries: 0,
            open: OpenBatch::default(),
            taking: Vec::new(),
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
    pub(super) fn begin(&mut self, semantics: &Semantics, record: &InputRecord<'_>) {
        self.open.prepared = None;
        self.open.records += 1;
        self.totals.counters.records += 1;
        self.raise_log_time(semantics, record.timestamp_ms, usize::MAX);
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

    /// A record is one null record or at least one candidate, each with one outcome.
    pub(super) fn check_conservation(&self) {
        let Totals { counters, consumed, .. } = &self.totals;
        let checked = invariants::conservation(*consumed, counters.consumed(), counters.records);
        invariants::uphold(checked, Some(self.partition));
    }

    /// Reads a reading into the windows that take it, and closes those that are due.
    pub(super) fn read(&mut self, semantics: &Semantics, reading: &Reading<'_>) -> Outcome {
        let found = self.state.find(reading.device, reading.metric);
        let series = found.and_then(|id| self.state.get(id));
        if let (Some(series), Some(identity)) = (series, &reading.identity)
            && series.remembers(identity)
        {
            return Outcome::Duplicate;
        }
        // Judged before the reading moves the watermark.
        let mut taking = std::mem::take(&mut self.taking);
        taking.clear();
        self.find_taking(series, semantics, reading.time_ms, &mut taking);
        let outcome = if taking.is_empty() {
            Outcome::Late
        } else {
            // None only with 2^32 series.
            found.or_else(|| self.state.find_or_insert(reading.device, reading.metric)).map_or(Outcome::Late, |id| {
                self.take(id, semantics, reading, &taking);
                Outcome::Counted
            })
        };
        self.taking = taking;
        outcome
    }

    fn find_taking(&self, series: Option<&Series>, semantics: &Semantics, time_ms: i64, taking: &mut Vec<Taking>) {
        self.judge(series, semantics, time_ms, &mut |window, closed| {
            if closed.is_none() {
                taking.push(window);
            }
        });
    }

    /// Gives each window that holds the time and, if it takes no readings any more, why. SEMANTICS 5.
    fn judge(
        &self,
        series: Option<&Series>,
        semantics: &Semantics,
        time_ms: i64,
        each: &mut impl FnMut(Taking, Option<Closed>),
    ) {
        let log_time_ms = self.totals.log_time_ms;
        let edge = Edge {
            watermark_ms: series.map_or(i64::MIN, |series| series.watermark_ms),
            closed_end_ms: series.and_then(Series::life).map_or(i64::MIN, |life| life.closed_end_ms),
            oldest_end_ms: semantics.silence().retention_ms.map_or(i64::MIN, |ms| log_time_ms.saturating_sub(ms)),
            log_time_ms,
        };
        for (definition, rules) in (0u8..).zip(semantics.windows()) {
            let is_session = rules.shape.is_session();
            rules.shape.windows_of(time_ms, &mut |start_ms, end_ms| {
                let by_watermark = edge.by_watermark(rules, end_ms);
                let closed = if is_session {
                    let is_joining = || series.is_some_and(|series| overlaps(series, definition, start_ms, end_ms));
                    edge.by_closed_end(time_ms < edge.closed_end_ms)
                        .or_else(|| edge.by_retention(time_ms < edge.oldest_end_ms))
                        .or_else(|| by_watermark.filter(|_| !is_joining()))
                } else {
                    by_watermark
                        .or_else(|| edge.by_closed_end(end_ms <= edge.closed_end_ms))
                        .or_else(|| edge.by_retention(end_ms <= edge.oldest_end_ms))
                };
                each(Taking { place: (definition, start_ms), end_ms }, closed);
            });
        }
    }

    /// Start and end of each window that holds a reading which was found to be late, with the reason.
    pub(super) fn why_late(
        &self,
        semantics: &Semantics,
        reading: &Reading<'_>,
        each: &mut impl FnMut(i64, i64, Closed),
    ) {
        let series = self.state.find(reading.device, reading.metric).and_then(|id| self.state.get(id));
        self.judge(series, semantics, reading.time_ms, &mut |window, closed| {
            if let Some(closed) = closed {
                each(window.place.1, window.end_ms, closed);
            }
        });
    }

    /// Start and end of the windows that took the reading that was read last; of sessions as it was alone.
    pub(super) fn taken(&self) -> impl Iterator<Item = (i64, i64)> {
        self.taking.iter().map(|window| (window.place.1, window.end_ms))
    }

    /// The log time at which the reading of which this one is a copy was counted.
    pub(super) fn copied_at(&self, reading: &Reading<'_>) -> Option<i64> {
        let series = self.state.get(self.state.find(reading.device, reading.metric)?)?;
        series.kept.as_ref()?.identities.get(&reading.identity?)?.since_ms
    }

    fn take(&mut self, id: SeriesId, semantics: &Semantics, reading: &Reading<'_>, taking: &[Taking]) {
        self.touch_series(id);
        for window in taking {
            let is_session =
                semantics.windows().get(usize::from(window.place.0)).is_some_and(|rules| rules.shape.is_session());
            if is_session {
                self.add_to_session(id, semantics, *window, reading);
            } else {
                self.add(id, semantics, *window, reading);
            }
        }
        let log_time_ms = self.totals.log_time_ms;
        let Some(series) = self.state.get_mut(id) else { return };
        let before_ms = series.watermark_ms;
        series.watermark_ms = series.watermark_ms.max(reading.time_ms);
        let (watermark_ms, due_ms) = (series.watermark_ms, series.due_ms);
        if let Some(kept) = &mut series.kept {
            (kept.is_there, kept.active_ms) = (true, log_time_ms);
            if let Some(identity) = reading.identity {
                let names_bytes = reading.device.len() + reading.metric.len();
                let remembered =
                    kept.identities.entry(identity).or_insert(Remembered { since_ms: None, is_touched: false });
                if !remembered.is_touched {
                    self.open.note(names_bytes, Change::Identity { series: id, identity, old: None });
                }
                *remembered = Remembered { since_ms: Some(log_time_ms), is_touched: true };
                self.silence.remember(log_time_ms, id, identity);
            }
        }
        if watermark_ms >= due_ms {
            self.close(id, semantics, |window| watermark_ms >= window.due_ms(semantics.windows()));
        }
        let after_ms = self.state.get(id).map_or(before_ms, |series| series.watermark_ms);
        invariants::uphold(invariants::watermark_never_falls(before_ms, after_ms), Some(self.partition));
        self.schedule(semantics, id);
    }

    /// Notes what is kept of a series before the open batch changes it for the first time.
    pub(super) fn touch_series(&mut self, id: SeriesId) {
        let Some(series) = self.state.get_mut(id) else { return };
        let (old, names_bytes) = (series.life(), series.device().len() + series.metric().len());
        if let Some(kept) = series.kept.as_mut().filter(|kept| !kept.is_touched) {
            kept.is_touched = true;
            self.open.note(names_bytes, Change::Series { series: id, old });
        }
    }

    fn add(&mut self, id: SeriesId, semantics: &Semantics, taking: Taking, reading: &Reading<'_>) {
        let Some(series) = self.state.get_mut(id) else { return };
        let Taking { place, end_ms } = taking;
        let names_bytes = reading.device.len() + reading.metric.len();
        let due_ms = if let Some(window) = series.window_mut(place) {
            self.open.touch(id, names_bytes, window);
            match &mut window.aggregate {
                Some(aggregate) => aggregate.add(reading.time_ms, reading.value),
                none => *none = Some(aggregate_of(semantics, reading)),
            }
            window.due_ms(semantics.windows())
        } else {
            self.open.note(names_bytes, Change::Window { series: id, place, old: None });
            let window = new_window(place, end_ms, aggregate_of(semantics, reading));
            let due_ms = window.due_ms(semantics.windows());
            series.insert(window);
            due_ms
        };
        series.due_ms = series.due_ms.min(due_ms);
    }

    /// Joins the open sessions that overlap with that of the reading.
    fn add_to_session(&mut self, id: SeriesId, semantics: &Semantics, taking: Taking, reading: &Reading<'_>) {
        let Some(series) = self.state.get_mut(id) else { return };
        let Taking { place: (definition, time_ms), end_ms } = taking;
        let names_bytes = reading.device.len() + reading.metric.len();
        let (mut place, mut joined_end_ms, mut joined) = (taking.place, end_ms, None::<Aggregate>);
        for window in
            series.windows_mut().iter_mut().filter(|window| is_overlapping(window, definition, time_ms, end_ms))
        {
            place = place.min(window.place());
            joined_end_ms = joined_end_ms.max(window.end_ms);
            self.open.touch(id, names_bytes, window);
            match (&mut joined, window.aggregate.take()) {
                (Some(joined), Some(aggregate)) => joined.merge(&aggregate),
                (none, aggregate) => *none = aggregate,
            }
        }
        let aggregate = match joined {
            Some(mut joined) => {
                joined.add(reading.time_ms, reading.value);
                joined
            }
            None => aggregate_of(semantics, reading),
        };
        let due_ms = if let Some(window) = series.window_mut(place) {
            self.open.touch(id, names_bytes, window);
            (window.aggregate, window.end_ms) = (Some(aggregate), joined_end_ms);
            window.due_ms(semantics.windows())
        } else {
            self.open.note(names_bytes, Change::Window { series: id, place, old: None });
            let window = new_window(place, joined_end_ms, aggregate);
            let due_ms = window.due_ms(semantics.windows());
            series.insert(window);
            due_ms
        };
        series.due_ms = series.due_ms.min(due_ms);
    }
}

fn new_window((definition, start_ms): Place, end_ms: i64, aggregate: Aggregate) -> Window {
    Window { definition, start_ms, end_ms, aggregate: Some(aggregate), is_touched: true, entry_hash: 0 }
}

fn aggregate_of(semantics: &Semantics, reading: &Reading<'_>) -> Aggregate {
    Aggregate::of(reading.time_ms, reading.value, semantics.variance() != Variance::None)
}

fn is_overlapping(window: &Window, definition: u8, start_ms: i64, end_ms: i64) -> bool {
    window.definition == definition
        && window.aggregate.is_some()
        && window.start_ms < end_ms
        && start_ms < window.end_ms
}

fn overlaps(series: &Series, definition: u8, start_ms: i64, end_ms: i64) -> bool {
    series.windows().iter().any(|window| is_overlapping(window, definition, start_ms, end_ms))
}
