//! Where replicas live: first placement, missing and surplus standbys, spreading of actives.

use std::collections::BTreeMap;

use crate::history::{EventKind, Phases, Reason};
use crate::ids::{Epoch, NodeId, PartitionId};
use crate::options::Settings;
use crate::report::Role;
use crate::state::{Command, OrderCommand, Partition, Stage, State};
use crate::view::Liveness;

use super::{Facts, Loads, Plan, millis};

/// A standby this far behind is warm enough for a planned move, in milliseconds.
pub(super) const WARM_LAG_MS_MAX: i64 = 1_000;

/// Nodes that may be given another replica.
fn hosts(facts: &Facts<'_>, state: &State) -> Vec<NodeId> {
    let fit = |id: &NodeId| {
        let known = state.nodes.get(id).is_some_and(|n| !n.stopping && n.drain.is_none());
        let seen = facts.nodes.get(id);
        known
            && seen.is_some_and(|n| {
                n.liveness == Liveness::Live && n.replicas_here && !n.report.is_some_and(|r| r.stopping)
            })
    };
    state.nodes.keys().copied().filter(fit).collect()
}

fn zone(facts: &Facts<'_>, node: NodeId) -> String {
    facts.nodes.get(&node).map(|n| n.zone.clone()).unwrap_or_default()
}

/// The host with the fewest replicas that holds none of this partition, in another zone than `beside` if possible.
fn spare(facts: &Facts<'_>, hosts: &[NodeId], holders: &[NodeId], loads: &Loads) -> Option<NodeId> {
    let zones: Vec<String> = holders.iter().map(|h| zone(facts, *h)).collect();
    hosts
        .iter()
        .copied()
        .filter(|h| !holders.contains(h))
        .min_by_key(|h| (zones.contains(&zone(facts, *h)), loads.all(*h), *h))
}

/// Gives all partitions of a new cluster an active and standbys.
pub(crate) fn initial(facts: &Facts<'_>, state: &State, count: u32, settings: &Settings, plan: &mut Plan) {
    let hosts = hosts(facts, state);
    let mut loads = Loads::default();
    for partition in (0..count).map(PartitionId) {
        let able = |h: &&NodeId| facts.nodes.get(h).is_some_and(|n| !n.nofailover);
        let best = hosts.iter().filter(able).min_by_key(|h| (loads.actives(**h), **h == facts.me, **h));
        let Some(target) = best.copied() else { return };
        loads.moved(None, target);
        let mut holders = vec![target];
        for _ in 0..facts.standbys {
            let Some(standby) = spare(facts, &hosts, &holders, &loads) else {
                break;
            };
            loads.added(standby);
            holders.push(standby);
        }
        let standbys = holders.split_off(1);
        let highest = facts.nodes.values().filter_map(|n| n.report?.replica(partition)).map(|r| r.epoch.0).max();
        let epoch = Epoch(highest.unwrap_or(0) + 1);
        let entry = Partition { standbys, ..Partition::default() };
        push_order(facts, partition, &entry, target, epoch, (EventKind::Initial, Reason::Initial), settings, plan);
    }
}

#[allow(clippy::too_many_arguments)] // two callers, and a struct for it would only repeat these names
fn push_order(
    facts: &Facts<'_>,
    partition: PartitionId,
    entry: &Partition,
    target: NodeId,
    epoch: Epoch,
    (kind, reason): (EventKind, Reason),
    settings: &Settings,
    plan: &mut Plan,
) {
    let mut standbys = entry.standbys.clone();
    standbys.extend(entry.active.filter(|a| !entry.standbys.contains(a)));
    standbys.retain(|s| *s != target);
    plan.last_signs.insert((partition, epoch), facts.now);
    plan.commands.push(Command::Order(Box::new(OrderCommand {
        partition,
        expected: entry.epoch,
        epoch,
        target,
        target_incarnation: facts.nodes.get(&target).and_then(|n| n.incarnation).unwrap_or(0),
        standbys,
        kind,
        reason,
        by: None,
        at: facts.wall,
        evidence: Vec::new(),
        phases_ms: Phases::default(),
        passed_over: Vec::new(),
        antiflap_window_ms: millis(settings.antiflap_window),
        operation: None,
    })));
}

/// Adds standbys where too few live ones are, and drops those that are gone for long.
pub(crate) fn standbys(facts: &Facts<'_>, state: &State, settings: &Settings, loads: &mut Loads, plan: &mut Plan) {
    let hosts = hosts(facts, state);
    let wanted = facts.standbys as usize;
    for (partition, entry) in &state.partitions {
        if entry.active.is_none() && entry.epoch == Epoch(0) || state.paused(Some(*partition), facts.wall).is_some() {
            continue;
        }
        let mut new = entry.standbys.clone();
        let leaves = |s: &NodeId| state.nodes.get(s).and_then(|n| n.drain.as_ref()).is_some_and(|d| d.evacuate);
        let gone = |s: &NodeId| leaves(s) || facts.nodes.get(s).is_none_or(|n| n.liveness == Liveness::Dead);
        let present = |new: &Vec<NodeId>| new.iter().filter(|s| !gone(s)).count();
        while present(&new) < wanted && new.len() < wanted + 2 {
            let mut holders = new.clone();
            holders.extend(entry.active);
            let Some(standby) = spare(facts, &hosts, &holders, loads) else {
                break;
            };
            loads.added(standby);
            new.push(standby);
        }
        // A copy leaves when as many as are wanted are warm without it, or when there is no room for another.
        let warm_ones = new.iter().filter(|s| !leaves(s) && warm(facts, *partition, **s)).count();
        let enough = warm_ones >= wanted.min(hosts.len().saturating_sub(1)).max(1);
        new.retain(|s| !(leaves(s) && enough));
        new.retain(|s| !(gone_for_long(facts, *s, settings) && new_has_enough(entry, facts, *s, wanted)));
        new.retain(|s| facts.nodes.get(s).is_none_or(|n| n.liveness != Liveness::Live || n.replicas_here));
        if new != entry.standbys {
            plan.commands.push(Command::SetStandbys { partition: *partition, revision: entry.revision, standbys: new });
        }
    }
}

fn gone_for_long(facts: &Facts<'_>, node: NodeId, settings: &Settings) -> bool {
    let Some(seen) = facts.nodes.get(&node) else {
        return true;
    };
    let verdict = seen.verdicts.iter().map(|v| v.at).max();
    matches!(seen.liveness, Liveness::Dead | Liveness::Stopped)
        && verdict.is_some_and(|at| facts.now.saturating_sub(at) >= settings.replace_after)
}

/// Whether enough standbys live without this one.
fn new_has_enough(entry: &Partition, facts: &Facts<'_>, without: NodeId, wanted: usize) -> bool {
    let live = |s: &&NodeId| **s != without && facts.nodes.get(s).is_some_and(|n| n.liveness == Liveness::Live);
    entry.standbys.iter().filter(live).count() >= wanted
}

pub(super) fn warm(facts: &Facts<'_>, partition: PartitionId, node: NodeId) -> bool {
    let replica = facts.nodes.get(&node).and_then(|n| n.report).and_then(|r| r.replica(partition));
    replica.is_some_and(|r| r.role == Role::Standby && r.digest_equal != Some(false) && r.lag_ms <= WARM_LAG_MS_MAX)
}

/// When all is calm: moves one active from a node with more to one with fewer, or drops one surplus standby.
pub(crate) fn rebalance(facts: &Facts<'_>, state: &State, settings: &Settings, loads: &Loads, plan: &mut Plan) {
    let calm = facts.now.saturating_sub(facts.calm_since) >= settings.rebalance_after;
    let settled = state.partitions.values().all(|p| p.stage == Stage::Confirmed);
    if !settings.rebalance || !calm || !settled {
        return;
    }
    let able = |id: &NodeId| facts.nodes.get(id).is_some_and(|n| !n.nofailover);
    let hosts: Vec<NodeId> = hosts(facts, state).into_iter().filter(able).collect();
    let Some(fewest) = hosts.iter().copied().min_by_key(|h| (loads.actives(*h), *h)) else {
        return;
    };
    let Some(most) = hosts.iter().copied().max_by_key(|h| (loads.actives(*h), *h)) else {
        return;
    };
    if loads.actives(most) >= loads.actives(fewest) + 2 {
        let free = |p: &PartitionId| state.paused(Some(*p), facts.wall).is_none();
        let on_most = state.partitions.iter().filter(|(p, e)| e.active == Some(most) && free(p));
        let on_most: BTreeMap<_, _> = on_most.collect();
        let ready = on_most.iter().find(|(p, e)| e.standbys.contains(&fewest) && warm(facts, ***p, fewest));
        if let Some((partition, entry)) = ready {
            let epoch = Epoch(entry.epoch.max(entry.floor).0 + 1);
            let why = (EventKind::Switchover, Reason::Rebalance);
            push_order(facts, **partition, entry, fewest, epoch, why, settings, plan);
            return;
        }
        let warming = on_most.values().any(|e| e.standbys.contains(&fewest));
        let bare = on_most.iter().find(|(_, e)| e.standbys.len() <= facts.standbys as usize);
        if let Some((partition, entry)) = bare.filter(|_| !warming) {
            let mut standbys = entry.standbys.clone();
            standbys.push(fewest);
            plan.commands.push(Command::SetStandbys { partition: **partition, revision: entry.revision, standbys });
        }
        return;
    }
    let surplus = state
        .partitions
        .iter()
        .find(|(p, e)| e.standbys.len() > facts.standbys as usize && e.standbys.iter().all(|s| warm(facts, **p, *s)));
    if let Some((partition, entry)) = surplus {
        let drop = entry.standbys.iter().copied().max_by_key(|s| (loads.all(*s), *s));
        let standbys = entry.standbys.iter().copied().filter(|s| Some(*s) != drop).collect();
        plan.commands.push(Command::SetStandbys { partition: *partition, revision: entry.revision, standbys });
    }
}
