//! A vote at once, when the Raft leader's death is proved here and confirmed by another voter.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::ids::{NodeId, Slot};
use crate::transport::{Request, Response};
use crate::view::Liveness;

use super::node::Node;

/// Starts the proof election, if it is allowed and this node is the right one to stand.
pub(crate) fn by_proof(node: &Arc<Node>, dead: Slot, incarnation: u64) {
    let settings = &node.options.settings;
    let now_us = u64::try_from(node.now().as_micros()).unwrap_or(u64::MAX);
    let gap_us = u64::try_from(settings.proof_election_gap.as_micros()).unwrap_or(u64::MAX);
    let last_us = node.voted_at_us.load(Ordering::Acquire);
    if !settings.proof_election || (last_us != 0 && now_us.saturating_sub(last_us) < gap_us) {
        return;
    }
    if !node.raft_status().voters.contains(&node.me()) {
        return;
    }
    node.voted_at_us.store(now_us.max(1), Ordering::Release);
    let node = node.clone();
    let spawner = node.clone();
    spawner.spawn_task(async move {
        if stands(&node, &dead, incarnation).await
            && let Some(group) = node.group()
        {
            node.voting_by_proof.store(true, Ordering::Release);
            match group.vote_now().await {
                Ok(()) => tracing::info!(%dead, "proof_election_started"),
                Err(why) => tracing::info!(why, "proof_election_refused"),
            }
        }
    });
}

/// Asks the other voters. This node stands if one confirms, and if no other has a longer log, or an equal one and a
/// lower id; all who know of the death come to the same answer.
async fn stands(node: &Arc<Node>, dead: &Slot, incarnation: u64) -> bool {
    let status = node.raft_status();
    let me = (status.last_log_index.unwrap_or(0), node.me());
    let voters: Vec<Slot> = {
        let detector = node.detector(); // always before the state
        let state = node.replicated.read();
        let of = |id: &NodeId| state.nodes.get(id).map(|n| n.slot.clone());
        let live = |slot: &Slot| detector.liveness(slot) == Liveness::Live;
        status.voters.iter().filter(|id| **id != me.1).filter_map(of).filter(|s| s != dead && live(s)).collect()
    };
    let within = node.options.settings.confirm_timeout.max(Duration::from_millis(1));
    let mut asked = tokio::task::JoinSet::new();
    for slot in voters {
        let (node, request) = (node.clone(), Request::Proof { slot: dead.clone(), incarnation });
        asked.spawn(async move { node.links.request(&slot, &request, within).await });
    }
    let mut confirmed = false;
    while let Some(answer) = asked.join_next().await {
        let Ok(Ok(Response::Proof { proved, node_id, last_log_index })) = answer else {
            continue;
        };
        confirmed |= proved;
        let better = last_log_index > me.0 || (last_log_index == me.0 && node_id < me.1);
        if proved && better {
            return false;
        }
    }
    confirmed
}
