//! What peers say to each other. Variants and fields are only ever added.

use serde::{Deserialize, Serialize};

use crate::assignment::Assignment;
use crate::detector::PeerView;
use crate::ids::{NodeId, PartitionId, Slot};
use crate::operation::{ActError, ActRequest, Acted};
use crate::report::{HandoverWord, NodeReport, PromotionOutcome};
use crate::state::{Batch, NewNode};

/// One-way messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    Heartbeat(Box<Heartbeat>),
    /// This process stops; its silence is no failure.
    Goodbye,
    /// Assignments just committed, sent by the leader to the nodes they concern.
    Assigned(Vec<(PartitionId, Assignment)>),
    /// Between the old active and its successor.
    Handover(HandoverWord),
}

/// The state of a node, as it tells it itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heartbeat {
    pub(crate) node_id: NodeId,
    pub(crate) cluster_id: String,
    /// Its Raft log has something in it.
    pub(crate) initialized: bool,
    pub(crate) store_uuid: String,
    pub(crate) address: String,
    pub(crate) zone: String,
    pub(crate) version: String,
    pub(crate) replicas_here: bool,
    pub(crate) nofailover: bool,
    pub(crate) leader: Option<NodeId>,
    pub(crate) term: u64,
    pub(crate) last_log_index: Option<u64>,
    /// See [`crate::raft::RaftStatus::led_index`].
    #[serde(default)]
    pub(crate) led_index: Option<u64>,
    pub(crate) report: NodeReport,
}

/// Requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// To the leader: commit this.
    Propose(Batch),
    /// To the leader: a promotion ended.
    Outcome(PromotionOutcome),
    /// How do you see this peer?
    ViewOf(Slot),
    /// Have you proof that this process of the Raft leader is dead?
    Proof { slot: Slot, incarnation: u64 },
    /// Become a member of the cluster that is formed now.
    Form { cluster_id: String, members: Vec<(NodeId, Slot)> },
    /// To the leader: admit this empty node.
    Join(NewNode),
    /// To the leader: an operator asks for this.
    Act(Box<ActRequest>),
}

/// Answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Response {
    Done,
    /// Ask this one.
    NotLeader(Option<NodeId>),
    Failed(String),
    View(Option<PeerView>),
    Proof {
        proved: bool,
        node_id: NodeId,
        last_log_index: u64,
    },
    Joined {
        cluster_id: String,
        node_id: NodeId,
    },
    /// Not yet, for this reason.
    Wait(String),
    Acted(Result<Acted, ActError>),
}
