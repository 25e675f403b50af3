//! What all parts of the agent share.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::detector::{Detector, Moment, PeerView, Seen};
use crate::history::{Phases, WallTime};
use crate::identity::{Identity, Lock};
use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::operation::{ActError, ActRequest, Acted};
use crate::options::Options;
use crate::planner::Withheld;
use crate::raft::{Group, RaftStatus, Replicated};
use crate::report::{HandoverWord, PromotionOutcome, Replicas};
use crate::state::Command;
use crate::transport::{Heartbeat, Hello, Links, MAGIC, PROTOCOLS};
use crate::view::Meters;

/// Words of handovers that wait to be heard; more are lost, and said again.
const HANDOVERS_MAX: usize = 1024;

/// What the brain is told.
#[derive(Debug)]
pub(crate) enum Input {
    /// Something was seen of a peer.
    Seen { slot: Slot, seen: Seen, at: Moment },
    /// A heartbeat arrived.
    Heartbeat { slot: Slot, incarnation: u64, heartbeat: Box<Heartbeat>, at: Moment },
    /// Another node told its view of a peer.
    Told { about: Slot, teller: Slot, view: PeerView },
    /// A plan was committed, or was not.
    Proposed { committed: bool },
    /// A change of the members has ended, or has failed.
    MembersChanged,
    /// An attempt to form or to join has ended.
    JoinEnded,
    /// An operator asks this leader for something.
    Act { request: Box<ActRequest>, reply: oneshot::Sender<Result<Acted, ActError>> },
    /// Look again.
    Poke,
}

/// From when the time of an order counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) last_sign: Moment,
    /// Phases known at the decision.
    pub(crate) phases_ms: Phases,
    pub(crate) committed: Option<Moment>,
}

/// What this node has to get into the log, again and again until it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Duty {
    Outcome(PromotionOutcome),
    Command(Command),
}

/// What a peer last told.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) incarnation: u64,
    pub(crate) heartbeat: Heartbeat,
}

/// What the leader found at its last look, for the view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    pub(crate) withheld: Vec<Withheld>,
    pub(crate) withheld_since: BTreeMap<PartitionId, Moment>,
    pub(crate) problems: Vec<String>,
}

/// The shared part of the agent.
pub(crate) struct Node {
    pub(crate) options: Options,
    pub(crate) replicas: Arc<dyn Replicas>,
    pub(crate) incarnation: u64,
    pub(crate) links: Arc<Links>,
    pub(crate) replicated: Arc<Replicated>,
    pub(crate) inputs: mpsc::Sender<Input>,
    started: Instant,
    identity: RwLock<Identity>,
    group: RwLock<Option<Group>>,
    lock: Mutex<Option<Lock>>,
    tasks: Mutex<JoinSet<()>>,
    stopped: AtomicBool,
    stopping: AtomicBool,
    detector: Mutex<Detector>,
    peers: Mutex<BTreeMap<Slot, Peer>>,
    /// When each node id was last heard of.
    heard: Mutex<BTreeMap<NodeId, Moment>>,
    /// Addresses that are dialled.
    dialled: Mutex<BTreeSet<String>>,
    starts: Mutex<BTreeMap<(PartitionId, Epoch), Start>>,
    duties: Mutex<Vec<Duty>>,
    pub(crate) duties_changed: tokio::sync::Notify,
    findings: Mutex<Findings>,
    refused: Mutex<BTreeMap<String, u64>>,
    fenced: Mutex<BTreeMap<PartitionId, Epoch>>,
    meters: Mutex<Meters>,
    /// A vote by proof was begun and not yet seen.
    pub(crate) voting_by_proof: AtomicBool,
    pub(crate) voted_at_us: AtomicU64,
    /// What old actives and their successors tell this node.
    pub(crate) handovers: mpsc::Sender<(NodeId, HandoverWord)>,
    handovers_told: Mutex<Option<mpsc::Receiver<(NodeId, HandoverWord)>>>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    pub(crate) fn new(
        options: Options,
        replicas: Arc<dyn Replicas>,
        identity: Identity,
        lock: Lock,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (incarnation, _) = uuid::Uuid::new_v4().as_u64_pair();
        let incarnation = (incarnation >> 11).max(1); // also exact in programs that read numbers as doubles
        let board = crate::assignment::Board::new(identity.node_id, incarnation);
        let events_max = options.settings.history_events_max;
        let (handovers, handovers_told) = mpsc::channel(HANDOVERS_MAX);
        let detector = Detector::new(options.slot.clone(), options.settings.clone());
        Self {
            replicas,
            incarnation,
            links: Arc::default(),
            replicated: Arc::new(Replicated::new(board, events_max)),
            inputs,
            started: Instant::now(),
            identity: RwLock::new(identity),
            group: RwLock::default(),
            lock: Mutex::new(Some(lock)),
            tasks: Mutex::default(),
            stopped: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            detector: Mutex::new(detector),
            peers: Mutex::default(),
            heard: Mutex::default(),
            dialled: Mutex::default(),
            starts: Mutex::default(),
            duties: Mutex::default(),
            duties_changed: tokio::sync::Notify::new(),
            findings: Mutex::default(),
            refused: Mutex::default(),
            fenced: Mutex::default(),
            meters: Mutex::default(),
            voting_by_proof: AtomicBool::new(false),
            voted_at_us: AtomicU64::new(0),
            handovers,
            handovers_told: Mutex::new(Some(handovers_told)),
            options,
        }
    }

    /// Time since the start of this process's agent.
    pub(crate) fn now(&self) -> Moment {
        self.started.elapsed()
    }

    pub(crate) fn wall() -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_identity(&self, identity: Identity) {
        self.replicated.board.set_me(identity.node_id);
        *self.identity.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    pub(crate) fn me(&self) -> NodeId {
        self.identity.read().unwrap_or_else(PoisonError::into_inner).node_id
    }

    pub(crate) fn group(&self) -> Option<Group> {
        self.group.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_group(&self, group: Group) {
        *self.group.write().unwrap_or_else(PoisonError::into_inner) = Some(group);
    }

    pub(crate) fn raft_status(&self) -> RaftStatus {
        self.group().map(|g| g.status()).unwrap_or_default()
    }

    /// Whether the Raft log here has anything in it.
    pub(crate) fn initialized(&self) -> bool {
        self.raft_status().last_log_index.is_some()
    }

    pub(crate) fn detector(&self) -> MutexGuard<'_, Detector> {
        held(&self.detector)
    }

    pub(crate) fn peers(&self) -> MutexGuard<'_, BTreeMap<Slot, Peer>> {
        held(&self.peers)
    }

    pub(crate) fn heard(&self) -> MutexGuard<'_, BTreeMap<NodeId, Moment>> {
        held(&self.heard)
    }

    pub(crate) fn starts(&self) -> MutexGuard<'_, BTreeMap<(PartitionId, Epoch), Start>> {
        held(&self.starts)
    }

    pub(crate) fn findings(&self) -> MutexGuard<'_, Findings> {
        held(&self.findings)
    }

    pub(crate) fn refusals(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        held(&self.refused)
    }

    pub(crate) fn fenced(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Epoch>> {
        held(&self.fenced)
    }

    pub(crate) fn meters(&self) -> MutexGuard<'_, Meters> {
        held(&self.meters)
    }

    /// Where words of handovers are heard; only once.
    pub(crate) fn take_handovers(&self) -> Option<mpsc::Receiver<(NodeId, HandoverWord)>> {
        held(&self.handovers_told).take()
    }

    pub(crate) fn duties(&self) -> MutexGuard<'_, Vec<Duty>> {
        held(&self.duties)
    }

    pub(crate) fn add_duty(&self, duty: Duty) {
        let mut duties = self.duties();
        if !duties.contains(&duty) {
            duties.push(duty);
        }
        drop(duties);
        self.duties_changed.notify_one();
    }

    /// Whether an address is new to the dialler.
    pub(crate) fn dial_newly(&self, address: &str) -> bool {
        held(&self.dialled).insert(address.to_owned())
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Runs a task until the agent stops.
    pub(crate) fn spawn_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        if self.stopped.load(Ordering::Acquire) {
            return;
        }
        let mut tasks = held(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends all tasks and gives the data folder back.
    pub(crate) async fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        let mut tasks = std::mem::take(&mut *held(&self.tasks));
        tasks.abort_all();
        while tasks.join_next().await.is_some() {}
        if let Some(group) = self.group() {
            group.shutdown().await;
        }
        *self.group.write().unwrap_or_else(PoisonError::into_inner) = None;
        drop(held(&self.lock).take());
    }

    /// The slot of a node by what is replicated.
    pub(crate) fn slot_of(&self, id: NodeId) -> Option<Slot> {
        self.replicated.read().nodes.get(&id).map(|n| n.slot.clone())
    }

    pub(crate) fn hello(&self) -> Hello {
        let identity = self.identity();
        Hello {
            magic: MAGIC.to_owned(),
            protocol_lowest: PROTOCOLS.0,
            protocol_highest: PROTOCOLS.1,
            cluster_name: identity.cluster_name,
            cluster_id: if self.initialized() { identity.cluster_id } else { String::new() },
            slot: identity.slot,
            node_id: identity.node_id,
            store_uuid: identity.store_uuid,
            incarnation: self.incarnation,
        }
    }

    /// What this node tells of itself.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        let identity = self.identity();
        let raft = self.raft_status();
        let initialized = raft.last_log_index.is_some();
        let mut report = self.replicas.report();
        report.stopping |= self.is_stopping();
        Heartbeat {
            node_id: identity.node_id,
            cluster_id: if initialized { identity.cluster_id } else { String::new() },
            initialized,
            store_uuid: identity.store_uuid,
            address: self.options.advertise.clone(),
            zone: self.options.zone.clone(),
            version: self.options.version.clone(),
            replicas_here: self.options.replicas_here,
            nofailover: self.options.nofailover,
            leader: raft.leader,
            term: raft.term,
            last_log_index: raft.last_log_index,
            led_index: raft.led_index,
            report,
        }
    }
}
