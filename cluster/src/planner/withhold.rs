//! What would be done, and is not: no candidate, a pause of an operator, a pause because of failovers just before.

use std::time::Duration;

use crate::history::{EventKind, EventResult, HistoryEvent, NodeRef, Reason, WallTime};
use crate::ids::{Epoch, Offset, PartitionId};
use crate::options::Settings;
use crate::state::{Command, Partition, State, WithheldCommand};

use super::candidates::Choice;
use super::{Facts, Need, Plan, Withheld, millis, timing};

/// Why a change is not done now.
pub(super) fn why(
    facts: &Facts<'_>,
    state: &State,
    partition: PartitionId,
    need: &Need,
    choice: &Choice,
    settings: &Settings,
) -> Option<Withheld> {
    let candidates = choice.passed_over.clone();
    let withheld = |reason, remaining| Withheld { partition, reason, remaining, input_offset: None, candidates };
    let automatic = need.kind == EventKind::Failover && need.wish.operation.is_none();
    if let Some(pause) = state.paused(Some(partition), facts.wall).filter(|_| automatic) {
        let left = u64::try_from(pause.until.0.saturating_sub(facts.wall.0)).unwrap_or(0);
        return Some(withheld("paused", Some(Duration::from_millis(left))));
    }
    if let Some(remaining) = antiflap(facts, state, partition, need, settings) {
        let stuck = dies_at_once(state, partition);
        let reason = if stuck { "same_offset" } else { "antiflap" };
        let input_offset = stuck.then(|| next_input(facts, partition)).flatten();
        return Some(Withheld { input_offset, ..withheld(reason, Some(remaining)) });
    }
    choice.target.is_none().then(|| withheld("no_candidate", None))
}

/// Puts a failover that is withheld into the history, once for each reason.
pub(super) fn record(
    facts: &Facts<'_>,
    state: &State,
    entry: &Partition,
    need: &Need,
    choice: &Choice,
    withheld: &Withheld,
    plan: &mut Plan,
) {
    let partition = withheld.partition;
    if need.kind != EventKind::Failover || entry.withheld.as_deref() == Some(withheld.reason) {
        return;
    }
    let named = |node_id| NodeRef { slot: state.slot_of(node_id), node_id };
    let Some(to) = choice.target.or(entry.active) else { return };
    let (evidence, phases_ms, _) = timing(facts, partition, need);
    let event = HistoryEvent {
        seq: 0,
        kind: need.kind,
        reason: need.reason,
        partition,
        epoch: Epoch(entry.epoch.max(entry.floor).0 + 1),
        result: EventResult::Withheld,
        by: need.wish.by.clone(),
        at: facts.wall,
        from: entry.active.map(named),
        from_incarnation: 0,
        to: named(to),
        evidence,
        phases_ms,
        total_ms: None,
        pause_ms: None,
        records_caught_up: 0,
        readings_replayed: 0,
        passed_over: withheld.candidates.clone(),
        false_positive: false,
        withheld: Some(withheld.reason.to_owned()),
        operation: need.wish.operation,
        error: None,
        note: None,
    };
    let command = WithheldCommand { partition, why: Some(withheld.reason.to_owned()), event: Some(event) };
    plan.commands.push(Command::Withheld(Box::new(command)));
}

/// Nothing is to be done any more, so the next time is another one.
pub(super) fn forget(partition: PartitionId, entry: &Partition, plan: &mut Plan) {
    if entry.withheld.is_some() {
        let command = WithheldCommand { partition, why: None, event: None };
        plan.commands.push(Command::Withheld(Box::new(command)));
    }
}

/// Tenures in a row that ended with their process before the first commit: something in the input kills it, and one node
/// after the other would follow.
const DEATHS_IN_A_ROW: usize = 3;

pub(super) fn dies_at_once(state: &State, partition: PartitionId) -> bool {
    let of = |event: &&HistoryEvent| event.partition == partition && event.result != EventResult::Withheld;
    let tenures = state.history.events.iter().rev().filter(of);
    let died = |event: &&HistoryEvent| {
        event.reason == Reason::ProcessDead && matches!(event.result, EventResult::Pending | EventResult::Failed)
    };
    tenures.take_while(died).count() >= DEATHS_IN_A_ROW
}

/// Where the next tenure would begin to read.
fn next_input(facts: &Facts<'_>, partition: PartitionId) -> Option<Offset> {
    let reports = facts.nodes.values().filter_map(|node| node.report);
    reports.filter_map(|report| report.replica(partition)?.next_input).max()
}

/// The time for which an automatic failover is still held back.
fn antiflap(
    facts: &Facts<'_>,
    state: &State,
    partition: PartitionId,
    need: &Need,
    settings: &Settings,
) -> Option<Duration> {
    let entry = state.partitions.get(&partition)?;
    let by_detector = matches!(need.reason, Reason::ProcessDead | Reason::Silent | Reason::Stuck | Reason::Stalled);
    if need.kind != EventKind::Failover || !by_detector {
        return None;
    }
    let Flap { pause, remaining, .. } = flap(state, partition, entry, facts.wall, settings, need.proved);
    // The failover before may have got its time from another clock, which was ahead: nobody waits longer than the pause.
    let waited = facts.withheld_since.get(&partition).map_or(Duration::ZERO, |since| facts.now.saturating_sub(*since));
    remaining.map(|left| left.min(pause.saturating_sub(waited))).filter(|left| !left.is_zero())
}

/// How often a partition failed over of late, and what that means for the next time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flap {
    /// Automatic failovers in the window.
    pub(crate) recent: usize,
    /// From one to the next.
    pub(crate) pause: Duration,
    /// Until the next would be done, from now on; none: at once.
    pub(crate) remaining: Option<Duration>,
}

/// The k-th failover in the window waits 0, 0, base, 2 base, … after the one before; without proof of death one step
/// earlier.
pub(crate) fn flap(
    state: &State,
    partition: PartitionId,
    entry: &Partition,
    wall: WallTime,
    settings: &Settings,
    proved: bool,
) -> Flap {
    let window_ms = millis(settings.antiflap_window);
    let recent: Vec<_> = entry.failovers.iter().filter(|t| wall.0.saturating_sub(t.0) < window_ms).collect();
    let pause = if dies_at_once(state, partition) {
        settings.antiflap_max
    } else {
        let k = recent.len() + 1 + usize::from(!proved);
        k.checked_sub(3).map_or(Duration::ZERO, |doublings| {
            let factor = u32::try_from(doublings).ok().and_then(|doublings| 2u32.checked_pow(doublings));
            settings.antiflap_base.saturating_mul(factor.unwrap_or(u32::MAX)).min(settings.antiflap_max)
        })
    };
    let remaining = recent.iter().map(|t| t.0).max().and_then(|last| {
        let passed = Duration::from_millis(u64::try_from(wall.0.saturating_sub(last)).unwrap_or(0));
        pause.checked_sub(passed).filter(|left| !left.is_zero())
    });
    Flap { recent: recent.len(), pause, remaining }
}
