//! The state as the changelog tells it.

use super::active::{Active, Totals};
use super::series::{Window, due_ms};
use crate::changelog::{Progress, WindowKey};
use crate::semantics::WindowRules;
use crate::window::Aggregate;

impl Active {
    /// Puts an entry of the changelog in place.
    pub(super) fn put(&mut self, key: &WindowKey<'_>, aggregate: Aggregate, hash: u128, rules: &[WindowRules]) {
        let Some(id) = self.state.find_or_insert(key.device, key.metric) else {
            return;
        };
        let Some(series) = self.state.get_mut(id) else {
            return;
        };
        let place = (key.definition, key.start_ms);
        series.watermark_ms = series.watermark_ms.max(aggregate.last_ms);
        series.due_ms = series.due_ms.min(due_ms(rules, place));
        if let Some(window) = series.window_mut(place) {
            self.digest = self.digest.wrapping_sub(window.entry_hash);
            (window.aggregate, window.entry_hash) = (Some(aggregate), hash);
        } else {
            let (definition, start_ms) = place;
            let aggregate = Some(aggregate);
            series.insert(Window { definition, start_ms, aggregate, is_touched: false, entry_hash: hash });
            self.entries += 1;
        }
        self.digest = self.digest.wrapping_add(hash);
    }

    /// Takes an entry away at a tombstone of the changelog.
    pub(super) fn remove(&mut self, key: &WindowKey<'_>, rules: &[WindowRules]) {
        let Some(id) = self.state.find(key.device, key.metric) else {
            return;
        };
        let Some(series) = self.state.get_mut(id) else {
            return;
        };
        let Some(window) = series.remove((key.definition, key.start_ms)) else {
            return;
        };
        self.digest = self.digest.wrapping_sub(window.entry_hash);
        self.entries = self.entries.saturating_sub(1);
        series.refresh(rules);
        self.state.remove_if_empty(id);
    }

    /// Takes over counters and log time of a progress record of the changelog.
    pub(super) fn adopt(&mut self, progress: &Progress) {
        let counters = progress.counters.clone();
        let consumed = counters.consumed();
        self.totals = Totals { counters, log_time_ms: progress.log_time_ms, consumed };
        self.committed = self.totals.clone();
    }
}
