//! Whether an operator's act would be allowed, and with whom: every candidate with its reason and its numbers.

use crate::history::{EventKind, EventResult, NodeRef, Reason};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::operation::{Act, ActError, Candidate, PAUSE_MS_MAX, PartitionPreflight, Preflight, StepState, Which};
use crate::report::ReplicaReport;
use crate::state::{Partition, State};
use crate::view::Liveness;

use super::candidates::{Choice, choose};
use super::operate::node_of;
use super::{Facts, Loads, Need, Wish, placement};

/// An act that is allowed.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) preflight: Preflight,
    /// Partitions whose active is to change, with the epochs on which that rests.
    pub(crate) steps: Vec<(PartitionId, Epoch)>,
}

/// Checks an act.
pub(crate) fn preflight(facts: &Facts<'_>, state: &State, act: &Act) -> Result<Resolved, ActError> {
    match act {
        Act::Switchover { which, to, allow_cold } => {
            let wish = Wish { allow_cold: *allow_cold, ..Wish::default() };
            Change { facts, state, kind: EventKind::Switchover, reason: Reason::Operator }.check(
                which,
                to.as_ref(),
                wish,
            )
        }
        Act::Failover { which, to, allow_cold, allow_nofailover } => {
            let (allow_cold, allow_nofailover) = (*allow_cold, *allow_nofailover);
            let wish = Wish { allow_cold, allow_nofailover, ..Wish::default() };
            Change { facts, state, kind: EventKind::Failover, reason: Reason::Operator }.check(which, to.as_ref(), wish)
        }
        Act::Drain { slot, .. } => {
            let change = Change { facts, state, kind: EventKind::Switchover, reason: Reason::Drain };
            change.drain(slot)
        }
        Act::Undrain { slot } => {
            let node = known(state, slot)?;
            let waits = state.operations.running().any(|o| matches!(&o.act, Act::Drain { slot: s, .. } if s == slot));
            let drained = state.nodes.get(&node).is_some_and(|n| n.drain.is_some());
            if drained || waits {
                allowed(format!("{slot} takes part again"))
            } else {
                refused(format!("{slot} is not being drained"))
            }
        }
        Act::Pause { partition, for_ms } => {
            exists(state, *partition)?;
            if (1..=PAUSE_MS_MAX).contains(for_ms) {
                return allowed(format!("no automatic act for {} s", for_ms / 1000));
            }
            refused(format!(
                "a pause of {for_ms} ms is not allowed: it must be above 0 and at most {PAUSE_MS_MAX} ms (24h)"
            ))
        }
        Act::Resume { partition } => {
            exists(state, *partition)?;
            let own = partition.and_then(|p| state.partitions.get(&p)).map(|entry| entry.pause.as_ref());
            match own.unwrap_or(state.pause.as_ref()) {
                Some(_) => allowed("failovers are automatic again".to_owned()),
                None => refused(match partition {
                    Some(partition) => format!("partition {partition} is not paused by itself"),
                    None => "the cluster is not paused".to_owned(),
                }),
            }
        }
    }
}

fn allowed(detail: String) -> Result<Resolved, ActError> {
    Ok(Resolved { preflight: Preflight { allowed: true, detail, partitions: Vec::new() }, steps: Vec::new() })
}

fn refused(detail: String) -> Result<Resolved, ActError> {
    Err(ActError::Refused(Box::new(Preflight { allowed: false, detail, partitions: Vec::new() })))
}

fn known(state: &State, slot: &Slot) -> Result<NodeId, ActError> {
    node_of(state, slot).ok_or_else(|| {
        let slots: Vec<_> = state.nodes.values().map(|node| node.slot.0.as_str()).collect();
        ActError::NotFound(format!("there is no node {slot}; there are {}", slots.join(", ")))
    })
}

fn exists(state: &State, partition: Option<PartitionId>) -> Result<(), ActError> {
    match partition.filter(|partition| !state.partitions.contains_key(partition)) {
        Some(partition) => Err(ActError::NotFound(no_such(state, partition))),
        None => Ok(()),
    }
}

fn no_such(state: &State, partition: PartitionId) -> String {
    format!("there is no partition {partition}; there are {}", state.partitions.len())
}

/// A change of actives that is to be checked.
struct Change<'a> {
    facts: &'a Facts<'a>,
    state: &'a State,
    kind: EventKind,
    reason: Reason,
}

impl Change<'_> {
    fn check(&self, which: &Which, to: Option<&Slot>, mut wish: Wish) -> Result<Resolved, ActError> {
        wish.to = to.map(|slot| known(self.state, slot)).transpose()?;
        let partitions = self.which(which, wish.to)?;
        let need = Need { wish, ..Need::new(self.kind, self.reason) };
        self.all(&partitions, &need, None)
    }

    fn drain(&self, slot: &Slot) -> Result<Resolved, ActError> {
        let node = known(self.state, slot)?;
        let held = self.state.partitions.iter().filter(|(_, entry)| entry.active == Some(node));
        let held: Vec<_> = held.map(|(partition, _)| *partition).collect();
        let resolved = self.all(&held, &Need::new(self.kind, self.reason), Some(slot))?;
        // The planner moves them, a few at a time; they are no steps of the operation.
        Ok(Resolved { steps: Vec::new(), ..resolved })
    }

    fn which(&self, which: &Which, to: Option<NodeId>) -> Result<Vec<PartitionId>, ActError> {
        let all = &self.state.partitions;
        let found: Vec<PartitionId> = match which {
            Which::Partitions(partitions) => {
                let mut partitions = partitions.clone();
                partitions.sort_unstable();
                partitions.dedup();
                partitions.iter().try_for_each(|partition| exists(self.state, Some(*partition)))?;
                partitions
            }
            Which::Node(slot) => {
                let node = known(self.state, slot)?;
                all.iter().filter(|(_, entry)| entry.active == Some(node)).map(|(p, _)| *p).collect()
            }
            Which::All => all.iter().filter(|(_, e)| to.is_none() || e.active != to).map(|(p, _)| *p).collect(),
        };
        if found.is_empty() {
            let what = match which {
                Which::Node(slot) => format!("{slot} is active of no partition"),
                _ => "no partition is to be changed".to_owned(),
            };
            return refused(what).map(|_| found);
        }
        Ok(found)
    }

    fn all(&self, partitions: &[PartitionId], need: &Need, drained: Option<&Slot>) -> Result<Resolved, ActError> {
        let mut loads = Loads::of(self.state);
        let (mut shown, mut steps, mut problems) = (Vec::new(), Vec::new(), Vec::new());
        for partition in partitions {
            let Some(entry) = self.state.partitions.get(partition) else { continue };
            let choice = choose(self.facts, self.state, *partition, entry, need, &loads);
            if let Some(problem) = self.problem(*partition, entry, need, &choice) {
                problems.push(problem);
            }
            if let Some(target) = choice.target {
                loads.moved(entry.active, target);
            }
            steps.push((*partition, entry.epoch));
            shown.push(self.show(*partition, entry, &choice));
        }
        let detail = if problems.is_empty() {
            let moves = shown.iter().filter_map(|p| Some(format!("{} to {}", p.partition, p.to.as_ref()?.slot)));
            let moves: Vec<_> = moves.collect();
            match drained {
                Some(slot) if moves.is_empty() => format!("{slot} is active of nothing"),
                _ => format!("partition {}", moves.join(", ")),
            }
        } else {
            problems.join("; ")
        };
        let preflight = Preflight { allowed: problems.is_empty(), detail, partitions: shown };
        if preflight.allowed { Ok(Resolved { preflight, steps }) } else { Err(ActError::Refused(Box::new(preflight))) }
    }

    fn problem(&self, partition: PartitionId, entry: &Partition, need: &Need, choice: &Choice) -> Option<String> {
        let name = |node: NodeId| self.state.slot_of(node);
        let busy = self.state.operations.running().find(|operation| {
            let goes_on = |s: &StepState| matches!(s, StepState::Waiting | StepState::Ordered);
            operation.steps.iter().any(|step| step.partition == partition && goes_on(&step.state))
        });
        if let Some(busy) = busy.filter(|_| self.reason == Reason::Operator) {
            return Some(format!("{} of partition {partition} goes on as {}", busy.act.name(), busy.id));
        }
        if let Some(to) = need.wish.to.filter(|to| entry.active == Some(*to)) {
            return Some(format!("{} is active of partition {partition} already", name(to)));
        }
        let live = |node| self.facts.nodes.get(&node).is_some_and(|seen| seen.liveness == Liveness::Live);
        if self.kind == EventKind::Switchover && !entry.active.is_some_and(live) {
            return Some(format!("partition {partition} has no live active; hotspare failover does without"));
        }
        match (choice.target, need.wish.to) {
            (Some(_), _) => None,
            (None, Some(to)) => Some(format!("{} cannot take partition {partition}", name(to))),
            (None, None) => Some(format!("no node can take partition {partition}")),
        }
    }

    fn show(&self, partition: PartitionId, entry: &Partition, choice: &Choice) -> PartitionPreflight {
        let named = |node_id| NodeRef { slot: self.state.slot_of(node_id), node_id };
        let others = self.state.nodes.keys().copied().filter(|node| entry.active != Some(*node));
        let candidates = others.map(|node| {
            let passed = choice.passed_over.iter().find(|p| p.node_id == node).map(|p| p.reason.name());
            let holds = entry.standbys.contains(&node);
            let reason = passed.or_else(|| (!holds).then_some("no_replica"));
            Candidate {
                slot: self.state.slot_of(node),
                node_id: node,
                reason: reason.map(str::to_owned),
                detail: self.numbers(partition, node, entry, reason),
            }
        });
        PartitionPreflight {
            partition,
            from: entry.active.map(named),
            to: choice.target.map(named),
            predicted_ms: self.predicted_ms(),
            candidates: candidates.collect(),
        }
    }

    /// Median of the pauses of switchovers that are remembered.
    fn predicted_ms(&self) -> Option<f64> {
        let events = self.state.history.events.iter();
        let good = events.filter(|e| e.kind == EventKind::Switchover && e.result == EventResult::Success);
        let mut pauses: Vec<f64> = good.filter_map(|event| event.pause_ms).collect();
        pauses.sort_by(f64::total_cmp);
        pauses.get(pauses.len() / 2).copied()
    }

    /// The numbers behind a reason.
    fn numbers(&self, partition: PartitionId, node: NodeId, entry: &Partition, reason: Option<&str>) -> String {
        let seen = self.facts.nodes.get(&node);
        let report = seen.and_then(|seen| seen.report);
        let replica = report.and_then(|report| report.replica(partition));
        let active = entry.active.and_then(|id| self.facts.nodes.get(&id));
        match reason {
            Some("dead" | "suspect") => match seen.and_then(|seen| seen.last_heard_ms) {
                Some(ms) => format!("last heard of {ms} ms ago"),
                None => "never heard of by the Raft leader".to_owned(),
            },
            Some("draining") => match self.state.nodes.get(&node).and_then(|n| n.drain.as_ref()) {
                Some(drain) => format!("since {} by {}: \"{}\"", drain.at, drain.by, drain.reason),
                None => String::new(),
            },
            Some("divergent") => match (replica, active.and_then(|a| a.report?.replica(partition))) {
                (Some(here), Some(active)) => {
                    format!("digest differs at commit {}, active is at {}; it is rebuilt", here.commit, active.commit)
                }
                _ => "digest differs; it is rebuilt".to_owned(),
            },
            Some("semantics_differ") => {
                let hash = |r: Option<&crate::report::NodeReport>| r.map_or(0, |r| r.semantics_hash);
                let active = hash(active.and_then(|active| active.report));
                format!("its [input], [window], [output] have hash {:016x}, the active's {active:016x}", hash(report))
            }
            Some("version_too_old") => {
                let version = |n: Option<&super::NodeFacts<'_>>| n.map(|n| n.version.clone()).unwrap_or_default();
                format!("version {}, the active has {}", version(seen), version(active))
            }
            Some("nofailover") => "node.nofailover = true there".to_owned(),
            Some("no_replica") => "it holds none".to_owned(),
            Some("stopping") => "its process is shutting down".to_owned(),
            Some("overtaken") => replica.map_or_else(String::new, |r| format!("{:?} with epoch {}", r.role, r.epoch)),
            Some("cold") => format!("{}; warm is at most {} ms", lag(replica), placement::WARM_LAG_MS_MAX),
            Some(_) => lag(replica),
            None if entry.standbys.contains(&node) => format!("warm: {}", lag(replica)),
            None => lag(replica),
        }
    }
}

fn lag(replica: Option<&ReplicaReport>) -> String {
    let Some(replica) = replica else { return "no report of its replica".to_owned() };
    let ms = if replica.lag_ms == i64::MAX { "?".to_owned() } else { replica.lag_ms.to_string() };
    format!("applied {} of {}, {} records and {ms} ms behind", replica.applied, replica.lso, replica.lag_records)
}
