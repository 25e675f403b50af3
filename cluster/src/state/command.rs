//! The commands of the replicated log.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::history::{EventKind, Evidence, HistoryEvent, PassedOver, Phases, Reason, WallTime};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::operation::{ActRequest, OperationId};
use crate::report::PromotionOutcome;

use super::Node;

/// Commands that are committed together, in one log entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
}

/// About the encoded length of a command without lists.
const COMMAND_BYTES: usize = 600;
/// About the encoded length of one item of a list in a command.
const ITEM_BYTES: usize = 120;

impl Batch {
    /// About how long the batch is when encoded; rather too much than too little.
    pub(crate) fn bytes_estimated(&self) -> usize {
        let of = |command: &Command| {
            let items = match command {
                Command::Order(order) => order.standbys.len() + order.evidence.len() + order.passed_over.len(),
                Command::Form { nodes, .. } => 2 * nodes.len(),
                Command::SetStandbys { standbys, .. } => standbys.len(),
                Command::Note { text, .. } => text.len() / ITEM_BYTES,
                Command::Begin { request, steps, .. } => steps.len() + request.reason.len() / ITEM_BYTES,
                Command::Withheld(withheld) => withheld.event.as_ref().map_or(0, |event| event.passed_over.len()),
                _ => 0,
            };
            COMMAND_BYTES + ITEM_BYTES * items
        };
        self.commands.iter().map(of).sum()
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} commands", self.commands.len())
    }
}

/// One change of the replicated state. Variants and fields are only ever added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Command {
    /// The first command of a cluster.
    Form { cluster_id: String, nodes: Vec<NewNode> },
    /// A disk that was empty joins; its id is the index of this entry.
    Allot { node: NewNode, replaces: Option<NodeId> },
    /// A process of a node was heard of.
    NodeUp { node: NodeId, incarnation: u64, address: String, zone: String },
    /// That process is shutting down.
    Stopping { node: NodeId, incarnation: u64 },
    /// An operator asks for something; `steps` are the partitions whose active is to change, and their epochs.
    Begin { request: Box<ActRequest>, steps: Vec<(PartitionId, Epoch)>, at: WallTime },
    /// A step of an operation cannot be done.
    GiveUp { operation: OperationId, partition: PartitionId, detail: String, at: WallTime },
    /// A node that is being drained has nothing left to give away.
    Drained { node: NodeId, at: WallTime },
    /// A decision is withheld, or is not any more.
    Withheld(Box<WithheldCommand>),
    /// The node is gone for good.
    Tombstone { node: NodeId },
    /// The number of partitions is known.
    CreatePartitions { count: u32 },
    /// A node becomes active of a partition.
    Order(Box<OrderCommand>),
    /// Other standbys, unless the partition has changed since `revision`.
    SetStandbys { partition: PartitionId, revision: u64, standbys: Vec<NodeId> },
    /// How a promotion ended.
    Outcome { outcome: PromotionOutcome, timing: Option<Timing>, at: WallTime },
    /// An epoch was seen in the changelog.
    EpochSeen { partition: PartitionId, seen: Epoch },
    /// The broker refused the writer of this tenure, and nothing says that a successor was ordered.
    Fenced { partition: PartitionId, node: NodeId, epoch: Epoch },
    /// A deposed process was heard again.
    FalsePositive { node: NodeId, incarnation: u64 },
    /// An operator's note at an event.
    Note { seq: u64, text: String },
}

/// A node that was not known before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct NewNode {
    /// 0 where the log index decides.
    pub(crate) node_id: NodeId,
    pub(crate) slot: Slot,
    pub(crate) address: String,
    pub(crate) zone: String,
    pub(crate) store_uuid: String,
}

impl NewNode {
    pub(super) fn into_node(self, replaces: Option<NodeId>) -> Node {
        Node {
            slot: self.slot,
            address: self.address,
            zone: self.zone,
            store_uuid: self.store_uuid,
            incarnation: 0,
            stopping: false,
            drain: None,
            replaces,
        }
    }
}

/// A decision that is withheld.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WithheldCommand {
    pub(crate) partition: PartitionId,
    /// Why; none: it is not any more.
    pub(crate) why: Option<String>,
    /// What goes into the history.
    pub(crate) event: Option<HistoryEvent>,
}

/// The order that a node become active.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OrderCommand {
    pub(crate) partition: PartitionId,
    /// The epoch on which the decision rests; another one there makes the order void.
    pub(crate) expected: Epoch,
    pub(crate) epoch: Epoch,
    pub(crate) target: NodeId,
    pub(crate) target_incarnation: u64,
    pub(crate) standbys: Vec<NodeId>,
    pub(crate) kind: EventKind,
    pub(crate) reason: Reason,
    pub(crate) by: Option<String>,
    pub(crate) at: WallTime,
    pub(crate) evidence: Vec<Evidence>,
    /// As far as known at the decision.
    pub(crate) phases_ms: Phases,
    pub(crate) passed_over: Vec<PassedOver>,
    /// How long a failover counts for the anti-flap pause.
    pub(crate) antiflap_window_ms: i64,
    /// The operation of which it is a part.
    #[serde(default)]
    pub(crate) operation: Option<OperationId>,
}

/// Times by the leader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// The phases up to the order.
    pub(crate) phases_ms: Phases,
    pub(crate) total_ms: f64,
}
