//! What this node shows of the cluster.

use std::collections::BTreeMap;

use crate::detector::Moment;
use crate::history::EventKind;
use crate::ids::NodeId;
use crate::options::Settings;
use crate::planner::flap;
use crate::raft::RaftStatus;
use crate::state::{Stage, State};
use crate::transport::Heartbeat;
use crate::view::{Liveness, NodeView, PartitionView, View, WithheldView};

use super::node::Node;

fn ms(moment: Moment) -> u64 {
    u64::try_from(moment.as_millis()).unwrap_or(u64::MAX)
}

/// The cluster as this node sees it.
pub(crate) fn view(node: &Node) -> View {
    let now = node.now();
    let status = node.raft_status();
    let identity = node.identity();
    let findings = node.findings().clone();
    let suspicions = node.detector().suspicions();
    let nodes = nodes(node, &status, now);
    let refused_connections = node.refusals().clone();
    let fenced = node.fenced().clone();
    let leaders = |told: &Heartbeat| (Some(told.node_id), told.term) == (status.leader, status.term);
    let told =
        node.peers().values().map(|peer| &peer.heartbeat).find(|told| leaders(told)).and_then(|told| told.led_index);
    let led_index = if status.is_leader { status.led_index } else { told };
    let mut meters = node.meters().clone();
    meters.peer_rtt = node.links.round_trips();
    let mut raft_fsync_us_max = 0;
    if let Some(group) = node.group() {
        (raft_fsync_us_max, meters.raft_fsync) = (group.fsyncs().us_max(), group.fsyncs().times());
    }
    let state = node.replicated.read();
    let mut problems = findings.problems;
    problems.extend(status.failed.iter().map(|why| {
        format!("raft has stopped on this node: {why}. Repair: free space or check the disk, then restart this node")
    }));
    if status.leader.is_none() {
        problems.push("no raft leader is known here: no failover is possible until a quorum of voters is back".into());
    }
    for (partition, epoch) in fenced {
        let still =
            state.partitions.get(&partition).is_some_and(|p| p.epoch == epoch && p.active == Some(identity.node_id));
        if still {
            problems.push(format!("this node was fenced as active of partition {partition} with epoch {epoch}"));
        }
    }
    let withheld = findings.withheld.into_iter().map(|w| WithheldView {
        partition: w.partition,
        reason: w.reason.to_owned(),
        for_ms: findings.withheld_since.get(&w.partition).map_or(0, |since| ms(now.saturating_sub(*since))),
        remaining_ms: w.remaining.map(ms),
        input_offset: w.input_offset,
        candidates: w.candidates,
    });
    View {
        cluster: identity.cluster_name,
        cluster_id: identity.cluster_id,
        slot: identity.slot.0,
        node_id: identity.node_id,
        incarnation: node.incarnation,
        leader: status.leader,
        is_leader: status.is_leader,
        term: status.term,
        quorum_age_ms: status.quorum_age_ms.filter(|_| status.is_leader),
        applied_index: status.applied_index,
        committed_index: status.committed_index,
        led_index,
        voters: status.voters.iter().copied().collect(),
        nodes,
        partitions: partitions(&state, &node.options.settings),
        withheld: withheld.collect(),
        pause: state.paused(None, Node::wall()).cloned(),
        operations: state.operations.running().cloned().collect(),
        raft_failed: status.failed,
        problems,
        suspicions: BTreeMap::from([
            ("confirmed".to_owned(), suspicions.confirmed),
            ("refuted".to_owned(), suspicions.refuted),
            ("cleared".to_owned(), suspicions.cleared),
        ]),
        refused_connections,
        events_total: state.history.ended.clone(),
        false_positives_total: state.history.false_positives,
        tombstones: state.tombstones.keys().copied().collect(),
        raft_fsync_us_max,
        store_uuid: identity.store_uuid,
        totals: state.history.totals.clone(),
        meters,
    }
}

fn nodes(node: &Node, status: &RaftStatus, now: Moment) -> Vec<NodeView> {
    let own = node.heartbeat();
    let peers = node.peers().clone();
    let detector = node.detector();
    let state = node.replicated.read();
    let view = |(id, known): (&NodeId, &crate::state::Node)| {
        let mine = *id == own.node_id;
        let peer = peers.get(&known.slot).filter(|p| p.heartbeat.node_id == *id);
        let told = if mine { Some(&own) } else { peer.map(|p| &p.heartbeat) };
        NodeView {
            node_id: *id,
            slot: known.slot.clone(),
            address: known.address.clone(),
            zone: known.zone.clone(),
            state: if mine { Liveness::Live } else { detector.liveness(&known.slot) },
            last_heard_ms: if mine { Some(0) } else { detector.age(&known.slot, now).map(ms) },
            incarnation: if mine { Some(node.incarnation) } else { detector.incarnation(&known.slot) },
            voter: status.voters.contains(id),
            draining: known.drain.is_some(),
            drain: known.drain.clone(),
            store_uuid: known.store_uuid.clone(),
            last_log_index: told.and_then(|t| t.last_log_index),
            nofailover: told.is_some_and(|t| t.nofailover),
            stopping: known.stopping || told.is_some_and(|t| t.report.stopping),
            version: told.map(|t| t.version.clone()),
            leader: told.and_then(|t| t.leader),
            report: told.map(|t| t.report.clone()),
        }
    };
    state.nodes.iter().map(view).collect()
}

fn partitions(state: &State, settings: &Settings) -> Vec<PartitionView> {
    let wall = Node::wall();
    let view = |(partition, entry): (&crate::ids::PartitionId, &crate::state::Partition)| {
        let flap = flap(state, *partition, entry, wall, settings, true);
        let switchover = entry.order.as_ref().filter(|o| o.kind == EventKind::Switchover);
        PartitionView {
            partition: *partition,
            epoch: entry.epoch,
            active: entry.active,
            standbys: entry.standbys.clone(),
            since: entry.since,
            confirmed: entry.stage == Stage::Confirmed,
            handover_from: switchover.filter(|_| entry.stage == Stage::Ordered).and_then(|o| o.from),
            pause: entry.pause.clone().filter(|pause| pause.until > wall),
            failovers_recent: u32::try_from(flap.recent).unwrap_or(u32::MAX),
            next_failover_held_ms: flap.remaining.map_or(0, ms),
        }
    };
    state.partitions.iter().map(view).collect()
}

/// The live voter with the longest log, to take Raft leadership.
pub(crate) fn successor(node: &Node, status: &RaftStatus) -> Option<NodeId> {
    let peers = node.peers().clone();
    let detector = node.detector();
    let fit = peers.iter().filter(|(slot, p)| {
        let told = &p.heartbeat;
        status.voters.contains(&told.node_id) && detector.liveness(slot) == Liveness::Live && !told.report.stopping
    });
    let best = fit.max_by_key(|(_, p)| (p.heartbeat.last_log_index, std::cmp::Reverse(p.heartbeat.node_id)));
    best.map(|(_, p)| p.heartbeat.node_id)
}
