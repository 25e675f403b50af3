//! What the model's world is made of, small enough to be compared and hashed.

use hotspare_cluster::{Epoch, Offset, invariants::Commit};

/// Nodes. One may be lost for good and Raft still has a quorum.
pub const NODES: usize = 3;

/// The world at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub raft: Raft,
    pub nodes: [Node; NODES],
    pub broker: Broker,
    /// What may still go wrong.
    pub faults: Faults,
}

/// Raft as a log that cannot fork. Which part of it a node has seen is the node's [`Node::board`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Raft {
    pub orders: Vec<Order>,
    /// Highest epoch that was reported to stand in the changelog.
    pub floor: u8,
    /// The node of the newest order said that it was overtaken.
    pub superseded: bool,
}

/// An order, once committed: from then on any node may see it, late, again, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub epoch: u8,
    pub node: u8,
    pub incarnation: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Process {
    Up,
    /// SIGSTOP, a long pause of a virtual machine, or cut off from its peers: to the others it looks dead.
    Frozen,
    Down,
}

/// A node. All but the incarnation is lost when the process dies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    pub process: Process,
    pub incarnation: u8,
    /// Number of the newest order it has seen, from 1; 0 for none.
    pub board: u8,
    /// Epoch of the last tenure that this process began.
    pub tried: u8,
    /// It was fenced, perhaps by nobody, and may try its tenure again.
    pub renew: bool,
    pub replica: Replica,
    pub tenure: Option<Tenure>,
    /// What it has to report: the epoch of its order, and the epoch by which it was overtaken.
    pub tells: Option<(u8, u8)>,
}

/// A replica's state, as of the last commit that it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Replica {
    /// Changelog records applied.
    pub next: u8,
    pub commit: u8,
    pub next_input: u8,
    /// Input records that are counted in the state.
    pub counted: u8,
    pub epoch_seen: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenure {
    pub epoch: u8,
    pub renewed: bool,
    pub step: Step,
}

/// How far a tenure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Is going to fence. With the last stable offset if that was read before, which is a mistake.
    Fencing(Option<u8>),
    /// Has fenced; is going to abort what is left open and to read the last stable offset.
    Settling,
    /// Waits for the standby thread to apply everything before this offset.
    CatchingUp(u8),
    /// Active, nothing written.
    Idle,
    /// Active, a transaction is written and not committed.
    Written,
    /// Active, the commit is asked for and not answered.
    Asked(Entry),
}

impl Step {
    pub fn is_active(self) -> bool {
        matches!(self, Self::Idle | Self::Written | Self::Asked(_))
    }
}

/// A transaction: entries in full and a progress record. It takes in one input record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry {
    pub epoch: u8,
    pub commit: u8,
    pub next_input: u8,
    pub counted: u8,
}

impl Entry {
    pub fn as_commit(self) -> Commit {
        Commit {
            epoch: Epoch(self.epoch.into()),
            number: self.commit.into(),
            next_input: Offset(self.next_input.into()),
            log_time_ms: 0,
        }
    }
}

/// One changelog partition and the coordinator of its transactional id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Broker {
    /// Committed transactions, which is what `read_committed` readers see.
    pub log: Vec<Entry>,
    /// Nodes whose process may write. Only a broken fence lets it be more than one.
    pub owners: [bool; NODES],
    /// The transaction of each node that is not decided, or decided and not yet visible. It outlives the process.
    pub open: [Option<Open>; NODES],
    /// A transaction of a fenced owner without an abort marker. The successor writes under the same producer id, so that
    /// its next commit marker would commit this one too.
    pub leftover: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Open {
    pub entry: Entry,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    Written,
    /// The request to commit is on its way.
    Asked,
    /// The coordinator has decided to commit; the marker is not in the log yet.
    Decided,
}

/// How often each thing may still go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Faults {
    pub crashes: u8,
    pub freezes: u8,
    /// A healthy active is taken for dead, or a promotion for failed.
    pub suspicions: u8,
    /// The broker ends a transaction for its timeout, and with it the owner's right to write.
    pub timeouts: u8,
    /// A commit whose answer never comes.
    pub lost_answers: u8,
    /// A fence completes without the abort marker.
    pub missing_markers: u8,
}

impl Faults {
    pub const NONE: Self =
        Self { crashes: 0, freezes: 0, suspicions: 0, timeouts: 0, lost_answers: 0, missing_markers: 0 };
}

impl Node {
    pub fn new(incarnation: u8) -> Self {
        Self {
            process: Process::Up,
            incarnation,
            board: 0,
            tried: 0,
            renew: false,
            replica: Replica::default(),
            tenure: None,
            tells: None,
        }
    }

    pub fn is_up(&self) -> bool {
        self.process == Process::Up
    }

    /// The step of a tenure that has begun.
    pub fn active_step(&self) -> Option<Step> {
        self.tenure.map(|tenure| tenure.step).filter(|step| step.is_active())
    }
}

impl Raft {
    pub fn newest(&self) -> Option<Order> {
        self.orders.last().copied()
    }

    pub fn epoch(&self) -> u8 {
        self.newest().map_or(0, |order| order.epoch)
    }

    /// The newest order cannot be followed, for the changelog is above it.
    pub fn needs_jump(&self) -> bool {
        self.newest().is_some() && (self.superseded || self.floor >= self.epoch())
    }
}

impl World {
    /// All nodes up, nothing ordered. `old_epoch`: a changelog of an earlier control plane, whose last tenure was this one.
    pub fn new(faults: Faults, old_epoch: Option<u8>) -> Self {
        let old = |epoch| Entry { epoch, commit: 1, next_input: 1, counted: 1 };
        Self {
            raft: Raft::default(),
            nodes: [(); NODES].map(|()| Node::new(1)),
            broker: Broker { log: old_epoch.map(old).into_iter().collect(), ..Broker::default() },
            faults,
        }
    }

    /// The order that a node sees as the newest.
    pub fn seen_by(&self, node: &Node) -> Option<Order> {
        usize::from(node.board).checked_sub(1).and_then(|index| self.raft.orders.get(index)).copied()
    }

    /// Whether the process at this place is the one that this order names.
    pub fn is_for(&self, order: Order, node: usize) -> bool {
        usize::from(order.node) == node && self.nodes[node].incarnation == order.incarnation
    }

    /// The end of the log for `read_committed` readers.
    pub fn log_end(&self) -> u8 {
        u8::try_from(self.broker.log.len()).expect("a bounded log")
    }

    /// Whether some node is active by the newest order and can write.
    pub fn has_active(&self) -> bool {
        (0..NODES).any(|node| {
            let tenure = self.nodes[node].tenure;
            let is_newest = tenure.is_some_and(|tenure| tenure.epoch == self.raft.epoch() && tenure.step.is_active());
            is_newest && self.nodes[node].is_up() && self.broker.owners[node]
        })
    }

    /// The same world with the nodes in an order that does not depend on their names: worlds that differ in the names only
    /// are visited once.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let named = |place: usize| self.raft.orders.iter().map(move |order| usize::from(order.node) == place);
        let key = |place: usize| {
            let Broker { owners, open, .. } = &self.broker;
            (&self.nodes[place], owners[place], open[place], named(place).collect::<Vec<_>>())
        };
        let mut places: [usize; NODES] = std::array::from_fn(|place| place);
        places.sort_by_cached_key(|place| key(*place));
        let mut world = self.clone();
        for (to, from) in places.into_iter().enumerate() {
            world.nodes[to] = self.nodes[from].clone();
            (world.broker.owners[to], world.broker.open[to]) = (self.broker.owners[from], self.broker.open[from]);
            for (order, before) in world.raft.orders.iter_mut().zip(&self.raft.orders) {
                if usize::from(before.node) == from {
                    order.node = u8::try_from(to).expect("few nodes");
                }
            }
        }
        world
    }
}
