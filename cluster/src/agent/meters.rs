//! What this process counts of its own control plane.

use std::time::Duration;

use crate::histogram::SHORT_BOUNDS_S;
use crate::ids::{NodeId, Slot};
use crate::raft::RaftStatus;
use crate::view::{Liveness, Meters};

use super::node::Node;

/// What was last seen of leaders and elections.
#[derive(Debug, Default)]
pub(crate) struct Elections {
    leader: Option<NodeId>,
    /// The term of this node's newest candidacy, and its cause while the result is open.
    candidate: u64,
    open: Option<&'static str>,
}

impl Elections {
    /// Takes in how Raft looks now. `cause` is that of a candidacy that is new.
    pub(crate) fn look(&mut self, status: &RaftStatus, cause: impl FnOnce() -> &'static str, meters: &mut Meters) {
        if let Some(leader) = status.leader {
            if self.leader.is_some_and(|before| before != leader) {
                meters.leader_changes += 1;
            }
            self.leader = Some(leader);
        }
        let stands = status.voted_for_me && status.term > self.candidate;
        if let Some(before) = self.open.filter(|_| stands || status.term > self.candidate) {
            *meters.elections.entry(format!("{before}/lost")).or_default() += 1;
            self.open = None;
        }
        if stands {
            self.candidate = status.term;
            self.open = Some(cause());
        }
        if status.is_leader
            && status.term == self.candidate
            && let Some(won) = self.open.take()
        {
            *meters.elections.entry(format!("{won}/won")).or_default() += 1;
        }
    }
}

/// Counts the actives of a node that is gone, if no quorum lives that could replace them.
pub(crate) fn count_blocked(node: &Node, gone: &Slot) {
    let voters = node.raft_status().voters;
    let me = node.me();
    let (live, actives) = {
        let detector = node.detector(); // always before the state
        let state = node.replicated.read();
        let is_live = |id: &&NodeId| {
            let slot = state.nodes.get(id).map(|n| &n.slot);
            **id == me || slot.is_some_and(|slot| detector.liveness(slot) == Liveness::Live)
        };
        let is_gone = |id: NodeId| state.nodes.get(&id).is_some_and(|n| n.slot == *gone);
        let live = voters.iter().filter(is_live).count();
        (live, state.partitions.values().filter(|p| p.active.is_some_and(is_gone)).count())
    };
    if live <= voters.len() / 2 {
        node.meters().blocked_no_quorum += u64::try_from(actives).unwrap_or(u64::MAX);
    }
}

/// Counts how long a commit took.
pub(crate) fn count_commit(node: &Node, took: Duration) {
    node.meters().raft_commit.observe(SHORT_BOUNDS_S, took.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elections_are_counted_by_cause_and_result() {
        let (mut elections, mut meters) = (Elections::default(), Meters::default());
        let mut look = |term, voted_for_me, leader: Option<u64>, cause| {
            let leader = leader.map(NodeId);
            let status = RaftStatus {
                term,
                voted_for_me,
                leader,
                is_leader: leader == Some(NodeId(1)),
                ..RaftStatus::default()
            };
            elections.look(&status, || cause, &mut meters);
        };
        look(1, false, Some(2), "timeout");
        look(2, true, None, "proof");
        look(2, true, Some(1), "unused");
        look(2, true, Some(1), "unused");
        look(3, false, Some(2), "unused");
        look(4, true, None, "timeout");
        look(5, true, None, "timeout");
        look(6, false, Some(2), "unused");
        assert_eq!(meters.leader_changes, 2);
        let counted: Vec<_> = meters.elections.iter().map(|(key, count)| (key.as_str(), *count)).collect();
        assert_eq!(counted, [("proof/won", 1), ("timeout/lost", 2)]);
    }
}
