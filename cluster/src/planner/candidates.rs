//! Who is promoted, and why the others are not.

use std::cmp::Reverse;
use std::time::Duration;

use crate::history::{CandidateReason, EventKind, PassedOver, Reason};
use crate::ids::{Epoch, NodeId, PartitionId};
use crate::report::Role;
use crate::state::{Partition, Stage, State};
use crate::view::Liveness;

use super::{Facts, Loads, Need, placement};

/// The target of an order, and those passed over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) target: Option<NodeId>,
    pub(crate) passed_over: Vec<PassedOver>,
    /// The highest epoch that any replica has seen.
    pub(crate) highest_epoch: Epoch,
}

/// Chooses the target for a partition.
pub(crate) fn choose(
    facts: &Facts<'_>,
    state: &State,
    partition: PartitionId,
    entry: &Partition,
    need: &Need,
    loads: &Loads,
) -> Choice {
    let judge = Judge { facts, state, partition, entry, need };
    let mut choice = Choice { highest_epoch: judge.highest_epoch(), ..Choice::default() };
    let mut good = Vec::new();
    for (rank, node) in judge.candidates().into_iter().enumerate() {
        match judge.judge(node) {
            Ok(_) if need.wish.to.is_some_and(|to| to != node) => {}
            Ok(applied) => good.push((node, applied, rank)),
            Err(reason) => choice.passed_over.push(passed_over(state, node, reason)),
        }
    }
    // Furthest first; of equals the one with fewest actives, not the Raft leader if it can be helped.
    // A planned change waits for its successor, so there the load decides, and only who is warm comes before it.
    let planned = need.kind == EventKind::Switchover;
    let best = good.iter().max_by_key(|(node, applied, rank)| {
        let (warm, far) = if planned { (judge.is_warm(*node), 0) } else { (true, *applied) };
        (warm, far, Reverse(loads.actives(*node)), *node != facts.me, Reverse(*rank), Reverse(*node))
    });
    let Some((target, best, _)) = best.copied() else {
        return choice;
    };
    let behind = good.iter().filter(|(node, applied, _)| !planned && *node != target && *applied < best);
    for (node, applied, _) in behind {
        let reason = CandidateReason::Behind { applied: *applied, best };
        choice.passed_over.push(passed_over(state, *node, reason));
    }
    choice.target = Some(target);
    choice
}

fn major_and_minor(version: &str) -> Option<(u64, u64)> {
    let mut parts = version.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

fn passed_over(state: &State, node_id: NodeId, reason: CandidateReason) -> PassedOver {
    PassedOver { slot: state.slot_of(node_id), node_id, reason }
}

struct Judge<'a> {
    facts: &'a Facts<'a>,
    state: &'a State,
    partition: PartitionId,
    entry: &'a Partition,
    need: &'a Need,
}

impl Judge<'_> {
    fn candidates(&self) -> Vec<NodeId> {
        if self.need.kind == EventKind::Initial {
            return self.state.nodes.keys().copied().collect();
        }
        if self.need.reason == Reason::EpochJump {
            // The log is above the order, not the node wrong: the same one again, above the log.
            return self.entry.active.into_iter().collect();
        }
        let mut all = self.entry.standbys.clone();
        if self.need.kind == EventKind::Failover {
            // A node that returned, or that failed and is the only one.
            let without = |a: &NodeId| self.need.reason == Reason::Operator && self.is_ordered_process(*a);
            all.extend(self.entry.active.filter(|a| !self.entry.standbys.contains(a) && !without(a)));
        }
        all
    }

    /// Whether the process of a node is the one that was ordered to be active.
    fn is_ordered_process(&self, node: NodeId) -> bool {
        let seen = self.facts.nodes.get(&node);
        seen.is_some_and(|seen| seen.incarnation == Some(self.entry.active_incarnation))
    }

    fn highest_epoch(&self) -> Epoch {
        let replicas = self.facts.nodes.values().filter_map(|n| n.report?.replica(self.partition));
        replicas.map(|r| r.epoch).max().unwrap_or_default()
    }

    /// The changelog offset of an eligible replica, or why it is not eligible.
    fn judge(&self, node: NodeId) -> Result<i64, CandidateReason> {
        let initial = self.need.kind == EventKind::Initial;
        let known = self.state.nodes.get(&node).ok_or(CandidateReason::Dead)?;
        let seen = self.facts.nodes.get(&node).ok_or(CandidateReason::Dead)?;
        match seen.liveness {
            Liveness::Live => {}
            Liveness::Unknown | Liveness::Suspect => return Err(CandidateReason::Suspect),
            Liveness::Dead | Liveness::Stopped => return Err(CandidateReason::Dead),
        }
        let again = self.entry.active == Some(node) && self.is_ordered_process(node);
        if again && self.need.reason == Reason::EpochJump {
            return Ok(0);
        }
        let report = seen.report.ok_or(CandidateReason::NoReplica)?;
        if known.stopping || report.stopping {
            return Err(CandidateReason::Stopping);
        }
        if known.drain.is_some() {
            return Err(CandidateReason::Draining);
        }
        if seen.nofailover && !self.need.wish.allow_nofailover {
            return Err(CandidateReason::Nofailover);
        }
        if !seen.replicas_here {
            return Err(CandidateReason::NoReplica);
        }
        if self.need.reason == Reason::Stalled && !seen.hears_kafka(self.facts.stalled_after) {
            return Err(CandidateReason::KafkaUnreachable);
        }
        if self.semantics().is_some_and(|hash| hash != report.semantics_hash) {
            return Err(CandidateReason::SemanticsDiffer);
        }
        if self.is_too_old(&seen.version) {
            return Err(CandidateReason::VersionTooOld);
        }
        if again {
            self.again(node)?;
        }
        let Some(replica) = report.replica(self.partition) else {
            return if initial || again { Ok(0) } else { Err(CandidateReason::NoReplica) };
        };
        if replica.digest_equal == Some(false) {
            return Err(CandidateReason::Divergent);
        }
        match replica.role {
            Role::Divergent => Err(CandidateReason::Divergent),
            _ if again || initial => Ok(replica.applied.0),
            Role::Restoring => Err(CandidateReason::Restoring),
            // The successor did not come: it works on, and may go on under another epoch.
            Role::Active if self.hands_over(node, replica.epoch) => Ok(replica.applied.0),
            // It does not know yet that it was deposed; it follows the changelog again in a moment.
            Role::Promoting | Role::Active | Role::Fenced => Err(CandidateReason::Overtaken),
            Role::Standby if self.must_be_warm() && !self.is_warm(node) => Err(CandidateReason::Cold),
            Role::Standby => Ok(replica.applied.0),
        }
    }

    /// What operators ask for needs a warm successor, unless they say otherwise; who ends or has died does not wait.
    fn must_be_warm(&self) -> bool {
        matches!(self.need.reason, Reason::Operator | Reason::Drain) && !self.need.wish.allow_cold
    }

    fn is_warm(&self, node: NodeId) -> bool {
        placement::warm(self.facts, self.partition, node)
    }

    /// Whether a node is the old active of a switchover that has not come to its end.
    fn hands_over(&self, node: NodeId, epoch: Epoch) -> bool {
        let order = self.entry.order.as_ref();
        let switchover = order.is_some_and(|o| o.kind == EventKind::Switchover && o.from == Some(node));
        self.need.kind == EventKind::Failover && switchover && epoch < self.entry.epoch
    }

    /// Whether a version is two minor ones or more before that of the active, whose records it may not be able to read.
    fn is_too_old(&self, version: &str) -> bool {
        let active = self.entry.active.and_then(|id| self.facts.nodes.get(&id)).map(|node| node.version.as_str());
        match (active.and_then(major_and_minor), major_and_minor(version)) {
            (Some(active), Some(here)) => here.0 < active.0 || (here.0 == active.0 && here.1 + 1 < active.1),
            _ => false,
        }
    }

    /// Whether the node whose promotion failed may be ordered again: after a pause, and if no other can.
    fn again(&self, node: NodeId) -> Result<(), CandidateReason> {
        if self.need.reason != Reason::PromotionFailed {
            return Ok(());
        }
        let others = self.entry.standbys.iter().filter(|s| **s != node);
        if others.into_iter().any(|s| self.judge(*s).is_ok()) {
            return Err(CandidateReason::PromotionFailed);
        }
        let Stage::Failed { at } = self.entry.stage else {
            return Ok(());
        };
        let passed = u64::try_from(self.facts.wall.0.saturating_sub(at.0)).unwrap_or(0);
        // Another leader's clock may have been ahead: nobody waits for it to come true.
        let waited = self.facts.withheld_since.get(&self.partition).map(|since| self.facts.now.saturating_sub(*since));
        if Duration::from_millis(passed).max(waited.unwrap_or_default()) < self.facts.promote_retry_after {
            return Err(CandidateReason::PromotionFailed);
        }
        Ok(())
    }

    /// The rules by which the active aggregates; else those of the leader.
    fn semantics(&self) -> Option<u64> {
        let of = |node: NodeId| self.facts.nodes.get(&node).and_then(|n| n.report).map(|r| r.semantics_hash);
        let known = |hash: &u64| *hash != 0;
        let active = self.entry.active.and_then(of).filter(known);
        active.or_else(|| of(self.facts.me).filter(known))
    }
}
