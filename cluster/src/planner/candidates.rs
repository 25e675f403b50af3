//! Who is promoted, and why the others are not.

use std::cmp::Reverse;
use std::time::Duration;

use crate::history::{CandidateReason, EventKind, PassedOver, Reason};
use crate::ids::{Epoch, NodeId, PartitionId};
use crate::report::Role;
use crate::state::{Partition, Stage, State};
use crate::view::Liveness;

use super::{Facts, Loads, Need};

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
            Ok(applied) => good.push((node, applied, rank)),
            Err(reason) => choice.passed_over.push(passed_over(state, node, reason)),
        }
    }
    // Furthest first; of equals the one with fewest actives, not the Raft leader if it can be helped.
    let best = good.iter().max_by_key(|(node, applied, rank)| {
        (*applied, Reverse(loads.actives(*node)), *node != facts.me, Reverse(*rank), Reverse(*node))
    });
    let Some((target, best, _)) = best.copied() else {
        return choice;
    };
    for (node, applied, _) in good.iter().filter(|(node, applied, _)| *node != target && *applied < best) {
        let reason = CandidateReason::Behind { applied: *applied, best };
        choice.passed_over.push(passed_over(state, *node, reason));
    }
    choice.target = Some(target);
    choice
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
            all.extend(self.entry.active.filter(|a| !self.entry.standbys.contains(a)));
        }
        all
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
        let again = self.entry.active == Some(node) && seen.incarnation == Some(self.entry.active_incarnation);
        if again && self.need.reason == Reason::EpochJump {
            return Ok(0);
        }
        let report = seen.report.ok_or(CandidateReason::NoReplica)?;
        if known.stopping || report.stopping {
            return Err(CandidateReason::Stopping);
        }
        if known.draining {
            return Err(CandidateReason::Draining);
        }
        if seen.nofailover {
            return Err(CandidateReason::Nofailover);
        }
        if !seen.replicas_here {
            return Err(CandidateReason::NoReplica);
        }
        if self.semantics().is_some_and(|hash| hash != report.semantics_hash) {
            return Err(CandidateReason::SemanticsDiffer);
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
            // It does not know yet that it was deposed; it follows the changelog again in a moment.
            Role::Promoting | Role::Active | Role::Fenced => Err(CandidateReason::Overtaken),
            Role::Standby => Ok(replica.applied.0),
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
        if Duration::from_millis(passed) < self.facts.promote_retry_after {
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
