//! The loop in which everything that is seen comes together: detector, forming, leading, voting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::detector::{Cause, Finding, Moment, Seen};
use crate::ids::{NodeId, Slot};
use crate::raft::{Group, Watched};
use crate::state::Command;
use crate::transport::{Limits, Notice, Request, Response, dial_forever};
use crate::view::Liveness;

use super::election;
use super::forming;
use super::leading::Leading;
use super::meters::{Elections, count_blocked};
use super::node::{Duty, Input, Node, Peer};
use super::serve::Server;

/// Between ticks; the detector's resolution.
const TICK: Duration = Duration::from_millis(10);
/// Between attempts to form or to join.
const FORM_EVERY: Duration = Duration::from_millis(100);

/// State of the loop.
pub(crate) struct Brain {
    node: Arc<Node>,
    limits: Limits,
    inputs: mpsc::Receiver<Input>,
    watched: Option<Watched>,
    leading: Leading,
    elections: Elections,
    forming: bool,
    formed_at: Moment,
}

impl Brain {
    pub(crate) fn new(node: Arc<Node>, limits: Limits, inputs: mpsc::Receiver<Input>) -> Self {
        let leading = Leading::new(node.clone());
        Self {
            node,
            limits,
            inputs,
            watched: None,
            leading,
            elections: Elections::default(),
            forming: false,
            formed_at: Duration::ZERO,
        }
    }

    pub(crate) async fn run(mut self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let replicated = self.node.replicated.clone();
        loop {
            let watching = self.watched.is_some();
            tokio::select! {
                biased;
                input = self.inputs.recv() => match input {
                    Some(input) => self.take(input),
                    None => return,
                },
                () = watch(&mut self.watched), if watching => {}
                () = replicated.changed.notified() => self.dial_members(),
                _ = ticks.tick() => self.tick(),
            }
            self.count_elections();
            self.leading.step();
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Seen { slot, seen, at } => self.see(&slot, seen, at),
            Input::Heartbeat { slot, incarnation, heartbeat, at } => {
                self.node.links.set_node_id(&slot, heartbeat.node_id);
                self.node.heard().insert(heartbeat.node_id, at);
                self.dial(&heartbeat.address);
                let peer = Peer { incarnation, heartbeat: *heartbeat };
                // Of a process that was replaced, late messages may still come.
                let newest = self.node.detector().incarnation(&slot).is_none_or(|known| known == incarnation);
                if newest {
                    self.node.peers().insert(slot.clone(), peer);
                }
                self.see(&slot, Seen::Heard { incarnation }, at);
            }
            Input::Told { about, teller, view } => {
                let now = self.node.now();
                self.see(&about, Seen::ToldBy { teller, view }, now);
            }
            Input::Proposed { committed } => self.leading.proposed(committed),
            Input::MembersChanged => self.leading.members_changed(),
            Input::JoinEnded => self.forming = false,
            Input::Act { request, reply } => self.leading.act(*request, reply),
            Input::Poke => self.watch_group(),
        }
    }

    fn see(&mut self, slot: &Slot, seen: Seen, at: Moment) {
        let findings = self.node.detector().see(slot, seen, at);
        self.follow(findings);
    }

    fn watch_group(&mut self) {
        if self.watched.is_none() {
            self.watched = self.node.group().map(|g| g.watch());
        }
    }

    fn tick(&mut self) {
        self.watch_group();
        let now = self.node.now();
        let findings = {
            let mut detector = self.node.detector();
            let state = self.node.replicated.read();
            for node in state.nodes.values() {
                detector.expect(&node.slot, now);
            }
            drop(state);
            detector.tick(now)
        };
        self.follow(findings);
        if !self.forming && now.saturating_sub(self.formed_at) >= FORM_EVERY && !self.node.initialized() {
            (self.forming, self.formed_at) = (true, now);
            let node = self.node.clone();
            self.node.spawn_task(async move {
                forming::step(node.clone()).await;
                let _ = node.inputs.send(Input::JoinEnded).await;
            });
        }
    }

    fn count_elections(&mut self) {
        let Some(group) = self.node.group() else { return };
        let by_proof = &self.node.voting_by_proof;
        let cause = || match (by_proof.swap(false, Ordering::AcqRel), group.take_transferred()) {
            (true, _) => "proof",
            (false, true) => "transfer",
            (false, false) => "timeout",
        };
        self.elections.look(&group.status(), cause, &mut self.node.meters());
    }

    fn follow(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            match finding {
                Finding::Ask(about) => self.ask_others(&about),
                Finding::Gone(slot) => self.gone(&slot),
                Finding::Back { slot, incarnation, falsely_deposed } => {
                    tracing::info!(%slot, incarnation, falsely_deposed, "peer_is_back");
                    self.leading.disturbed();
                    if falsely_deposed {
                        self.falsely_deposed(&slot, incarnation);
                    }
                }
            }
        }
    }

    fn gone(&mut self, slot: &Slot) {
        let verdict = self.node.detector().verdict(slot, 0).cloned();
        self.leading.disturbed();
        let Some(verdict) = verdict else { return };
        count_blocked(&self.node, slot);
        tracing::warn!(%slot, cause = ?verdict.cause, incarnation = verdict.incarnation, "peer_is_gone");
        let status = self.node.raft_status();
        let led = status.leader.and_then(|id| self.node.slot_of(id));
        if led.as_ref() == Some(slot) && !status.is_leader && verdict.cause == Cause::ProcessDead {
            election::by_proof(&self.node, slot.clone(), verdict.incarnation);
        }
    }

    /// Asks all live peers how they see a suspect.
    fn ask_others(&self, about: &Slot) {
        let within = self.node.options.settings.confirm_timeout;
        for teller in self.node.links.connected() {
            if teller == *about || self.node.detector().liveness(&teller) != Liveness::Live {
                continue;
            }
            let (node, about) = (self.node.clone(), about.clone());
            self.node.spawn_task(async move {
                let answer = node.links.request(&teller, &Request::ViewOf(about.clone()), within).await;
                if let Ok(Response::View(Some(view))) = answer {
                    let _ = node.inputs.send(Input::Told { about, teller, view }).await;
                }
            });
        }
    }

    fn falsely_deposed(&self, slot: &Slot, incarnation: u64) {
        // Whoever hears it says so: there may be no leader at this moment, and repeats change nothing.
        let Some(node) = self.node.peers().get(slot).map(|p| p.heartbeat.node_id) else { return };
        let command = Command::FalsePositive { node, incarnation };
        self.node.add_duty(Duty::Command(command));
    }

    /// Members may live at addresses that are not among the seeds.
    fn dial_members(&self) {
        let addresses: Vec<String> = self.node.replicated.read().nodes.values().map(|n| n.address.clone()).collect();
        for address in addresses {
            self.dial(&address);
        }
    }

    fn dial(&self, address: &str) {
        if address != self.node.options.advertise && self.node.dial_newly(address) {
            dial(&self.node, address, &self.limits);
        }
    }
}

/// Starts to hold a connection to an address.
pub(crate) fn dial(node: &Arc<Node>, address: &str, limits: &Limits) {
    let server = Arc::new(Server(node.clone()));
    node.spawn_task(dial_forever(address.to_owned(), server, node.links.clone(), limits.clone()));
}

async fn watch(watched: &mut Option<Watched>) {
    match watched {
        Some(watched) => Group::changed(watched).await,
        None => std::future::pending().await,
    }
}

/// Sends heartbeats to all peers, and makes this node's own duties known.
pub(crate) async fn beat(node: Arc<Node>) {
    let mut ticks = interval(node.options.settings.heartbeat_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let heartbeat = node.heartbeat();
        if heartbeat.node_id != NodeId(0) {
            let now = node.now();
            node.heard().insert(heartbeat.node_id, now);
        }
        node.links.notify_all(&Notice::Heartbeat(Box::new(heartbeat)));
    }
}
