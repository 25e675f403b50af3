//! What operators' acts ask of the planner.

use crate::history::Reason;
use crate::ids::{NodeId, PartitionId, Slot};
use crate::operation::{Act, StepState};
use crate::state::{Command, State};

use super::{Facts, Need, Plan, Wish, Withheld};

/// A step that cannot be ordered for so long is given up, in milliseconds.
const STEP_WAIT_MS: i64 = 60_000;

/// The failover that an operator wants of a partition.
pub(super) fn failover(state: &State, partition: PartitionId) -> Option<Wish> {
    wish(state, partition, |act| match act {
        Act::Failover { to, allow_cold, allow_nofailover, .. } => Some((to.as_ref(), *allow_cold, *allow_nofailover)),
        _ => None,
    })
}

/// The switchover that an operator wants of a partition.
pub(super) fn switchover(state: &State, partition: PartitionId) -> Option<Wish> {
    wish(state, partition, |act| match act {
        Act::Switchover { to, allow_cold, .. } => Some((to.as_ref(), *allow_cold, false)),
        _ => None,
    })
}

fn wish(
    state: &State,
    partition: PartitionId,
    wanted: impl Fn(&Act) -> Option<(Option<&Slot>, bool, bool)>,
) -> Option<Wish> {
    state.operations.running().find_map(|operation| {
        let waits = operation.steps.iter().any(|s| s.partition == partition && s.state == StepState::Waiting);
        let (to, allow_cold, allow_nofailover) = wanted(&operation.act).filter(|_| waits)?;
        Some(Wish {
            operation: Some(operation.id),
            by: Some(operation.by.clone()),
            // A slot that is gone is the name of nobody, and not of anybody.
            to: to.map(|slot| node_of(state, slot).unwrap_or_default()),
            allow_cold,
            allow_nofailover,
        })
    })
}

/// The node that holds a slot.
pub(super) fn node_of(state: &State, slot: &Slot) -> Option<NodeId> {
    state.nodes.iter().find(|(_, node)| node.slot == *slot).map(|(id, _)| *id)
}

/// Gives a step up that has waited for long.
pub(super) fn give_up(facts: &Facts<'_>, state: &State, need: &Need, withheld: &Withheld, plan: &mut Plan) {
    let Some(operation) = need.wish.operation.and_then(|id| state.operations.get(id)) else { return };
    if facts.wall.0.saturating_sub(operation.at.0) < STEP_WAIT_MS || need.reason != Reason::Operator {
        return;
    }
    let candidates: Vec<_> =
        withheld.candidates.iter().map(|passed| format!("{} {}", passed.slot, passed.reason.name())).collect();
    let detail = format!("{} for {} s: {}", withheld.reason, STEP_WAIT_MS / 1000, candidates.join(", "));
    let partition = withheld.partition;
    plan.commands.push(Command::GiveUp { operation: operation.id, partition, detail, at: facts.wall });
}

/// Ends the drain of nodes that have nothing left to give away.
pub(super) fn drained(facts: &Facts<'_>, state: &State, plan: &mut Plan) {
    for (id, node) in &state.nodes {
        let Some(drain) = &node.drain else { continue };
        let runs = state.operations.get(drain.operation).is_some_and(crate::operation::Operation::is_running);
        let active = |p: &crate::state::Partition| {
            // Until its successor has committed, the old active works.
            let gives = p.order.as_ref().is_some_and(|order| order.from == Some(*id));
            p.active == Some(*id) || (gives && p.stage == crate::state::Stage::Ordered)
        };
        let held = state.partitions.values().any(|p| active(p) || (drain.evacuate && p.standbys.contains(id)));
        if runs && !held {
            plan.commands.push(Command::Drained { node: *id, at: facts.wall });
        }
    }
}
