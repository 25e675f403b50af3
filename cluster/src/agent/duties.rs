//! Gets into the log what this node has to tell, again and again until it is there.

use std::sync::Arc;
use std::time::Duration;

use crate::history::EventResult;
use crate::ids::{NodeId, Slot};
use crate::raft::ProposeError;
use crate::state::{Batch, Command};
use crate::transport::{Request, Response};

use super::node::{Duty, Node};
use super::serve::commit_outcome;

/// Between attempts.
const RETRY_AFTER: Duration = Duration::from_millis(50);
/// For the leader to commit.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Performs duties until the agent stops.
pub(crate) async fn perform(node: Arc<Node>) {
    loop {
        let waiting = node.duties().clone();
        if waiting.is_empty() {
            node.duties_changed.notified().await;
            continue;
        }
        let mut failed = false;
        for duty in waiting {
            if done(&node, &duty) || perform_one(&node, &duty).await {
                node.duties().retain(|d| *d != duty);
            } else {
                failed = true;
            }
        }
        if failed {
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

/// Whether the replicated state shows that nothing is left to do.
fn done(node: &Node, duty: &Duty) -> bool {
    let state = node.replicated.read();
    match duty {
        Duty::Outcome(outcome) => state
            .history
            .events
            .iter()
            .rev()
            .find(|e| e.partition == outcome.partition && e.epoch == outcome.epoch)
            .is_some_and(|e| e.result == EventResult::Success),
        Duty::Command(Command::EpochSeen { partition, seen }) => {
            state.partitions.get(partition).is_some_and(|p| p.floor >= *seen || p.epoch >= *seen)
        }
        // By now it may be active again, by itself.
        Duty::Command(Command::Fenced { partition, epoch, .. }) => node.fenced().get(partition) != Some(epoch),
        Duty::Command(Command::FalsePositive { node, incarnation }) => {
            state.history.falsely_deposed(*node, *incarnation).next().is_none()
        }
        Duty::Command(_) => false,
    }
}

async fn perform_one(node: &Arc<Node>, duty: &Duty) -> bool {
    let status = node.raft_status();
    if status.is_leader {
        let result = match duty {
            Duty::Outcome(outcome) => commit_outcome(node, outcome.clone()).await,
            Duty::Command(command) => match node.group() {
                Some(group) => group.propose(Batch { commands: vec![command.clone()] }).await.map(drop),
                None => Err(ProposeError::NotLeader(None)),
            },
        };
        return result.is_ok();
    }
    let request = match duty {
        Duty::Outcome(outcome) => Request::Outcome(outcome.clone()),
        Duty::Command(command) => Request::Propose(Batch { commands: vec![command.clone()] }),
    };
    let Some(mut slot) = status.leader.and_then(|id| slot_at(node, id)) else {
        return false;
    };
    for _ in 0..2 {
        match node.links.request(&slot, &request, COMMIT_TIMEOUT).await {
            Ok(Response::Done) => return true,
            Ok(Response::NotLeader(Some(other))) => match slot_at(node, other) {
                Some(other) if other != slot => slot = other,
                _ => return false,
            },
            _ => return false,
        }
    }
    false
}

pub(super) fn slot_at(node: &Node, id: NodeId) -> Option<Slot> {
    let told = node.peers().iter().find(|(_, p)| p.heartbeat.node_id == id).map(|(slot, _)| slot.clone());
    told.or_else(|| node.slot_of(id))
}
