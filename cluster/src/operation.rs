//! What operators ask for: who, what, why, and how far it has come.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::history::{NodeRef, Phases, WallTime};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};

/// Number of an operation, shown as `op-812`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op-{}", self.0)
    }
}

impl FromStr for OperationId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("op-").and_then(|number| number.parse().ok());
        number.map(Self).ok_or_else(|| format!("\"{text}\" is no id of an operation; one looks like op-812"))
    }
}

impl Serialize for OperationId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for OperationId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The partitions that an act is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// These.
    Partitions(Vec<PartitionId>),
    /// All whose active is on this node.
    Node(Slot),
    /// All.
    All,
}

/// What an operator asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Act {
    /// Gives partitions to other nodes as planned: the old active works until its successor is ready.
    Switchover {
        /// Which.
        which: Which,
        /// The node that takes them; none: the best one.
        to: Option<Slot>,
        /// Takes a successor that is far behind, too.
        allow_cold: bool,
    },
    /// Gives partitions to other nodes at once, without the old active, in spite of pause and anti-flap.
    Failover {
        /// Which.
        which: Which,
        /// The node that takes them; none: the best one.
        to: Option<Slot>,
        /// Takes a successor that is far behind, too.
        allow_cold: bool,
        /// Takes a node with `nofailover`, too.
        allow_nofailover: bool,
    },
    /// No automatic failover, move or replacement.
    Pause {
        /// Only of this partition; none: of all.
        partition: Option<PartitionId>,
        /// For so long, in milliseconds; at most [`PAUSE_MS_MAX`].
        for_ms: u64,
    },
    /// Ends a pause.
    Resume {
        /// That of this partition; none: that of all.
        partition: Option<PartitionId>,
    },
    /// Takes the actives off a node, which is no candidate then; its replicas keep tailing.
    Drain {
        /// The node.
        slot: Slot,
        /// Its replicas leave too.
        evacuate: bool,
    },
    /// Ends that.
    Undrain {
        /// The node.
        slot: Slot,
    },
}

/// The longest pause: a day.
pub const PAUSE_MS_MAX: u64 = 24 * 60 * 60 * 1000;

impl Act {
    /// Its name in commands, paths and documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Switchover { .. } => "switchover",
            Self::Failover { .. } => "failover",
            Self::Pause { .. } => "pause",
            Self::Resume { .. } => "resume",
            Self::Drain { .. } => "drain",
            Self::Undrain { .. } => "undrain",
        }
    }
}

/// A request for an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActRequest {
    /// What.
    #[serde(flatten)]
    pub act: Act,
    /// Who asks: the name of a token or certificate.
    pub by: String,
    /// Why; empty: not said.
    pub reason: String,
    /// The same request id gives the same operation.
    pub request_id: Option<String>,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Acted {
    /// It goes on, or is done already, under this number.
    Begun(OperationId),
    /// Of a dry run: it would be done.
    WouldDo(Preflight),
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum ActError {
    /// Nobody can decide.
    #[error("no raft leader is known: nothing can be changed until a quorum of voters is back")]
    NoLeader,
    /// It names what does not exist.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be done now.
    #[error("{}", .0.detail)]
    Refused(Box<Preflight>),
    /// It is not known whether it was taken: the same request id asks again.
    #[error("it is not known whether this was taken: {0}. Ask again with the same request id")]
    Unknown(String),
}

/// Whether an act would be allowed, and with whom.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Preflight {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why not; else what would be done.
    pub detail: String,
    /// The partitions concerned.
    pub partitions: Vec<PartitionPreflight>,
}

/// What would become of one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionPreflight {
    /// The partition.
    pub partition: PartitionId,
    /// Its active.
    pub from: Option<NodeRef>,
    /// Who would take it; none: nobody can.
    pub to: Option<NodeRef>,
    /// Median pause of earlier switchovers, in milliseconds; none where there were none.
    pub predicted_ms: Option<f64>,
    /// Every candidate.
    pub candidates: Vec<Candidate>,
}

/// A node as candidate for a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub slot: Slot,
    /// Its id.
    pub node_id: NodeId,
    /// Why it cannot take the partition; none: it can.
    pub reason: Option<String>,
    /// The numbers behind that.
    pub detail: String,
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// Not at its end.
    #[default]
    Running,
    /// All was done.
    Done,
    /// Something was not done.
    Failed,
}

/// How far the change of one partition has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not ordered yet.
    #[default]
    Waiting,
    /// The successor has the order.
    Ordered,
    /// The successor has committed.
    Done,
    /// It will not be done.
    Failed,
}

/// The part of an operation that is about one partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The partition.
    pub partition: PartitionId,
    /// The active before.
    pub from: Option<NodeRef>,
    /// The active after, once it is ordered.
    pub to: Option<NodeRef>,
    /// The epoch before.
    pub epoch_before: Epoch,
    /// The epoch ordered.
    pub epoch: Option<Epoch>,
    /// How far it has come.
    pub state: StepState,
    /// Where the time went.
    pub phases_ms: Phases,
    /// From the end of the old active's reading to the successor's first commit, in milliseconds.
    pub pause_ms: Option<f64>,
    /// Why it failed.
    pub detail: Option<String>,
}

/// What an operator asked for, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// Its number.
    pub id: OperationId,
    /// What.
    #[serde(flatten)]
    pub act: Act,
    /// Who.
    pub by: String,
    /// Why; empty: not said.
    pub reason: String,
    /// The request that it came from.
    pub request_id: Option<String>,
    /// When it was taken, by the leader's clock.
    pub at: WallTime,
    /// When it ended.
    pub ended_at: Option<WallTime>,
    /// How far it has come.
    pub state: OperationState,
    /// What it waits for, or how it ended.
    pub detail: Option<String>,
    /// The partitions whose active changes.
    pub steps: Vec<Step>,
}

impl Operation {
    /// Whether it goes on.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == OperationState::Running
    }
}

/// No automatic act until then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// Who.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: WallTime,
    /// Until when, by the leader's clock.
    pub until: WallTime,
}

/// A node that is being drained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drain {
    /// Who asked.
    pub by: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: WallTime,
    /// Whether its replicas leave too.
    pub evacuate: bool,
    /// The operation.
    pub operation: OperationId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_and_read_with_its_prefix() {
        assert_eq!("op-812".parse(), Ok(OperationId(812)));
        assert_eq!(OperationId(812).to_string(), "op-812");
        assert!("812".parse::<OperationId>().is_err() && "op-x".parse::<OperationId>().is_err());
    }

    #[test]
    fn an_operation_survives_its_encoding() {
        let act = Act::Switchover { which: Which::Node(Slot("a".into())), to: None, allow_cold: false };
        let request = ActRequest { act, by: "alice".into(), reason: "rack 4".into(), request_id: None, dry_run: true };
        let json = serde_json::to_value(&request).unwrap();
        assert_eq!((&json["kind"], &json["which"]["node"]), (&"switchover".into(), &"a".into()));
        assert_eq!(serde_json::from_value::<ActRequest>(json).unwrap(), request);
    }
}
