//! How a cluster is formed, and how an empty node joins one.
//!
//! A cluster is formed only when all expected slots are reachable and empty, by the node of the lowest slot. Each
//! node first makes its id durable; then that node writes the first membership, once. A crash in between leaves
//! ids without a log, and the same is done again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::identity::{self, Identity};
use crate::ids::{NodeId, Slot};
use crate::raft::{self, Group, Member};
use crate::state::NewNode;
use crate::transport::{Request, Response};

use super::node::{Input, Node};
use super::serve::Server;

/// For each peer to make its id durable.
const FORM_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts the Raft node of an identity that has an id.
pub(crate) async fn start_group(node: &Arc<Node>, identity: &Identity) -> Result<(), String> {
    let group = Group::start(
        identity.node_id,
        &identity.cluster_name,
        &node.options.data_dir,
        &node.options.settings,
        Arc::new(Server(node.clone())),
        node.replicated.clone(),
    )
    .await?;
    node.set_group(group);
    let _ = node.inputs.try_send(Input::Poke);
    Ok(())
}

/// Makes an id durable and starts to take part under it.
async fn adopt(node: &Arc<Node>, cluster_id: String, node_id: NodeId) -> Result<(), String> {
    let before = node.identity();
    if before.node_id != NodeId(0) && before.node_id != node_id {
        return Err(format!("this disk has node id {} already", before.node_id));
    }
    let identity = Identity { cluster_id, node_id, ..before };
    let folder = node.options.data_dir.clone();
    let saved = identity.clone();
    let save = move || -> Result<(), String> {
        // The log first: an id without a log means that the log was lost.
        raft::create_log(&folder).map_err(|e| format!("cannot create the raft log in {}: {e}", folder.display()))?;
        identity::save(&folder, &saved).map_err(|e| e.to_string())
    };
    hotspare_system::spawn_blocking(save).await.map_err(|e| e.to_string())??;
    node.set_identity(identity.clone());
    if node.group().is_none() {
        start_group(node, &identity).await?;
    }
    Ok(())
}

/// A peer forms the cluster and gives this node its id.
pub(crate) async fn formed(node: &Arc<Node>, cluster_id: String, members: &[(NodeId, Slot)]) -> Response {
    if node.initialized() {
        return Response::Failed("this node belongs to a cluster already".into());
    }
    let Some((node_id, _)) = members.iter().find(|(_, slot)| *slot == node.options.slot) else {
        return Response::Failed(format!("{} is not among the members", node.options.slot));
    };
    if let Err(why) = adopt(node, cluster_id, *node_id).await {
        return Response::Failed(why);
    }
    for (id, slot) in members {
        node.links.set_node_id(slot, *id);
    }
    Response::Done
}

/// What an uninitialised node does next, if anything.
pub(crate) async fn step(node: Arc<Node>) {
    let peers = node.peers().clone();
    let leader = peers.values().filter(|p| p.heartbeat.initialized).find_map(|p| p.heartbeat.leader);
    if peers.values().any(|p| p.heartbeat.initialized) {
        if node.me() == NodeId(0) {
            join(&node, leader).await;
        }
        return;
    }
    let mut slots = node.options.expected_slots.clone();
    slots.sort();
    slots.dedup();
    let connected = node.links.connected();
    let all_empty = slots.iter().all(|slot| {
        *slot == node.options.slot
            || (connected.contains(slot) && peers.get(slot).is_some_and(|p| !p.heartbeat.initialized))
    });
    if !all_empty || slots.first() != Some(&node.options.slot) {
        return;
    }
    if let Err(why) = form(&node, &slots, &peers).await {
        tracing::warn!(why, "cluster_not_formed");
    }
}

async fn form(node: &Arc<Node>, slots: &[Slot], peers: &BTreeMap<Slot, super::node::Peer>) -> Result<(), String> {
    let mut cluster_id = node.identity().cluster_id;
    if cluster_id.is_empty() {
        cluster_id = uuid::Uuid::new_v4().to_string();
    }
    let members: Vec<(NodeId, Slot)> = (1u64..).map(NodeId).zip(slots.iter().cloned()).collect();
    for (_, slot) in members.iter().filter(|(_, slot)| *slot != node.options.slot) {
        let request = Request::Form { cluster_id: cluster_id.clone(), members: members.clone() };
        match node.links.request(slot, &request, FORM_TIMEOUT).await {
            Ok(Response::Done) => {}
            Ok(other) => return Err(format!("{slot} answered {other:?}")),
            Err(e) => return Err(e.to_string()),
        }
    }
    let me = members.iter().find(|(_, slot)| *slot == node.options.slot).map(|(id, _)| *id);
    adopt(node, cluster_id, me.ok_or("this node is not among the expected slots")?).await?;
    for (id, slot) in &members {
        node.links.set_node_id(slot, *id);
    }
    let with_addresses = members.into_iter().map(|(id, slot)| {
        let address = peers.get(&slot).map_or_else(|| node.options.advertise.clone(), |p| p.heartbeat.address.clone());
        (id, Member { slot: slot.0, address })
    });
    let group = node.group().ok_or("raft is not running")?;
    group.initialize(with_addresses.collect()).await?;
    tracing::info!(cluster = node.options.cluster_name, voters = slots.len(), "cluster_formed");
    Ok(())
}

async fn join(node: &Arc<Node>, leader: Option<NodeId>) {
    let at = |id: NodeId| node.peers().iter().find(|(_, p)| p.heartbeat.node_id == id).map(|(slot, _)| slot.clone());
    let Some(slot) = leader.and_then(at) else {
        return;
    };
    let identity = node.identity();
    let new = NewNode {
        node_id: NodeId(0),
        slot: identity.slot,
        address: node.options.advertise.clone(),
        zone: node.options.zone.clone(),
        store_uuid: identity.store_uuid,
    };
    match node.links.request(&slot, &Request::Join(new), FORM_TIMEOUT).await {
        Ok(Response::Joined { cluster_id, node_id }) => match adopt(node, cluster_id, node_id).await {
            Ok(()) => tracing::info!(%node_id, "cluster_joined"),
            Err(why) => tracing::warn!(why, "cluster_not_joined"),
        },
        Ok(Response::Wait(why) | Response::Failed(why)) => tracing::info!(why, "join_waits"),
        Ok(_) => {}
        Err(e) => tracing::info!(why = %e, "join_waits"),
    }
}
