//! What happens because log time rises: windows of silent series close, series and identities are forgotten.
//! SEMANTICS 7.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use hotspare_cluster::Offset;

use super::active::Active;
use super::changes::Change;
use super::series::{Series, SeriesId, Window};
use crate::reading::Identity;
use crate::semantics::{Semantics, SilenceRules};

/// For so long, in log time, log-time facts stay in the state, so that a clean run over the input can take them in at
/// their places.
const FACTS_KEPT_MS: i64 = 7 * 86_400_000;

/// When what is due. Entries may be stale: what counts is in the series.
#[derive(Debug, Default)]
pub(super) struct Silence {
    /// No later than when something is due for the series; for each series the entry at its `scheduled_ms`.
    series: BinaryHeap<Reverse<(i64, SeriesId)>>,
    /// Each identity with the log time at which it was counted.
    identities: BinaryHeap<Reverse<(i64, SeriesId, Identity)>>,
}

impl Silence {
    pub(super) fn remember(&mut self, since_ms: i64, id: SeriesId, identity: Identity) {
        self.identities.push(Reverse((since_ms, id, identity)));
    }
}

/// What silence does to a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Act {
    Close,
    Forget,
}

/// What is due for a series, and when.
fn due(series: &Series, rules: &SilenceRules) -> [Option<(i64, Act)>; 2] {
    let Some(life) = series.life() else { return [None; 2] };
    let close = rules.idle_close_ms.filter(|_| series.has_open_windows());
    let forget_from_ms = || life.active_ms.max(series.newest_end_ms());
    [
        close.map(|wait_ms| (life.active_ms.saturating_add(wait_ms), Act::Close)),
        rules.retention_ms.map(|wait_ms| (forget_from_ms().saturating_add(wait_ms), Act::Forget)),
    ]
}

impl Active {
    /// Raises log time, before the record that raises it is read. Does at most about `acts_max` of what is due because of
    /// that, in order; false if more is due: log time is raised up to before that then. (In which steps log time rises
    /// does not matter.)
    pub(super) fn raise_log_time(&mut self, semantics: &Semantics, log_time_ms: i64, acts_max: usize) -> bool {
        if log_time_ms <= self.totals.log_time_ms {
            return true;
        }
        self.open.prepared = None;
        let mut reached_ms = log_time_ms;
        if let Some(keep_ms) = semantics.dedup_keep_ms() {
            reached_ms = self.forget_identities(keep_ms, reached_ms, acts_max);
        }
        reached_ms = self.close_the_silent(semantics, reached_ms, acts_max);
        self.totals.log_time_ms = reached_ms.max(self.totals.log_time_ms);
        self.drop_facts(self.totals.log_time_ms.saturating_sub(FACTS_KEPT_MS));
        reached_ms == log_time_ms
    }

    /// Raises log time by a fact that stands before the input record of this offset; false as in `raise_log_time`.
    pub(super) fn log_time_fact(
        &mut self,
        semantics: &Semantics,
        before: Offset,
        log_time_ms: i64,
        acts_max: usize,
    ) -> bool {
        if log_time_ms <= self.totals.log_time_ms {
            return true;
        }
        let is_whole = self.raise_log_time(semantics, log_time_ms, acts_max);
        self.note_fact(before);
        self.facts.insert(before, self.totals.log_time_ms);
        is_whole
    }

    /// Whether anything is closed or forgotten when log time rises to this.
    pub(super) fn is_silence_due(&mut self, semantics: &Semantics, log_time_ms: i64) -> bool {
        for id in self.pop_due(log_time_ms) {
            self.schedule(semantics, id);
        }
        self.silence.series.peek().is_some_and(|Reverse((due_ms, _))| *due_ms <= log_time_ms)
    }

    fn note_fact(&mut self, before: Offset) {
        self.open.prepared = None;
        if !self.open.facts.contains(&before) {
            self.open.facts.push(before);
            self.open.note(0, Change::LogTime { before, old: self.facts.get(&before).copied() });
        }
    }

    fn drop_facts(&mut self, until_ms: i64) {
        while let Some((before, _)) = self.facts.first_key_value().filter(|(_, log_time_ms)| **log_time_ms <= until_ms)
        {
            let before = *before;
            self.note_fact(before);
            self.facts.remove(&before);
        }
    }

    /// Gives the log time up to which it is done.
    fn forget_identities(&mut self, keep_ms: i64, log_time_ms: i64, acts_max: usize) -> i64 {
        let mut acts = 0;
        while let Some(Reverse((since_ms, id, identity))) = self.silence.identities.peek().copied() {
            let due_ms = since_ms.saturating_add(keep_ms);
            if due_ms > log_time_ms {
                break;
            }
            if acts >= acts_max {
                return due_ms - 1;
            }
            self.silence.identities.pop();
            self.forget_identity(id, identity, Some(since_ms));
            acts += 1;
        }
        log_time_ms
    }

    /// Forgets an identity of a series; with `since_ms` only if it was counted then.
    fn forget_identity(&mut self, id: SeriesId, identity: Identity, since_ms: Option<i64>) {
        let Some(series) = self.state.get_mut(id) else { return };
        let names_bytes = series.device().len() + series.metric().len();
        let Some(remembered) = series.kept.as_mut().and_then(|kept| kept.identities.get_mut(&identity)) else {
            return;
        };
        if remembered.since_ms.is_none() || since_ms.is_some_and(|since_ms| remembered.since_ms != Some(since_ms)) {
            return;
        }
        if !remembered.is_touched {
            self.open.note(names_bytes, Change::Identity { series: id, identity, old: remembered.since_ms });
            remembered.is_touched = true;
        }
        remembered.since_ms = None;
    }

    /// Gives the log time up to which it is done.
    fn close_the_silent(&mut self, semantics: &Semantics, log_time_ms: i64, acts_max: usize) -> i64 {
        let popped = self.pop_due(log_time_ms);
        let mut acts: Vec<(i64, SeriesId, Act)> = Vec::new();
        for id in &popped {
            let Some(series) = self.state.get(*id) else { continue };
            let is_due = |(due_ms, _): &(i64, Act)| *due_ms <= log_time_ms;
            let due = due(series, semantics.silence()).into_iter().flatten().filter(is_due);
            acts.extend(due.map(|(due_ms, act)| (due_ms, *id, act)));
        }
        let key = |id: SeriesId| self.state.get(id).map(|series| (series.device(), series.metric()));
        acts.sort_unstable_by(|a, b| (a.0, key(a.1), a.2).cmp(&(b.0, key(b.1), b.2)));
        let reached_ms = acts.get(acts_max).map_or(log_time_ms, |(due_ms, ..)| *due_ms - 1);
        for (_, id, act) in acts.into_iter().take(acts_max) {
            self.touch_series(id);
            self.close(id, semantics, |_| true);
            if act == Act::Forget {
                self.forget(id);
            }
        }
        for id in popped {
            self.schedule(semantics, id);
        }
        reached_ms
    }

    /// The series for which something may be due; they have to be scheduled again.
    fn pop_due(&mut self, log_time_ms: i64) -> Vec<SeriesId> {
        let mut popped = Vec::new();
        while let Some(Reverse((due_ms, id))) = self.silence.series.peek().copied() {
            if due_ms > log_time_ms {
                break;
            }
            self.silence.series.pop();
            let kept = self.state.get_mut(id).and_then(|series| series.kept.as_mut());
            if let Some(kept) = kept.filter(|kept| kept.scheduled_ms == due_ms) {
                kept.scheduled_ms = i64::MAX;
                popped.push(id);
            }
        }
        popped
    }

    fn forget(&mut self, id: SeriesId) {
        let Some(series) = self.state.get_mut(id) else { return };
        series.set_life(None);
        let identities = series.kept.as_ref().map(|kept| kept.identities.keys().copied().collect::<Vec<_>>());
        for identity in identities.into_iter().flatten() {
            self.forget_identity(id, identity, None);
        }
    }

    /// Sees to it that the series is looked at no later than when something is due for it.
    pub(super) fn schedule(&mut self, semantics: &Semantics, id: SeriesId) {
        let Some(series) = self.state.get_mut(id) else { return };
        let Some(due_ms) = due(series, semantics.silence()).into_iter().flatten().map(|(due_ms, _)| due_ms).min()
        else {
            return;
        };
        let Some(kept) = &mut series.kept else { return };
        if due_ms < kept.scheduled_ms {
            kept.scheduled_ms = due_ms;
            self.silence.series.push(Reverse((due_ms, id)));
        }
    }

    /// A standby has reached a commit: drops what the active was done with from the schedules.
    pub(super) fn settle(&mut self, semantics: &Semantics) {
        let log_time_ms = self.totals.log_time_ms;
        for id in self.pop_due(log_time_ms) {
            self.schedule(semantics, id);
        }
        let Some(keep_ms) = semantics.dedup_keep_ms() else { return };
        while let Some(Reverse((since_ms, id, identity))) = self.silence.identities.peek() {
            let kept = self.state.get(*id).and_then(|series| series.kept.as_ref());
            let remembered = kept.and_then(|kept| kept.identities.get(identity)).and_then(|it| it.since_ms);
            if since_ms.saturating_add(keep_ms) > log_time_ms || remembered == Some(*since_ms) {
                return;
            }
            self.silence.identities.pop();
        }
    }

    /// Closes the open windows of a series that are due, in order of start.
    pub(super) fn close(&mut self, id: SeriesId, semantics: &Semantics, is_due: impl Fn(&Window) -> bool) {
        let partition = self.partition();
        let Some(series) = self.state.get_mut(id) else { return };
        let names_bytes = series.device().len() + series.metric().len();
        let (mut next_due_ms, mut closed_end_ms) = (i64::MAX, i64::MIN);
        for index in 0..series.windows().len() {
            let Some((window, aggregate)) = series.windows().get(index).and_then(Window::open) else {
                continue;
            };
            if !is_due(window) {
                next_due_ms = next_due_ms.min(window.due_ms(semantics.windows()));
                continue;
            }
            closed_end_ms = closed_end_ms.max(window.end_ms);
            let text = series.show(partition, semantics.variance(), window, aggregate, true);
            self.totals.counters.windows_final += 1;
            self.open.give(series.device(), text);
            if let Some(window) = series.windows_mut().get_mut(index) {
                self.open.touch(id, names_bytes, window);
                window.aggregate = None;
            }
        }
        series.due_ms = next_due_ms;
        if let Some(kept) = &mut series.kept {
            kept.closed_end_ms = kept.closed_end_ms.max(closed_end_ms);
        }
    }
}
