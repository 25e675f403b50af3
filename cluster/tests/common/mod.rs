//! A data plane that only pretends, and nodes around it: in this process, or in one of their own.
#![allow(dead_code, missing_docs, unreachable_pub)] // each test uses a part of it

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hotspare_cluster::{
    Cluster, Epoch, HistoryEvent, NodeId, NodeReport, Offset, Options, PartitionId, PromotionOutcome, PromotionPhases,
    PromotionResult, ReplicaReport, Replicas, Role, Settings, Slot, StartError, View,
};
use serde::{Deserialize, Serialize};

/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Where a cluster of nodes named `a`, `b`, … lives.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Place {
    pub cluster: String,
    pub folder: PathBuf,
    pub addresses: BTreeMap<String, String>,
    pub partitions: u32,
    pub standbys: u32,
    /// First pause between failovers of a partition.
    pub antiflap_base_ms: u64,
}

impl Place {
    pub fn new(folder: &Path, slots: &[&str], partitions: u32) -> Self {
        // All are held until all are drawn, so that no port is drawn twice.
        let held: Vec<_> = slots.iter().map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let addresses = held.iter().map(|l| l.local_addr().unwrap().to_string());
        Self {
            cluster: "plant".into(),
            folder: folder.to_owned(),
            addresses: slots.iter().map(|s| (*s).to_owned()).zip(addresses).collect(),
            partitions,
            standbys: 1,
            antiflap_base_ms: 1_000,
        }
    }

    pub fn data_dir(&self, slot: &str) -> PathBuf {
        self.folder.join(slot)
    }

    pub fn options(&self, slot: &str) -> Options {
        Options {
            cluster_name: self.cluster.clone(),
            slot: Slot(slot.into()),
            zone: String::new(),
            expected_slots: self.addresses.keys().cloned().map(Slot).collect(),
            seeds: self.addresses.values().cloned().collect(),
            listen: self.addresses[slot].clone(),
            advertise: self.addresses[slot].clone(),
            data_dir: self.data_dir(slot),
            standbys: self.standbys,
            settings: Settings {
                slot_takeover_after: Duration::from_millis(500),
                placement_wait: Duration::from_secs(3),
                antiflap_base: Duration::from_millis(self.antiflap_base_ms),
                ..Settings::default()
            },
            replicas_here: true,
            nofailover: false,
            version: "test".into(),
        }
    }

    pub async fn start(&self, slot: &str) -> Result<Node, StartError> {
        Node::start(self.options(slot), self.partitions).await
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

/// A node in this process.
pub struct Node {
    pub cluster: Cluster,
    driver: tokio::task::JoinHandle<()>,
}

impl Node {
    pub async fn start(options: Options, partitions: u32) -> Result<Self, StartError> {
        let filter = tracing_subscriber::EnvFilter::from_default_env(); // nothing unless RUST_LOG says so
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).try_init();
        let replicas = Arc::new(Pretended::default());
        *replicas.report.lock().unwrap() = NodeReport {
            partitions_of_input: Some(partitions),
            kafka_ok: true,
            semantics_hash: 7,
            config_hash: 0,
            ..NodeReport::default()
        };
        let cluster = Cluster::start(options, replicas.clone()).await?;
        let driver = tokio::spawn(drive(cluster.clone(), replicas));
        Ok(Self { cluster, driver })
    }

    pub fn id(&self) -> NodeId {
        self.cluster.identity().node_id
    }

    pub fn view(&self) -> View {
        self.cluster.view()
    }

    /// Partitions of which this node is told to be active, with their epochs.
    pub fn actives(&self) -> BTreeMap<PartitionId, Epoch> {
        let known = self.cluster.assignments();
        let known = known.borrow();
        let mine = known.by_partition.iter().filter(|(_, a)| a.active == Some(self.id()));
        mine.map(|(p, a)| (*p, a.epoch)).collect()
    }

    pub async fn stop(self) {
        self.driver.abort();
        let _ = self.driver.await;
        self.cluster.shutdown().await;
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
        let mut promoted = Vec::new();
        for (partition, assignment) in &known.by_partition {
            let active = assignment.active == Some(me);
            if active && reported.get(partition) != Some(&assignment.epoch) {
                reported.insert(*partition, assignment.epoch);
                promoted.push((*partition, assignment.epoch));
            }
            if active || assignment.standbys.contains(&me) {
                let role = if active { Role::Active } else { Role::Standby };
                mine.push(replica(*partition, role, assignment.epoch));
            }
        }
        replicas.report.lock().unwrap().replicas = mine;
        for (partition, epoch) in promoted {
            cluster.report_promotion(PromotionOutcome {
                partition,
                epoch,
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

/// Waits until `check` gives something.
pub async fn wait<T>(what: &str, mut check: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = check() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether all partitions have a confirmed active and enough standbys.
pub fn settled(view: &View, partitions: u32, standbys: usize) -> bool {
    view.leader.is_some()
        && view.partitions.len() == partitions as usize
        && view.partitions.iter().all(|p| p.active.is_some() && p.confirmed && p.standbys.len() >= standbys)
}

// --- nodes in processes of their own ---

/// Set for the child: its slot and the place.
const CHILD: &str = "HOTSPARE_CLUSTER_TEST_CHILD";

/// What a child tells after each change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Told {
    pub at_us: u64,
    pub node_id: NodeId,
    pub leader: Option<NodeId>,
    pub is_leader: bool,
    pub settled: bool,
    pub live: usize,
    pub fsync_us_max: u64,
    /// Where it is told to be active: partition and epoch.
    pub actives: Vec<(PartitionId, Epoch)>,
    pub epochs: Vec<(PartitionId, Epoch, Option<NodeId>)>,
    pub history: Vec<HistoryEvent>,
}

pub fn now_us() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// In a child process: runs the node until killed. Elsewhere: does nothing.
pub fn be_child_if_asked() {
    let Ok(asked) = std::env::var(CHILD) else {
        return;
    };
    let (slot, place): (String, Place) = serde_json::from_str(&asked).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async move {
        let node = place.start(&slot).await.unwrap();
        let mut assignments = node.cluster.assignments();
        loop {
            let timed = tokio::time::timeout(Duration::from_millis(50), assignments.changed()).await;
            let changed = timed.is_ok();
            let actives: Vec<_> = node.actives().into_iter().collect();
            let at_us = now_us();
            let view = node.view();
            let history = if changed { Vec::new() } else { node.cluster.history() };
            let skip = history.len().saturating_sub(40);
            let told = Told {
                at_us,
                node_id: node.id(),
                leader: view.leader,
                is_leader: view.is_leader,
                settled: settled(&view, place.partitions, place.standbys as usize),
                live: view.nodes.iter().filter(|n| n.state == hotspare_cluster::Liveness::Live).count(),
                fsync_us_max: view.raft_fsync_us_max,
                actives,
                epochs: view.partitions.iter().map(|p| (p.partition, p.epoch, p.active)).collect(),
                history: history.into_iter().skip(skip).collect(),
            };
            let line = serde_json::to_string(&told).unwrap();
            if writeln!(std::io::stdout().lock(), "\n@{line}").is_err() {
                std::process::exit(0);
            }
        }
    });
}

/// A node in a process of its own.
pub struct Process {
    pub slot: String,
    child: Child,
    pub told: Arc<Mutex<Vec<Told>>>,
}

impl Process {
    /// Starts this very program again as the node `slot`; `args` lead it to [`be_child_if_asked`].
    pub fn start(place: &Place, slot: &str, args: &[&str]) -> Self {
        let asked = serde_json::to_string(&(slot, place)).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(args)
            .env(CHILD, asked)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let told: Arc<Mutex<Vec<Told>>> = Arc::default();
        let (lines, to) = (BufReader::new(child.stdout.take().unwrap()), told.clone());
        std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some(told) = line.strip_prefix('@').and_then(|json| serde_json::from_str(json).ok()) {
                    let mut all = to.lock().unwrap();
                    all.push(told);
                    let surplus = all.len().saturating_sub(2_000);
                    all.drain(..surplus);
                }
            }
        });
        Self { slot: slot.to_owned(), child, told }
    }

    pub fn last(&self) -> Option<Told> {
        self.told.lock().unwrap().last().cloned()
    }

    /// The newest history it told.
    pub fn history(&self) -> Vec<HistoryEvent> {
        let told = self.told.lock().unwrap();
        told.iter().rev().find(|t| !t.history.is_empty()).map(|t| t.history.clone()).unwrap_or_default()
    }

    /// SIGSTOP and SIGCONT.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// SIGKILL; gives the time at which it was sent.
    pub fn kill(&mut self) -> u64 {
        let at = now_us();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        at
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
