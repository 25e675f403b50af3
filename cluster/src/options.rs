//! What a node is told about itself and its cluster, and all timers of the control plane.

use std::path::PathBuf;
use std::time::Duration;

use crate::ids::Slot;

/// How a node takes part in a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the cluster; peers with another name are refused.
    pub cluster_name: String,
    /// Stable name of this node.
    pub slot: Slot,
    /// Failure zone of this node; empty where zones do not matter.
    pub zone: String,
    /// The first voters. A new cluster is formed only when all of them are reachable and empty.
    pub expected_slots: Vec<Slot>,
    /// Addresses (`host:port`) at which the cluster is found: one for each expected slot, in any order.
    pub seeds: Vec<String>,
    /// Address (`host:port`) at which this node listens for peers.
    pub listen: String,
    /// Address (`host:port`) at which peers reach this node.
    pub advertise: String,
    /// Folder of identity, lock and Raft log; used by one process at a time.
    pub data_dir: PathBuf,
    /// Wanted standbys of each partition.
    pub standbys: u32,
    /// Timers and bounds.
    pub settings: Settings,
    /// Whether this node holds replicas. A node without only votes and confirms.
    pub replicas_here: bool,
    /// Whether this node is never promoted automatically.
    pub nofailover: bool,
    /// Version of the program, for the status.
    pub version: String,
}

/// Timers and bounds of the control plane; the defaults are those of the operations guide.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// `failover.heartbeat_interval`: between heartbeats to each peer.
    pub heartbeat_interval: Duration,
    /// `failover.probe_timeout`: how long reconnecting after a reset may take before it proves nothing.
    pub probe_timeout: Duration,
    /// `failover.confirm_timeout`: how long another node may take to tell its view of a suspect.
    pub confirm_timeout: Duration,
    /// `failover.suspect_after`: silence after which a peer is suspected.
    pub suspect_after: Duration,
    /// Delay of this node's own clock tick beyond which silence of others proves nothing.
    pub own_stall_max: Duration,
    /// `failover.promote_timeout`: a promotion without outcome for so long is given to the next candidate.
    pub promote_timeout: Duration,
    /// Pause before the same node is ordered again after a failed promotion.
    pub promote_retry_after: Duration,
    /// `failover.antiflap_base`: first pause between automatic failovers of a partition.
    pub antiflap_base: Duration,
    /// `failover.antiflap_max`: longest such pause.
    pub antiflap_max: Duration,
    /// `failover.stalled_after`: Kafka does not answer the active's node for so long, though it answers a standby's.
    pub stalled_after: Duration,
    /// `failover.antiflap_window`: how long a failover counts for the pause.
    pub antiflap_window: Duration,
    /// `raft.heartbeat_interval`.
    pub raft_heartbeat_interval: Duration,
    /// `raft.election_timeout_min`.
    pub raft_election_timeout_min: Duration,
    /// `raft.election_timeout_max`.
    pub raft_election_timeout_max: Duration,
    /// `raft.proof_election`: vote at once on proven and confirmed death of the Raft leader.
    pub proof_election: bool,
    /// `raft.proof_election_gap`: at most one such vote in this time.
    pub proof_election_gap: Duration,
    /// `raft.quorum_loss_probe_interval`: at least twice the maximum election timeout.
    pub quorum_loss_probe_interval: Duration,
    /// `raft.snapshot_entries`: log entries between snapshots.
    pub snapshot_entries: u64,
    /// `raft.fsync_warn`: a longer fsync of the Raft log is logged.
    pub fsync_warn: Duration,
    /// `peers.rpc_timeout`: for requests between peers.
    pub rpc_timeout: Duration,
    /// `peers.frame_bytes_max`: longest message between peers.
    pub frame_bytes_max: usize,
    /// `planner.rebalance`: whether actives are moved to spread them.
    pub rebalance: bool,
    /// `planner.rebalance_after`: calm before an active is moved or a surplus standby dropped.
    pub rebalance_after: Duration,
    /// `planner.moves_max`: switchovers at a time.
    pub moves_max: usize,
    /// `planner.replace_after`: a node silent for so long is no longer counted on as standby.
    pub replace_after: Duration,
    /// How long a new leader waits for missing nodes before it places the partitions of a new cluster.
    pub placement_wait: Duration,
    /// `cluster.history_events_max`: events kept; counters live on.
    pub history_events_max: usize,
    /// `cluster.slot_takeover_after`: silence of a slot's old holder before an empty disk takes the slot over.
    pub slot_takeover_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            heartbeat_interval: ms(50),
            probe_timeout: ms(20),
            confirm_timeout: ms(50),
            suspect_after: ms(300),
            own_stall_max: ms(100),
            promote_timeout: ms(10_000),
            promote_retry_after: ms(1_000),
            stalled_after: ms(1_000),
            antiflap_base: ms(1_000),
            antiflap_max: ms(60_000),
            antiflap_window: ms(600_000),
            raft_heartbeat_interval: ms(30),
            raft_election_timeout_min: ms(100),
            raft_election_timeout_max: ms(150),
            proof_election: true,
            proof_election_gap: ms(1_000),
            quorum_loss_probe_interval: ms(300),
            snapshot_entries: 10_000,
            fsync_warn: ms(10),
            rpc_timeout: ms(100),
            frame_bytes_max: 8 * 1024 * 1024,
            rebalance: true,
            rebalance_after: ms(300_000),
            moves_max: 2,
            replace_after: ms(600_000),
            placement_wait: ms(3_000),
            history_events_max: 10_000,
            slot_takeover_after: ms(10_000),
        }
    }
}
