//! The network between simulated hosts: connections as TCP gives them, with delays, cuts, resets and refusals.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    mem,
    task::Waker,
    time::Duration,
};

use super::{
    Number,
    scheduler::{HostId, Shared},
};

/// Most time until a segment that found no way is sent again.
const RESEND_MAX: Duration = Duration::from_millis(200);
/// Bytes on the way of one direction; more have to wait.
pub(super) const WINDOW_BYTES: usize = 256 * 1024;

/// One direction between two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cut {
    /// Who sends.
    pub from: HostId,
    /// Who does not receive.
    pub to: HostId,
}

/// One end of a connection: its number and which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndId {
    connection: Number,
    is_dialler: bool,
}

impl EndId {
    fn other(self) -> Self {
        Self { is_dialler: !self.is_dialler, ..self }
    }
}

#[derive(Debug)]
enum Segment {
    Data(Vec<u8>),
    Finish,
    Reset,
}

/// How the incoming direction of an end has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    Finished,
    Reset,
}

/// An end of a connection, with what comes to it.
#[derive(Debug)]
pub(super) struct End {
    host: HostId,
    peer: HostId,
    on_the_way: VecDeque<(Duration, Segment)>,
    bytes_on_the_way: usize,
    pub(super) received: VecDeque<u8>,
    pub(super) ended: Option<Ended>,
    /// Halves that the process still holds.
    halves: u8,
    /// Its host knows nothing of it any more.
    is_gone: bool,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl End {
    fn new(host: HostId, peer: HostId) -> Self {
        Self {
            host,
            peer,
            on_the_way: VecDeque::new(),
            bytes_on_the_way: 0,
            received: VecDeque::new(),
            ended: None,
            halves: 2,
            is_gone: false,
            reader: None,
            writer: None,
        }
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

#[derive(Debug)]
struct Listening {
    host: HostId,
    backlog: VecDeque<EndId>,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Dial {
    from: HostId,
    to: HostId,
    address: String,
    arrives_at: Duration,
    outcome: Option<Result<EndId, ()>>,
    waker: Option<Waker>,
}

/// All hosts' sockets.
pub(super) struct Network {
    names: Vec<String>,
    powered: BTreeSet<HostId>,
    cuts: BTreeSet<Cut>,
    pub(super) delay_max: Duration,
    ends: BTreeMap<EndId, End>,
    connections_made: Number,
    listening: BTreeMap<String, Listening>,
    dials: BTreeMap<Number, Dial>,
    dials_made: Number,
}

impl Network {
    pub(super) fn new(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            powered: BTreeSet::new(),
            cuts: BTreeSet::new(),
            delay_max: Duration::from_millis(1),
            ends: BTreeMap::new(),
            connections_made: 0,
            listening: BTreeMap::new(),
            dials: BTreeMap::new(),
            dials_made: 0,
        }
    }

    pub(super) fn set_cut(&mut self, cut: Cut, is_cut: bool) {
        if is_cut {
            self.cuts.insert(cut);
        } else {
            self.cuts.remove(&cut);
        }
    }

    pub(super) fn switch_on(&mut self, host: HostId) {
        self.powered.insert(host);
    }

    fn passes(&self, from: HostId, to: HostId) -> bool {
        self.powered.contains(&from) && self.powered.contains(&to) && !self.cuts.contains(&Cut { from, to })
    }

    /// The sockets of a host's process are gone.
    pub(super) fn crash(&mut self, host: HostId, loses_power: bool, now: Duration) {
        self.listening.retain(|_, listening| listening.host != host);
        self.dials.retain(|_, dial| dial.from != host);
        let own: Vec<_> =
            self.ends.iter().filter(|(_, end)| end.host == host && !end.is_gone).map(|(id, _)| *id).collect();
        for id in own {
            if !loses_power {
                self.send(id, Segment::Reset, now);
            }
            self.forget(id);
        }
        if loses_power {
            self.powered.remove(&host);
        }
    }

    fn forget(&mut self, id: EndId) {
        if let Some(end) = self.ends.get_mut(&id) {
            end.is_gone = true;
            end.halves = 0;
            end.on_the_way.clear();
            (end.reader, end.writer) = (None, None);
        }
        if self.ends.get(&id.other()).is_none_or(|other| other.is_gone && other.on_the_way.is_empty()) {
            self.ends.remove(&id);
            self.ends.remove(&id.other());
        }
    }

    /// Sends a segment from an end to the other one.
    fn send(&mut self, from: EndId, segment: Segment, arrives_at: Duration) {
        let Some(end) = self.ends.get_mut(&from.other()).filter(|end| !end.is_gone) else { return };
        let after = end.on_the_way.back().map_or(Duration::ZERO, |(at, _)| *at);
        if let Segment::Data(bytes) = &segment {
            end.bytes_on_the_way += bytes.len();
        }
        end.on_the_way.push_back((arrives_at.max(after), segment));
    }

    /// Lets arrive what is due.
    pub(super) fn deliver(shared: &mut Shared) {
        let ids: Vec<_> =
            shared.network.ends.iter().filter(|(_, e)| !e.on_the_way.is_empty()).map(|(id, _)| *id).collect();
        for id in ids {
            Self::deliver_to(shared, id);
        }
        let dials: Vec<_> = shared.network.dials.keys().copied().collect();
        for number in dials {
            Self::answer(shared, number);
        }
    }

    fn deliver_to(shared: &mut Shared, id: EndId) {
        loop {
            let (now, resend) = (shared.now(), shared.draw(RESEND_MAX.as_millis() as u64));
            let network = &mut shared.network;
            let Some(end) = network.ends.get(&id) else { return };
            let (host, peer) = (end.host, end.peer);
            if end.on_the_way.front().is_none_or(|(at, _)| *at > now) {
                return;
            }
            // What a host sent before it lost its power is on the way.
            let passes = network.powered.contains(&host) && !network.cuts.contains(&Cut { from: peer, to: host });
            let Some(end) = network.ends.get_mut(&id) else { return };
            if !passes {
                if let Some((at, _)) = end.on_the_way.front_mut() {
                    *at = now + Duration::from_millis(resend);
                }
                return;
            }
            let Some((_, segment)) = end.on_the_way.pop_front() else { return };
            let noted = match &segment {
                Segment::Data(bytes) => bytes.len() as u64,
                Segment::Finish => u64::MAX,
                Segment::Reset => u64::MAX - 1,
            };
            let is_open = end.ended.is_none();
            match segment {
                Segment::Data(bytes) => {
                    end.bytes_on_the_way -= bytes.len();
                    end.received.extend(bytes);
                }
                Segment::Finish if is_open => end.ended = Some(Ended::Finished),
                Segment::Reset => {
                    end.ended = Some(Ended::Reset);
                    end.on_the_way.clear();
                }
                Segment::Finish => {}
            }
            end.wake();
            if let Some(writer) = network.ends.get_mut(&id.other()).and_then(|other| other.writer.take()) {
                writer.wake();
            }
            shared.note("arrived", &[id.connection, id.is_dialler.into(), noted]);
        }
    }

    /// A host that knows nothing of the connection answers with a reset.
    fn answer(shared: &mut Shared, number: Number) {
        let now = shared.now();
        let network = &mut shared.network;
        let Some(dial) = network.dials.get(&number) else { return };
        let (from, to) = (dial.from, dial.to);
        if dial.outcome.is_some() || dial.arrives_at > now || !network.passes(from, to) || !network.passes(to, from) {
            return;
        }
        let connection = network.connections_made + 1;
        let (dialler, listener) = (EndId { connection, is_dialler: true }, EndId { connection, is_dialler: false });
        let outcome = match network.listening.get_mut(&dial.address) {
            None => Err(()),
            Some(listening) => {
                network.connections_made = connection;
                network.ends.insert(dialler, End::new(from, to));
                network.ends.insert(listener, End::new(to, from));
                listening.backlog.push_back(listener);
                listening.waker.take().into_iter().for_each(Waker::wake);
                Ok(dialler)
            }
        };
        shared.note("dialled", &[number, outcome.is_ok().into()]);
        if let Some(dial) = shared.network.dials.get_mut(&number) {
            dial.outcome = Some(outcome);
            dial.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// What the sockets of a process do.
impl Shared {
    fn delay(&mut self) -> Duration {
        let max_us = u64::try_from(self.network.delay_max.as_micros()).unwrap_or(u64::MAX);
        self.now() + Duration::from_micros(self.draw(max_us + 1))
    }

    pub(super) fn listen(&mut self, address: &str) -> bool {
        let Some(host) = self.current else { return false };
        if self.network.listening.contains_key(address) {
            return false;
        }
        self.network.listening.insert(address.to_owned(), Listening { host, backlog: VecDeque::new(), waker: None });
        true
    }

    pub(super) fn accept(&mut self, address: &str, waker: &Waker) -> Option<EndId> {
        let listening = self.network.listening.get_mut(address)?;
        let next = listening.backlog.pop_front();
        if next.is_none() {
            listening.waker = Some(waker.clone());
        }
        next
    }

    pub(super) fn stop_listening(&mut self, address: &str) {
        let own = |listening: &Listening| Some(listening.host) == self.current;
        if self.network.listening.get(address).is_some_and(own) {
            let left = self.network.listening.remove(address).map(|listening| listening.backlog).unwrap_or_default();
            for end in left {
                self.close_half(end);
                self.close_half(end);
            }
        }
    }

    /// Begins to connect; none if no host has this name.
    pub(super) fn dial(&mut self, address: &str) -> Option<Number> {
        let from = self.current?;
        let name = address.rsplit_once(':').map_or(address, |(name, _)| name);
        let to = HostId(self.network.names.iter().position(|known| known == name)?);
        let arrives_at = self.delay();
        // A first segment that finds no way is not sent again before who dials has given up.
        let passes = self.network.passes(from, to) && self.network.passes(to, from);
        let arrives_at = if passes { arrives_at } else { Duration::MAX };
        self.network.dials_made += 1;
        let number = self.network.dials_made;
        let dial = Dial { from, to, address: address.to_owned(), arrives_at, outcome: None, waker: None };
        self.network.dials.insert(number, dial);
        Some(number)
    }

    pub(super) fn dialled(&mut self, number: Number, waker: &Waker) -> Option<Result<EndId, ()>> {
        let dial = self.network.dials.get_mut(&number)?;
        let outcome = dial.outcome.take();
        if outcome.is_none() {
            dial.waker = Some(waker.clone());
        }
        outcome
    }

    pub(super) fn hang_up(&mut self, number: Number) {
        if let Some(Dial { outcome: Some(Ok(end)), .. }) = self.network.dials.remove(&number) {
            self.close_half(end);
            self.close_half(end);
        }
    }

    pub(super) fn end(&mut self, id: EndId) -> Option<&mut End> {
        self.network.ends.get_mut(&id).filter(|end| !end.is_gone)
    }

    /// Sends bytes; gives how many, none if there is no room now.
    pub(super) fn write(&mut self, id: EndId, bytes: &[u8], waker: &Waker) -> Option<usize> {
        let arrives_at = self.delay();
        let on_the_way = self.network.ends.get(&id.other()).map_or(0, |other| other.bytes_on_the_way);
        let room = WINDOW_BYTES.saturating_sub(on_the_way);
        if room == 0 {
            self.end(id)?.writer = Some(waker.clone());
            return None;
        }
        let sent = bytes.get(..room.min(bytes.len())).unwrap_or(bytes);
        if self.network.ends.get(&id.other()).is_none_or(|other| other.is_gone) {
            // Nobody there knows of it: the answer is a reset, if one can come.
            self.reset_from_peer(id, arrives_at);
        } else {
            self.network.send(id, Segment::Data(sent.to_vec()), arrives_at);
        }
        Some(sent.len())
    }

    fn reset_from_peer(&mut self, id: EndId, arrives_at: Duration) {
        let Some(end) = self.end(id) else { return };
        if end.on_the_way.is_empty() {
            end.on_the_way.push_back((arrives_at, Segment::Reset));
        }
    }

    pub(super) fn finish(&mut self, id: EndId) {
        let arrives_at = self.delay();
        self.network.send(id, Segment::Finish, arrives_at);
    }

    /// One half of a connection is dropped by its process.
    pub(super) fn close_half(&mut self, id: EndId) {
        let arrives_at = self.delay();
        let Some(end) = self.end(id) else { return };
        end.halves = end.halves.saturating_sub(1);
        if end.halves > 0 {
            return;
        }
        let unread = mem::take(&mut end.received);
        let last = if unread.is_empty() { Segment::Finish } else { Segment::Reset };
        self.network.send(id, last, arrives_at);
        self.network.forget(id);
    }
}
