//! Connections between peers. The only place with sockets.
//!
//! Each node dials each peer and holds the connection: its heartbeats, notices and requests go out on it, the
//! answers come back on it. What happens to it is the detector's strongest evidence, so it is told at once.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use crate::detector::Seen;
use crate::histogram::{Histogram, SHORT_BOUNDS_S};
use crate::ids::{NodeId, Slot};
use crate::raft::CarryError;

mod dialer;
mod frame;
mod hello;
mod message;
pub(crate) mod net;
mod server;

pub(crate) use dialer::dial_forever;
pub(crate) use hello::{Hello, Known, MAGIC, PROTOCOLS, Refusal, check};
pub(crate) use message::{Heartbeat, Notice, Request, Response};
pub(crate) use server::serve_forever;

use frame::{Frame, Kind};

/// Frames waiting to be written to one peer.
const OUT_MAX: usize = 4096;

/// Bounds of the transport.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) probe_timeout: Duration,
    pub(crate) frame_bytes_max: usize,
    /// A held connection on which nothing arrives for so long is closed.
    pub(crate) idle_max: Duration,
}

/// What the agent does with what comes in.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Who we are, now.
    fn hello(&self) -> Hello;
    /// Checks who somebody is; gives the protocol to speak.
    fn check(&self, theirs: &Hello) -> Result<u16, Refusal>;
    /// Something happened to a connection that we dialled.
    fn seen(&self, slot: &Slot, seen: Seen) -> impl Future<Output = ()> + Send;
    /// A one-way message arrived.
    fn notice(&self, from: &Hello, notice: Notice) -> impl Future<Output = ()> + Send;
    /// Answers a request.
    fn serve(&self, from: &Hello, request: Request) -> impl Future<Output = Response> + Send;
    /// Answers a request of the Raft group.
    fn serve_raft(&self, body: Vec<u8>) -> impl Future<Output = Vec<u8>> + Send;
    /// Runs a task until the agent stops.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
    /// A connection was refused, by us or by the peer.
    fn refused(&self, refusal: &Refusal);
}

/// A connection that we dialled.
#[derive(Debug)]
pub(crate) struct Link {
    slot: Slot,
    node_id: AtomicU64,
    incarnation: u64,
    out: mpsc::Sender<Frame>,
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Frame>>>,
}

impl Link {
    fn new(theirs: &Hello, out: mpsc::Sender<Frame>) -> Self {
        Self {
            slot: theirs.slot.clone(),
            node_id: AtomicU64::new(theirs.node_id.0),
            incarnation: theirs.incarnation,
            out,
            next_id: AtomicU64::new(1),
            waiting: Mutex::default(),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<Frame>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answered(&self, frame: Frame) {
        if let Some(asker) = self.waiting().remove(&frame.id) {
            let _ = asker.send(frame);
        }
    }

    fn failed(&self, why: impl ToString) -> CarryError {
        CarryError::Failed { slot: self.slot.clone(), why: why.to_string() }
    }

    async fn ask(&self, build: impl FnOnce(u64) -> io::Result<Frame>, within: Duration) -> Result<Frame, CarryError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let frame = build(id).map_err(|e| self.failed(e))?;
        let (tx, rx) = oneshot::channel();
        self.waiting().insert(id, tx);
        if self.out.try_send(frame).is_err() {
            self.waiting().remove(&id);
            return Err(self.failed("the connection is closed, or too much waits to be sent"));
        }
        let answer = tokio::time::timeout(within, rx).await;
        self.waiting().remove(&id);
        match answer {
            Ok(Ok(frame)) => Ok(frame),
            Ok(Err(_)) => Err(self.failed("the connection broke")),
            Err(_) => Err(self.failed(format!("none within {} ms", within.as_millis()))),
        }
    }
}

/// All connections that we dialled, by the peer's slot.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Mutex<BTreeMap<Slot, Arc<Link>>>,
    round_trips: Mutex<BTreeMap<String, Histogram>>,
}

impl Links {
    fn links(&self) -> MutexGuard<'_, BTreeMap<Slot, Arc<Link>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Times from a request to its answer, by the peer's slot.
    pub(crate) fn round_trips(&self) -> BTreeMap<String, Histogram> {
        self.round_trips.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn ask(
        &self,
        link: &Link,
        build: impl FnOnce(u64) -> io::Result<Frame>,
        within: Duration,
    ) -> Result<Frame, CarryError> {
        let begin = Instant::now();
        let answer = link.ask(build, within).await?;
        let mut round_trips = self.round_trips.lock().unwrap_or_else(PoisonError::into_inner);
        round_trips.entry(link.slot.0.clone()).or_default().observe(SHORT_BOUNDS_S, begin.elapsed().as_secs_f64());
        Ok(answer)
    }

    fn add(&self, link: Arc<Link>) {
        self.links().insert(link.slot.clone(), link);
    }

    fn remove(&self, link: &Arc<Link>) {
        let mut links = self.links();
        if links.get(&link.slot).is_some_and(|held| Arc::ptr_eq(held, link)) {
            links.remove(&link.slot);
        }
        drop(links);
        link.waiting().clear();
    }

    fn get(&self, slot: &Slot) -> Option<Arc<Link>> {
        self.links().get(slot).cloned()
    }

    /// Whether a connection to this very process is held.
    fn holds(&self, theirs: &Hello) -> bool {
        let held = self.get(&theirs.slot);
        held.is_some_and(|link| link.incarnation == theirs.incarnation)
    }

    /// Slots with a held connection.
    pub(crate) fn connected(&self) -> Vec<Slot> {
        self.links().keys().cloned().collect()
    }

    /// The node in a slot told its id.
    pub(crate) fn set_node_id(&self, slot: &Slot, node_id: NodeId) {
        if let Some(link) = self.get(slot) {
            link.node_id.store(node_id.0, Ordering::Release);
        }
    }

    /// Sends a one-way message; it is lost if there is no connection or too much waits already.
    pub(crate) fn notify(&self, slot: &Slot, notice: &Notice) {
        let (Some(link), Ok(frame)) = (self.get(slot), Frame::of(Kind::Notice, 0, notice)) else {
            return;
        };
        let _ = link.out.try_send(frame);
    }

    /// Sends a one-way message to all peers.
    pub(crate) fn notify_all(&self, notice: &Notice) {
        let Ok(frame) = Frame::of(Kind::Notice, 0, notice) else {
            return;
        };
        let links: Vec<_> = self.links().values().cloned().collect();
        for link in links {
            let _ = link.out.try_send(frame.clone());
        }
    }

    /// Asks a peer.
    pub(crate) async fn request(
        &self,
        slot: &Slot,
        request: &Request,
        within: Duration,
    ) -> Result<Response, CarryError> {
        let link = self.get(slot).ok_or_else(|| CarryError::Unreachable(slot.clone()))?;
        let answer = self.ask(&link, |id| Frame::of(Kind::Request, id, request), within).await?;
        answer.message().map_err(|e| link.failed(e))
    }

    /// Carries a request of the Raft group, to exactly this node.
    pub(crate) async fn raft(
        &self,
        to: NodeId,
        slot: &Slot,
        body: Vec<u8>,
        within: Duration,
    ) -> Result<Vec<u8>, CarryError> {
        let link = self.get(slot).ok_or_else(|| CarryError::Unreachable(slot.clone()))?;
        let there = link.node_id.load(Ordering::Acquire);
        if there != to.0 {
            // Another disk holds the slot now; what is meant for the old one must not reach it.
            return Err(CarryError::Unreachable(slot.clone()));
        }
        let answer = self.ask(&link, |id| Ok(Frame { kind: Kind::RaftRequest, id, body }), within).await?;
        Ok(answer.body)
    }
}
