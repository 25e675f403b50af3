use super::*;

mod failover;
mod operating;
mod placing;

use crate::history::{CandidateReason, EventResult};
use crate::ids::{Offset, Slot};
use crate::operation::{Act, ActError, ActRequest, OperationState, StepState, Which};
use crate::report::{PromotionOutcome, PromotionPhases, PromotionResult, ReplicaReport};
use crate::state::NewNode;

/// A cluster of nodes 1, 2, … in the planner's eyes; node 1 is the Raft leader.
struct World {
    state: State,
    settings: Settings,
    nodes: BTreeMap<NodeId, Sim>,
    standbys: u32,
    now: Moment,
    wall: WallTime,
    index: u64,
    calm: Moment,
    ordered_at: BTreeMap<PartitionId, (Epoch, Moment)>,
    withheld_since: BTreeMap<PartitionId, Moment>,
}

#[derive(Clone, Debug, Default)]
struct Sim {
    liveness: Liveness,
    incarnation: u64,
    report: NodeReport,
    nofailover: bool,
    version: String,
    witness: bool,
    zone: String,
    verdict: Option<Verdict>,
}

impl World {
    fn new(nodes: u64, partitions: u32, standbys: u32) -> Self {
        let mut world = Self {
            state: State::default(),
            settings: Settings::default(),
            nodes: BTreeMap::new(),
            standbys,
            now: Duration::from_secs(100),
            wall: WallTime(1_000_000_000),
            index: 1,
            calm: Duration::from_secs(100),
            ordered_at: BTreeMap::new(),
            withheld_since: BTreeMap::new(),
        };
        let new = |id| NewNode {
            node_id: NodeId(id),
            slot: Slot(format!("n{id}")),
            address: format!("n{id}:1"),
            zone: String::new(),
            store_uuid: format!("disk-{id}"),
        };
        let form = Command::Form { cluster_id: "x".into(), nodes: (1..=nodes).map(new).collect() };
        let _ = world.state.apply(1, form, 100);
        for id in 1..=nodes {
            let report =
                NodeReport { partitions_of_input: Some(partitions), semantics_hash: 7, ..NodeReport::default() };
            world
                .nodes
                .insert(NodeId(id), Sim { liveness: Liveness::Live, incarnation: 10 + id, report, ..Sim::default() });
        }
        world
    }

    /// A world that has come to rest.
    fn settled(nodes: u64, partitions: u32, standbys: u32) -> Self {
        let mut world = Self::new(nodes, partitions, standbys);
        world.settle();
        world
    }

    fn plan(&self) -> Plan {
        self.with_facts(|facts| plan(facts, &self.state, &self.settings))
    }

    fn with_facts<T>(&self, then: impl FnOnce(&Facts<'_>) -> T) -> T {
        let nodes = self.nodes.iter().map(|(id, sim)| {
            let facts = NodeFacts {
                liveness: sim.liveness,
                incarnation: Some(sim.incarnation),
                report: Some(&sim.report),
                replicas_here: !sim.witness,
                nofailover: sim.nofailover,
                version: sim.version.clone(),
                last_heard_ms: Some(5),
                address: format!("n{id}:1"),
                zone: sim.zone.clone(),
                verdicts: sim.verdict.iter().collect(),
            };
            (*id, facts)
        });
        let facts = Facts {
            now: self.now,
            wall: self.wall,
            me: NodeId(1),
            leader_since: Duration::from_secs(1),
            calm_since: self.calm,
            partitions_of_input: self.nodes.values().filter_map(|n| n.report.partitions_of_input).max(),
            standbys: self.standbys,
            promote_retry_after: self.settings.promote_retry_after,
            stalled_after: self.settings.stalled_after,
            nodes: nodes.collect(),
            ordered_at: &self.ordered_at,
            withheld_since: &self.withheld_since,
        };
        then(&facts)
    }

    /// What the leader does with a request.
    fn act(&mut self, request: ActRequest) -> Result<OperationId, ActError> {
        let resolved = self.with_facts(|facts| preflight(facts, &self.state, &request.act))?;
        self.index += 1;
        let command = Command::Begin { request: Box::new(request), steps: resolved.steps, at: self.wall };
        match self.state.apply(self.index, command, 10_000)[..] {
            [crate::state::Event::Begun(id)] => Ok(id),
            ref other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, plan: Plan) {
        self.index += 1;
        for command in plan.commands {
            for event in self.state.apply(self.index, command, 10_000) {
                assert!(!matches!(event, crate::state::Event::Ignored(_)), "{event:?}");
            }
        }
        for (partition, entry) in &self.state.partitions {
            let noted = self.ordered_at.entry(*partition).or_insert((entry.epoch, self.now));
            if noted.0 != entry.epoch {
                *noted = (entry.epoch, self.now);
            }
        }
        self.follow();
    }

    /// The replicas do what they are told.
    fn follow(&mut self) {
        for (id, sim) in &mut self.nodes {
            if sim.liveness != Liveness::Live {
                continue;
            }
            let mut replicas = Vec::new();
            for (partition, entry) in &self.state.partitions {
                let active = entry.active == Some(*id) && entry.active_incarnation == sim.incarnation;
                if !active && !entry.standbys.contains(id) && entry.active != Some(*id) {
                    continue;
                }
                let kept = sim.report.replica(*partition).cloned();
                let role = if active { Role::Active } else { Role::Standby };
                let role = kept.as_ref().map_or(role, |r| match r.role {
                    Role::Active | Role::Standby => role,
                    other => other,
                });
                replicas.push(ReplicaReport {
                    role,
                    epoch: entry.epoch,
                    ..kept.unwrap_or_else(|| replica(*partition))
                });
            }
            sim.report.replicas = replicas;
        }
    }

    fn confirm_all(&mut self) {
        let ordered: Vec<_> = self.state.partitions.iter().map(|(p, e)| (*p, e.epoch)).collect();
        for (partition, epoch) in ordered {
            self.outcome(partition, epoch, PromotionResult::Ok);
        }
    }

    fn outcome(&mut self, partition: PartitionId, epoch: Epoch, result: PromotionResult) {
        let outcome = PromotionOutcome {
            partition,
            epoch,
            result,
            phases_ms: PromotionPhases::default(),
            records_caught_up: 0,
            readings_replayed: 0,
            pause_ms: None,
        };
        self.index += 1;
        let _ = self.state.apply(self.index, Command::Outcome { outcome, timing: None, at: self.wall }, 10_000);
    }

    fn settle(&mut self) {
        for _ in 0..50 {
            let plan = self.plan();
            if plan.commands.is_empty() {
                return;
            }
            self.commit(plan);
            self.confirm_all();
        }
        panic!("it never comes to rest: {:?}", self.plan());
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall.0 += i64::try_from(time.as_millis()).unwrap();
    }

    fn die(&mut self, id: u64, cause: Cause) {
        let (now, sim) = (self.now, self.nodes.get_mut(&NodeId(id)).unwrap());
        sim.liveness = Liveness::Dead;
        let (incarnation, last_sign) = (sim.incarnation, now.saturating_sub(Duration::from_millis(2)));
        sim.verdict = Some(Verdict { incarnation, cause, last_sign, at: now, evidence: Vec::new() });
    }

    /// A new process of the node; its replicas have to be restored first.
    fn restart(&mut self, id: u64) {
        let sim = self.nodes.get_mut(&NodeId(id)).unwrap();
        sim.liveness = Liveness::Live;
        sim.incarnation += 1000;
        sim.report.replicas.iter_mut().for_each(|r| r.role = Role::Restoring);
    }

    fn replica(&mut self, id: u64, partition: u32) -> &mut ReplicaReport {
        let replicas = &mut self.nodes.get_mut(&NodeId(id)).unwrap().report.replicas;
        replicas.iter_mut().find(|r| r.partition == PartitionId(partition)).unwrap()
    }

    fn entry(&self, partition: u32) -> &Partition {
        &self.state.partitions[&PartitionId(partition)]
    }

    fn active(&self, partition: u32) -> u64 {
        self.entry(partition).active.unwrap().0
    }

    fn loads(&self) -> Vec<usize> {
        let count = |id: &NodeId| self.state.partitions.values().filter(|p| p.active == Some(*id)).count();
        self.nodes.keys().map(count).collect()
    }
}

fn replica(partition: PartitionId) -> ReplicaReport {
    ReplicaReport {
        partition,
        role: Role::Standby,
        epoch: Epoch(0),
        applied: Offset(100),
        lso: Offset(100),
        lag_records: 0,
        lag_ms: 0,
        commit: 1,
        commit_age_ms: None,
        input_lag_records: None,
        digest_equal: None,
        loop_age_ms: 0,
        next_input: None,
    }
}

fn orders(plan: &Plan) -> Vec<&OrderCommand> {
    plan.commands.iter().filter_map(|c| if let Command::Order(o) = c { Some(&**o) } else { None }).collect()
}

fn reasons(passed: &[PassedOver]) -> Vec<(u64, &'static str)> {
    passed.iter().map(|p| (p.node_id.0, p.reason.name())).collect()
}

fn request(act: Act) -> ActRequest {
    ActRequest { act, by: "alice".into(), reason: "kernel".into(), request_id: None, dry_run: false }
}

/// An operator drains a node.
fn drain(world: &mut World, id: u64) {
    let act = Act::Drain { slot: Slot(format!("n{id}")), evacuate: false };
    let command = Command::Begin { request: Box::new(request(act)), steps: Vec::new(), at: world.wall };
    let _ = world.state.apply(50, command, 100);
}
