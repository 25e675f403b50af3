//! What is done to the cluster and when, drawn from a seed alone.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A node is killed and started again.
    Kill,
    /// A node is frozen and goes on.
    Freeze,
    /// A node and the other nodes do not reach each other.
    CutPeers,
    /// Nodes do not hear one that hears them, or the other way round.
    CutPeersOneWay,
    /// A node and Kafka do not reach each other.
    CutKafka,
    /// Kafka does not hear a node that hears it, or the other way round.
    CutKafkaOneWay,
    /// A node's packets are delayed and some are lost.
    Slow,
    /// A broker is killed and started again: the one that leads the partition of the changelog.
    KillBroker,
    /// A node is killed, and its data are gone when it starts again.
    LostVolume,
    /// A node's disk is full.
    FullDisk,
    /// A node's disk can only be read.
    ReadOnlyDisk,
}

/// All of them.
pub const KINDS: [Kind; 11] = [
    Kind::Kill,
    Kind::Freeze,
    Kind::CutPeers,
    Kind::CutPeersOneWay,
    Kind::CutKafka,
    Kind::CutKafkaOneWay,
    Kind::Slow,
    Kind::KillBroker,
    Kind::LostVolume,
    Kind::FullDisk,
    Kind::ReadOnlyDisk,
];

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Kill => "kill",
            Kind::Freeze => "freeze",
            Kind::CutPeers => "cut-peers",
            Kind::CutPeersOneWay => "cut-peers-one-way",
            Kind::CutKafka => "cut-kafka",
            Kind::CutKafkaOneWay => "cut-kafka-one-way",
            Kind::Slow => "slow",
            Kind::KillBroker => "kill-broker",
            Kind::LostVolume => "lost-volume",
            Kind::FullDisk => "full-disk",
            Kind::ReadOnlyDisk => "read-only-disk",
        })
    }
}

/// Whom it hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The active of a partition.
    Active(u32),
    /// The leader of Raft.
    Leader,
    /// The node of this number.
    Node(usize),
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its place in the schedule, from 1.
    pub number: usize,
    /// What.
    pub kind: Kind,
    /// Whom.
    pub victim: Victim,
    /// For cuts one way: whether it is the victim that is not heard, else it does not hear.
    pub unheard: bool,
    /// How long.
    pub hold: Duration,
    /// The time before it, in which nothing is wrong.
    pub calm: Duration,
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { number, kind, victim, unheard, hold, calm } = self;
        let way = match kind {
            Kind::CutPeersOneWay | Kind::CutKafkaOneWay if *unheard => ", not heard",
            Kind::CutPeersOneWay | Kind::CutKafkaOneWay => ", does not hear",
            _ => "",
        };
        write!(out, "{number}. after {} ms {kind} of {victim:?}{way}, for {} ms", calm.as_millis(), hold.as_millis())
    }
}

/// The faults of a seed, without end: rounds in which each kind comes once.
#[derive(Debug)]
pub struct Schedule {
    random: ChaCha8Rng,
    partitions: u32,
    nodes: usize,
    round: VecDeque<Kind>,
    number: usize,
}

impl Schedule {
    /// The one of this seed.
    pub fn new(seed: u64, partitions: u32, nodes: usize) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed), partitions, nodes, round: VecDeque::new(), number: 0 }
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.round.is_empty() {
            let mut round = KINDS;
            round.shuffle(&mut self.random);
            self.round.extend(round);
        }
        self.number += 1;
        let random = &mut self.random;
        let victim = match random.random_range(0..10) {
            0..6 => Victim::Active(random.random_range(0..self.partitions)),
            6..8 => Victim::Leader,
            _ => Victim::Node(random.random_range(0..self.nodes)),
        };
        Some(Step {
            number: self.number,
            kind: self.round.pop_front()?,
            victim,
            unheard: random.random(),
            hold: Duration::from_millis(random.random_range(300..6_000)),
            calm: Duration::from_millis(random.random_range(300..2_000)),
        })
    }
}

#[test]
fn the_same_seed_gives_the_same_schedule_and_each_round_has_each_kind() {
    let of = |seed| Schedule::new(seed, 2, 3).take(3 * KINDS.len()).collect::<Vec<_>>();
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    for round in of(7).chunks(KINDS.len()) {
        let mut kinds: Vec<Kind> = round.iter().map(|step| step.kind).collect();
        kinds.sort_unstable();
        assert_eq!(kinds, KINDS);
    }
}
