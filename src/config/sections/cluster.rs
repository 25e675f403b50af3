//! Sections of the control plane: cluster, node, peers, failover, raft, planner.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::section;
use crate::config::units::{ByteSize, Timespan};

section! {
    /// `[cluster]`, **C**: the cluster as a whole.
    pub struct ClusterSection {
        /// Prefix of topics, transactional ids and group: 1 to 40 of `a-z`, `0-9` and `-`. Required.
        pub name: String = String::new(),
        /// Slots of the first voters. Required: bootstrap happens only when all are reachable and empty. Not changed by
        /// scaling.
        pub expected_slots: Vec<String> = Vec::new(),
        /// Number of voters: 1 (trial without failover), 3 or 5. Further nodes are learners that hold replicas.
        pub voters: u32 = 3,
        /// Events kept in the replicated history; counters live on when events are trimmed.
        pub history_events_max: u64 = 10_000,
        /// Addresses `host:port` to find the cluster. Default: the expected slots with port 7400.
        pub seeds: Vec<String> = Vec::new(),
        /// An empty disk takes a slot over only after the old holder was silent so long.
        pub slot_takeover_after: Timespan = Timespan::from_secs(10),
    }
}

section! {
    /// `[node]`: this node.
    pub struct NodeSection {
        /// Stable name of the node. Default: the host name.
        pub slot: String = String::new(),
        /// Folder of identity, Raft log and checkpoints; locked by one process.
        pub data_dir: PathBuf = PathBuf::from("/var/lib/hotspare"),
        /// Failure zone; empty: none.
        pub zone: String = String::new(),
        /// Whether the node holds replicas; false: a witness that votes and confirms but holds no state.
        pub replicas: bool = true,
        /// **R** Never promoted automatically.
        pub nofailover: bool = false,
        /// Longest handover at SIGTERM; then the process exits anyway.
        pub shutdown_timeout: Timespan = Timespan::from_secs(25),
        /// After the handover: not ready, still answering for so long.
        pub shutdown_linger: Timespan = Timespan::from_secs(5),
        /// Above so much state the node is not ready and takes no further replicas; 0: no limit.
        pub state_bytes_max: ByteSize = ByteSize::from_bytes(0),
    }
}

section! {
    /// `[peers]`: talk between the nodes.
    pub struct PeersSection {
        /// Address to listen at. Another one than loopback needs peer TLS or `plaintext = true`.
        pub listen: String = "127.0.0.1:7400".to_owned(),
        /// Address `host:port` that peers dial. Default: the slot with the port of `listen`.
        pub advertise: String = String::new(),
        /// Permits peers to talk without TLS beyond loopback.
        pub plaintext: bool = false,
        /// Longest wait for an answer of a peer.
        pub rpc_timeout: Timespan = Timespan::from_ms(100),
        /// Largest message.
        pub frame_bytes_max: ByteSize = ByteSize::from_mib(8),
        /// Rate per second at which checkpoints are sent to a peer.
        pub snapshot_bytes_per_s_max: ByteSize = ByteSize::from_mib(50),
    }
}

/// How the old active's producer is fenced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fencing {
    /// Direct, and hedged where direct cannot log in.
    Auto,
    /// By our own request only.
    Direct,
    /// By client handles only.
    Hedged,
}

section! {
    /// `[failover]`, **C**: failure detection and promotion.
    pub struct FailoverSection {
        /// Between all peers.
        pub heartbeat_interval: Timespan = Timespan::from_ms(50),
        /// Reconnecting after a reset: later than this it is neither refused nor accepted.
        pub probe_timeout: Timespan = Timespan::from_ms(20),
        /// Longest wait for another node's view.
        pub confirm_timeout: Timespan = Timespan::from_ms(50),
        /// Silence after which a node is suspect; at least 4 heartbeats.
        pub suspect_after: Timespan = Timespan::from_ms(300),
        /// The active's loop did not turn for so long, outside a Kafka call.
        pub stuck_after: Timespan = Timespan::from_secs(1),
        /// Kafka does not answer the active's node for so long, though it answers a standby's.
        pub stalled_after: Timespan = Timespan::from_secs(1),
        /// `auto`, `direct` or `hedged`.
        pub fencing: Fencing = Fencing::Auto,
        /// Hedged: wait before the next handle; grows with each try.
        pub fence_hedge_after: Timespan = Timespan::from_ms(25),
        /// Hedged: handles tried.
        pub fence_handles: u32 = 3,
        /// Without a first commit by then the next candidate gets a higher epoch.
        pub promote_timeout: Timespan = Timespan::from_secs(10),
        /// Partitions whose handles are kept connected, per node.
        pub warm_handles_max: u32 = 64,
        /// **R** Edge of warm, of alerts and of drill verdicts where a process was killed.
        pub objective: Timespan = Timespan::from_ms(250),
        /// **R** The same where a node fell silent.
        pub objective_silent: Timespan = Timespan::from_ms(600),
        /// **R** First pause before another automatic failover of a partition; doubles with each.
        pub antiflap_base: Timespan = Timespan::from_secs(1),
        /// **R** Longest such pause.
        pub antiflap_max: Timespan = Timespan::from_secs(60),
        /// **R** Failovers further back are not counted.
        pub antiflap_window: Timespan = Timespan::from_secs(600),
    }
}

section! {
    /// `[raft]`, **C**: the replicated log of the control plane.
    pub struct RaftSection {
        /// From the leader to each follower.
        pub heartbeat_interval: Timespan = Timespan::from_ms(30),
        /// Shortest election timeout; at least 3 heartbeats and 10 times `fsync_warn`.
        pub election_timeout_min: Timespan = Timespan::from_ms(100),
        /// Longest election timeout.
        pub election_timeout_max: Timespan = Timespan::from_ms(150),
        /// Vote at once when the leader's death is proven and confirmed.
        pub proof_election: bool = true,
        /// At most one such vote in this time.
        pub proof_election_gap: Timespan = Timespan::from_secs(1),
        /// How often a leader without quorum looks for it; at least twice `election_timeout_max`.
        pub quorum_loss_probe_interval: Timespan = Timespan::from_ms(300),
        /// Log entries between snapshots.
        pub snapshot_entries: u64 = 10_000,
        /// An fsync of the log that takes longer is reported.
        pub fsync_warn: Timespan = Timespan::from_ms(10),
    }
}

section! {
    /// `[planner]`, **C** **R**: where replicas are placed.
    pub struct PlannerSection {
        /// Spread actives by moving them.
        pub rebalance: bool = true,
        /// Only after so much calm.
        pub rebalance_after: Timespan = Timespan::from_secs(300),
        /// Movements at a time in the cluster, one a partition.
        pub moves_max: u32 = 2,
        /// A node silent for so long has its replicas built elsewhere, if there is room.
        pub replace_after: Timespan = Timespan::from_secs(600),
    }
}
