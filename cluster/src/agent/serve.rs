//! What peers ask, and what they tell.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::detector::{Seen, ms_between};
use crate::history::Phases;
use crate::ids::{NodeId, Slot};
use crate::operation::{ActError, ActRequest, Acted};
use crate::raft::{Carrier, CarryError, ProposeError};
use crate::report::PromotionOutcome;
use crate::state::{Batch, Command, NewNode, Timing};
use crate::transport::{Handler, Hello, Known, Notice, Refusal, Request, Response};

use super::forming;
use super::node::{Input, Node};

/// How long a proof is waited for when asked: the asker may have seen the death first.
const PROOF_WAIT: Duration = Duration::from_millis(20);

/// The handler as the transport holds it.
pub(crate) struct Server(pub(crate) std::sync::Arc<Node>);

impl Carrier for Server {
    fn carry<'a>(
        &'a self,
        to: NodeId,
        slot: &'a Slot,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, CarryError>> + Send + 'a>> {
        Box::pin(self.0.links.raft(to, slot, body, timeout))
    }
}

impl Handler for Server {
    fn hello(&self) -> Hello {
        self.0.hello()
    }

    fn check(&self, theirs: &Hello) -> Result<u16, Refusal> {
        let known = {
            let state = self.0.replicated.read();
            let store_uuid = state.nodes.get(&theirs.node_id).map(|n| n.store_uuid.clone());
            Known { store_uuid, tombstoned: state.tombstones.contains_key(&theirs.node_id) }
        };
        crate::transport::check(&self.0.hello(), theirs, &known)
    }

    async fn seen(&self, slot: &Slot, seen: Seen) {
        let at = self.0.now();
        let _ = self.0.inputs.send(Input::Seen { slot: slot.clone(), seen, at }).await;
    }

    async fn notice(&self, from: &Hello, notice: Notice) {
        let node = &self.0;
        let (slot, at) = (from.slot.clone(), node.now());
        match notice {
            Notice::Heartbeat(heartbeat) => {
                let incarnation = from.incarnation;
                let _ = node.inputs.send(Input::Heartbeat { slot, incarnation, heartbeat, at }).await;
            }
            Notice::Goodbye => {
                let seen = Seen::Goodbye { incarnation: from.incarnation };
                let _ = node.inputs.send(Input::Seen { slot, seen, at }).await;
            }
            Notice::Assigned(news) => node.replicated.board.merge(news),
            Notice::Handover(word) => {
                // By its slot, for at the handshake it may not have had its id yet.
                let id = node.replicated.read().nodes.iter().find(|(_, n)| n.slot == from.slot).map(|(id, _)| *id);
                if let Some(id) = id {
                    drop(node.handovers.try_send((id, word)));
                }
            }
        }
    }

    async fn serve(&self, from: &Hello, request: Request) -> Response {
        let node = &self.0;
        match request {
            Request::Propose(batch) => answer(propose(node, batch).await),
            Request::Outcome(outcome) => answer(commit_outcome(node, outcome).await),
            Request::ViewOf(slot) => Response::View(node.detector().view_of(&slot, node.now())),
            Request::Proof { slot, incarnation } => proof(node, &slot, incarnation).await,
            Request::Form { cluster_id, members } => forming::formed(node, cluster_id, &members).await,
            Request::Join(new) => join(node, from, new).await,
            Request::Act(request) => Response::Acted(act(node, *request).await),
        }
    }

    async fn serve_raft(&self, body: Vec<u8>) -> Vec<u8> {
        match self.0.group() {
            Some(group) => group.serve(&body).await,
            None => Vec::new(),
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn_task(task);
    }

    fn refused(&self, refusal: &Refusal) {
        tracing::warn!(reason = refusal.reason, detail = refusal.detail, "peer_refused");
        *self.0.refusals().entry(refusal.reason.clone()).or_default() += 1;
    }
}

fn answer(result: Result<(), ProposeError>) -> Response {
    match result {
        Ok(()) => Response::Done,
        Err(ProposeError::NotLeader(leader)) => Response::NotLeader(leader),
        Err(e) => Response::Failed(e.to_string()),
    }
}

async fn propose(node: &Node, batch: Batch) -> Result<(), ProposeError> {
    let group = node.group().ok_or(ProposeError::NotLeader(None))?;
    group.propose(batch).await?;
    let _ = node.inputs.try_send(Input::Poke);
    Ok(())
}

/// On the leader: puts the end of a promotion into the history, with the times this clock has.
pub(crate) async fn commit_outcome(node: &Node, outcome: PromotionOutcome) -> Result<(), ProposeError> {
    let now = node.now();
    let start = node.starts().get(&(outcome.partition, outcome.epoch)).copied();
    let timing = start.map(|start| {
        let Phases { detect, held, elect, .. } = start.phases_ms;
        let committed = start.committed.unwrap_or(now);
        let decide = (ms_between(start.last_sign, committed) - detect - held - elect).max(0.0);
        let phases_ms = Phases { decide, ..start.phases_ms };
        Timing { phases_ms, total_ms: ms_between(start.last_sign, now) }
    });
    let key = (outcome.partition, outcome.epoch);
    let command = Command::Outcome { outcome, timing, at: Node::wall() };
    propose(node, Batch { commands: vec![command] }).await?;
    node.starts().remove(&key);
    Ok(())
}

/// On the leader: takes or refuses what an operator asks for.
pub(crate) async fn act(node: &Node, request: ActRequest) -> Result<Acted, ActError> {
    let (reply, answer) = oneshot::channel();
    let input = Input::Act { request: Box::new(request), reply };
    node.inputs.send(input).await.map_err(|_| ActError::NoLeader)?;
    answer.await.unwrap_or_else(|_| Err(ActError::Unknown("this node stops".to_owned())))
}

async fn proof(node: &Node, slot: &Slot, incarnation: u64) -> Response {
    let give_up = node.now() + PROOF_WAIT;
    loop {
        let proved =
            node.detector().verdict(slot, incarnation).is_some_and(|v| v.cause == crate::detector::Cause::ProcessDead);
        if proved || node.now() >= give_up {
            let last_log_index = node.raft_status().last_log_index.unwrap_or(0);
            return Response::Proof { proved, node_id: node.me(), last_log_index };
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// On the leader: admits an empty node. The slot's old holder must have been silent for long.
async fn join(node: &Node, from: &Hello, new: NewNode) -> Response {
    let status = node.raft_status();
    let Some(group) = node.group().filter(|_| status.is_leader) else {
        return Response::NotLeader(status.leader);
    };
    if new.slot != from.slot || new.store_uuid != from.store_uuid {
        return Response::Failed("a node can only ask for itself".into());
    }
    let identity = node.identity();
    let holder = {
        let state = node.replicated.read();
        state.nodes.iter().find(|(_, n)| n.slot == new.slot).map(|(id, n)| (*id, n.store_uuid.clone()))
    };
    let replaces = match holder {
        Some((node_id, store)) if store == new.store_uuid => {
            return Response::Joined { cluster_id: identity.cluster_id, node_id };
        }
        Some((old, _)) => {
            let last = node.heard().get(&old).copied().unwrap_or_default();
            let silent = node.now().saturating_sub(last);
            let wanted = node.options.settings.slot_takeover_after;
            if silent < wanted {
                return Response::Wait(format!(
                    "node {old} of {} was heard {} ms ago; an empty disk takes its slot after {} ms of silence",
                    new.slot,
                    silent.as_millis(),
                    wanted.as_millis()
                ));
            }
            Some(old)
        }
        None => None,
    };
    match group.propose(Batch { commands: vec![Command::Allot { node: new, replaces }] }).await {
        Ok(applied) => match applied.allotted {
            Some(node_id) => Response::Joined { cluster_id: identity.cluster_id, node_id },
            None => Response::Wait(applied.ignored.join("; ")),
        },
        Err(ProposeError::NotLeader(leader)) => Response::NotLeader(leader),
        Err(e) => Response::Failed(e.to_string()),
    }
}
