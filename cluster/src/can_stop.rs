//! Whether nodes may be stopped now, from what one node sees. No clock, no sockets.

use crate::ids::{NodeId, PartitionId, Slot};
use crate::report::{ReplicaReport, Role};
use crate::view::{Liveness, NodeView, View};

/// A standby further behind is not ready to take over, in milliseconds.
const LAG_MS_MAX: i64 = 1_000;

/// What would break if these nodes stopped now; nothing: they may.
///
/// # Errors
/// A node that does not exist.
pub fn can_stop(view: &View, slots: &[Slot]) -> Result<Vec<String>, String> {
    let mut leaving = Vec::new();
    for slot in slots {
        let node = view.nodes.iter().find(|node| node.slot == *slot);
        let known = || view.nodes.iter().map(|node| node.slot.0.as_str()).collect::<Vec<_>>().join(", ");
        leaving.push(node.ok_or_else(|| format!("there is no node {slot}; there are {}", known()))?.node_id);
    }
    let stays = |node: &&NodeView| node.state == Liveness::Live && !node.stopping && !leaving.contains(&node.node_id);
    let mut objections = Vec::new();
    let voters = view.nodes.iter().filter(stays).filter(|node| node.voter).count();
    let quorum = view.voters.len() / 2 + 1;
    if voters < quorum {
        objections.push(format!("{voters} of {} voters would be left, a quorum is {quorum}", view.voters.len()));
    }
    if view.leader.is_none() {
        objections.push("no raft leader is known here, so nothing could be handed over".to_owned());
    }
    for partition in &view.partitions {
        let holders = partition.active.into_iter().chain(partition.standbys.iter().copied());
        if !holders.into_iter().any(|node| leaving.contains(&node)) {
            continue;
        }
        let left: Vec<_> = view.nodes.iter().filter(stays).collect();
        let good = |node: &&NodeView| is_good(node, partition.partition, partition.active);
        if left.iter().copied().any(|node| good(&node)) {
            continue;
        }
        let others = left.iter().filter_map(|node| Some((node, replica(node, partition.partition)?)));
        let others: Vec<_> = others.map(|(node, replica)| format!("{} {}", node.slot, state(node, replica))).collect();
        objections.push(match others.len() {
            0 => format!("there is no other copy of partition {}", partition.partition),
            1 => format!("the only other copy of partition {}: {}", partition.partition, others.join(", ")),
            _ => format!("no other copy of partition {} can take over: {}", partition.partition, others.join(", ")),
        });
    }
    Ok(objections)
}

fn replica(node: &NodeView, partition: PartitionId) -> Option<&ReplicaReport> {
    node.report.as_ref()?.replica(partition)
}

/// Whether a node works on a partition, or could take it at once.
fn is_good(node: &NodeView, partition: PartitionId, active: Option<NodeId>) -> bool {
    replica(node, partition).is_some_and(|replica| match replica.role {
        Role::Active => active == Some(node.node_id),
        Role::Standby => {
            let fit = node.drain.is_none() && !node.nofailover && replica.digest_equal != Some(false);
            fit && replica.lag_ms <= LAG_MS_MAX
        }
        Role::Restoring | Role::Promoting | Role::Fenced | Role::Divergent => false,
    })
}

fn state(node: &NodeView, replica: &ReplicaReport) -> String {
    let ends = replica.lso.0.max(1);
    let percent = replica.applied.0.saturating_mul(100).checked_div(ends).unwrap_or(0).clamp(0, 100);
    match replica.role {
        Role::Restoring => format!("is restoring ({percent} %)"),
        Role::Divergent => "is divergent".to_owned(),
        Role::Fenced => "is fenced".to_owned(),
        Role::Promoting => "is being promoted".to_owned(),
        Role::Active | Role::Standby if node.drain.is_some() => "is being drained".to_owned(),
        Role::Active | Role::Standby if node.nofailover => "is never promoted (nofailover)".to_owned(),
        Role::Active | Role::Standby => format!("is {} records behind", replica.lag_records),
    }
}
