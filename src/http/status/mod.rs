//! From what a node knows to the status that it shows. No clock, no sockets.

mod local;
mod verdict;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hotspare_cluster::{
    Liveness, NodeId, NodeView, PartitionId, PartitionView, ReplicaReport, Role, Slot, View, WallTime,
};

pub(super) use verdict::has_quorum;

use super::document::{Member, NodeDoc, PartitionDoc, PartitionState, ReplicaDoc, StandbyDoc, StatusDoc, WithheldDoc};
use crate::partition::{devices::Split, status::ReplicaStatus};

/// What a status is made of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The cluster as this node sees it.
    pub view: View,
    /// This node's replicas.
    pub replicas: BTreeMap<PartitionId, ReplicaStatus>,
    /// A standby further behind is not warm, so not promotable.
    pub warm_lag_records_max: u64,
    /// What is wrong with a topic.
    pub topics: Option<String>,
    /// Since Kafka answered this node; none if never.
    pub kafka_age: Option<Duration>,
    /// Devices on more than one partition of this node's replicas, and the first of them by name.
    pub devices_split: (usize, Vec<Split>),
    /// Now, for ages.
    pub now: Instant,
    /// Now, for people.
    pub at: WallTime,
}

/// The whole status.
#[must_use]
pub fn status(snapshot: &Snapshot) -> StatusDoc {
    let view = &snapshot.view;
    let nodes: Vec<NodeDoc> = view.nodes.iter().map(|node| node_doc(node, view)).collect();
    let partitions: Vec<PartitionDoc> =
        view.partitions.iter().map(|partition| partition_doc(partition, snapshot)).collect();
    let withheld = view.withheld.iter().map(|withheld| WithheldDoc {
        partition: withheld.partition,
        reason: withheld.reason.clone(),
        for_ms: withheld.for_ms,
        remaining_ms: withheld.remaining_ms,
        input_offset: withheld.input_offset,
        candidates: withheld.candidates.clone(),
    });
    let mut document = StatusDoc {
        cluster: view.cluster.clone(),
        cluster_id: view.cluster_id.clone(),
        this: Member { slot: Slot(view.slot.clone()), node_id: view.node_id },
        at: snapshot.at,
        health: Default::default(),
        summary: String::new(),
        problems: Vec::new(),
        tolerance: verdict::tolerance(view, &partitions),
        leader: view.leader.map(|id| member(view, id)),
        is_leader: view.is_leader,
        term: view.term,
        quorum_age_ms: view.quorum_age_ms,
        applied_index: view.applied_index,
        committed_index: view.committed_index,
        voters: view.voters.clone(),
        nodes,
        partitions,
        withheld: withheld.collect(),
        withheld_total: view.totals.withheld.clone(),
        pause: view.pause.clone(),
        operations: view.operations.clone(),
        suspicions: view.suspicions.clone(),
        refused_connections: view.refused_connections.clone(),
        events_total: view.events_total.clone(),
        false_positives_total: view.false_positives_total,
        tombstones: view.tombstones.clone(),
        raft_fsync_us_max: view.raft_fsync_us_max,
        local: local::replicas(&snapshot.replicas, snapshot.now),
    };
    verdict::judge(&mut document, snapshot);
    document
}

/// A node by its id.
fn member(view: &View, id: NodeId) -> Member {
    let slot = node(view, id).map_or_else(|| Slot("?".to_owned()), |node| node.slot.clone());
    Member { slot, node_id: id }
}

fn node(view: &View, id: NodeId) -> Option<&NodeView> {
    view.nodes.iter().find(|node| node.node_id == id)
}

fn node_doc(node: &NodeView, view: &View) -> NodeDoc {
    let count = |held: &dyn Fn(&PartitionView) -> bool| {
        view.partitions.iter().filter(|partition| held(partition)).count().try_into().unwrap_or(u32::MAX)
    };
    let report = node.report.as_ref();
    let replicas: Vec<ReplicaDoc> =
        report.map(|report| report.replicas.iter().map(|r| replica_doc(r, node)).collect()).unwrap_or_default();
    // One replica of unknown lag makes the worst unknown.
    let worst = |lag: &dyn Fn(&ReplicaDoc) -> Option<u64>| {
        report.and(replicas.iter().try_fold(0, |worst: u64, replica| Some(worst.max(lag(replica)?))))
    };
    NodeDoc {
        node_id: node.node_id,
        slot: node.slot.clone(),
        address: node.address.clone(),
        zone: node.zone.clone(),
        state: node.state,
        last_heard_ms: node.last_heard_ms,
        incarnation: node.incarnation,
        voter: node.voter,
        draining: node.draining,
        drain: node.drain.clone(),
        store_uuid: node.store_uuid.clone(),
        last_log_index: node.last_log_index,
        nofailover: node.nofailover,
        stopping: node.stopping,
        version: node.version.clone(),
        leader: node.leader,
        actives: count(&|partition| partition.active == Some(node.node_id)),
        standbys: count(&|partition| partition.standbys.contains(&node.node_id)),
        lag_records: worst(&|replica| replica.lag_records),
        lag_ms: worst(&|replica| replica.lag_ms),
        kafka_ok: report.map(|report| report.kafka_ok),
        kafka_age_ms: report.map(|report| report.kafka_age_ms),
        semantics_hash: report.map(|report| format!("{:016x}", report.semantics_hash)),
        replicas,
    }
}

/// The ages in a report are as old as the report.
fn replica_doc(report: &ReplicaReport, node: &NodeView) -> ReplicaDoc {
    let (lag_records, lag_ms) = reported_lag(report);
    ReplicaDoc {
        partition: report.partition,
        role: report.role,
        epoch: report.epoch,
        applied: report.applied,
        lso: report.lso,
        lag_records,
        lag_ms,
        commit: report.commit,
        commit_age_ms: commit_age_ms(report, node),
        input_lag_records: report.input_lag_records,
        digest_equal: report.digest_equal,
        loop_age_ms: report.loop_age_ms,
    }
}

fn commit_age_ms(report: &ReplicaReport, node: &NodeView) -> Option<u64> {
    report.commit_age_ms.map(|age| age.saturating_add(node.last_heard_ms.unwrap_or(0)))
}

fn reported_lag(report: &ReplicaReport) -> (Option<u64>, Option<u64>) {
    match report.role {
        Role::Active | Role::Promoting => (Some(0), Some(0)),
        // Neither its position nor the end of the log is known yet.
        Role::Restoring if report.lag_records == 0 => (None, None),
        _ => {
            let known = |lag: i64| u64::try_from(lag).ok().filter(|_| lag < i64::MAX);
            (known(report.lag_records), known(report.lag_ms))
        }
    }
}

/// Whether a partition is worked on, as this node sees it.
pub(super) fn partition_state(partition: &PartitionView, view: &View) -> PartitionState {
    // At a switchover the old active works on until its successor is ready.
    let old = partition.handover_from.and_then(|id| node(view, id));
    if old.is_some() && state(partition, old) == PartitionState::Active {
        return PartitionState::Active;
    }
    state(partition, partition.active.and_then(|id| node(view, id)))
}

fn partition_doc(partition: &PartitionView, snapshot: &Snapshot) -> PartitionDoc {
    let view = &snapshot.view;
    let active = partition.active.and_then(|id| node(view, id));
    let report = active.and_then(|node| Some((node, node.report.as_ref()?.replica(partition.partition)?)));
    let standbys: Vec<StandbyDoc> = partition.standbys.iter().map(|id| standby_doc(*id, partition, snapshot)).collect();
    PartitionDoc {
        partition: partition.partition,
        epoch: partition.epoch,
        state: partition_state(partition, view),
        active: partition.active.map(|id| member(view, id)),
        confirmed: partition.confirmed,
        since: partition.since,
        commit: report.map(|(_, replica)| replica.commit),
        commit_age_ms: report.and_then(|(node, replica)| commit_age_ms(replica, node)),
        input_lag_records: report.and_then(|(_, replica)| replica.input_lag_records),
        promotable: standbys.iter().filter(|standby| standby.promotable).count().try_into().unwrap_or(u32::MAX),
        pause: partition.pause.clone(),
        failovers_recent: partition.failovers_recent,
        next_failover_held_ms: partition.next_failover_held_ms,
        standbys,
    }
}

/// A suspect node is not proven dead, and its active works on until it is fenced.
fn state(partition: &PartitionView, active: Option<&NodeView>) -> PartitionState {
    let Some(node) = active else {
        return PartitionState::NoActive;
    };
    let role = || Some(node.report.as_ref()?.replica(partition.partition)?.role);
    match node.state {
        Liveness::Unknown => PartitionState::Unknown,
        Liveness::Dead | Liveness::Stopped => PartitionState::NoActive,
        Liveness::Live | Liveness::Suspect => match role() {
            Some(Role::Active) => PartitionState::Active,
            Some(Role::Promoting | Role::Standby) => PartitionState::Promoting,
            Some(Role::Restoring | Role::Fenced | Role::Divergent) => PartitionState::NoActive,
            None => PartitionState::Unknown,
        },
    }
}

fn standby_doc(id: NodeId, partition: &PartitionView, snapshot: &Snapshot) -> StandbyDoc {
    let view = &snapshot.view;
    let Member { slot, node_id } = member(view, id);
    let node_view = node(view, id);
    let replica = node_view.and_then(|node| node.report.as_ref()?.replica(partition.partition));
    let (lag_records, lag_ms) = replica.map_or((None, None), reported_lag);
    let active = partition.active.and_then(|id| node(view, id)).and_then(|node| node.report.as_ref());
    let reason = node_view.map_or(Some("unknown"), |node| {
        let semantics = active.map(|report| report.semantics_hash);
        unfit(node, replica, semantics).or_else(|| {
            let cold = lag_records.is_none_or(|lag| lag > snapshot.warm_lag_records_max);
            cold.then_some("cold")
        })
    });
    StandbyDoc {
        slot,
        node_id,
        role: replica.map(|replica| replica.role),
        applied: replica.map(|replica| replica.applied),
        lag_records,
        lag_ms,
        digest_equal: replica.and_then(|replica| replica.digest_equal),
        promotable: reason.is_none(),
        reason: reason.map(str::to_owned),
    }
}

/// Why a node's replica is no candidate, by the names that the history uses.
fn unfit(node: &NodeView, replica: Option<&ReplicaReport>, active_semantics: Option<u64>) -> Option<&'static str> {
    match node.state {
        Liveness::Unknown => return Some("unknown"),
        Liveness::Suspect => return Some("suspect"),
        Liveness::Dead => return Some("dead"),
        Liveness::Stopped => return Some("stopping"),
        Liveness::Live => {}
    }
    if node.stopping {
        return Some("stopping");
    }
    if node.draining {
        return Some("draining");
    }
    let own = node.report.as_ref().map(|report| report.semantics_hash);
    if active_semantics.is_some() && own.is_some() && own != active_semantics {
        return Some("semantics_differ");
    }
    let Some(replica) = replica else {
        return Some("no_replica");
    };
    match replica.role {
        Role::Restoring => Some("restoring"),
        Role::Divergent => Some("divergent"),
        Role::Fenced => Some("fenced"),
        Role::Standby | Role::Promoting | Role::Active => None,
    }
}
