//! Switchovers: what the old active's node and its successor's tell each other.

use std::time::Instant;

use hotspare_cluster::{Assignment, Epoch, EventKind, HandoverStep, HandoverWord, Liveness, NodeId, PartitionId};

use super::{State, Supervisor};
use crate::partition::{control::Left, handover::Predecessor};

/// A tenure that was asked to leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    successor: NodeId,
    /// The successor's.
    epoch: Epoch,
    /// What it was when it had.
    left: Option<Left>,
}

impl Supervisor {
    /// The old active of a switchover that is ordered, if it is not this node.
    pub(super) fn predecessor(&self, partition: PartitionId, assignment: &Assignment) -> Option<Predecessor> {
        let order = assignment.order.as_ref().filter(|order| order.kind == EventKind::Switchover)?;
        let from = order.from.filter(|from| *from != self.me)?;
        let (cluster, watched, epoch) = (self.parts.cluster.clone(), self.parts.cluster.clone(), assignment.epoch);
        Some(Predecessor {
            tell_ready: Box::new(move || {
                cluster.tell_handover(from, HandoverWord { partition, epoch, step: HandoverStep::Ready });
            }),
            is_gone: Box::new(move || matches!(watched.liveness(from), Liveness::Dead | Liveness::Stopped)),
        })
    }

    /// Whether a tenure here goes on until its successor is ready.
    pub(super) fn is_handing_over(&self) -> bool {
        let assignments = self.parts.cluster.assignments();
        let known = assignments.borrow();
        self.held.iter().any(|(partition, held)| {
            let handed = known.by_partition.get(partition).is_some_and(|assignment| {
                assignment.active != Some(self.me)
                    && assignment.order.as_ref().is_some_and(|order| order.from == Some(self.me))
            });
            handed && matches!(held.state, State::Tenure { .. })
        })
    }

    pub(super) fn hear_word(&mut self, from: NodeId, word: &HandoverWord) {
        let (partition, epoch) = (word.partition, word.epoch);
        match word.step {
            HandoverStep::Ready => self.successor_is_ready(from, partition, epoch),
            HandoverStep::Left { next_input, stopped_ms, last_commit_ms } => {
                let duration = |ms: f64| std::time::Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default();
                if let Some(State::Tenure { epoch: own, control, .. }) =
                    self.held.get(&partition).map(|held| &held.state)
                    && *own == epoch
                {
                    let now = Instant::now();
                    let stopped_at = now.checked_sub(duration(stopped_ms)).unwrap_or(now);
                    control.tell_left(Left { next_input, stopped_at, last_commit: duration(last_commit_ms) });
                }
            }
        }
    }

    fn successor_is_ready(&mut self, successor: NodeId, partition: PartitionId, epoch: Epoch) {
        let Some(held) = self.held.get_mut(&partition) else {
            return self.tell_left(successor, partition, epoch, None);
        };
        let left = match (&held.state, held.leaving) {
            (State::Tenure { epoch: own, .. }, Some(leaving)) if *own < epoch && leaving.epoch == epoch => leaving.left,
            (State::Tenure { epoch: own, control, .. }, _) if *own < epoch => {
                held.leaving = Some(Leaving { successor, epoch, left: None });
                return control.finish();
            }
            // It is the successor's word of an epoch that is past.
            (State::Tenure { .. }, _) => return,
            (_, leaving) => {
                let left = leaving.filter(|leaving| leaving.epoch == epoch).and_then(|leaving| leaving.left);
                return self.tell_left(successor, partition, epoch, left);
            }
        };
        // It has been asked before; if it has left, that word was lost.
        if left.is_some() {
            self.tell_left(successor, partition, epoch, left);
        }
    }

    /// A tenure has left.
    pub(super) fn left(&mut self, partition: PartitionId, left: Left) {
        let Some(leaving) = self.held.get_mut(&partition).and_then(|held| held.leaving.as_mut()) else { return };
        leaving.left = Some(left);
        let Leaving { successor, epoch, .. } = *leaving;
        self.tell_left(successor, partition, epoch, Some(left));
    }

    fn tell_left(&self, successor: NodeId, partition: PartitionId, epoch: Epoch, left: Option<Left>) {
        let step = HandoverStep::Left {
            next_input: left.and_then(|left| left.next_input),
            stopped_ms: left.map_or(0.0, |left| left.stopped_at.elapsed().as_secs_f64() * 1000.0),
            last_commit_ms: left.map_or(0.0, |left| left.last_commit.as_secs_f64() * 1000.0),
        };
        self.parts.cluster.tell_handover(successor, HandoverWord { partition, epoch, step });
    }
}
