//! Metrics of the control plane: Raft, the planner's view, the replicated history.

use std::collections::BTreeMap;

use hotspare_cluster::{EventKind, EventResult, HistoryEvent, Liveness, Phases, Reason, View};

use super::family::{Counts, Page};
use crate::http::document::PartitionState;
use crate::http::status::{has_quorum, partition_state};

const DURATION_BOUNDS: &[f64] = &[0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 2.5, 5.0, 10.0, 30.0];
const PHASE_BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.6, 1.0, 5.0];
const PHASES: [&str; 7] = ["detect", "held", "elect", "decide", "fence", "catch_up", "first_output"];
const RESULTS: [&str; 3] = ["success", "failed", "superseded"];
const FAILOVER_REASONS: [Reason; 7] = [
    Reason::ProcessDead,
    Reason::Silent,
    Reason::Stuck,
    Reason::Stalled,
    Reason::Operator,
    Reason::PromotionFailed,
    Reason::EpochJump,
];
const SWITCHOVER_REASONS: [Reason; 4] = [Reason::Operator, Reason::Drain, Reason::Shutdown, Reason::Rebalance];

/// Kind and reason of every event that there can be, so that each series is there before the first one.
fn kinds_and_reasons() -> impl Iterator<Item = (&'static str, &'static str)> {
    let failovers = FAILOVER_REASONS.map(|reason| ("failover", reason_name(reason)));
    let switchovers = SWITCHOVER_REASONS.map(|reason| ("switchover", reason_name(reason)));
    failovers.into_iter().chain(switchovers)
}

fn kind_name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Initial => "initial",
        EventKind::Failover => "failover",
        EventKind::Switchover => "switchover",
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::Initial => "initial",
        Reason::ProcessDead => "process_dead",
        Reason::Silent => "silent",
        Reason::Stuck => "stuck",
        Reason::Stalled => "stalled",
        Reason::Operator => "operator",
        Reason::Drain => "drain",
        Reason::Shutdown => "shutdown",
        Reason::Rebalance => "rebalance",
        Reason::PromotionFailed => "promotion_failed",
        Reason::EpochJump => "epoch_jump",
    }
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only doubles")]
fn number(value: u64) -> f64 {
    value as f64
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// What this node knows of Raft.
pub(super) fn raft(page: &mut Page, view: &View) {
    page.gauge("raft_is_leader", "Whether this node is the Raft leader.", |s| s.add(&[], flag(view.is_leader)));
    page.gauge("raft_has_leader", "Whether this node knows a Raft leader.", |s| {
        s.add(&[], flag(view.leader.is_some()))
    });
    page.gauge("raft_term", "Raft term.", |s| s.add(&[], number(view.term)));
    let voters = u64::try_from(view.voters.len()).unwrap_or(u64::MAX);
    page.gauge("raft_voters", "Voters.", |s| s.add(&[], number(voters)));
    let index = |page: &mut Page, name, help, index: Option<u64>| {
        page.gauge(name, help, |s| {
            if let Some(index) = index {
                s.add(&[], number(index));
            }
        });
    };
    index(page, "raft_applied_index", "Newest log entry applied here.", view.applied_index);
    index(page, "raft_committed_index", "Newest log entry known to be committed.", view.committed_index);
}

/// Nodes and partitions, exported by the Raft leader alone while a quorum answers it.
pub(super) fn planner(page: &mut Page, view: &View) {
    if !view.is_leader || !has_quorum(view) {
        return;
    }
    let mut nodes = BTreeMap::from(["live", "suspect", "dead", "draining", "removed"].map(|state| (state, 0)));
    for node in &view.nodes {
        let state = match node.state {
            Liveness::Live if node.draining => "draining",
            Liveness::Live => "live",
            Liveness::Suspect => "suspect",
            // One that never came must raise the same alert as one that is gone.
            Liveness::Dead | Liveness::Stopped | Liveness::Unknown => "dead",
        };
        *nodes.entry(state).or_default() += 1;
    }
    nodes.insert("removed", u64::try_from(view.tombstones.len()).unwrap_or(u64::MAX));
    page.gauge("nodes", "Nodes by state, as the Raft leader sees them.", |series| {
        nodes.iter().for_each(|(state, count)| series.add(&[("state", state)], number(*count)));
    });
    let mut partitions = BTreeMap::from(["active", "promoting", "no_active"].map(|state| (state, 0)));
    for partition in &view.partitions {
        let state = match partition_state(partition, view) {
            PartitionState::Active => "active",
            PartitionState::Promoting => "promoting",
            PartitionState::NoActive | PartitionState::Unknown => "no_active",
        };
        *partitions.entry(state).or_default() += 1;
    }
    page.gauge("partitions", "Partitions by state, as the Raft leader sees them.", |series| {
        partitions.iter().for_each(|(state, count)| series.add(&[("state", state)], number(*count)));
    });
}

/// What follows from the replicated history; every node that knows it exports the same.
pub(super) fn history(page: &mut Page, view: &View, events: &[HistoryEvent]) {
    page.counter("failovers_total", "Failovers and switchovers that have ended, by how.", |series| {
        for (kind, reason) in kinds_and_reasons() {
            for result in RESULTS {
                series.add(&[("kind", kind), ("reason", reason), ("result", result)], 0.0);
            }
        }
        for (key, count) in &view.events_total {
            let parts: Vec<&str> = key.split('/').collect();
            if let [kind @ ("failover" | "switchover"), reason, result] = parts[..] {
                series.add(&[("kind", kind), ("reason", reason), ("result", result)], number(*count));
            }
        }
    });
    page.counter("false_failovers_total", "Failovers after which the deposed process was heard again.", |series| {
        FAILOVER_REASONS.iter().for_each(|reason| series.add(&[("reason", reason_name(*reason))], 0.0));
        let false_ones = events.iter().filter(|event| event.false_positive);
        false_ones.for_each(|event| series.add(&[("reason", reason_name(event.reason))], 1.0));
    });
    durations(page, events);
}

fn durations(page: &mut Page, events: &[HistoryEvent]) {
    let mut durations: BTreeMap<_, _> =
        kinds_and_reasons().map(|labels| (labels, Counts::new(DURATION_BOUNDS))).collect();
    let kinds = ["failover", "switchover"];
    let phases = kinds.into_iter().flat_map(|kind| PHASES.map(|phase| (kind, phase)));
    let mut phases: BTreeMap<_, _> = phases.map(|labels| (labels, Counts::new(PHASE_BOUNDS))).collect();
    let done = |event: &&HistoryEvent| event.kind != EventKind::Initial && event.result == EventResult::Success;
    for event in events.iter().filter(done) {
        let kind = kind_name(event.kind);
        if let Some(total_ms) = event.total_ms {
            let labels = (kind, reason_name(event.reason));
            durations.entry(labels).or_insert_with(|| Counts::new(DURATION_BOUNDS)).observe(total_ms / 1000.0);
        }
        let Phases { detect, held, elect, decide, fence, catch_up, first_output } = event.phases_ms;
        for (phase, ms) in PHASES.into_iter().zip([detect, held, elect, decide, fence, catch_up, first_output]) {
            if let Some(counts) = phases.get_mut(&(kind, phase)) {
                counts.observe(ms / 1000.0);
            }
        }
    }
    let labels = |first: &str, second: &str, values: &(&str, &str)| {
        vec![(first.to_owned(), values.0.to_owned()), (second.to_owned(), values.1.to_owned())]
    };
    page.histogram(
        "failover_duration_seconds",
        "From the last sign of life to the report of the first commit, of the events that are kept.",
        durations.iter().map(|(values, counts)| (labels("kind", "reason", values), counts)),
    );
    page.histogram(
        "failover_phase_seconds",
        "Where the time of failovers and switchovers went, of the events that are kept.",
        phases.iter().map(|(values, counts)| (labels("kind", "phase", values), counts)),
    );
}
