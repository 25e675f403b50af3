//! Counters over the whole history. They live on when its events are trimmed, so they never go back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, PHASE_BOUNDS_S, TOTAL_BOUNDS_S};
use crate::history::{EventResult, HistoryEvent, Phases, WallTime};

/// Replicated counters; names of kinds, reasons and phases are those of the history.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Whole times of successful changes by `kind/reason`; bounds: [`TOTAL_BOUNDS_S`].
    pub durations: BTreeMap<String, Histogram>,
    /// Times of their phases by `kind/phase`; bounds: [`PHASE_BOUNDS_S`].
    pub phases: BTreeMap<String, Histogram>,
    /// The newest successful change by `kind`.
    pub last: BTreeMap<String, LastChange>,
    /// Failovers after which the deposed process was heard again, by reason.
    pub false_failovers: BTreeMap<String, u64>,
    /// Decisions withheld by reason, each once while it lasts.
    pub withheld: BTreeMap<String, u64>,
}

/// When the newest successful change of a kind was decided, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastChange {
    /// When it was decided.
    pub at: WallTime,
    /// From the last sign of life to the report of the first commit, in milliseconds.
    pub total_ms: f64,
}

/// The phases by the names that they have in the history, in their order.
#[must_use]
pub fn phases_by_name(phases: &Phases) -> [(&'static str, f64); 9] {
    let Phases { prepare, last_commit, detect, held, elect, decide, fence, catch_up, first_output } = *phases;
    [
        ("prepare", prepare),
        ("last_commit", last_commit),
        ("detect", detect),
        ("held", held),
        ("elect", elect),
        ("decide", decide),
        ("fence", fence),
        ("catch_up", catch_up),
        ("first_output", first_output),
    ]
}

impl Totals {
    /// Takes in a change that has just ended.
    pub(crate) fn ended(&mut self, event: &HistoryEvent) {
        if event.result != EventResult::Success {
            return;
        }
        let kind = event.kind.name();
        for (phase, ms) in phases_by_name(&event.phases_ms) {
            self.phases.entry(format!("{kind}/{phase}")).or_default().observe(PHASE_BOUNDS_S, ms / 1000.0);
        }
        if let Some(total_ms) = event.total_ms {
            let key = format!("{kind}/{}", event.reason.name());
            self.durations.entry(key).or_default().observe(TOTAL_BOUNDS_S, total_ms / 1000.0);
            self.last.insert(kind.to_owned(), LastChange { at: event.at, total_ms });
        }
    }
}
