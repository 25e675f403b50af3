//! What goes wrong in a simulation, when, and how it ends: drawn from a seed.

use std::time::Duration;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore as _, SeedableRng as _},
};

use super::{Crash, Cut, HostId};

/// A change for the worse or the better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process ends.
    Crash(HostId, Crash),
    /// It is started again; its disk is empty if it was lost.
    Start {
        /// Where.
        host: HostId,
        /// Whether its disk is empty.
        without_disk: bool,
    },
    /// A process stops to run, or goes on.
    Frozen(HostId, bool),
    /// No message goes from one host to the other, or does again.
    Cut(Cut, bool),
    /// Messages take up to so long.
    Delay(Duration),
    /// A wall clock is off by so many milliseconds.
    Clock(HostId, i64),
    /// A host does not reach Kafka, or does again.
    KafkaCut(HostId, bool),
    /// The connection by which a host's standbys follow stalls, or goes on; its others work.
    KafkaStall(HostId, bool),
    /// Nobody gets an answer of Kafka, or all do again.
    KafkaSilent(bool),
    /// Of 1000 choices that Kafka leaves to chance, so many are unpleasant.
    KafkaTrouble(u32),
    /// A host's disk takes so long for each write.
    SlowDisk(HostId, Duration),
}

/// Random numbers for scenarios.
#[derive(Debug, Clone)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The same for the same seed and purpose.
    #[must_use]
    pub fn new(seed: u64, purpose: u64) -> Self {
        let mut dice = ChaCha8Rng::seed_from_u64(seed);
        dice.set_stream(purpose);
        Self(dice)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64().checked_rem(bound).unwrap_or(0)
    }

    /// True `permille` times of 1000.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// A time from `least` on and below `most`.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let range_ms = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
        least + Duration::from_millis(self.below(range_ms))
    }

    /// One of the items.
    ///
    /// # Panics
    /// There are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        *items.get(index).expect("something to pick from")
    }
}

/// Where a storm goes.
#[derive(Debug, Clone, Copy)]
pub struct Storm {
    /// Number of hosts.
    pub hosts: usize,
    /// First moment.
    pub begin: Duration,
    /// From here on nothing new goes wrong; all has ended.
    pub end: Duration,
    /// How many faults.
    pub faults: usize,
    /// Whether there is a Kafka that can suffer too.
    pub with_kafka: bool,
}

impl Storm {
    /// Faults and their ends, in the order of time.
    #[must_use]
    pub fn draw(&self, seed: u64) -> Vec<(Duration, Fault)> {
        let mut dice = Dice::new(seed, 1);
        let mut drawn = Vec::new();
        let mut disk_lost = false;
        for _ in 0..self.faults {
            let at = dice.time(self.begin, self.end);
            let lasts = dice.time(Duration::from_millis(20), Duration::from_secs(4));
            let until = (at + lasts).min(self.end);
            let host = HostId(usize::try_from(dice.below(self.hosts as u64)).unwrap_or(0));
            let (fault, end) = self.one(&mut dice, host, &mut disk_lost);
            drawn.extend(fault.into_iter().map(|fault| (at, fault)));
            drawn.extend(end.into_iter().map(|fault| (until, fault)));
        }
        drawn.sort_by_key(|(at, _)| *at);
        drawn
    }

    fn one(&self, dice: &mut Dice, host: HostId, disk_lost: &mut bool) -> (Vec<Fault>, Vec<Fault>) {
        let other = HostId((host.0 + 1 + usize::try_from(dice.below(self.hosts as u64 - 1)).unwrap_or(0)) % self.hosts);
        let (there, back) = (Cut { from: host, to: other }, Cut { from: other, to: host });
        let pair = |fault: fn(HostId, bool) -> Fault| (vec![fault(host, true)], vec![fault(host, false)]);
        match dice.below(if self.with_kafka { 18 } else { 12 }) {
            0..4 => {
                let how = dice.pick(&[Crash::Process, Crash::Process, Crash::Power]);
                // More than one lost disk of three may be a lost majority, of which nobody promises anything.
                let without_disk = !*disk_lost && dice.chance(150);
                *disk_lost |= without_disk;
                (vec![Fault::Crash(host, how)], vec![Fault::Start { host, without_disk }])
            }
            4..6 => pair(Fault::Frozen),
            6 => (vec![Fault::Cut(there, true)], vec![Fault::Cut(there, false)]),
            7 => (
                vec![Fault::Cut(there, true), Fault::Cut(back, true)],
                vec![Fault::Cut(there, false), Fault::Cut(back, false)],
            ),
            8 => self.isolate(host),
            9 => {
                let delay = dice.time(Duration::from_millis(2), Duration::from_millis(120));
                (vec![Fault::Delay(delay)], vec![Fault::Delay(Duration::from_millis(1))])
            }
            10 => {
                let hours = dice.pick(&[-30 * 24, -1, 1, 24]);
                (vec![Fault::Clock(host, hours * 3_600_000)], vec![Fault::Clock(host, 0)])
            }
            11 => {
                let slow = dice.time(Duration::from_millis(2), Duration::from_millis(400));
                (vec![Fault::SlowDisk(host, slow)], vec![Fault::SlowDisk(host, Duration::ZERO)])
            }
            12..14 => pair(Fault::KafkaCut),
            15..17 => pair(Fault::KafkaStall),
            14 => (vec![Fault::KafkaSilent(true)], vec![Fault::KafkaSilent(false)]),
            _ => {
                let permille = dice.pick(&[10, 50, 200]);
                (vec![Fault::KafkaTrouble(permille)], vec![Fault::KafkaTrouble(0)])
            }
        }
    }

    fn isolate(&self, host: HostId) -> (Vec<Fault>, Vec<Fault>) {
        let others = (0..self.hosts).map(HostId).filter(|other| *other != host);
        let cuts: Vec<_> =
            others.flat_map(|other| [Cut { from: host, to: other }, Cut { from: other, to: host }]).collect();
        let all = |is_cut| cuts.iter().map(|cut| Fault::Cut(*cut, is_cut)).collect();
        (all(true), all(false))
    }
}
