//! Metrics of the control plane: Raft, the planner's view, the replicated history.

use std::{collections::BTreeMap, time::Duration};

use hotspare_cluster::{Histogram, Liveness, View};

use super::{
    Facts, count,
    family::{Page, combinations},
    flag, number, seconds,
};
use crate::http::document::PartitionState;
use crate::http::status::has_quorum;
use crate::metrics::{
    Metric,
    catalogue::{self as all, FAILOVER_REASONS, SWITCHOVER_REASONS},
};

/// Kind and reason of every event that there can be, so that each series is there before the first one.
fn kinds_and_reasons() -> impl Iterator<Item = [&'static str; 2]> {
    let failovers = FAILOVER_REASONS.map(|reason| ["failover", reason]);
    failovers.into_iter().chain(SWITCHOVER_REASONS.map(|reason| ["switchover", reason]))
}

/// What this node knows of Raft and its peers.
pub(super) fn raft(page: &mut Page, facts: &Facts<'_>) {
    let (view, meters) = (facts.view, &facts.view.meters);
    page.one(&all::RAFT_IS_LEADER, Some(flag(view.is_leader)));
    page.one(&all::RAFT_HAS_LEADER, Some(flag(has_quorum(view))));
    page.one(&all::RAFT_TERM, Some(number(view.term)));
    page.one(&all::RAFT_VOTERS, Some(count(view.voters.len())));
    page.one(&all::RAFT_APPLIED_INDEX, view.applied_index.map(number));
    page.one(&all::RAFT_COMMITTED_INDEX, view.committed_index.map(number));
    page.one(&all::RAFT_QUORUM_ACK, view.quorum_age_ms.map(|age| facts.timestamp(Duration::from_millis(age))));
    page.one(&all::RAFT_LEADER_CHANGES, Some(number(meters.leader_changes)));
    page.one(&all::FAILOVERS_BLOCKED_NO_QUORUM, Some(number(meters.blocked_no_quorum)));
    counted(page, &all::RAFT_ELECTIONS, &meters.elections);
    counted(page, &all::SUSPICIONS, &view.suspicions);
    counted(page, &all::PEER_REJECTED, &view.refused_connections);
    page.histograms(&all::RAFT_FSYNC, [(Vec::new(), &meters.raft_fsync)].into_iter());
    page.histograms(&all::RAFT_COMMIT, [(Vec::new(), &meters.raft_commit)].into_iter());
    page.histograms(&all::PEER_RTT, meters.peer_rtt.iter().map(|(peer, times)| (vec![peer.clone()], times)));
    page.fill(&all::PEER_LAST_HEARD, |series| {
        for node in view.nodes.iter().filter(|node| node.node_id != view.node_id) {
            if let Some(age) = node.last_heard_ms {
                series.add(&[&node.slot.0], facts.timestamp(Duration::from_millis(age)));
            }
        }
    });
}

/// Counters whose keys are the labels' values, with slashes between.
fn counted(page: &mut Page, metric: &Metric, counts: &BTreeMap<String, u64>) {
    page.fill(metric, |series| {
        series.begin();
        for (key, count) in counts {
            series.add(&key.split('/').collect::<Vec<_>>(), number(*count));
        }
    });
}

/// Nodes and partitions, exported by the Raft leader alone while a quorum answers it.
pub(super) fn planner(page: &mut Page, facts: &Facts<'_>) {
    let (view, status) = (facts.view, facts.status);
    if !view.is_leader || !has_quorum(view) {
        return;
    }
    page.fill(&all::NODES, |series| {
        series.begin();
        for node in &view.nodes {
            let state = match node.state {
                Liveness::Live if node.draining => "draining",
                Liveness::Live => "live",
                Liveness::Suspect => "suspect",
                // One that never came must raise the same alert as one that is gone.
                Liveness::Dead | Liveness::Stopped | Liveness::Unknown => "dead",
            };
            series.add(&[state], 1.0);
        }
        series.add(&["removed"], count(view.tombstones.len()));
    });
    page.fill(&all::PARTITIONS, |series| {
        series.begin();
        for partition in &status.partitions {
            let state = match partition.state {
                PartitionState::Active => "active",
                PartitionState::Promoting => "promoting",
                PartitionState::NoActive | PartitionState::Unknown => "no_active",
            };
            series.add(&[state], 1.0);
        }
    });
    page.fill(&all::PROMOTABLE_STANDBYS, |series| {
        for partition in &status.partitions {
            series.add(&[&partition.partition.to_string()], f64::from(partition.promotable));
        }
    });
    let too_few = status.partitions.iter().filter(|partition| partition.promotable < facts.settings.standbys).count();
    page.one(&all::UNDER_REPLICATED, Some(count(too_few)));
    page.one(&all::FAILURE_TOLERANCE, status.tolerance.map(f64::from));
}

/// What follows from the replicated history; every node that knows it exports the same.
pub(super) fn history(page: &mut Page, view: &View) {
    let totals = &view.totals;
    page.fill(&all::FAILOVERS, |series| {
        for [kind, reason] in kinds_and_reasons() {
            for result in ["success", "failed", "superseded"] {
                series.add(&[kind, reason, result], 0.0);
            }
        }
        for (key, count) in &view.events_total {
            if let [kind @ ("failover" | "switchover"), reason, result] = key.split('/').collect::<Vec<_>>()[..] {
                series.add(&[kind, reason, result], number(*count));
            }
        }
    });
    counted(page, &all::FALSE_FAILOVERS, &totals.false_failovers);
    counted(page, &all::FAILOVERS_WITHHELD, &totals.withheld);
    let pairs = kinds_and_reasons().map(|pair| pair.to_vec());
    histograms(page, &all::FAILOVER_DURATION, pairs.collect(), &totals.durations);
    histograms(page, &all::FAILOVER_PHASE, combinations(all::FAILOVER_PHASE.labels), &totals.phases);
    page.fill(&all::FAILOVER_LAST_DURATION, |series| {
        totals.last.iter().filter(|(kind, _)| is_change(kind)).for_each(|(kind, last)| {
            series.add(&[kind], last.total_ms / 1000.0);
        });
    });
    page.fill(&all::FAILOVER_LAST_TIMESTAMP, |series| {
        totals.last.iter().filter(|(kind, _)| is_change(kind)).for_each(|(kind, last)| {
            series.add(&[kind], seconds(last.at.0));
        });
    });
    page.fill(&all::UNAVAILABLE, |series| {
        series.begin();
        for (key, times) in totals.durations.iter().filter(|(key, _)| is_change(key)) {
            series.add(&[key.split('/').next().unwrap_or_default()], times.sum());
        }
    });
}

/// The first active of a partition is no change of it.
fn is_change(key: &str) -> bool {
    !key.starts_with("initial")
}

fn histograms(page: &mut Page, metric: &Metric, begin: Vec<Vec<&'static str>>, found: &BTreeMap<String, Histogram>) {
    let none = Histogram::default();
    let mut shown: BTreeMap<Vec<String>, &Histogram> =
        begin.into_iter().map(|labels| (labels.into_iter().map(str::to_owned).collect(), &none)).collect();
    let found = found.iter().filter(|(key, _)| is_change(key));
    shown.extend(found.map(|(key, histogram)| (key.split('/').map(str::to_owned).collect(), histogram)));
    page.histograms(metric, shown.into_iter());
}
