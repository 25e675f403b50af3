//! What the data plane tells about itself, and what it tells about a promotion.

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Offset, PartitionId};

/// The data plane of this node, as the control plane sees it.
pub trait Replicas: Send + Sync + 'static {
    /// The state of all replicas here. Asked at each heartbeat; must not block.
    fn report(&self) -> NodeReport;
}

/// Short report of a node, carried in each heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Partitions of the input topic by Kafka's metadata; none until known.
    pub partitions_of_input: Option<u32>,
    /// Whether Kafka answers this node.
    pub kafka_ok: bool,
    /// Milliseconds since Kafka last answered this node.
    pub kafka_age_ms: u64,
    /// Milliseconds for which Kafka has answered this node, by then, without a longer gap than a second.
    #[serde(default)]
    pub kafka_heard_ms: u64,
    /// One report for each replica here.
    pub replicas: Vec<ReplicaReport>,
    /// Whether this node is shutting down.
    pub stopping: bool,
    /// Hash of the rules of aggregation; a replica with others than the active is not eligible.
    pub semantics_hash: u64,
    /// Hash of the settings that must be the same on all nodes; 0: not told.
    #[serde(default)]
    pub config_hash: u64,
}

impl NodeReport {
    /// The report of this node's replica of `partition`, if it holds one.
    #[must_use]
    pub fn replica(&self, partition: PartitionId) -> Option<&ReplicaReport> {
        self.replicas.iter().find(|r| r.partition == partition)
    }
}

/// State of one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// The partition it is a replica of.
    pub partition: PartitionId,
    /// What it is doing.
    pub role: Role,
    /// Its own epoch as active, else the highest epoch it has seen in the changelog.
    pub epoch: Epoch,
    /// Next changelog offset to apply.
    pub applied: Offset,
    /// Last stable offset of the changelog as last seen.
    pub lso: Offset,
    /// Changelog records not yet applied.
    pub lag_records: i64,
    /// Age of the oldest committed record not yet applied, in milliseconds.
    pub lag_ms: i64,
    /// Commit number last applied or written.
    pub commit: u64,
    /// Milliseconds since that commit; none before the first.
    pub commit_age_ms: Option<u64>,
    /// Input records waiting; only of an active.
    pub input_lag_records: Option<i64>,
    /// Whether its digest equals the active's; none while unknown.
    pub digest_equal: Option<bool>,
    /// Milliseconds since its thread turned last, outside Kafka calls.
    pub loop_age_ms: u64,
    /// The first input offset that is not part of the state; none before the first commit.
    #[serde(default)]
    pub next_input: Option<Offset>,
}

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Loading a checkpoint or reading the changelog for the first time.
    Restoring,
    /// Following the changelog.
    Standby,
    /// Becoming active.
    Promoting,
    /// Aggregating and writing.
    Active,
    /// Was active and was refused by the broker.
    Fenced,
    /// Its state differs from the active's; never promoted.
    Divergent,
}

/// How a promotion ended, told by the promoted node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromotionOutcome {
    /// The partition.
    pub partition: PartitionId,
    /// The epoch that was ordered.
    pub epoch: Epoch,
    /// The end.
    pub result: PromotionResult,
    /// Where the time went on the promoted node.
    pub phases_ms: PromotionPhases,
    /// Changelog records applied between the order and the end of catching up.
    pub records_caught_up: u64,
    /// Input records read again because the old active had not committed them.
    pub readings_replayed: u64,
    /// Of a switchover: from the end of the old active's reading to the first commit, in milliseconds.
    #[serde(default)]
    pub pause_ms: Option<f64>,
}

/// The end of a promotion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromotionResult {
    /// The first transaction of the epoch is committed.
    Ok,
    /// It did not succeed.
    Failed {
        /// What went wrong, for the operator.
        error: String,
    },
    /// An epoch at or above the ordered one stands in the changelog.
    Superseded {
        /// That epoch.
        seen: Epoch,
    },
}

/// Phases of a promotion on the promoted node, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromotionPhases {
    /// Of a switchover: from the order until the old active had stopped reading.
    #[serde(default)]
    pub prepare: f64,
    /// Of a switchover: the old active's last commit.
    #[serde(default)]
    pub last_commit: f64,
    /// From the order to the broker's refusal of the old active.
    pub fence: f64,
    /// From there until the changelog is applied to its end.
    pub catch_up: f64,
    /// From there to the first commit.
    pub first_output: f64,
}

/// What the old active and its successor tell each other at a switchover. Either may be lost, so each is repeated until it
/// is answered; nothing rests on them but how short the pause is, for the successor fences in any case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HandoverWord {
    /// The partition.
    pub partition: PartitionId,
    /// The successor's epoch.
    pub epoch: Epoch,
    /// What is told.
    pub step: HandoverStep,
}

/// A step of a switchover.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoverStep {
    /// The successor is connected and caught up: stop.
    Ready,
    /// The old active has stopped, or is not there any more.
    Left {
        /// Where the input goes on; none if it is not known.
        next_input: Option<Offset>,
        /// Milliseconds since it stopped reading.
        stopped_ms: f64,
        /// Milliseconds of its last commit.
        last_commit_ms: f64,
    },
}
