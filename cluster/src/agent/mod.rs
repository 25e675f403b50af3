//! The agent: wires detector, planner, Raft and transport together, behind the handle [`Cluster`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::assignment::Assignments;
use crate::history::HistoryEvent;
use crate::identity::{self, Identity, IdentityError};
use crate::ids::{Epoch, EventId, NodeId, PartitionId};
use crate::operation::{ActError, ActRequest, Acted, Operation, OperationId};
use crate::options::Options;
use crate::raft;
use crate::report::{HandoverWord, PromotionOutcome, PromotionResult, Replicas};
use crate::state::Command;
use crate::transport::{Limits, Notice, net, serve_forever};
use crate::view::{Liveness, View};

mod brain;
mod duties;
mod election;
mod forming;
mod leading;
mod look;
mod meters;
mod node;
mod operating;
mod serve;

use node::{Duty, Node};
use serve::Server;

/// Inputs waiting for the brain.
const INPUTS_MAX: usize = 4096;
/// For goodbyes to be written before connections are closed.
const GOODBYE_TIME: Duration = Duration::from_millis(20);
/// Longest wait for another node to take Raft leadership.
const LEADERSHIP_MOVE_TIME: Duration = Duration::from_secs(2);
/// A node that is stopping waits so long for another one that stays.
const HELPER_WAIT: Duration = Duration::from_secs(1);
/// Between looks while waiting.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Why a node's control plane does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Data folder or identity.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The listening address.
    #[error("cannot listen for peers at {address}: {source}")]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The Raft log or a snapshot.
    #[error("cannot open the Raft log in {folder}: {why}")]
    Raft {
        /// The folder.
        folder: String,
        /// What was wrong and what to do.
        why: String,
    },
    /// Options that cannot work.
    #[error("{0}")]
    Options(String),
}

/// What became of a hand-over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    /// Partitions whose active is still this node.
    pub actives_left: Vec<PartitionId>,
    /// Whether this node gave Raft leadership away (false also where it had none).
    pub raft_leadership_moved: bool,
    /// How long it took.
    pub took: Duration,
}

/// Handle of this node's control plane; cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    node: Arc<Node>,
}

impl Cluster {
    /// Locks the data folder, reads the identity, opens the Raft log and starts to serve peers. Returns before a
    /// leader exists.
    ///
    /// # Errors
    /// When the data folder is in use, foreign or damaged, or the address cannot be listened at.
    pub async fn start(options: Options, replicas: Arc<dyn Replicas>) -> Result<Cluster, StartError> {
        check_options(&options)?;
        let lock = identity::lock(&options.data_dir)?;
        let identity = identity::load(&options.data_dir, &options.cluster_name, &options.slot)?;
        let joined = identity.node_id != NodeId(0);
        if joined && !raft::log_exists(&options.data_dir) {
            let folder = options.data_dir.display().to_string();
            let why = "it is missing though this node has an id; a vote may be lost. \
                       Repair: restore the volume whole, or give this node an empty folder, it then joins under a new id";
            return Err(StartError::Raft { folder, why: why.into() });
        }
        let listener = net::listen(&options.listen)
            .await
            .map_err(|source| StartError::Listen { address: options.listen.clone(), source })?;
        let settings = &options.settings;
        let limits = Limits {
            probe_timeout: settings.probe_timeout,
            frame_bytes_max: settings.frame_bytes_max,
            idle_max: (settings.suspect_after * 4).max(Duration::from_secs(1)),
        };
        let (inputs, brain_inputs) = mpsc::channel(INPUTS_MAX);
        let node = Arc::new(Node::new(options, replicas, identity.clone(), lock, inputs));
        let brain = brain::Brain::new(node.clone(), limits.clone(), brain_inputs);
        if joined && let Err(why) = forming::start_group(&node, &identity).await {
            let folder = node.options.data_dir.display().to_string();
            node.stop().await;
            return Err(StartError::Raft { folder, why });
        }
        node.spawn_task(serve_forever(listener, Arc::new(Server(node.clone())), limits.clone()));
        node.spawn_task(brain.run());
        node.spawn_task(brain::beat(node.clone()));
        node.spawn_task(duties::perform(node.clone()));
        for address in &node.options.seeds {
            if *address != node.options.advertise && node.dial_newly(address) {
                brain::dial(&node, address, &limits);
            }
        }
        Ok(Self { node })
    }

    /// The newest assignments this node knows of, from the replicated log or directly from the leader, whichever
    /// is first. Epochs only grow.
    #[must_use]
    pub fn assignments(&self) -> watch::Receiver<Arc<Assignments>> {
        self.node.replicated.board.subscribe()
    }

    /// The cluster as this node sees it.
    #[must_use]
    pub fn view(&self) -> View {
        look::view(&self.node)
    }

    /// The replicated history, newest last.
    #[must_use]
    pub fn history(&self) -> Vec<HistoryEvent> {
        self.node.replicated.read().history.events.iter().cloned().collect()
    }

    /// Tells how a promotion ended; repeated until it is in the history.
    pub fn report_promotion(&self, outcome: PromotionOutcome) {
        if outcome.result == PromotionResult::Ok {
            self.node.fenced().remove(&outcome.partition);
        }
        self.node.add_duty(Duty::Outcome(outcome));
    }

    /// An epoch at or above the ordered one stands in the changelog: the planner jumps above it.
    pub fn report_epoch_seen(&self, partition: PartitionId, seen: Epoch) {
        self.node.add_duty(Duty::Command(Command::EpochSeen { partition, seen }));
    }

    /// This node was fenced as active of `partition` with `epoch`; shown in the view. `ask`: if that tenure is still the
    /// newest, it is ordered anew, which is faster than to wait and to try it again.
    pub fn report_fenced(&self, partition: PartitionId, epoch: Epoch, ask: bool) {
        tracing::info!(event_id = %EventId(partition, epoch), %partition, %epoch, "active_fenced");
        self.node.fenced().insert(partition, epoch);
        if ask {
            let node = self.node.me();
            self.node.add_duty(Duty::Command(Command::Fenced { partition, node, epoch }));
        }
    }

    /// Reserved: the active of `partition` is stuck or stalled. Only logged for now.
    pub fn suspect_active(&self, partition: PartitionId, reason: &str) {
        tracing::warn!(%partition, reason, "active_suspected");
    }

    /// Puts an operator's note to an event of the history.
    pub fn note(&self, seq: u64, text: String) {
        self.node.add_duty(Duty::Command(Command::Note { seq, text }));
    }

    /// Asks the Raft leader, whichever node that is, for an operator's act.
    ///
    /// # Errors
    /// It is refused, or nobody can decide.
    pub async fn act(&self, request: ActRequest) -> Result<Acted, ActError> {
        operating::act(&self.node, request).await
    }

    /// The operations that are kept, oldest first.
    #[must_use]
    pub fn operations(&self) -> Vec<Operation> {
        self.node.replicated.read().operations.iter().cloned().collect()
    }

    /// One operation, as far as this node knows.
    #[must_use]
    pub fn operation(&self, id: OperationId) -> Option<Operation> {
        self.node.replicated.read().operations.get(id).cloned()
    }

    /// How a node looks from here.
    #[must_use]
    pub fn liveness(&self, node: NodeId) -> Liveness {
        match self.node.slot_of(node) {
            Some(_) if node == self.node.me() => Liveness::Live,
            Some(slot) => self.node.detector().liveness(&slot),
            None => Liveness::Dead,
        }
    }

    /// Tells the old active or its successor a word of a handover. It may be lost.
    pub fn tell_handover(&self, to: NodeId, word: HandoverWord) {
        if let Some(slot) = self.node.slot_of(to) {
            self.node.links.notify(&slot, &Notice::Handover(word));
        }
    }

    /// What this node is told of handovers, and by whom. To be taken once; none the second time.
    #[must_use]
    pub fn take_handovers(&self) -> Option<mpsc::Receiver<(NodeId, HandoverWord)>> {
        self.node.take_handovers()
    }

    /// For SIGTERM: this node is stopping. The leader moves its actives away; Raft leadership is given away if it
    /// is here. Returns when no active is assigned here, or after `timeout`. Membership does not change.
    pub async fn hand_over(&self, timeout: Duration) -> HandOver {
        let node = &self.node;
        let started = node.now();
        node.set_stopping();
        let me = node.me();
        node.add_duty(Duty::Command(Command::Stopping { node: me, incarnation: node.incarnation }));
        let left = || {
            let state = node.replicated.read();
            let mine = state.partitions.iter().filter(|(_, p)| p.active == Some(me));
            mine.filter(|(_, p)| p.active_incarnation == node.incarnation).map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let alone = node.replicated.read().nodes.len() <= 1;
        let mut helper_seen = started;
        while !alone && !left().is_empty() && node.now().saturating_sub(started) < timeout {
            let view = self.view();
            let helps =
                |peer: &crate::NodeView| peer.node_id != me && peer.state == crate::Liveness::Live && !peer.stopping;
            if view.nodes.iter().any(helps) {
                helper_seen = node.now();
            } else if node.now().saturating_sub(helper_seen) > HELPER_WAIT {
                // All others are dead or stopping too: nobody will ever take over.
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let rest = timeout.saturating_sub(node.now().saturating_sub(started));
        let raft_leadership_moved = self.give_leadership(rest.min(LEADERSHIP_MOVE_TIME)).await;
        HandOver { actives_left: left(), raft_leadership_moved, took: node.now().saturating_sub(started) }
    }

    async fn give_leadership(&self, within: Duration) -> bool {
        let node = &self.node;
        let started = node.now();
        let Some(group) = node.group() else {
            return false;
        };
        let mut asked = false;
        loop {
            let status = group.status();
            if !status.is_leader {
                // Only a new leader shows that somebody took it.
                if !asked || status.leader.is_some_and(|l| l != node.me()) {
                    return asked;
                }
            } else if !asked {
                let Some(to) = look::successor(node, &status) else {
                    return false;
                };
                if group.give_leadership_to(to).await.is_err() {
                    return false;
                }
                asked = true;
            }
            if node.now().saturating_sub(started) >= within {
                return false;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Says goodbye to the peers, stops all tasks of the control plane here and gives the data folder back. Without
    /// [`Cluster::hand_over`] before, the others take over what was here as after a death.
    pub async fn shutdown(self) {
        self.node.links.notify_all(&Notice::Goodbye);
        tokio::time::sleep(GOODBYE_TIME).await;
        self.node.stop().await;
    }

    /// Who this node is; its id is 0 until it has joined.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.node.identity()
    }

    /// Number of this process, drawn at its start.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.node.incarnation
    }
}

fn check_options(options: &Options) -> Result<(), StartError> {
    let bad = |why: String| Err(StartError::Options(why));
    let s = &options.settings;
    if options.cluster_name.is_empty() || options.slot.0.is_empty() {
        return bad("cluster.name and node.slot must not be empty".into());
    }
    if options.expected_slots.is_empty() || options.expected_slots.len() > 7 {
        return bad(format!("cluster.expected_slots has {} slots; 1, 3 or 5 make sense", options.expected_slots.len()));
    }
    if s.suspect_after < s.heartbeat_interval * 4 {
        return bad(format!(
            "failover.suspect_after is {} ms; it must be at least four failover.heartbeat_interval, {} ms",
            s.suspect_after.as_millis(),
            (s.heartbeat_interval * 4).as_millis()
        ));
    }
    if s.heartbeat_interval.is_zero() || s.frame_bytes_max < 1024 * 1024 {
        return bad("failover.heartbeat_interval must not be 0, and peers.frame_bytes_max at least 1MiB".into());
    }
    Ok(())
}
