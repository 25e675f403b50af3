//! The shape of `/v1/status` and its parts. Read by the command line too, so both directions are served from here.
//! `/v1` only grows: fields are added, never renamed or removed.

use std::collections::BTreeMap;

use hotspare_cluster::{
    Drain, Epoch, Liveness, NodeId, Offset, Operation, PartitionId, PassedOver, Pause, Role, Slot, WallTime,
};
use serde::{Deserialize, Serialize};

/// How the cluster is, as this node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthState {
    /// All is as it should be.
    #[default]
    Ok,
    /// All partitions are worked on, but something is missing.
    Degraded,
    /// A partition has no working active.
    Outage,
}

/// A node by name and id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name; `?` where only the id is known.
    pub slot: Slot,
    /// Its id.
    pub node_id: NodeId,
}

/// The whole status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StatusDoc {
    /// Name of the cluster.
    pub cluster: String,
    /// Its id; empty until it was formed.
    pub cluster_id: String,
    /// The node that answers.
    #[serde(rename = "self")]
    pub this: Member,
    /// When it answered, by its wall clock.
    pub at: WallTime,
    /// The worst of all.
    pub health: HealthState,
    /// One sentence about it.
    pub summary: String,
    /// What is not as it should be, worst first.
    pub problems: Vec<String>,
    /// How many nodes, whichever they are, may die so that a quorum and every partition are left; none while unknown.
    pub tolerance: Option<u32>,
    /// The Raft leader, if one is known.
    pub leader: Option<Member>,
    /// Whether it is this node.
    pub is_leader: bool,
    /// Raft term.
    pub term: u64,
    /// Milliseconds since a quorum answered; on the leader only.
    pub quorum_age_ms: Option<u64>,
    /// Newest log entry applied here.
    pub applied_index: Option<u64>,
    /// Newest log entry known to be committed.
    pub committed_index: Option<u64>,
    /// Voters by id.
    pub voters: Vec<NodeId>,
    /// All nodes.
    pub nodes: Vec<NodeDoc>,
    /// All partitions.
    pub partitions: Vec<PartitionDoc>,
    /// Decisions withheld now; on the leader only.
    pub withheld: Vec<WithheldDoc>,
    /// Failovers withheld, by reason, of the whole history.
    pub withheld_total: BTreeMap<String, u64>,
    /// No automatic act in the whole cluster.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// Operators' acts that go on.
    #[serde(default)]
    pub operations: Vec<Operation>,
    /// Suspicions by outcome.
    pub suspicions: BTreeMap<String, u64>,
    /// Refused peer connections by reason.
    pub refused_connections: BTreeMap<String, u64>,
    /// Ended events of the whole history by `kind/reason/result`.
    pub events_total: BTreeMap<String, u64>,
    /// Failovers after which the deposed process was heard again.
    pub false_positives_total: u64,
    /// Ids that are never used again.
    pub tombstones: Vec<NodeId>,
    /// Longest fsync of the Raft log in this process, in microseconds.
    pub raft_fsync_us_max: u64,
    /// The replicas of the node that answers, in detail.
    pub local: Vec<LocalReplica>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeDoc {
    /// Its id.
    pub node_id: NodeId,
    /// Its name.
    pub slot: Slot,
    /// Where peers reach it.
    pub address: String,
    /// Its failure zone; empty: none.
    pub zone: String,
    /// How it looks from here.
    pub state: Liveness,
    /// Milliseconds since it was heard of; none if never.
    pub last_heard_ms: Option<u64>,
    /// Its process.
    pub incarnation: Option<u64>,
    /// Whether it is a voter.
    pub voter: bool,
    /// Whether it is being drained.
    pub draining: bool,
    /// Who drains it, and why.
    #[serde(default)]
    pub drain: Option<Drain>,
    /// Id of its disk.
    #[serde(default)]
    pub store_uuid: String,
    /// Newest entry of its Raft log, as it told last.
    #[serde(default)]
    pub last_log_index: Option<u64>,
    /// Whether it is never promoted automatically.
    #[serde(default)]
    pub nofailover: bool,
    /// Whether it is shutting down.
    pub stopping: bool,
    /// Its version.
    pub version: Option<String>,
    /// Whom it takes for the Raft leader.
    pub leader: Option<NodeId>,
    /// Partitions whose active it is.
    pub actives: u32,
    /// Partitions for which it stands by.
    pub standbys: u32,
    /// The worst of its replicas, in records; none while unknown.
    pub lag_records: Option<u64>,
    /// The worst of its replicas, in milliseconds; none while unknown.
    pub lag_ms: Option<u64>,
    /// Whether Kafka answers it.
    pub kafka_ok: Option<bool>,
    /// Milliseconds since Kafka answered it.
    pub kafka_age_ms: Option<u64>,
    /// Hash of its rules of aggregation.
    pub semantics_hash: Option<String>,
    /// Its replicas, as it told last.
    pub replicas: Vec<ReplicaDoc>,
}

/// A replica, as its node told last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaDoc {
    /// The partition.
    pub partition: PartitionId,
    /// What it is doing.
    pub role: Role,
    /// Its own epoch, or the highest it has seen.
    pub epoch: Epoch,
    /// Next changelog offset to apply.
    pub applied: Offset,
    /// Last stable offset as last seen.
    pub lso: Offset,
    /// Changelog records not yet applied; none while unknown.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them; none while unknown.
    pub lag_ms: Option<u64>,
    /// Commit last applied or written; 0: none yet.
    pub commit: u64,
    /// Milliseconds since then.
    pub commit_age_ms: Option<u64>,
    /// Input records waiting; only of an active.
    pub input_lag_records: Option<i64>,
    /// Whether its digest equals the active's.
    pub digest_equal: Option<bool>,
    /// Milliseconds since its thread turned last.
    pub loop_age_ms: u64,
}

/// Whether a partition is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionState {
    /// Its active works.
    Active,
    /// A replica is becoming active.
    Promoting,
    /// Nobody works on it.
    NoActive,
    /// Its active was not heard of yet since this process started.
    Unknown,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionDoc {
    /// The partition.
    pub partition: PartitionId,
    /// Its epoch.
    pub epoch: Epoch,
    /// Whether it is worked on.
    pub state: PartitionState,
    /// Its active.
    pub active: Option<Member>,
    /// Whether the active's promotion has ended well.
    pub confirmed: bool,
    /// Since when the active is in charge.
    pub since: WallTime,
    /// The active's last commit; none while unknown.
    pub commit: Option<u64>,
    /// Milliseconds since then.
    pub commit_age_ms: Option<u64>,
    /// Input records waiting.
    pub input_lag_records: Option<i64>,
    /// Its standbys.
    pub standbys: Vec<StandbyDoc>,
    /// How many of them are promotable.
    pub promotable: u32,
    /// No automatic act.
    #[serde(default)]
    pub pause: Option<Pause>,
    /// Automatic failovers in the anti-flap window.
    #[serde(default)]
    pub failovers_recent: u32,
    /// So long, in milliseconds from now, anti-flap would hold the next automatic failover back.
    #[serde(default)]
    pub next_failover_held_ms: u64,
}

/// A standby of a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StandbyDoc {
    /// Its name.
    pub slot: Slot,
    /// Its id.
    pub node_id: NodeId,
    /// What its replica is doing; none while unknown.
    pub role: Option<Role>,
    /// Next changelog offset it would apply.
    pub applied: Option<Offset>,
    /// Changelog records not yet applied; none while unknown.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them; none while unknown.
    pub lag_ms: Option<u64>,
    /// Whether its digest equals the active's.
    pub digest_equal: Option<bool>,
    /// Whether it could take over now, warm.
    pub promotable: bool,
    /// Why not: a candidate reason of the history, or `cold`.
    pub reason: Option<String>,
}

/// A decision that is withheld.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WithheldDoc {
    /// The partition.
    pub partition: PartitionId,
    /// `no_candidate`, `antiflap`, `same_offset`, `paused` or `no_quorum`.
    pub reason: String,
    /// For how long already, in milliseconds.
    pub for_ms: u64,
    /// Until it is done, in milliseconds.
    pub remaining_ms: Option<u64>,
    /// The input offset at which one active after the other died; only with `same_offset`.
    #[serde(default)]
    pub input_offset: Option<Offset>,
    /// The candidates with their reasons.
    pub candidates: Vec<PassedOver>,
}

/// A replica of the node that answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalReplica {
    /// The partition.
    pub partition: PartitionId,
    /// What it is doing.
    pub role: Role,
    /// Its own epoch, or the highest it has seen.
    pub epoch: Epoch,
    /// Next changelog offset to apply.
    pub applied: Offset,
    /// Last stable offset as last seen.
    pub lso: Offset,
    /// Changelog records not yet applied; none while unknown.
    pub lag_records: Option<u64>,
    /// Age of the oldest of them; none while unknown.
    pub lag_ms: Option<u64>,
    /// Milliseconds since the last commit was applied or written.
    pub commit_age_ms: Option<u64>,
    /// What the last progress record says; none before the first.
    pub progress: Option<ProgressDoc>,
    /// Series of the state.
    pub series: u64,
    /// Input records waiting; only of an active.
    pub input_lag_records: Option<i64>,
    /// Whether the digest equals the active's.
    pub digest_equal: Option<bool>,
    /// Commits at which it was compared and equal.
    pub digest_checks_equal: u64,
    /// Commits at which it was proved to differ.
    pub digest_checks_different: u64,
    /// Milliseconds since the last checkpoint was written; none if none by this process.
    pub checkpoint_age_ms: Option<u64>,
    /// Milliseconds since its thread turned last.
    pub loop_age_ms: u64,
    /// Why it does not go on.
    pub problem: Option<String>,
}

/// A progress record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgressDoc {
    /// Tenure that wrote it.
    pub epoch: Epoch,
    /// Number of the commit.
    pub commit: u64,
    /// First input record that is not part of the state.
    pub next_input_offset: Offset,
    /// Log time in milliseconds since 1970.
    pub log_time_ms: i64,
    /// Entries of the state.
    pub entries: u64,
    /// Digest of the state, 32 hex digits.
    pub digest: String,
    /// Hash of the rules of aggregation, 16 hex digits.
    pub semantics_hash: String,
    /// Exact counters since the first record.
    pub counters: CountersDoc,
}

/// Exact counters. `consumed` = counted + late + missing + duplicate + rejected + null_record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountersDoc {
    /// Records of the input topic.
    pub records: u64,
    /// Candidates and null records.
    pub consumed: u64,
    /// Readings in at least one window.
    pub counted: u64,
    /// Readings that no window took.
    pub late: u64,
    /// Candidates for which nothing was measured.
    pub missing: u64,
    /// Copies of counted readings.
    pub duplicate: u64,
    /// Records whose value is null.
    pub null_record: u64,
    /// Rejections by reason; reasons without any are left out.
    pub rejected: BTreeMap<String, u64>,
    /// Final windows.
    pub windows_final: u64,
    /// Dead letters.
    pub dead_letters: u64,
}
