//! The control plane of hotspare: replicated state, planner, failure detector, Raft and peer transport.
//!
//! A small Raft group decides which node is the active of each partition and which nodes stand by. The pure
//! rooms (`state`, `planner`, `detector`) know no clock, no socket and no task: facts and the time come
//! in, commands and verdicts go out. `raft/` is the only place that names openraft, `transport/` the only one
//! with sockets, and `agent/` wires them together behind the handle [`Cluster`].

mod agent;
mod assignment;
mod can_stop;
mod detector;
mod disk;
mod histogram;
mod history;
mod identity;
mod ids;
pub mod invariants;
mod operation;
mod options;
mod planner;
mod raft;
mod report;
mod state;
mod totals;
mod transport;
mod view;

pub use agent::{Cluster, HandOver, StartError};
pub use assignment::{Assignment, Assignments, Order};
pub use can_stop::can_stop;
pub use histogram::{Histogram, PHASE_BOUNDS_S, SHORT_BOUNDS_S, TOTAL_BOUNDS_S};
pub use history::{
    CandidateReason, EventKind, EventResult, Evidence, HistoryEvent, NodeRef, PassedOver, Phases, Reason, WallTime,
};
pub use identity::{Identity, IdentityError};
pub use ids::{Epoch, EventId, NodeId, Offset, PartitionId, Slot};
pub use operation::{
    Act, ActError, ActRequest, Acted, Candidate, Drain, Operation, OperationId, OperationState, PAUSE_MS_MAX,
    PartitionPreflight, Pause, Preflight, Step, StepState, Which,
};
pub use options::{Options, Settings};
pub use report::{
    HandoverStep, HandoverWord, NodeReport, PromotionOutcome, PromotionPhases, PromotionResult, ReplicaReport,
    Replicas, Role,
};
pub use totals::{LastChange, Totals, phases_by_name};
pub use view::{Liveness, Meters, NodeView, PartitionView, View, WithheldView};
