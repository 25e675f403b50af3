//! The replicated state, and how commands change it. Pure: the same commands give the same state on every node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::assignment::{Assignment, Order};
use crate::history::{EventKind, EventResult, History, HistoryEvent, NodeRef, Phases, Reason, WallTime};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::invariants;
use crate::operation::{Drain, OperationId, Pause};
use crate::report::{PromotionOutcome, PromotionPhases, PromotionResult};

mod command;
mod operations;
#[cfg(test)]
mod tests;

pub(crate) use command::{Batch, Command, NewNode, OrderCommand, Timing, WithheldCommand};
pub(crate) use operations::Operations;

/// Failovers of a partition that are remembered for the anti-flap pause.
const FAILOVERS_MAX: usize = 64;

/// Most partitions that are believed; more is a broken report.
pub(crate) const PARTITIONS_MAX: u32 = 100_000;

/// All that Raft replicates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Drawn when the cluster was formed.
    pub(crate) cluster_id: String,
    /// All nodes that belong to the cluster.
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// Ids that are never used again.
    pub(crate) tombstones: BTreeMap<NodeId, Slot>,
    /// All partitions; empty until their number is known.
    pub(crate) partitions: BTreeMap<PartitionId, Partition>,
    /// What happened.
    pub(crate) history: History,
    /// What operators asked for.
    #[serde(default)]
    pub(crate) operations: Operations,
    /// No automatic act in the whole cluster.
    #[serde(default)]
    pub(crate) pause: Option<Pause>,
}

/// A node that belongs to the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Node {
    pub(crate) slot: Slot,
    pub(crate) address: String,
    pub(crate) zone: String,
    pub(crate) store_uuid: String,
    /// The process last registered; 0 before the first.
    pub(crate) incarnation: u64,
    /// That process said that it is shutting down.
    pub(crate) stopping: bool,
    /// An operator drains it.
    #[serde(default)]
    pub(crate) drain: Option<Drain>,
    /// The node whose slot this one took over and whose place it has not yet taken.
    pub(crate) replaces: Option<NodeId>,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Partition {
    pub(crate) epoch: Epoch,
    /// Highest epoch seen in the changelog; the next order is above it.
    pub(crate) floor: Epoch,
    pub(crate) active: Option<NodeId>,
    /// The process of the active that was ordered; another one of the same node is not active.
    pub(crate) active_incarnation: u64,
    pub(crate) standbys: Vec<NodeId>,
    pub(crate) since: WallTime,
    pub(crate) order: Option<Order>,
    pub(crate) stage: Stage,
    /// Times of automatic failovers, for the anti-flap pause.
    pub(crate) failovers: Vec<WallTime>,
    /// Log index of the newest change.
    pub(crate) revision: u64,
    /// No automatic act.
    #[serde(default)]
    pub(crate) pause: Option<Pause>,
    /// Why a decision is withheld, as the history says.
    #[serde(default)]
    pub(crate) withheld: Option<String>,
}

/// How far the newest order of a partition has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// No outcome yet.
    #[default]
    Ordered,
    /// The active has committed.
    Confirmed,
    /// The promotion failed.
    Failed {
        /// When the leader heard of it.
        at: WallTime,
    },
    /// It cannot go on under its epoch: the changelog holds a higher one, or the broker refuses its writer.
    Superseded,
}

/// What a command changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A partition has a new assignment.
    Assigned(PartitionId),
    /// A new node has this id.
    Allotted(NodeId),
    /// A request is this operation.
    Begun(OperationId),
    /// The command did not fit the state and changed nothing.
    Ignored(&'static str),
}

impl Partition {
    /// What the data plane is told.
    pub(crate) fn assignment(&self) -> Assignment {
        Assignment {
            epoch: self.epoch,
            active: self.active,
            active_incarnation: self.active_incarnation,
            standbys: self.standbys.clone(),
            order: self.order.clone(),
            revision: self.revision,
        }
    }
}

impl State {
    /// Applies the command at `index` of the log.
    pub(crate) fn apply(&mut self, index: u64, command: Command, events_max: usize) -> Vec<Event> {
        let ignored = |why| vec![Event::Ignored(why)];
        match command {
            Command::Form { cluster_id, nodes } => self.form(cluster_id, nodes),
            Command::Allot { node, replaces } => self.allot(NodeId(index), node, replaces),
            Command::NodeUp { node, incarnation, address, zone } => match self.nodes.get_mut(&node) {
                Some(known) => {
                    if known.incarnation != incarnation {
                        known.stopping = false;
                    }
                    (known.incarnation, known.address, known.zone) = (incarnation, address, zone);
                    Vec::new()
                }
                None => ignored("no such node"),
            },
            Command::Stopping { node, incarnation } => match self.nodes.get_mut(&node) {
                Some(known) if known.incarnation == incarnation => {
                    known.stopping = true;
                    Vec::new()
                }
                _ => ignored("no such process"),
            },
            Command::Begin { request, steps, at } => self.begin(*request, steps, at),
            Command::GiveUp { operation, partition, detail, at } => self.give_up(operation, partition, detail, at),
            Command::Drained { node, at } => self.drained(node, at),
            Command::Withheld(withheld) => self.withheld(*withheld, events_max),
            Command::Tombstone { node } => self.tombstone(index, node),
            Command::CreatePartitions { count } => self.create(count),
            Command::Order(order) => self.order(index, *order, events_max),
            Command::SetStandbys { partition, revision, standbys } => {
                self.set_standbys(index, partition, revision, standbys)
            }
            Command::Outcome { outcome, timing, at } => self.outcome(outcome, timing, at),
            Command::EpochSeen { partition, seen } => match self.partitions.get_mut(&partition) {
                // The newest epoch itself is that of the newest tenure. Who has it tells by its outcome if it is not its own.
                Some(known) if seen > known.floor.max(known.epoch) => {
                    known.floor = seen;
                    Vec::new()
                }
                _ => ignored("no such partition, or known"),
            },
            Command::Fenced { partition, node, epoch } => match self.partitions.get_mut(&partition) {
                Some(known) if known.epoch == epoch && known.active == Some(node) => {
                    known.stage = Stage::Superseded;
                    Vec::new()
                }
                _ => ignored("another tenure was ordered since"),
            },
            Command::FalsePositive { node, incarnation } => self.false_positive(node, incarnation),
            Command::Note { seq, text } => {
                match self.history.events.iter_mut().find(|e| e.seq == seq) {
                    Some(event) => event.note = Some(text),
                    None => return ignored("no such event"),
                }
                Vec::new()
            }
        }
    }

    /// The name of a node, also of one that is gone.
    pub(crate) fn slot_of(&self, node: NodeId) -> Slot {
        let live = self.nodes.get(&node).map(|n| &n.slot);
        let slot = live.or_else(|| self.tombstones.get(&node));
        slot.cloned().unwrap_or_else(|| Slot(format!("node-{node}")))
    }

    fn node_ref(&self, node: NodeId) -> NodeRef {
        NodeRef { slot: self.slot_of(node), node_id: node }
    }

    fn form(&mut self, cluster_id: String, nodes: Vec<NewNode>) -> Vec<Event> {
        if !self.cluster_id.is_empty() {
            return vec![Event::Ignored("the cluster is formed already")];
        }
        self.cluster_id = cluster_id;
        for new in nodes {
            let id = new.node_id;
            self.nodes.insert(id, new.into_node(None));
        }
        Vec::new()
    }

    fn allot(&mut self, id: NodeId, new: NewNode, replaces: Option<NodeId>) -> Vec<Event> {
        // The request is repeated when its answer was lost: the same disk gets the same id.
        if let Some((known, _)) = self.nodes.iter().find(|(_, n)| n.store_uuid == new.store_uuid) {
            return vec![Event::Allotted(*known)];
        }
        let holder = self.nodes.iter().find(|(_, n)| n.slot == new.slot).map(|(id, _)| *id);
        if holder != replaces {
            return vec![Event::Ignored("the slot has another holder")];
        }
        if self.nodes.contains_key(&id) || self.tombstones.contains_key(&id) {
            return vec![Event::Ignored("the id was used before")];
        }
        self.nodes.insert(id, new.into_node(replaces));
        vec![Event::Allotted(id)]
    }

    fn tombstone(&mut self, index: u64, node: NodeId) -> Vec<Event> {
        let Some(gone) = self.nodes.remove(&node) else {
            return vec![Event::Ignored("no such node")];
        };
        self.drained_node_gone(&gone.slot, gone.drain.as_ref(), WallTime(0));
        self.tombstones.insert(node, gone.slot);
        let successor = self.nodes.iter_mut().find(|(_, n)| n.replaces == Some(node)).map(|(id, n)| {
            n.replaces = None;
            *id
        });
        let mut events = Vec::new();
        for (partition, entry) in &mut self.partitions {
            let held = entry.standbys.contains(&node) || entry.active == Some(node);
            if !held {
                continue;
            }
            entry.standbys.retain(|s| *s != node);
            if entry.active == Some(node) {
                entry.active = None;
            }
            if let Some(new) = successor.filter(|s| entry.active != Some(*s) && !entry.standbys.contains(s)) {
                entry.standbys.push(new);
            }
            entry.revision = index;
            events.push(Event::Assigned(*partition));
        }
        events
    }

    fn create(&mut self, count: u32) -> Vec<Event> {
        if !self.partitions.is_empty() || count > PARTITIONS_MAX {
            return vec![Event::Ignored("the partitions exist already, or are too many")];
        }
        self.partitions = (0..count).map(|p| (PartitionId(p), Partition::default())).collect();
        Vec::new()
    }

    fn order(&mut self, index: u64, order: OrderCommand, events_max: usize) -> Vec<Event> {
        if !self.nodes.contains_key(&order.target) {
            return vec![Event::Ignored("the target is gone")];
        }
        let to = self.node_ref(order.target);
        let Some(entry) = self.partitions.get(&order.partition) else {
            return vec![Event::Ignored("no such partition")];
        };
        // Decided on an older state: a later epoch was ordered in between, or the changelog has a higher one.
        if entry.epoch != order.expected || order.epoch <= entry.epoch || order.epoch <= entry.floor {
            return vec![Event::Ignored("the order is outdated")];
        }
        let from_incarnation = if entry.active.is_some() { entry.active_incarnation } else { 0 };
        let from = entry.active.map(|node| self.node_ref(node));
        self.end_pending(order.partition, order.expected, order.reason);
        self.steps_ordered(&order);
        let event = HistoryEvent {
            seq: 0,
            kind: order.kind,
            reason: order.reason,
            partition: order.partition,
            epoch: order.epoch,
            result: EventResult::Pending,
            by: order.by,
            at: order.at,
            from,
            from_incarnation,
            to,
            evidence: order.evidence,
            phases_ms: order.phases_ms,
            total_ms: None,
            pause_ms: None,
            records_caught_up: 0,
            readings_replayed: 0,
            passed_over: order.passed_over,
            false_positive: false,
            withheld: None,
            operation: order.operation,
            error: None,
            note: None,
        };
        let seq = self.history.push(event, events_max);
        let Some(entry) = self.partitions.get_mut(&order.partition) else {
            return Vec::new();
        };
        let counts = matches!(order.reason, Reason::ProcessDead | Reason::Silent | Reason::Stuck | Reason::Stalled);
        if order.kind == EventKind::Failover && counts {
            entry.failovers.push(order.at);
            let oldest = WallTime(order.at.0.saturating_sub(order.antiflap_window_ms));
            entry.failovers.retain(|t| *t >= oldest);
            let surplus = entry.failovers.len().saturating_sub(FAILOVERS_MAX);
            entry.failovers.drain(..surplus);
        }
        let before = entry.epoch;
        entry.order = Some(Order { seq, kind: order.kind, reason: order.reason, from: entry.active });
        entry.epoch = order.epoch;
        entry.active = Some(order.target);
        entry.active_incarnation = order.target_incarnation;
        entry.standbys = order.standbys.into_iter().filter(|s| *s != order.target).collect();
        entry.since = order.at;
        entry.stage = Stage::Ordered;
        entry.revision = index;
        entry.withheld = None;
        invariants::uphold(
            invariants::ordered_epoch_rises(before, entry.floor, entry.epoch)
                .and_then(|()| invariants::active_is_no_standby(entry.active, &entry.standbys)),
            Some(order.partition),
        );
        vec![Event::Assigned(order.partition)]
    }

    /// Puts a decision that is withheld into the history, or forgets that one was.
    fn withheld(&mut self, command: WithheldCommand, events_max: usize) -> Vec<Event> {
        let WithheldCommand { partition, why, event } = command;
        let Some(entry) = self.partitions.get_mut(&partition).filter(|entry| entry.withheld != why) else {
            return vec![Event::Ignored("no such partition, or known")];
        };
        entry.withheld.clone_from(&why);
        if let (Some(why), Some(event)) = (why, event) {
            *self.history.totals.withheld.entry(why).or_default() += 1;
            self.history.push(event, events_max);
        }
        Vec::new()
    }

    /// An order without outcome ends when the next one is given.
    fn end_pending(&mut self, partition: PartitionId, epoch: Epoch, next: Reason) {
        let Some(event) = self.history.of_epoch_mut(partition, epoch) else {
            return;
        };
        if event.result != EventResult::Pending {
            return;
        }
        event.result = match next {
            Reason::EpochJump => EventResult::Superseded,
            _ => EventResult::Failed,
        };
        event.error.get_or_insert_with(|| "no outcome before the next order".into());
        self.history.count_end(partition, epoch);
    }

    fn set_standbys(&mut self, index: u64, partition: PartitionId, revision: u64, standbys: Vec<NodeId>) -> Vec<Event> {
        let known = standbys.iter().all(|s| self.nodes.contains_key(s));
        match self.partitions.get_mut(&partition) {
            Some(entry) if entry.revision == revision && known => {
                entry.standbys = standbys.into_iter().filter(|s| Some(*s) != entry.active).collect();
                entry.revision = index;
                invariants::uphold(invariants::active_is_no_standby(entry.active, &entry.standbys), Some(partition));
                vec![Event::Assigned(partition)]
            }
            _ => vec![Event::Ignored("decided on an older state")],
        }
    }

    fn outcome(&mut self, outcome: PromotionOutcome, timing: Option<Timing>, at: WallTime) -> Vec<Event> {
        let Some(event) = self.history.of_epoch_mut(outcome.partition, outcome.epoch) else {
            return vec![Event::Ignored("no such event")];
        };
        if event.result == EventResult::Success {
            return vec![Event::Ignored("reported before")];
        }
        let first = event.result == EventResult::Pending;
        let here = timing.as_ref().map_or(event.phases_ms, |t| t.phases_ms);
        let PromotionPhases { prepare, last_commit, fence, catch_up, first_output } = outcome.phases_ms;
        event.phases_ms = Phases { prepare, last_commit, fence, catch_up, first_output, ..here };
        event.pause_ms = outcome.pause_ms;
        event.records_caught_up = outcome.records_caught_up;
        event.readings_replayed = outcome.readings_replayed;
        let mut seen_above = None;
        (event.result, event.error) = match outcome.result {
            PromotionResult::Ok => (EventResult::Success, None),
            PromotionResult::Failed { error } => (EventResult::Failed, Some(error)),
            PromotionResult::Superseded { seen } => {
                seen_above = Some(seen);
                (EventResult::Superseded, Some(format!("epoch {seen} stands in the changelog")))
            }
        };
        event.total_ms = timing.map(|t| t.total_ms).filter(|_| event.result == EventResult::Success);
        let result = event.result;
        let event = event.clone();
        if first {
            self.history.count_end(outcome.partition, outcome.epoch);
        }
        self.step_ended(&event, at);
        if let Some(entry) = self.partitions.get_mut(&outcome.partition) {
            // An outdated promotion meets the epoch of the present tenure: that is no reason to end it.
            let above = seen_above.filter(|seen| entry.epoch == outcome.epoch || *seen > entry.epoch);
            entry.floor = entry.floor.max(above.unwrap_or_default());
            if entry.epoch == outcome.epoch {
                entry.stage = match result {
                    EventResult::Success => Stage::Confirmed,
                    EventResult::Superseded => Stage::Superseded,
                    _ => Stage::Failed { at },
                };
            }
        }
        Vec::new()
    }

    fn false_positive(&mut self, node: NodeId, incarnation: u64) -> Vec<Event> {
        let mut found = 0;
        let falsely: Vec<_> = self.history.falsely_deposed(node, incarnation).map(|event| event.seq).collect();
        for event in self.history.events.iter_mut().filter(|event| falsely.contains(&event.seq)) {
            event.false_positive = true;
            found += 1;
            *self.history.totals.false_failovers.entry(event.reason.name().to_owned()).or_default() += 1;
        }
        self.history.false_positives += found;
        if found == 0 { vec![Event::Ignored("no such event")] } else { Vec::new() }
    }
}
