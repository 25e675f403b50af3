//! What a node shows of the cluster, from its own memory.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::histogram::Histogram;
use crate::history::{PassedOver, WallTime};
use crate::ids::{Epoch, NodeId, Offset, PartitionId, Slot};
use crate::operation::{Drain, Operation, Pause};
use crate::report::NodeReport;
use crate::totals::Totals;

/// The cluster as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// Name of the cluster.
    pub cluster: String,
    /// Id of the cluster; empty until it was formed.
    pub cluster_id: String,
    /// This node's name.
    pub slot: String,
    /// This node's id; 0 until it has joined.
    pub node_id: NodeId,
    /// Number of this process, drawn at its start.
    pub incarnation: u64,
    /// The Raft leader, if one is known.
    pub leader: Option<NodeId>,
    /// Whether this node is the Raft leader.
    pub is_leader: bool,
    /// Raft term.
    pub term: u64,
    /// Milliseconds since a quorum last answered; on the leader only.
    pub quorum_age_ms: Option<u64>,
    /// Index of the newest log entry applied here.
    pub applied_index: Option<u64>,
    /// Index of the newest log entry known to be committed.
    pub committed_index: Option<u64>,
    /// What the present leader told this process of it, where that leader has committed in its own term: no entry that any
    /// node ever applied before lies beyond it.
    pub led_index: Option<u64>,
    /// Voters by id.
    pub voters: Vec<NodeId>,
    /// All nodes of the cluster.
    pub nodes: Vec<NodeView>,
    /// All partitions.
    pub partitions: Vec<PartitionView>,
    /// Decisions that were withheld and are still; on the leader only.
    pub withheld: Vec<WithheldView>,
    /// No automatic act in the whole cluster.
    pub pause: Option<Pause>,
    /// Operators' acts that go on, oldest first.
    pub operations: Vec<Operation>,
    /// Why Raft has stopped on this node, if it has: it takes no part any more until it is restarted.
    pub raft_failed: Option<String>,
    /// What is not as it should be, one sentence each.
    pub problems: Vec<String>,
    /// Suspicions by outcome: `confirmed`, `refuted`, `cleared`.
    pub suspicions: BTreeMap<String, u64>,
    /// Refused peer connections by reason.
    pub refused_connections: BTreeMap<String, u64>,
    /// Ended events by `kind/reason/result`, of the whole history.
    pub events_total: BTreeMap<String, u64>,
    /// False positives of the whole history.
    pub false_positives_total: u64,
    /// Ids that are never used again.
    pub tombstones: Vec<NodeId>,
    /// Longest fsync of the Raft log in this process, in microseconds.
    pub raft_fsync_us_max: u64,
    /// Random name of this node's data folder.
    pub store_uuid: String,
    /// Counters over the whole history.
    pub totals: Totals,
    /// What this process counted of its own control plane.
    pub meters: Meters,
}

/// What a process counts of its own control plane since its start. Bounds: [`crate::SHORT_BOUNDS_S`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Meters {
    /// Writes of the Raft log to the disk.
    pub raft_fsync: Histogram,
    /// From a proposal of this node, while it leads, until it is committed.
    pub raft_commit: Histogram,
    /// From a request to the peer's answer, by the peer's slot.
    pub peer_rtt: BTreeMap<String, Histogram>,
    /// How often another node became the Raft leader.
    pub leader_changes: u64,
    /// This node's candidacies by `cause/result`: `timeout`, `proof` or `transfer`; `won` or `lost`.
    pub elections: BTreeMap<String, u64>,
    /// Actives that died while no quorum lived that could replace them.
    pub blocked_no_quorum: u64,
}

/// How a node looks from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// Never heard of since this process started.
    #[default]
    Unknown,
    /// Heard of lately.
    Live,
    /// Silent; not confirmed by another node.
    Suspect,
    /// Proven or confirmed to be gone.
    Dead,
    /// Said goodbye.
    Stopped,
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeView {
    /// Its id.
    pub node_id: NodeId,
    /// Its name.
    pub slot: Slot,
    /// Where peers reach it.
    pub address: String,
    /// Its failure zone.
    pub zone: String,
    /// How it looks from here.
    pub state: Liveness,
    /// Milliseconds since it was heard of; none if never.
    pub last_heard_ms: Option<u64>,
    /// Its process, as last heard of.
    pub incarnation: Option<u64>,
    /// Whether it is a voter.
    pub voter: bool,
    /// Whether it is being drained.
    pub draining: bool,
    /// Who drains it, and why.
    pub drain: Option<Drain>,
    /// Id of its disk.
    pub store_uuid: String,
    /// Newest entry of its Raft log, as it told last.
    pub last_log_index: Option<u64>,
    /// Whether it is never promoted automatically.
    pub nofailover: bool,
    /// Whether it is shutting down.
    pub stopping: bool,
    /// Its version, if heard of.
    pub version: Option<String>,
    /// Whom it takes for the Raft leader.
    pub leader: Option<NodeId>,
    /// Its newest report.
    pub report: Option<NodeReport>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartitionView {
    /// The partition.
    pub partition: PartitionId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its active.
    pub active: Option<NodeId>,
    /// Its standbys.
    pub standbys: Vec<NodeId>,
    /// Since when the active is in charge.
    pub since: WallTime,
    /// Whether the promotion of the active has ended well.
    pub confirmed: bool,
    /// The active before, which works on until its successor is ready.
    pub handover_from: Option<NodeId>,
    /// No automatic act.
    pub pause: Option<Pause>,
    /// Automatic failovers in the anti-flap window.
    pub failovers_recent: u32,
    /// So long, in milliseconds from now, anti-flap would hold the next automatic failover back.
    pub next_failover_held_ms: u64,
}

/// A decision that was withheld.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WithheldView {
    /// The partition.
    pub partition: PartitionId,
    /// `no_candidate`, `antiflap`, `same_offset` (one active after the other died there before its first commit), `paused`
    /// or `no_quorum`.
    pub reason: String,
    /// For how long, in milliseconds.
    pub for_ms: u64,
    /// Until the anti-flap pause ends, in milliseconds.
    pub remaining_ms: Option<u64>,
    /// The input offset at which the tenures end; only with `same_offset`.
    #[serde(default)]
    pub input_offset: Option<Offset>,
    /// The candidates, each with its reason.
    pub candidates: Vec<PassedOver>,
}
