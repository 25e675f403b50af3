//! What the Raft leader does: gathers facts, plans, commits, sends orders, and keeps the members in order.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use crate::detector::Moment;
use crate::history::EventKind;
use crate::ids::{Epoch, EventId, NodeId, PartitionId, Slot};
use crate::invariants;
use crate::planner::{Facts, NodeFacts, Plan, plan};
use crate::raft::{Group, Member, RaftStatus};
use crate::report::Role;
use crate::state::{Batch, Command, NewNode, State};
use crate::transport::Notice;
use crate::view::Liveness;

use super::node::{Input, Node, Peer, Start};

mod acting;

/// A learner lacking at most so many entries may become a voter.
const CAUGHT_UP_ENTRIES: u64 = 100;
/// Between attempts to change the members.
const MEMBERS_EVERY: Duration = Duration::from_millis(200);
/// After a proposal that was not committed.
const RETRY_AFTER: Duration = Duration::from_millis(5);
/// A leader without a quorum for so long says so.
const NO_QUORUM_AFTER: Duration = Duration::from_millis(500);
/// Orders without outcome whose times are kept.
const STARTS_MAX: usize = 100_000;

/// The leader's memory; empty on the others.
pub(crate) struct Leading {
    node: Arc<Node>,
    since: Option<Moment>,
    calm_since: Moment,
    ordered_at: BTreeMap<PartitionId, (Epoch, Moment)>,
    proposing: bool,
    changing_members: bool,
    members_at: Moment,
    retry_at: Moment,
}

impl Leading {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self {
            node,
            since: None,
            calm_since: Duration::ZERO,
            ordered_at: BTreeMap::new(),
            proposing: false,
            changing_members: false,
            members_at: Duration::ZERO,
            retry_at: Duration::ZERO,
        }
    }

    /// A node came or went.
    pub(crate) fn disturbed(&mut self) {
        self.calm_since = self.node.now();
    }

    pub(crate) fn proposed(&mut self, committed: bool) {
        self.proposing = false;
        if !committed {
            self.retry_at = self.node.now() + RETRY_AFTER;
        }
    }

    pub(crate) fn members_changed(&mut self) {
        self.changing_members = false;
    }

    /// Does what is to be done now, if this node leads.
    pub(crate) fn step(&mut self) {
        let Some(group) = self.node.group() else {
            return;
        };
        let status = group.status();
        let now = self.node.now();
        if !status.is_leader {
            if self.since.take().is_some() {
                tracing::info!(term = status.term, "raft_leadership_lost");
                let mut findings = self.node.findings();
                findings.withheld.clear();
                findings.withheld_since.clear();
                findings.problems.clear();
            }
            return;
        }
        let since = *self.since.get_or_insert_with(|| {
            tracing::info!(term = status.term, "raft_leadership_won");
            now
        });
        if since == now {
            self.calm_since = now;
            self.ordered_at.clear();
        }
        if self.proposing || now < self.retry_at {
            return;
        }
        // Raft takes no proposals before a quorum has answered, nor long after it did.
        let lease_ms = self.node.options.settings.raft_election_timeout_max.as_millis();
        let answered = status.quorum_age_ms;
        // A sole voter needs no answer but its own, and its age is not kept.
        let quorum = status.voters.len() == 1 || answered.is_some_and(|age| u128::from(age) < lease_ms);
        if !quorum {
            if now.saturating_sub(since) >= NO_QUORUM_AFTER && !self.node.replicated.read().cluster_id.is_empty() {
                let plan = self.plan(now, since).without_quorum();
                self.show(&plan, now);
            }
            return;
        }
        if self.node.replicated.read().cluster_id.is_empty() {
            self.form(&group, &status);
            return;
        }
        self.note_orders(now);
        let plan = self.plan(now, since);
        self.show(&plan, now);
        if !plan.commands.is_empty() {
            self.propose(&group, plan);
        }
        self.members(&group, &status, now);
    }

    /// The first command, when all members have told who they are.
    fn form(&mut self, group: &Group, status: &RaftStatus) {
        let identity = self.node.identity();
        let own = self.node.heartbeat();
        let peers = self.node.peers().clone();
        let mut nodes = Vec::new();
        for id in &status.members {
            let told = if *id == identity.node_id {
                Some((identity.slot.clone(), &own))
            } else {
                peers.iter().find(|(_, p)| p.heartbeat.node_id == *id).map(|(slot, p)| (slot.clone(), &p.heartbeat))
            };
            let Some((slot, told)) = told else { return };
            nodes.push(NewNode {
                node_id: *id,
                slot,
                address: told.address.clone(),
                zone: told.zone.clone(),
                store_uuid: told.store_uuid.clone(),
            });
        }
        let command = Command::Form { cluster_id: identity.cluster_id, nodes };
        self.propose(group, Plan { commands: vec![command], ..Plan::default() });
    }

    /// Remembers when each order was first seen by this leader.
    fn note_orders(&mut self, now: Moment) {
        let state = self.node.replicated.read();
        for (partition, entry) in &state.partitions {
            let noted = self.ordered_at.entry(*partition).or_insert((entry.epoch, now));
            if noted.0 != entry.epoch {
                *noted = (entry.epoch, now);
            }
        }
    }

    fn plan(&self, now: Moment, leader_since: Moment) -> Plan {
        self.with_facts(now, leader_since, |facts, state| plan(facts, state, &self.node.options.settings))
    }

    /// Gathers what is known now.
    fn with_facts<T>(&self, now: Moment, leader_since: Moment, then: impl FnOnce(&Facts<'_>, &State) -> T) -> T {
        let node = &self.node;
        let me = node.me();
        let mut own_report = node.replicas.report();
        own_report.stopping |= node.is_stopping();
        let peers = node.peers().clone();
        let withheld_since = node.findings().withheld_since.clone();
        let detector = node.detector();
        let state = node.replicated.read();
        let mut nodes = BTreeMap::new();
        for (id, known) in &state.nodes {
            let facts = if *id == me {
                NodeFacts {
                    liveness: Liveness::Live,
                    incarnation: Some(node.incarnation),
                    report: Some(&own_report),
                    replicas_here: node.options.replicas_here,
                    nofailover: node.options.nofailover,
                    version: node.options.version.clone(),
                    last_heard_ms: Some(0),
                    address: node.options.advertise.clone(),
                    zone: node.options.zone.clone(),
                    verdicts: Vec::new(),
                }
            } else {
                let active_of = state.partitions.values().filter(|p| p.active == Some(*id));
                let incarnations = active_of.map(|p| p.active_incarnation).chain([0]);
                let mut verdicts: Vec<_> = incarnations.filter_map(|i| detector.verdict(&known.slot, i)).collect();
                verdicts.dedup_by_key(|v| v.incarnation);
                let liveness = detector.liveness(&known.slot);
                let incarnation = detector.incarnation(&known.slot);
                let age = detector.age(&known.slot, now);
                let last_heard_ms = age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                let facts = of_peer(*id, liveness, incarnation, peers.get(&known.slot), verdicts);
                NodeFacts { last_heard_ms, ..facts }
            };
            nodes.insert(*id, facts);
        }
        invariants::uphold(invariants::one_active_per_epoch(claims(&nodes)), None);
        let counts = peers.values().map(|p| &p.heartbeat.report).chain([&own_report]);
        let facts = Facts {
            now,
            wall: Node::wall(),
            me,
            leader_since,
            calm_since: self.calm_since,
            partitions_of_input: counts.filter_map(|r| r.partitions_of_input).max(),
            standbys: node.options.standbys,
            promote_retry_after: node.options.settings.promote_retry_after,
            stalled_after: node.options.settings.stalled_after,
            nodes,
            ordered_at: &self.ordered_at,
            withheld_since: &withheld_since,
        };
        then(&facts, &state)
    }

    /// Keeps what was withheld for the view.
    fn show(&self, plan: &Plan, now: Moment) {
        let mut findings = self.node.findings();
        for withheld in &plan.withheld {
            let findings = &mut *findings;
            if let Entry::Vacant(vacant) = findings.withheld_since.entry(withheld.partition) {
                vacant.insert(now);
                tracing::warn!(partition = %withheld.partition, reason = withheld.reason, "failover_withheld");
            }
        }
        findings.withheld_since.retain(|p, _| plan.withheld.iter().any(|w| w.partition == *p));
        findings.withheld.clone_from(&plan.withheld);
        findings.problems.clone_from(&plan.problems);
    }

    /// Commits a plan as one entry, then sends the orders to whom they concern without waiting for Raft to do so.
    fn propose(&mut self, group: &Group, plan: Plan) {
        self.proposing = true;
        let mut concerned: Vec<PartitionId> = Vec::new();
        for command in &plan.commands {
            let Command::Order(order) = command else {
                continue;
            };
            concerned.push(order.partition);
            let event_id = EventId(order.partition, order.epoch);
            tracing::info!(%event_id, kind = ?order.kind, reason = ?order.reason, "active_ordered");
            let last_sign = plan.last_signs.get(&(order.partition, order.epoch)).copied();
            let start = Start {
                last_sign: last_sign.unwrap_or_else(|| self.node.now()),
                phases_ms: order.phases_ms,
                committed: None,
            };
            let mut starts = self.node.starts();
            while starts.len() >= STARTS_MAX {
                starts.pop_first();
            }
            starts.insert((order.partition, order.epoch), start);
        }
        let (node, group) = (self.node.clone(), group.clone());
        self.node.spawn_task(async move {
            let moves = |c: &Command| matches!(c, Command::Order(o) if o.kind == EventKind::Switchover);
            let moves = plan.commands.iter().any(moves);
            if moves {
                fail::fail_point!("leader_before_switchover");
            }
            let begin = node.now();
            let result = group.propose(Batch { commands: plan.commands }).await;
            if result.is_ok() {
                super::meters::count_commit(&node, node.now().saturating_sub(begin));
            }
            if moves {
                fail::fail_point!("leader_after_switchover");
            }
            if let Err(e) = &result {
                tracing::warn!(error = %e, "proposal_failed");
            }
            if result.is_ok() {
                send_orders(&node, &concerned);
            }
            let _ = node.inputs.send(Input::Proposed { committed: result.is_ok() }).await;
        });
    }

    /// One step towards the members that the replicated state names.
    fn members(&mut self, group: &Group, status: &RaftStatus, now: Moment) {
        if self.changing_members || now.saturating_sub(self.members_at) < MEMBERS_EVERY {
            return;
        }
        self.members_at = now;
        let Some(change) = self.next_change(group, status) else {
            return;
        };
        self.changing_members = true;
        let (node, group) = (self.node.clone(), group.clone());
        self.node.spawn_task(async move {
            tracing::info!(?change, "members_changing");
            let result = match change {
                Change::Learn(id, member) => group.add_learner(id, member).await,
                Change::Swap { old, new } => group.swap_voter(old, new).await,
                Change::Forget(id) => group.remove_learner(id).await,
                Change::Tombstone(id) => {
                    let batch = Batch { commands: vec![Command::Tombstone { node: id }] };
                    group.propose(batch).await.map(drop).map_err(|e| e.to_string())
                }
            };
            if let Err(why) = result {
                tracing::warn!(why, "members_not_changed");
            }
            let _ = node.inputs.send(Input::MembersChanged).await;
        });
    }

    fn next_change(&self, group: &Group, status: &RaftStatus) -> Option<Change> {
        let state = self.node.replicated.read();
        let replaced: Vec<NodeId> = state.nodes.values().filter_map(|n| n.replaces).collect();
        for (id, known) in &state.nodes {
            if !status.members.contains(id) {
                if replaced.contains(id) {
                    continue; // on its way out
                }
                let member = Member { slot: known.slot.0.clone(), address: known.address.clone() };
                return Some(Change::Learn(*id, member));
            }
            let Some(old) = known.replaces else { continue };
            if status.voters.contains(&old) {
                if group.missing_entries(*id).is_some_and(|n| n <= CAUGHT_UP_ENTRIES) {
                    return Some(Change::Swap { old, new: *id });
                }
            } else if status.members.contains(&old) {
                return Some(Change::Forget(old));
            } else {
                return Some(Change::Tombstone(old));
            }
        }
        None
    }
}

#[derive(Debug)]
enum Change {
    Learn(NodeId, Member),
    Swap { old: NodeId, new: NodeId },
    Forget(NodeId),
    Tombstone(NodeId),
}

/// Which nodes say that they are the active of a partition.
fn claims<'a>(
    nodes: &'a BTreeMap<NodeId, NodeFacts<'_>>,
) -> impl Iterator<Item = (PartitionId, Epoch, NodeId)> + use<'a> {
    nodes.iter().flat_map(|(id, facts)| {
        let replicas = facts.report.iter().flat_map(|report| &report.replicas);
        replicas.filter(|r| r.role == Role::Active).map(|r| (r.partition, r.epoch, *id))
    })
}

fn of_peer<'a>(
    id: NodeId,
    liveness: Liveness,
    incarnation: Option<u64>,
    peer: Option<&'a Peer>,
    verdicts: Vec<&'a crate::detector::Verdict>,
) -> NodeFacts<'a> {
    let Some(peer) = peer else {
        return NodeFacts { liveness, incarnation: None, verdicts, ..NodeFacts::default() };
    };
    let told = &peer.heartbeat;
    // Another disk in the slot: the node with the old id is gone for good.
    let replaced = told.node_id != id;
    // The report of the process before must not speak for the present one.
    let current = incarnation == Some(peer.incarnation);
    NodeFacts {
        liveness: if replaced && liveness == Liveness::Live { Liveness::Dead } else { liveness },
        incarnation: incarnation.filter(|_| !replaced),
        report: Some(&told.report).filter(|_| current && !replaced),
        replicas_here: told.replicas_here,
        nofailover: told.nofailover,
        version: told.version.clone(),
        last_heard_ms: None,
        address: told.address.clone(),
        zone: told.zone.clone(),
        verdicts,
    }
}

/// Sends the newest assignments of these partitions to all nodes they concern.
fn send_orders(node: &Node, partitions: &[PartitionId]) {
    let committed = node.now();
    let mut by_slot: BTreeMap<Slot, Vec<_>> = BTreeMap::new();
    {
        let state = node.replicated.read();
        let mut starts = node.starts();
        for partition in partitions {
            let Some(entry) = state.partitions.get(partition) else {
                continue;
            };
            if let Some(start) = starts.get_mut(&(*partition, entry.epoch)) {
                start.committed = Some(committed);
            }
            let news = (*partition, entry.assignment());
            let concerned = entry.active.into_iter().chain(entry.standbys.iter().copied());
            for slot in concerned.filter_map(|id| state.nodes.get(&id).map(|n| n.slot.clone())) {
                by_slot.entry(slot).or_default().push(news.clone());
            }
        }
    }
    for (slot, news) in by_slot {
        if slot != node.options.slot {
            node.links.notify(&slot, &Notice::Assigned(news));
        }
    }
}
