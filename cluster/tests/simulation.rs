//! The control plane alone on simulated hosts, with a data plane that only pretends.
#![allow(missing_docs)]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex},
    time::Duration,
};

use clap::Parser as _;
use hotspare_cluster::{
    Cluster, Epoch, EventResult, NodeId, NodeReport, Offset, Options, PartitionId, PromotionOutcome, PromotionPhases,
    PromotionResult, ReplicaReport, Replicas, Role, Settings, Slot,
};
use hotspare_system::simulation::{
    HostId, Simulation,
    faults::{Fault, Storm},
    seeds::{self, Arguments, Course},
};

const NAMES: [&str; 3] = ["a", "b", "c"];
const PARTITIONS: u32 = 3;
/// A cluster is formed and has its actives.
const CALM: Duration = Duration::from_secs(3);
const STORM_END: Duration = Duration::from_secs(13);
/// After the end of all faults all partitions are back within this time.
const BACK_WITHIN: Duration = Duration::from_secs(12);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.seed {
        Some(seed) => {
            // Nothing unless RUST_LOG says so; in virtual time.
            let filter = tracing_subscriber::EnvFilter::from_default_env();
            tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
            seeds::run_here(seed, |seed| World::new(seed).run())
        }
        None => seeds::run_all(&arguments, "cargo test -p hotspare-cluster --features simulation --test simulation --"),
    }
}

#[derive(Default)]
struct Pretended {
    report: Mutex<NodeReport>,
}

impl Replicas for Pretended {
    fn report(&self) -> NodeReport {
        self.report.lock().unwrap().clone()
    }
}

type Running = Arc<Mutex<Option<Cluster>>>;

struct World {
    seed: u64,
    simulation: Simulation,
    folder: tempfile::TempDir,
    clusters: Vec<Running>,
    /// Who is the active of an epoch.
    actives: BTreeMap<(PartitionId, Epoch), NodeId>,
    /// The newest epoch that a process knows.
    newest: BTreeMap<(HostId, u64, PartitionId), Epoch>,
    /// What is written in the history under a number.
    history: BTreeMap<u64, (PartitionId, Epoch, NodeId)>,
    failures: Vec<String>,
}

fn options(slot: &str, data_dir: PathBuf) -> Options {
    let address = |slot: &str| format!("{slot}:7400");
    Options {
        cluster_name: "plant".into(),
        slot: Slot(slot.into()),
        zone: String::new(),
        expected_slots: NAMES.map(|name| Slot(name.into())).to_vec(),
        seeds: NAMES.map(address).to_vec(),
        listen: address(slot),
        advertise: address(slot),
        data_dir,
        standbys: 1,
        settings: Settings {
            slot_takeover_after: Duration::from_millis(500),
            placement_wait: Duration::from_secs(1),
            snapshot_entries: 20,
            ..Settings::default()
        },
        replicas_here: true,
        nofailover: false,
        version: "simulated".into(),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        // Before the simulation, which would draw the same name for each seed.
        let folder = tempfile::tempdir().unwrap();
        let simulation = Simulation::new(seed, &NAMES);
        Self {
            seed,
            simulation,
            folder,
            clusters: NAMES.iter().map(|_| Running::default()).collect(),
            actives: BTreeMap::new(),
            newest: BTreeMap::new(),
            history: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    fn run(mut self) -> Course {
        let hosts: Vec<_> = (0..NAMES.len()).map(HostId).collect();
        hosts.iter().for_each(|host| self.start(*host));
        let storm = Storm { hosts: NAMES.len(), begin: CALM, end: STORM_END, faults: 10, with_kafka: false };
        let mut faults = storm.draw(self.seed).into_iter().peekable();
        while self.simulation.now() < STORM_END && self.failures.is_empty() {
            while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= self.simulation.now()) {
                self.befall(fault);
            }
            self.simulation.step();
            self.look();
        }
        faults.for_each(|(_, fault)| self.befall(fault));
        for host in hosts {
            self.simulation.set_frozen(host, false);
            if !self.simulation.is_running(host) {
                self.start(host);
            }
        }
        while self.failures.is_empty() && !self.is_settled() {
            self.simulation.step();
            self.look();
            if self.simulation.now() > STORM_END + BACK_WITHIN {
                let state: Vec<_> = self.each().map(|cluster| format!("{:?}", cluster.view())).collect();
                self.failures.push(format!("not back within {BACK_WITHIN:?}: {}", state.join("; ")));
            }
        }
        let failure = (!self.failures.is_empty()).then(|| self.failures.join("; "));
        Course { trace: self.simulation.trace(), failure }
    }

    fn disk(&self, host: HostId) -> PathBuf {
        self.folder.path().join(NAMES[host.0])
    }

    fn start(&mut self, host: HostId) {
        let (options, to) = (options(NAMES[host.0], self.disk(host)), self.clusters[host.0].clone());
        self.simulation.start(host, async move {
            let replicas = Arc::new(Pretended::default());
            *replicas.report.lock().unwrap() = NodeReport {
                partitions_of_input: Some(PARTITIONS),
                kafka_ok: true,
                semantics_hash: 7,
                ..NodeReport::default()
            };
            let cluster = Cluster::start(options, replicas.clone()).await.unwrap();
            *to.lock().unwrap() = Some(cluster.clone());
            drive(cluster, replicas).await;
        });
    }

    fn befall(&mut self, fault: Fault) {
        self.simulation.note(&format!("{fault:?}"));
        tracing::info!(?fault);
        match fault {
            Fault::Crash(host, how) => {
                *self.clusters[host.0].lock().unwrap() = None;
                self.simulation.crash(host, how);
            }
            Fault::Start { host, .. } if self.simulation.is_running(host) => {}
            Fault::Start { host, without_disk } => {
                if without_disk {
                    remove(&self.disk(host));
                }
                self.start(host);
            }
            Fault::Frozen(host, frozen) => self.simulation.set_frozen(host, frozen),
            Fault::Cut(cut, is_cut) => self.simulation.set_cut(cut, is_cut),
            Fault::Delay(most) => self.simulation.set_delay_max(most),
            Fault::Clock(host, offset_ms) => self.simulation.set_wall_offset_ms(host, offset_ms),
            Fault::SlowDisk(host, delay) => self.simulation.set_disk_delay(host, delay),
            Fault::KafkaCut(..) | Fault::KafkaStall(..) | Fault::KafkaSilent(_) | Fault::KafkaTrouble(_) => {}
        }
    }

    fn each(&self) -> impl Iterator<Item = Cluster> {
        self.clusters.iter().filter_map(|running| running.lock().unwrap().clone())
    }

    /// What holds at every moment.
    fn look(&mut self) {
        for host in (0..NAMES.len()).map(HostId) {
            if self.simulation.has_ended(host) {
                self.failures.push(format!("{} has ended", NAMES[host.0]));
            }
            let Some(cluster) = self.clusters[host.0].lock().unwrap().clone() else { continue };
            let known = cluster.assignments().borrow().clone();
            for (partition, assignment) in &known.by_partition {
                // None, where it is this node's and was ordered to an earlier process of it.
                if let Some(active) = assignment.active {
                    let first = *self.actives.entry((*partition, assignment.epoch)).or_insert(active);
                    if first != active {
                        let epoch = assignment.epoch;
                        self.failures.push(format!("two actives of {partition} {epoch}: {first} and {active}"));
                    }
                }
                let newest = self.newest.entry((host, cluster.incarnation(), *partition)).or_default();
                if assignment.epoch < *newest {
                    self.failures.push(format!("epoch of {partition} fell from {newest} to {}", assignment.epoch));
                }
                *newest = assignment.epoch;
            }
        }
    }

    fn is_settled(&mut self) -> bool {
        let clusters: Vec<_> = self.each().collect();
        let views: Vec<_> = clusters.iter().map(Cluster::view).collect();
        let settled = views.len() == NAMES.len()
            && views.iter().all(|view| {
                view.leader.is_some()
                    && view.voters.len() == NAMES.len()
                    && view.partitions.len() == PARTITIONS as usize
                    && view.partitions.iter().all(|p| p.confirmed && !p.standbys.is_empty())
                    && view.partitions == views[0].partitions
            });
        if !settled {
            return false;
        }
        for cluster in &clusters {
            self.check_history(cluster);
        }
        true
    }

    fn check_history(&mut self, cluster: &Cluster) {
        let history = cluster.history();
        let mut epochs: BTreeMap<PartitionId, Epoch> = BTreeMap::new();
        for (before, event) in [None].into_iter().chain(history.iter().map(Some)).zip(&history) {
            if before.is_some_and(|before| before.seq + 1 != event.seq) {
                self.failures.push(format!("a gap in the history before {}", event.seq));
            }
            let what = (event.partition, event.epoch, event.to.node_id);
            let known = *self.history.entry(event.seq).or_insert(what);
            if known != what {
                self.failures.push(format!("event {} is {known:?} and {what:?}", event.seq));
            }
            if event.result == EventResult::Withheld {
                // It tells of the tenure that was not begun yet.
                continue;
            }
            let last = epochs.entry(event.partition).or_default();
            if event.epoch <= *last {
                self.failures.push(format!("{} is not above {last} in the history", event.epoch));
            }
            *last = event.epoch;
        }
    }
}

fn remove(folder: &Path) {
    if folder.exists() {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

/// Does what it is told at once: a standby follows, a promotion succeeds.
async fn drive(cluster: Cluster, replicas: Arc<Pretended>) {
    let mut assignments = cluster.assignments();
    let mut reported: BTreeMap<PartitionId, Epoch> = BTreeMap::new();
    loop {
        let known = assignments.borrow_and_update().clone();
        let me = cluster.identity().node_id;
        let mut mine = Vec::new();
        for (partition, assignment) in &known.by_partition {
            let active = assignment.active == Some(me);
            if active && reported.insert(*partition, assignment.epoch) != Some(assignment.epoch) {
                cluster.report_promotion(PromotionOutcome {
                    partition: *partition,
                    epoch: assignment.epoch,
                    result: PromotionResult::Ok,
                    phases_ms: PromotionPhases {
                        fence: 3.0,
                        catch_up: 1.0,
                        first_output: 5.0,
                        ..PromotionPhases::default()
                    },
                    records_caught_up: 1,
                    readings_replayed: 2,
                    pause_ms: None,
                });
            }
            if active || assignment.standbys.contains(&me) {
                mine.push(replica(*partition, if active { Role::Active } else { Role::Standby }, assignment.epoch));
            }
        }
        replicas.report.lock().unwrap().replicas = mine;
        if assignments.changed().await.is_err() {
            return;
        }
    }
}

fn replica(partition: PartitionId, role: Role, epoch: Epoch) -> ReplicaReport {
    ReplicaReport {
        partition,
        role,
        epoch,
        applied: Offset(100),
        lso: Offset(100),
        lag_records: 0,
        lag_ms: 0,
        commit: 1,
        commit_age_ms: Some(1),
        input_lag_records: None,
        digest_equal: Some(true),
        loop_age_ms: 0,
        next_input: None,
    }
}
