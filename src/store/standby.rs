//! The state as the changelog tells it.

use hotspare_cluster::Offset;

use super::active::{Active, Totals};
use super::batch::{Entry, hash_of};
use super::series::{Remembered, SeriesId, Window};
use crate::changelog::{Life, Progress, SeriesKey, WindowKey};
use crate::reading::Identity;
use crate::semantics::Semantics;
use crate::window::Aggregate;

impl Active {
    /// Puts the entry of a window in place.
    pub(super) fn put_window(
        &mut self,
        semantics: &Semantics,
        key: &WindowKey<'_>,
        end_ms: i64,
        aggregate: Aggregate,
        hash: u128,
    ) {
        let Some(id) = self.state.find_or_insert(key.device, key.metric) else { return };
        let Some(series) = self.state.get_mut(id) else { return };
        let place = (key.definition, key.start_ms);
        if series.kept.is_none() {
            series.watermark_ms = series.watermark_ms.max(aggregate.last_ms);
        }
        let aggregate = Some(aggregate);
        let due_ms = if let Some(window) = series.window_mut(place) {
            self.digest = self.digest.wrapping_sub(window.entry_hash);
            (window.aggregate, window.end_ms, window.entry_hash) = (aggregate, end_ms, hash);
            window.due_ms(semantics.windows())
        } else {
            let (definition, start_ms) = place;
            let window = Window { definition, start_ms, end_ms, aggregate, is_touched: false, entry_hash: hash };
            let due_ms = window.due_ms(semantics.windows());
            series.insert(window);
            self.entries += 1;
            due_ms
        };
        series.due_ms = series.due_ms.min(due_ms);
        self.digest = self.digest.wrapping_add(hash);
        self.schedule(semantics, id);
    }

    /// Takes the entry of a window away at a tombstone.
    pub(super) fn remove_window(&mut self, semantics: &Semantics, key: &WindowKey<'_>) {
        let Some(id) = self.state.find(key.device, key.metric) else { return };
        let Some(series) = self.state.get_mut(id) else { return };
        let Some(window) = series.remove((key.definition, key.start_ms)) else { return };
        series.refresh(semantics.windows());
        self.taken_away(window.entry_hash);
        self.state.remove_if_empty(id);
    }

    /// Puts the entry of a series in place, or takes it away.
    pub(super) fn put_series(&mut self, semantics: &Semantics, key: SeriesKey<'_>, life: Option<Life>, hash: u128) {
        let Some(id) = self.find_for(key, life.is_some()) else { return };
        let Some(series) = self.state.get_mut(id) else { return };
        let had_life = series.life().is_some();
        series.set_life(life);
        let Some(kept) = &mut series.kept else { return };
        let old_hash = std::mem::replace(&mut kept.entry_hash, hash);
        self.replaced(had_life.then_some(old_hash), life.map(|_| hash));
        self.schedule(semantics, id);
        self.state.remove_if_empty(id);
    }

    /// Puts the entry of an identity in place, or takes it away.
    pub(super) fn put_identity(
        &mut self,
        key: SeriesKey<'_>,
        identity: Identity,
        since_ms: Option<i64>,
        hash: Option<u128>,
    ) {
        let Some(id) = self.find_for(key, since_ms.is_some()) else { return };
        let Some(kept) = self.state.get_mut(id).and_then(|series| series.kept.as_mut()) else { return };
        let old = match since_ms {
            Some(_) => kept.identities.insert(identity, Remembered { since_ms, is_touched: false }),
            None => kept.identities.remove(&identity),
        };
        let old_hash =
            old.and_then(|old| old.since_ms).map(|since_ms| hash_of(&Entry::Identity(key, identity, since_ms)));
        self.replaced(old_hash, hash);
        if let Some(since_ms) = since_ms {
            self.silence.remember(since_ms, id, identity);
        }
        self.state.remove_if_empty(id);
    }

    /// Puts the entry of a log-time fact in place, or takes it away.
    pub(super) fn put_fact(&mut self, before: Offset, log_time_ms: Option<i64>, hash: Option<u128>) {
        let old = match log_time_ms {
            Some(log_time_ms) => self.facts.insert(before, log_time_ms),
            None => self.facts.remove(&before),
        };
        self.replaced(old.map(|old_ms| hash_of(&Entry::LogTime(before, old_ms))), hash);
    }

    /// The series of an entry; made where the entry has a value.
    fn find_for(&mut self, key: SeriesKey<'_>, is_there: bool) -> Option<SeriesId> {
        if is_there {
            self.state.find_or_insert(key.device, key.metric)
        } else {
            self.state.find(key.device, key.metric)
        }
    }

    fn taken_away(&mut self, hash: u128) {
        self.digest = self.digest.wrapping_sub(hash);
        self.entries = self.entries.saturating_sub(1);
    }

    fn replaced(&mut self, old: Option<u128>, new: Option<u128>) {
        if let Some(old) = old {
            self.taken_away(old);
        }
        if let Some(new) = new {
            self.digest = self.digest.wrapping_add(new);
            self.entries += 1;
        }
    }

    /// Takes over counters and log time of a progress record of the changelog.
    pub(super) fn adopt(&mut self, semantics: &Semantics, progress: &Progress) {
        let counters = progress.counters.clone();
        let consumed = counters.consumed();
        self.totals = Totals { counters, log_time_ms: progress.log_time_ms, consumed };
        self.committed = self.totals.clone();
        self.settle(semantics);
    }
}
