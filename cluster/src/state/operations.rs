//! Operators' acts in the replicated state: taken, done step by step, ended.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::history::{EventResult, HistoryEvent, WallTime};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::operation::{Act, ActRequest, Drain, Operation, OperationId, OperationState, Pause, Step, StepState};

use super::{Event, OrderCommand, State};

/// Operations that are kept; of those that have ended the oldest go first.
const KEPT_MAX: usize = 1_000;
/// Operations that go on at a time.
pub(crate) const RUNNING_MAX: usize = 100;

/// All operations that are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Operations {
    /// Number of the newest.
    newest: u64,
    /// Oldest first.
    kept: VecDeque<Operation>,
}

impl Operations {
    /// Those that are kept, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Operation> {
        self.kept.iter()
    }

    /// Those that go on, oldest first.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Operation> {
        self.kept.iter().filter(|operation| operation.is_running())
    }

    pub(crate) fn get(&self, id: OperationId) -> Option<&Operation> {
        self.kept.iter().find(|operation| operation.id == id)
    }

    /// The operation that a request began.
    pub(crate) fn of_request(&self, request_id: &str) -> Option<&Operation> {
        self.kept.iter().rev().find(|operation| operation.request_id.as_deref() == Some(request_id))
    }

    fn get_mut(&mut self, id: OperationId) -> Option<&mut Operation> {
        self.kept.iter_mut().find(|operation| operation.id == id)
    }

    fn push(&mut self, operation: Operation) {
        self.kept.push_back(operation);
        while self.kept.len() > KEPT_MAX {
            match self.kept.iter().position(|operation| !operation.is_running()) {
                Some(index) => drop(self.kept.remove(index)),
                None => break,
            }
        }
    }

    fn steps_mut(&mut self) -> impl Iterator<Item = (OperationId, &mut Step)> {
        let running = self.kept.iter_mut().filter(|operation| operation.is_running());
        running.flat_map(|operation| {
            let id = operation.id;
            operation.steps.iter_mut().map(move |step| (id, step))
        })
    }

    /// Ends the operations whose steps have all ended.
    fn settle(&mut self, at: WallTime) {
        for operation in self.kept.iter_mut().filter(|operation| operation.is_running()) {
            let ended = |step: &Step| matches!(step.state, StepState::Done | StepState::Failed);
            if operation.steps.is_empty() || !operation.steps.iter().all(ended) {
                continue;
            }
            let failed = operation.steps.iter().filter(|step| step.state == StepState::Failed).count();
            operation.state = if failed == 0 { OperationState::Done } else { OperationState::Failed };
            operation.detail = (failed > 0).then(|| format!("{failed} of {} not done", operation.steps.len()));
            operation.ended_at = Some(at);
        }
    }
}

impl State {
    /// Takes a request. The same request id gives the same operation.
    pub(super) fn begin(&mut self, request: ActRequest, steps: Vec<(PartitionId, Epoch)>, at: WallTime) -> Vec<Event> {
        if let Some(known) = request.request_id.as_deref().and_then(|id| self.operations.of_request(id)) {
            let same = known.act == request.act;
            return vec![if same { Event::Begun(known.id) } else { Event::Ignored("the request id is another's") }];
        }
        if self.operations.running().count() >= RUNNING_MAX {
            return vec![Event::Ignored("too many operations go on")];
        }
        if steps.iter().any(|(p, epoch)| self.partitions.get(p).is_none_or(|entry| entry.epoch != *epoch)) {
            return vec![Event::Ignored("decided on an older state")];
        }
        self.operations.newest += 1;
        let id = OperationId(self.operations.newest);
        let step = |(partition, epoch_before): &(PartitionId, Epoch)| Step {
            partition: *partition,
            from: self.partitions.get(partition).and_then(|entry| entry.active).map(|node| self.node_ref(node)),
            to: None,
            epoch_before: *epoch_before,
            epoch: None,
            state: StepState::Waiting,
            phases_ms: Default::default(),
            pause_ms: None,
            detail: None,
        };
        let ActRequest { act, by, reason, request_id, .. } = request;
        let operation = Operation {
            id,
            by,
            reason,
            request_id,
            at,
            ended_at: None,
            state: OperationState::Running,
            detail: None,
            steps: steps.iter().map(step).collect(),
            act: act.clone(),
        };
        self.operations.push(operation);
        match act {
            Act::Switchover { .. } | Act::Failover { .. } => {}
            Act::Pause { partition, for_ms } => self.pause(id, partition, for_ms, at),
            Act::Resume { partition } => {
                *self.pause_of(partition) = None;
                self.end(id, OperationState::Done, None, at);
            }
            Act::Drain { .. } => self.next_drain(at),
            Act::Undrain { slot } => self.undrain(id, &slot, at),
        }
        vec![Event::Begun(id)]
    }

    fn pause_of(&mut self, partition: Option<PartitionId>) -> &mut Option<Pause> {
        match partition.and_then(|partition| self.partitions.get_mut(&partition)) {
            Some(entry) => &mut entry.pause,
            None => &mut self.pause,
        }
    }

    fn pause(&mut self, id: OperationId, partition: Option<PartitionId>, for_ms: u64, at: WallTime) {
        let Some(operation) = self.operations.get(id) else { return };
        let (by, reason) = (operation.by.clone(), operation.reason.clone());
        let until = WallTime(at.0.saturating_add(i64::try_from(for_ms).unwrap_or(i64::MAX)));
        *self.pause_of(partition) = Some(Pause { by, reason, at, until });
        self.end(id, OperationState::Done, Some(format!("until {until}")), at);
    }

    /// Ends an operation.
    pub(super) fn end(&mut self, id: OperationId, state: OperationState, detail: Option<String>, at: WallTime) {
        if let Some(operation) = self.operations.get_mut(id).filter(|operation| operation.is_running()) {
            (operation.state, operation.detail, operation.ended_at) = (state, detail, Some(at));
        }
    }

    /// One node is drained at a time, until it is undrained: the oldest drain that waits begins when none is.
    fn next_drain(&mut self, at: WallTime) {
        let held = self.nodes.values().find_map(|node| Some((node.slot.clone(), node.drain.clone()?)));
        let waits = |operation: &&mut Operation| {
            let is_drain = matches!(operation.act, Act::Drain { .. });
            let begun = held.as_ref().is_some_and(|(_, drain)| drain.operation == operation.id);
            is_drain && operation.is_running() && !begun
        };
        let Some((holder, drain)) = &held else {
            let first = self.operations.kept.iter_mut().find(waits);
            let Some(Operation { id, act: Act::Drain { slot, evacuate }, by, reason, detail, .. }) = first else {
                return;
            };
            *detail = None;
            let drain = Drain { by: by.clone(), reason: reason.clone(), at, evacuate: *evacuate, operation: *id };
            let (id, slot) = (*id, slot.clone());
            match self.nodes.values_mut().find(|node| node.slot == slot) {
                Some(node) => node.drain = Some(drain),
                None => self.end(id, OperationState::Failed, Some(format!("{slot} is gone")), at),
            }
            return;
        };
        let text = format!(
            "waits: {holder} is being drained by {} since {} ({}); hotspare undrain {holder} ends that",
            drain.by, drain.at, drain.operation
        );
        for operation in self.operations.kept.iter_mut().filter(waits) {
            // Drained already, by an operation that has ended: nothing is left to wait for.
            let same = matches!(&operation.act, Act::Drain { slot, .. } if slot == holder);
            if same {
                operation.state = OperationState::Done;
                (operation.detail, operation.ended_at) = (Some(format!("{holder} is drained already")), Some(at));
            } else {
                operation.detail = Some(text.clone());
            }
        }
    }

    fn undrain(&mut self, id: OperationId, slot: &Slot, at: WallTime) {
        // What waits to drain the node is called off, too.
        let of_slot = self.operations.running().filter(|operation| {
            operation.id < id && matches!(&operation.act, Act::Drain { slot: drained, .. } if drained == slot)
        });
        let of_slot: Vec<OperationId> = of_slot.map(|operation| operation.id).collect();
        for drain in of_slot {
            self.end(drain, OperationState::Failed, Some(format!("undrained by {id}")), at);
        }
        if let Some(node) = self.nodes.values_mut().find(|node| node.slot == *slot) {
            node.drain = None;
        }
        self.end(id, OperationState::Done, None, at);
        self.next_drain(at);
    }

    /// A node is gone; its drain does not stand in the way of others any more.
    pub(super) fn drained_node_gone(&mut self, slot: &Slot, drain: Option<&Drain>, at: WallTime) {
        if let Some(drain) = drain {
            self.end(drain.operation, OperationState::Failed, Some(format!("{slot} is gone")), at);
            self.next_drain(at);
        }
    }

    /// A drained node has nothing left to give away.
    pub(super) fn drained(&mut self, node: NodeId, at: WallTime) -> Vec<Event> {
        let drain = self.nodes.get(&node).and_then(|known| known.drain.as_ref()).map(|drain| drain.operation);
        match drain {
            Some(operation) => {
                self.end(operation, OperationState::Done, None, at);
                Vec::new()
            }
            None => vec![Event::Ignored("the node is not being drained")],
        }
    }

    /// A step that was not ordered is given up.
    pub(super) fn give_up(
        &mut self,
        id: OperationId,
        partition: PartitionId,
        detail: String,
        at: WallTime,
    ) -> Vec<Event> {
        let step = self
            .operations
            .steps_mut()
            .find(|(of, step)| *of == id && step.partition == partition && step.state == StepState::Waiting);
        let Some((_, step)) = step else { return vec![Event::Ignored("no such step waits")] };
        (step.state, step.detail) = (StepState::Failed, Some(detail));
        self.operations.settle(at);
        Vec::new()
    }

    /// An order is given: its own step goes on, those that wanted something else of this partition have failed.
    pub(super) fn steps_ordered(&mut self, order: &OrderCommand) {
        let to = self.node_ref(order.target);
        let what = format!("epoch {} was given to {} before that ({:?})", order.epoch, to.slot, order.reason);
        for (id, step) in self.operations.steps_mut().filter(|(_, step)| step.partition == order.partition) {
            match step.state {
                StepState::Waiting if order.operation == Some(id) => {
                    (step.state, step.to, step.epoch) = (StepState::Ordered, Some(to.clone()), Some(order.epoch));
                }
                StepState::Waiting => (step.state, step.detail) = (StepState::Failed, Some(what.clone())),
                StepState::Ordered => {
                    let detail = format!("undone: {what}");
                    (step.state, step.detail) = (StepState::Failed, Some(detail));
                }
                StepState::Done | StepState::Failed => {}
            }
        }
        self.operations.settle(order.at);
    }

    /// A promotion has ended; `event` is what the history says of it.
    pub(super) fn step_ended(&mut self, event: &HistoryEvent, at: WallTime) {
        let of_event = |step: &Step| step.partition == event.partition && step.epoch == Some(event.epoch);
        for (_, step) in self.operations.steps_mut().filter(|(_, step)| of_event(step)) {
            (step.phases_ms, step.pause_ms, step.detail) = (event.phases_ms, event.pause_ms, event.error.clone());
            // A promotion that failed is tried again, here or elsewhere; that order ends the step.
            if event.result == EventResult::Success {
                step.state = StepState::Done;
            }
        }
        self.operations.settle(at);
    }

    /// The pause that holds for a partition now.
    pub(crate) fn paused(&self, partition: Option<PartitionId>, now: WallTime) -> Option<&Pause> {
        let own = partition.and_then(|partition| self.partitions.get(&partition)?.pause.as_ref());
        [self.pause.as_ref(), own].into_iter().flatten().find(|pause| pause.until > now)
    }
}
