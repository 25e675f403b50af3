//! Who is active and who stands by, as this node knows it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::history::{EventKind, Reason};
use crate::ids::{Epoch, NodeId, PartitionId};

/// The newest assignment of each partition that this node knows of.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Assignments {
    /// By partition; partitions without an entry were never assigned.
    pub by_partition: BTreeMap<PartitionId, Assignment>,
}

/// The assignment of one partition.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Epoch of the newest tenure ordered.
    pub epoch: Epoch,
    /// The active. Never this node itself if the order was given to an earlier process of it: then it is a standby.
    pub active: Option<NodeId>,
    /// Incarnation of the process that was ordered to be active.
    pub active_incarnation: u64,
    /// The standbys.
    pub standbys: Vec<NodeId>,
    /// Why the newest tenure was ordered.
    pub order: Option<Order>,
    /// Log index of the newest change; of two assignments the one with the higher revision is newer.
    pub revision: u64,
}

/// Why a tenure was ordered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// Number of the event in the history.
    pub seq: u64,
    /// Failover, switchover or first assignment.
    pub kind: EventKind,
    /// The reason.
    pub reason: Reason,
    /// The active before.
    pub from: Option<NodeId>,
}

/// Merges assignments from the replicated log and from direct orders; never goes back.
#[derive(Debug)]
pub(crate) struct Board {
    me: AtomicU64,
    incarnation: u64,
    sender: watch::Sender<Arc<Assignments>>,
}

impl Board {
    pub(crate) fn new(me: NodeId, incarnation: u64) -> Self {
        let (sender, _) = watch::channel(Arc::new(Assignments::default()));
        Self { me: AtomicU64::new(me.0), incarnation, sender }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Assignments>> {
        self.sender.subscribe()
    }

    /// The id of this node is known only after it joined.
    pub(crate) fn set_me(&self, me: NodeId) {
        self.me.store(me.0, Ordering::Release);
    }

    /// Takes over what is newer than what is known.
    pub(crate) fn merge(&self, news: impl IntoIterator<Item = (PartitionId, Assignment)>) {
        let news: Vec<_> = news.into_iter().map(|(p, a)| (p, self.seen_by_me(a))).collect();
        self.sender.send_if_modified(|current| {
            let mut changed = false;
            for (partition, assignment) in news {
                let newer = current
                    .by_partition
                    .get(&partition)
                    .is_none_or(|known| assignment.revision > known.revision && assignment.epoch >= known.epoch);
                if newer {
                    Arc::make_mut(current).by_partition.insert(partition, assignment);
                    changed = true;
                }
            }
            changed
        });
    }

    /// An order given to an earlier process of this node makes the present one a standby, not an active.
    fn seen_by_me(&self, mut assignment: Assignment) -> Assignment {
        let me = NodeId(self.me.load(Ordering::Acquire));
        if assignment.active == Some(me) && assignment.active_incarnation != self.incarnation {
            assignment.active = None;
            if !assignment.standbys.contains(&me) {
                assignment.standbys.push(me);
            }
        }
        assignment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(epoch: u64, revision: u64, active: u64, incarnation: u64) -> Assignment {
        Assignment {
            epoch: Epoch(epoch),
            revision,
            active: Some(NodeId(active)),
            active_incarnation: incarnation,
            ..Assignment::default()
        }
    }

    fn known(board: &Board) -> Assignment {
        board.subscribe().borrow().by_partition.get(&PartitionId(0)).cloned().unwrap_or_default()
    }

    #[test]
    fn a_late_copy_of_an_older_order_changes_nothing() {
        let board = Board::new(NodeId(1), 7);
        board.merge([(PartitionId(0), assignment(5, 50, 2, 1))]);
        board.merge([(PartitionId(0), assignment(4, 40, 3, 1))]);
        assert_eq!(known(&board).epoch, Epoch(5));
    }

    #[test]
    fn a_new_process_never_resumes_as_active() {
        let board = Board::new(NodeId(1), 7);
        board.merge([(PartitionId(0), assignment(5, 50, 1, 6))]);
        assert_eq!(known(&board).active, None);
        assert_eq!(known(&board).standbys, vec![NodeId(1)]);
        board.merge([(PartitionId(0), assignment(6, 51, 1, 7))]);
        assert_eq!(known(&board).active, Some(NodeId(1)));
    }
}
