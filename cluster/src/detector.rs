//! The failure detector: from what was seen of the peers to a verdict. Pure; the time comes in.
//!
//! Two kinds of evidence depose a process: its held connection was reset *and* reconnecting was refused (nobody
//! listens there any more), or it has been silent *and* another node has not heard of it either. A new process
//! in the same slot proves that the old one is gone. A goodbye is no failure. If this node itself was held up,
//! the silence of others proves nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::Evidence;
use crate::ids::Slot;
use crate::options::Settings;
use crate::view::Liveness;

#[cfg(test)]
mod tests;

/// Time by one monotonic clock of this process, from its start.
pub(crate) type Moment = Duration;

/// What was seen.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    /// A handshake with this process succeeded.
    Connected { incarnation: u64 },
    /// A message of this process arrived.
    Heard { incarnation: u64 },
    /// The held connection to this process was reset or closed.
    Reset { incarnation: u64 },
    /// Connecting was refused.
    Refused,
    /// The process said that it stops.
    Goodbye { incarnation: u64 },
    /// Another node told its view of the peer.
    ToldBy { teller: Slot, view: PeerView },
}

/// What one node can tell another of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PeerView {
    /// Milliseconds since a message of it arrived.
    pub(crate) age_ms: u64,
    /// Whether the teller has proof that the process is gone.
    pub(crate) proved: bool,
    /// The process spoken of.
    pub(crate) incarnation: u64,
}

/// What follows from it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Finding {
    /// Ask the other nodes for their view of this peer.
    Ask(Slot),
    /// The process is gone.
    Gone(Slot),
    /// The process was heard of, for the first time or again. `falsely_deposed`: it had been taken for gone.
    Back { slot: Slot, incarnation: u64, falsely_deposed: bool },
}

/// How a process went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Proof.
    ProcessDead,
    /// Confirmed silence.
    Silent,
    /// It said goodbye.
    Stopped,
}

/// The verdict on one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) incarnation: u64,
    pub(crate) cause: Cause,
    /// The last sign of life.
    pub(crate) last_sign: Moment,
    /// When the verdict stood.
    pub(crate) at: Moment,
    pub(crate) evidence: Vec<Evidence>,
}

/// Suspicions by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Suspicions {
    pub(crate) confirmed: u64,
    pub(crate) refuted: u64,
    pub(crate) cleared: u64,
}

#[derive(Clone, Debug)]
enum Status {
    Unknown,
    Live,
    Suspect { since: Moment, asked: Moment, refuted: bool },
    Gone(Verdict),
}

#[derive(Clone, Debug)]
struct Peer {
    incarnation: u64,
    last_heard: Moment,
    /// From when silence counts: later than `last_heard` if this node was held up.
    silent_from: Moment,
    reset_at: Option<Moment>,
    status: Status,
    /// The verdict on the process before the present one.
    before: Option<Verdict>,
}

/// The detector of one node, for all its peers.
#[derive(Debug)]
pub(crate) struct Detector {
    me: Slot,
    settings: Settings,
    peers: BTreeMap<Slot, Peer>,
    ticked: Option<Moment>,
    suspicions: Suspicions,
}

impl Detector {
    pub(crate) fn new(me: Slot, settings: Settings) -> Self {
        Self { me, settings, peers: BTreeMap::new(), ticked: None, suspicions: Suspicions::default() }
    }

    /// Names a peer that should be there. One never heard of is suspected after a longer while.
    pub(crate) fn expect(&mut self, slot: &Slot, now: Moment) {
        if *slot == self.me || self.peers.contains_key(slot) {
            return;
        }
        let grace = self.settings.placement_wait;
        let peer = Peer {
            incarnation: 0,
            last_heard: now,
            silent_from: now + grace,
            reset_at: None,
            status: Status::Unknown,
            before: None,
        };
        self.peers.insert(slot.clone(), peer);
    }

    /// Takes in what was seen of a peer.
    #[must_use]
    pub(crate) fn see(&mut self, slot: &Slot, seen: Seen, now: Moment) -> Vec<Finding> {
        if *slot == self.me {
            return Vec::new();
        }
        self.expect(slot, now);
        match seen {
            Seen::Connected { incarnation } => self.heard(slot, incarnation, true, now),
            Seen::Heard { incarnation } => self.heard(slot, incarnation, false, now),
            Seen::Reset { incarnation } => {
                if let Some(peer) = self.peers.get_mut(slot)
                    && peer.incarnation == incarnation
                    && !matches!(peer.status, Status::Gone(_))
                {
                    peer.reset_at = Some(now);
                }
                Vec::new()
            }
            Seen::Refused => self.refused(slot, now),
            Seen::Goodbye { incarnation } => self.goodbye(slot, incarnation, now),
            Seen::ToldBy { teller, view } => self.told(slot, &teller, view, now),
        }
    }

    fn heard(&mut self, slot: &Slot, incarnation: u64, handshake: bool, now: Moment) -> Vec<Finding> {
        let me = self.me.clone();
        let Some(peer) = self.peers.get_mut(slot) else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        let new_process = peer.incarnation != incarnation;
        if new_process && !handshake {
            return findings; // a message on an old connection of a process that is gone
        }
        let mut falsely_deposed = false;
        let mut back = new_process;
        match &peer.status {
            Status::Gone(verdict) if new_process => peer.before = Some(verdict.clone()),
            Status::Gone(verdict) if verdict.cause == Cause::Stopped && !handshake => {
                return findings;
            }
            Status::Gone(verdict) => {
                falsely_deposed = verdict.cause != Cause::Stopped;
                back = true;
            }
            _ if new_process && peer.incarnation != 0 => {
                let last_sign = peer.reset_at.unwrap_or(peer.last_heard);
                let mut evidence = Vec::new();
                if peer.reset_at.is_some() {
                    evidence.push(evidence_of(&me, "connection_reset", last_sign, last_sign));
                }
                evidence.push(evidence_of(&me, "new_incarnation", last_sign, now));
                let cause = Cause::ProcessDead;
                peer.before = Some(Verdict { incarnation: peer.incarnation, cause, last_sign, at: now, evidence });
                findings.push(Finding::Gone(slot.clone()));
            }
            Status::Suspect { refuted: false, .. } => self.suspicions.cleared += 1,
            _ => {}
        }
        peer.incarnation = incarnation;
        peer.last_heard = now;
        peer.silent_from = now;
        if handshake {
            peer.reset_at = None;
        }
        peer.status = Status::Live;
        if back {
            findings.push(Finding::Back { slot: slot.clone(), incarnation, falsely_deposed });
        }
        findings
    }

    fn refused(&mut self, slot: &Slot, now: Moment) -> Vec<Finding> {
        let me = self.me.clone();
        let Some(peer) = self.peers.get_mut(slot) else {
            return Vec::new();
        };
        let Some(reset_at) = peer.reset_at else {
            return Vec::new();
        };
        if matches!(peer.status, Status::Gone(_)) {
            return Vec::new();
        }
        let evidence = vec![
            evidence_of(&me, "connection_reset", reset_at, reset_at),
            evidence_of(&me, "reconnect_refused", reset_at, now),
        ];
        let (incarnation, cause) = (peer.incarnation, Cause::ProcessDead);
        peer.status = Status::Gone(Verdict { incarnation, cause, last_sign: reset_at, at: now, evidence });
        peer.reset_at = None;
        vec![Finding::Gone(slot.clone())]
    }

    fn goodbye(&mut self, slot: &Slot, incarnation: u64, now: Moment) -> Vec<Finding> {
        let me = self.me.clone();
        let Some(peer) = self.peers.get_mut(slot) else {
            return Vec::new();
        };
        if peer.incarnation != incarnation || matches!(peer.status, Status::Gone(_)) {
            return Vec::new();
        }
        let evidence = vec![evidence_of(&me, "goodbye", now, now)];
        peer.status = Status::Gone(Verdict { incarnation, cause: Cause::Stopped, last_sign: now, at: now, evidence });
        peer.reset_at = None;
        vec![Finding::Gone(slot.clone())]
    }

    fn told(&mut self, slot: &Slot, teller: &Slot, view: PeerView, now: Moment) -> Vec<Finding> {
        // Heartbeats to different nodes differ in phase, so the teller may have heard one or two later ones.
        let enough = self.settings.suspect_after.saturating_sub(2 * self.settings.heartbeat_interval);
        let me = self.me.clone();
        let Some(peer) = self.peers.get_mut(slot) else {
            return Vec::new();
        };
        let Status::Suspect { since, refuted, .. } = &mut peer.status else {
            return Vec::new();
        };
        // 0: one of the two has never heard of it.
        let same = view.incarnation == peer.incarnation || view.incarnation == 0 || peer.incarnation == 0;
        let confirms = same && (view.proved || Duration::from_millis(view.age_ms) >= enough);
        if !confirms {
            if !*refuted {
                *refuted = true;
                self.suspicions.refuted += 1;
            }
            return Vec::new();
        }
        self.suspicions.confirmed += 1;
        let last_sign = peer.last_heard;
        let evidence = vec![
            evidence_of(&me, "heartbeats_missed", last_sign, *since),
            evidence_of(teller, if view.proved { "process_gone" } else { "heartbeats_missed" }, last_sign, now),
        ];
        let cause = if view.proved { Cause::ProcessDead } else { Cause::Silent };
        peer.status = Status::Gone(Verdict { incarnation: peer.incarnation, cause, last_sign, at: now, evidence });
        vec![Finding::Gone(slot.clone())]
    }

    /// Lets time pass.
    #[must_use]
    pub(crate) fn tick(&mut self, now: Moment) -> Vec<Finding> {
        let gap = self.ticked.map_or(Duration::ZERO, |t| now.saturating_sub(t));
        self.ticked = Some(now);
        let held_up = gap > self.settings.own_stall_max;
        let mut findings = Vec::new();
        for (slot, peer) in &mut self.peers {
            if held_up {
                peer.silent_from = peer.silent_from.max(now);
            }
            let silence = now.saturating_sub(peer.silent_from);
            match &mut peer.status {
                Status::Unknown | Status::Live if silence >= self.settings.suspect_after => {
                    peer.status = Status::Suspect { since: now, asked: now, refuted: false };
                    findings.push(Finding::Ask(slot.clone()));
                }
                Status::Suspect { asked, .. }
                    if now.saturating_sub(*asked) >= self.settings.confirm_timeout
                        && silence >= self.settings.suspect_after =>
                {
                    *asked = now;
                    findings.push(Finding::Ask(slot.clone()));
                }
                _ => {}
            }
        }
        findings
    }

    /// How a peer looks.
    pub(crate) fn liveness(&self, slot: &Slot) -> Liveness {
        if *slot == self.me {
            return Liveness::Live;
        }
        match self.peers.get(slot).map(|p| &p.status) {
            None | Some(Status::Unknown) => Liveness::Unknown,
            Some(Status::Live) => Liveness::Live,
            Some(Status::Suspect { .. }) => Liveness::Suspect,
            Some(Status::Gone(v)) if v.cause == Cause::Stopped => Liveness::Stopped,
            Some(Status::Gone(_)) => Liveness::Dead,
        }
    }

    /// The process last heard of in a slot; none if there was none yet.
    pub(crate) fn incarnation(&self, slot: &Slot) -> Option<u64> {
        self.peers.get(slot).map(|p| p.incarnation).filter(|i| *i != 0)
    }

    /// The verdict on a process, present or past; 0 asks for that on the present one.
    pub(crate) fn verdict(&self, slot: &Slot, incarnation: u64) -> Option<&Verdict> {
        let peer = self.peers.get(slot)?;
        let present = match &peer.status {
            Status::Gone(verdict) => Some(verdict),
            _ => None,
        };
        let of = |v: &&Verdict| v.incarnation == incarnation;
        present.filter(|v| incarnation == 0 || of(v)).or_else(|| peer.before.as_ref().filter(of))
    }

    /// What can be told of a peer to another node.
    pub(crate) fn view_of(&self, slot: &Slot, now: Moment) -> Option<PeerView> {
        let peer = self.peers.get(slot)?;
        let proved = matches!(&peer.status, Status::Gone(v) if v.cause == Cause::ProcessDead);
        let age_ms = u64::try_from(now.saturating_sub(peer.last_heard).as_millis()).unwrap_or(u64::MAX);
        Some(PeerView { age_ms, proved, incarnation: peer.incarnation })
    }

    /// Time since a peer was heard of; none if never.
    pub(crate) fn age(&self, slot: &Slot, now: Moment) -> Option<Duration> {
        let peer = self.peers.get(slot)?;
        (peer.incarnation != 0).then(|| now.saturating_sub(peer.last_heard))
    }

    /// Suspicions so far, by outcome.
    pub(crate) fn suspicions(&self) -> Suspicions {
        self.suspicions
    }
}

fn evidence_of(seen_by: &Slot, what: &str, last_sign: Moment, at: Moment) -> Evidence {
    Evidence { seen_by: seen_by.clone(), what: what.to_owned(), at_ms: ms_between(last_sign, at) }
}

/// Milliseconds from one moment to a later one, with microseconds behind the point.
pub(crate) fn ms_between(from: Moment, to: Moment) -> f64 {
    (to.saturating_sub(from).as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
