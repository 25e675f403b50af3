//! What is to be done: a pure function of facts, replicated state and time.
//!
//! Only the Raft leader asks. All orders that follow from one death come in one plan, so that they are committed
//! together. Lag never makes a replica ineligible: promotion applies the changelog to its end first.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::detector::{Cause, Moment, Verdict, ms_between};
use crate::history::{EventKind, Evidence, PassedOver, Phases, Reason, WallTime};
use crate::ids::{Epoch, NodeId, Offset, PartitionId};
use crate::operation::OperationId;
use crate::options::Settings;
use crate::report::{NodeReport, Role};
use crate::state::{Command, OrderCommand, Partition, Stage, State};
use crate::view::Liveness;

mod candidates;
mod operate;
mod placement;
mod preflight;
#[cfg(test)]
mod tests;
mod withhold;

use candidates::{Choice, choose};
pub(crate) use preflight::{Resolved, preflight};
pub(crate) use withhold::flap;

/// Commands in one plan; what is left follows in the next.
const COMMANDS_MAX: usize = 2_000;

/// What the leader knows at this moment.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) now: Moment,
    pub(crate) wall: WallTime,
    /// The leader.
    pub(crate) me: NodeId,
    pub(crate) leader_since: Moment,
    /// Since when nothing failed and nothing was missing.
    pub(crate) calm_since: Moment,
    pub(crate) partitions_of_input: Option<u32>,
    pub(crate) standbys: u32,
    pub(crate) promote_retry_after: Duration,
    /// `failover.stalled_after`.
    pub(crate) stalled_after: Duration,
    pub(crate) nodes: BTreeMap<NodeId, NodeFacts<'a>>,
    /// When this leader first saw the newest order of a partition.
    pub(crate) ordered_at: &'a BTreeMap<PartitionId, (Epoch, Moment)>,
    /// Since when a decision is withheld.
    pub(crate) withheld_since: &'a BTreeMap<PartitionId, Moment>,
}

/// What the leader knows of one node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFacts<'a> {
    pub(crate) liveness: Liveness,
    /// The process last heard of.
    pub(crate) incarnation: Option<u64>,
    pub(crate) report: Option<&'a NodeReport>,
    pub(crate) replicas_here: bool,
    pub(crate) nofailover: bool,
    pub(crate) version: String,
    /// Milliseconds since it was heard of; none if never.
    pub(crate) last_heard_ms: Option<u64>,
    pub(crate) address: String,
    pub(crate) zone: String,
    /// Verdicts on its processes, present and past.
    pub(crate) verdicts: Vec<&'a Verdict>,
}

impl NodeFacts<'_> {
    /// How long Kafka has not answered it; none while unknown.
    fn kafka_age(&self) -> Option<Duration> {
        self.report.map(|report| Duration::from_millis(report.kafka_age_ms))
    }

    /// Whether Kafka answers it, and did so for this long: when Kafka comes back, some hear it sooner than others.
    fn hears_kafka(&self, stalled_after: Duration) -> bool {
        let heard = self.report.map_or(Duration::ZERO, |report| Duration::from_millis(report.kafka_heard_ms));
        let answers = self.kafka_age().is_some_and(|age| age <= stalled_after / 2);
        self.liveness == Liveness::Live && answers && heard >= stalled_after
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default)]
#[must_use]
pub(crate) struct Plan {
    /// To be committed together.
    pub(crate) commands: Vec<Command>,
    /// From when the time of each order counts.
    pub(crate) last_signs: BTreeMap<(PartitionId, Epoch), Moment>,
    /// What would be done, but for a reason.
    pub(crate) withheld: Vec<Withheld>,
    /// What an operator must look at.
    pub(crate) problems: Vec<String>,
}

impl Plan {
    /// The same plan when nothing can be committed: every order is withheld.
    pub(crate) fn without_quorum(mut self) -> Self {
        for command in std::mem::take(&mut self.commands) {
            if let Command::Order(order) = command {
                let (partition, candidates) = (order.partition, order.passed_over);
                self.withheld.push(Withheld {
                    partition,
                    reason: "no_quorum",
                    remaining: None,
                    input_offset: None,
                    candidates,
                });
            }
        }
        self
    }
}

/// A decision that is withheld.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Withheld {
    pub(crate) partition: PartitionId,
    /// `no_candidate`, `antiflap`, `same_offset`, `paused` or `no_quorum`.
    pub(crate) reason: &'static str,
    pub(crate) remaining: Option<Duration>,
    /// Where tenures end again and again.
    pub(crate) input_offset: Option<Offset>,
    pub(crate) candidates: Vec<PassedOver>,
}

/// Why a partition needs a new order.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) kind: EventKind,
    pub(crate) reason: Reason,
    /// The verdict on the active, if that is why.
    verdict: Option<Verdict>,
    /// Death is proved, not only believed.
    proved: bool,
    /// What an operator wants of it.
    pub(crate) wish: Wish,
}

/// What an operator wants of a change; nothing for one that nobody asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) operation: Option<OperationId>,
    pub(crate) by: Option<String>,
    /// The only node that may take it.
    pub(crate) to: Option<NodeId>,
    pub(crate) allow_cold: bool,
    pub(crate) allow_nofailover: bool,
}

impl Need {
    fn new(kind: EventKind, reason: Reason) -> Self {
        Self { kind, reason, verdict: None, proved: false, wish: Wish::default() }
    }
}

/// Decides. The same facts and state give the same plan always.
pub(crate) fn plan(facts: &Facts<'_>, state: &State, settings: &Settings) -> Plan {
    let mut plan = Plan::default();
    register(facts, state, &mut plan);
    count_partitions(facts, state, settings, &mut plan);
    let mut moves = moving(state);
    let mut loads = Loads::of(state);
    for (partition, entry) in &state.partitions {
        let Some(need) = need(facts, state, *partition, entry, settings) else {
            withhold::forget(*partition, entry, &mut plan);
            continue;
        };
        if need.kind == EventKind::Switchover && matches!(need.reason, Reason::Drain | Reason::Operator) {
            if moves >= settings.moves_max {
                continue;
            }
            moves += 1;
        }
        let choice = choose(facts, state, *partition, entry, &need, &loads);
        match withhold::why(facts, state, *partition, &need, &choice, settings) {
            Some(withheld) => {
                operate::give_up(facts, state, &need, &withheld, &mut plan);
                withhold::record(facts, state, entry, &need, &choice, &withheld, &mut plan);
                plan.withheld.push(withheld);
            }
            None => order(facts, *partition, entry, need, choice, settings, &mut loads, &mut plan),
        }
    }
    operate::drained(facts, state, &mut plan);
    let busy = plan.commands.iter().any(|c| matches!(c, Command::Order(_)));
    let paused = state.paused(None, facts.wall).is_some();
    if !busy && !paused {
        placement::standbys(facts, state, settings, &mut loads, &mut plan);
    }
    if plan.commands.is_empty() && plan.withheld.is_empty() && !paused {
        placement::rebalance(facts, state, settings, &loads, &mut plan);
    }
    plan.commands.truncate(COMMANDS_MAX);
    plan
}

/// Switchovers that are under way.
fn moving(state: &State) -> usize {
    let of = |p: &&Partition| p.order.as_ref().is_some_and(|o| o.kind == EventKind::Switchover);
    let under_way = state.partitions.values().filter(|p| p.stage == Stage::Ordered);
    under_way.filter(of).count()
}

/// How many replicas each node has, counting what this plan has ordered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    actives: BTreeMap<NodeId, usize>,
    standbys: BTreeMap<NodeId, usize>,
}

impl Loads {
    fn of(state: &State) -> Self {
        let mut loads = Self::default();
        for entry in state.partitions.values() {
            if let Some(active) = entry.active {
                *loads.actives.entry(active).or_default() += 1;
            }
            for standby in &entry.standbys {
                *loads.standbys.entry(*standby).or_default() += 1;
            }
        }
        loads
    }

    fn actives(&self, node: NodeId) -> usize {
        self.actives.get(&node).copied().unwrap_or(0)
    }

    fn all(&self, node: NodeId) -> usize {
        self.actives(node) + self.standbys.get(&node).copied().unwrap_or(0)
    }

    fn moved(&mut self, from: Option<NodeId>, to: NodeId) {
        if let Some(count) = from.and_then(|node| self.actives.get_mut(&node)) {
            *count = count.saturating_sub(1);
        }
        *self.actives.entry(to).or_default() += 1;
    }

    fn added(&mut self, standby: NodeId) {
        *self.standbys.entry(standby).or_default() += 1;
    }
}

/// New processes, addresses and zones become known to all.
fn register(facts: &Facts<'_>, state: &State, plan: &mut Plan) {
    for (id, node) in &state.nodes {
        let Some(seen) = facts.nodes.get(id) else {
            continue;
        };
        let (Liveness::Live, Some(incarnation)) = (seen.liveness, seen.incarnation) else {
            continue;
        };
        if node.incarnation != incarnation || node.address != seen.address || node.zone != seen.zone {
            let (address, zone) = (seen.address.clone(), seen.zone.clone());
            plan.commands.push(Command::NodeUp { node: *id, incarnation, address, zone });
        }
    }
}

/// The partitions of a new cluster are created and given to nodes at once.
fn count_partitions(facts: &Facts<'_>, state: &State, settings: &Settings, plan: &mut Plan) {
    let Some(count) = facts.partitions_of_input else {
        return;
    };
    if !state.partitions.is_empty() {
        let known = state.partitions.len();
        if count as usize != known {
            plan.problems.push(format!(
                "the input topic has {count} partitions, this cluster was made for {known}; the others are not read. \
                 Repair: make a new cluster for the new number"
            ));
        }
        return;
    }
    if count > crate::state::PARTITIONS_MAX {
        plan.problems
            .push(format!("the input topic has {count} partitions, more than {}", crate::state::PARTITIONS_MAX));
        return;
    }
    let all_there = state.nodes.keys().all(|id| facts.nodes.get(id).is_some_and(|n| n.liveness == Liveness::Live));
    let waited = facts.now.saturating_sub(facts.leader_since) >= settings.placement_wait;
    if count == 0 || !(all_there || waited) {
        return;
    }
    plan.commands.push(Command::CreatePartitions { count });
    placement::initial(facts, state, count, settings, plan);
}

/// Whether a partition needs a new order, and why.
fn need(
    facts: &Facts<'_>,
    state: &State,
    partition: PartitionId,
    entry: &Partition,
    settings: &Settings,
) -> Option<Need> {
    if let Some(wish) = operate::failover(state, partition) {
        return Some(Need { proved: true, wish, ..Need::new(EventKind::Failover, Reason::Operator) });
    }
    let Some(active) = entry.active else {
        let first = entry.epoch == Epoch(0);
        let (kind, reason) =
            if first { (EventKind::Initial, Reason::Initial) } else { (EventKind::Failover, Reason::ProcessDead) };
        return Some(Need { proved: true, ..Need::new(kind, reason) });
    };
    let seen = facts.nodes.get(&active)?;
    let verdict = |incarnation: u64| {
        let known = seen.verdicts.iter().find(|v| v.incarnation == incarnation || incarnation == 0);
        known.map(|v| (*v).clone())
    };
    match seen.liveness {
        Liveness::Dead | Liveness::Stopped => {
            let verdict = verdict(entry.active_incarnation).or_else(|| verdict(0));
            let silent = verdict.as_ref().is_some_and(|v| v.cause == Cause::Silent);
            let reason = if silent { Reason::Silent } else { Reason::ProcessDead };
            return Some(Need { verdict, proved: !silent, ..Need::new(EventKind::Failover, reason) });
        }
        Liveness::Unknown | Liveness::Suspect => return None,
        Liveness::Live => {}
    }
    if seen.incarnation.is_some_and(|i| i != entry.active_incarnation) {
        let verdict = verdict(entry.active_incarnation);
        return Some(Need { verdict, proved: true, ..Need::new(EventKind::Failover, Reason::ProcessDead) });
    }
    if entry.floor >= entry.epoch || entry.stage == Stage::Superseded {
        return Some(Need::new(EventKind::Failover, Reason::EpochJump));
    }
    let failed = match entry.stage {
        Stage::Failed { .. } => true,
        Stage::Ordered => {
            let since = facts.ordered_at.get(&partition).filter(|(epoch, _)| *epoch == entry.epoch);
            let over = since.is_some_and(|(_, at)| facts.now.saturating_sub(*at) >= settings.promote_timeout);
            let works = seen.report.and_then(|r| r.replica(partition));
            over && !works.is_some_and(|r| r.role == Role::Active && r.epoch == entry.epoch)
        }
        Stage::Confirmed | Stage::Superseded => false,
    };
    if failed {
        return Some(Need::new(EventKind::Failover, Reason::PromotionFailed));
    }
    let hears = |node: &NodeId| facts.nodes.get(node).is_some_and(|node| node.hears_kafka(facts.stalled_after));
    let stalled = seen.kafka_age().is_some_and(|age| age >= facts.stalled_after);
    // Where no standby hears Kafka either, Kafka itself is away.
    if entry.stage == Stage::Confirmed && stalled && entry.standbys.iter().any(hears) {
        return Some(Need::new(EventKind::Failover, Reason::Stalled));
    }
    if let Some(wish) = operate::switchover(state, partition).filter(|_| entry.stage == Stage::Confirmed) {
        return Some(Need { wish, ..Need::new(EventKind::Switchover, Reason::Operator) });
    }
    let node = state.nodes.get(&active)?;
    if node.stopping || seen.report.is_some_and(|r| r.stopping) {
        return Some(Need::new(EventKind::Switchover, Reason::Shutdown));
    }
    if node.drain.is_some() && entry.stage == Stage::Confirmed {
        return Some(Need::new(EventKind::Switchover, Reason::Drain));
    }
    None
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Turns a choice into an order.
#[allow(clippy::too_many_arguments)] // one call, and a struct for it would only repeat these names
fn order(
    facts: &Facts<'_>,
    partition: PartitionId,
    entry: &Partition,
    need: Need,
    choice: Choice,
    settings: &Settings,
    loads: &mut Loads,
    plan: &mut Plan,
) {
    let Some(target) = choice.target else { return };
    let target_incarnation = facts.nodes.get(&target).and_then(|n| n.incarnation).unwrap_or(0);
    let epoch = Epoch(entry.epoch.max(entry.floor).max(choice.highest_epoch).0 + 1);
    let mut standbys = entry.standbys.clone();
    standbys.extend(entry.active.filter(|a| !entry.standbys.contains(a)));
    standbys.retain(|s| *s != target);
    let (evidence, phases_ms, last_sign) = timing(facts, partition, &need);
    loads.moved(entry.active, target);
    plan.last_signs.insert((partition, epoch), last_sign);
    plan.commands.push(Command::Order(Box::new(OrderCommand {
        partition,
        expected: entry.epoch,
        epoch,
        target,
        target_incarnation,
        standbys,
        kind: need.kind,
        reason: need.reason,
        by: need.wish.by,
        at: facts.wall,
        evidence,
        phases_ms,
        passed_over: choice.passed_over,
        antiflap_window_ms: millis(settings.antiflap_window),
        operation: need.wish.operation,
    })));
}

/// What was seen, the phases up to now, and the moment from which they count.
fn timing(facts: &Facts<'_>, partition: PartitionId, need: &Need) -> (Vec<Evidence>, Phases, Moment) {
    let held = facts.withheld_since.get(&partition).map_or(0.0, |since| ms_between(*since, facts.now));
    let Some(verdict) = &need.verdict else {
        return (Vec::new(), Phases { held, ..Phases::default() }, facts.now);
    };
    let detect = ms_between(verdict.last_sign, verdict.at);
    let elect = ms_between(verdict.at, facts.leader_since);
    (verdict.evidence.clone(), Phases { detect, held, elect, ..Phases::default() }, verdict.last_sign)
}
