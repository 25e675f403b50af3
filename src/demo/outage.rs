//! What is measured, and who is killed. Pure: moments come in from outside.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use serde::Serialize;

/// Arrivals of outputs, by partition.
#[derive(Debug, Default)]
pub(super) struct Watch {
    partitions: BTreeMap<u32, Seen>,
    kill: Option<(Instant, i64)>,
}

#[derive(Debug, Default)]
struct Seen {
    outputs: u64,
    last: Option<Instant>,
    /// Longest time without an output since the kill.
    gap: Duration,
    /// Arrival of the first output that was written after the kill.
    first: Option<Instant>,
}

impl Watch {
    /// An output arrived; the timestamp is when its producer wrote it, in milliseconds since 1970.
    pub(super) fn saw(&mut self, partition: u32, now: Instant, timestamp_ms: i64) {
        let kill = self.kill;
        let seen = self.partitions.entry(partition).or_default();
        seen.outputs += 1;
        seen.gap = seen.gap.max(seen.silence(now));
        seen.last = Some(now);
        // A process writes nothing after its death, so what is younger comes from a successor; same machine, same clock.
        if seen.first.is_none() && kill.is_some_and(|(_, killed_ms)| timestamp_ms > killed_ms) {
            seen.first = Some(now);
        }
    }

    /// A process is about to be killed, at this moment of both clocks.
    pub(super) fn kill(&mut self, now: Instant, wall_ms: i64) {
        self.kill = Some((now, wall_ms));
        for seen in self.partitions.values_mut() {
            (seen.gap, seen.first) = (Duration::ZERO, None);
        }
    }

    /// From the kill to the first output of a partition that was written after it; none so far.
    pub(super) fn outage(&self, partition: u32) -> Option<Duration> {
        let (killed, _) = self.kill?;
        Some(self.partitions.get(&partition)?.first?.saturating_duration_since(killed))
    }

    /// Longest time without an output of any partition since the kill.
    pub(super) fn gap_max(&self, now: Instant) -> Duration {
        self.partitions.values().map(|seen| seen.gap.max(seen.silence(now))).max().unwrap_or_default()
    }

    /// Outputs of a partition so far.
    pub(super) fn outputs(&self, partition: u32) -> u64 {
        self.partitions.get(&partition).map_or(0, |seen| seen.outputs)
    }
}

impl Seen {
    fn silence(&self, now: Instant) -> Duration {
        self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last))
    }
}

/// What a node is at the moment at which it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Active of a partition, and not the Raft leader.
    Active,
    /// The Raft leader, and active of no partition.
    Leader,
    /// Both.
    Both,
}

impl Role {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Leader => "leader",
            Self::Both => "both",
        }
    }
}

/// Who is killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Victim {
    /// Number of the node.
    pub(super) node: usize,
    pub(super) role: Role,
    /// Partitions whose active it is.
    pub(super) partitions: Vec<u32>,
}

/// Chooses the next victim: in turn an active, a leader that is an active, and the leader whatever it is, each where
/// there is one. `actives` holds the partitions of each node; `chance` decides between equals.
pub(super) fn choose(turn: usize, leader: Option<usize>, actives: &[Vec<u32>], chance: u64) -> Option<Victim> {
    let has_actives = |node: usize| actives.get(node).is_some_and(|partitions| !partitions.is_empty());
    let others: Vec<usize> = (0..actives.len()).filter(|node| has_actives(*node) && leader != Some(*node)).collect();
    let other = || {
        let count = u64::try_from(others.len()).ok().filter(|count| *count > 0)?;
        others.get(usize::try_from(chance % count).ok()?).copied()
    };
    let node = match turn % 3 {
        0 => other().or(leader),
        1 => leader.filter(|leader| has_actives(*leader)).or_else(other),
        _ => leader.or_else(other),
    }?;
    let role = match (leader == Some(node), has_actives(node)) {
        (false, _) => Role::Active,
        (true, true) => Role::Both,
        (true, false) => Role::Leader,
    };
    Some(Victim { node, role, partitions: actives.get(node)?.clone() })
}

/// Numbers that stand for many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many there are.
    pub count: usize,
    /// The smallest.
    pub min: f64,
    /// The one in the middle; of an even number the mean of the two.
    pub median: f64,
    /// Nine of ten are not above it (nearest rank).
    pub p90: f64,
    /// The largest.
    pub max: f64,
}

impl Summary {
    /// None without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = *sorted.get(count / 2)?;
        let median = if count.is_multiple_of(2) { (sorted.get(count / 2 - 1)? + middle) / 2.0 } else { middle };
        let p90 = *sorted.get((count * 9).div_ceil(10) - 1)?;
        Some(Self { count, min, median, p90, max })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn an_outage_ends_with_the_first_output_written_after_the_kill() {
        let (mut watch, begin) = (Watch::default(), Instant::now());
        watch.saw(0, begin, 1000);
        watch.saw(1, begin, 1000);
        watch.kill(begin + ms(10), 1010);
        // Written before the death, it only arrives later.
        watch.saw(0, begin + ms(12), 1010);
        assert_eq!(watch.outage(0), None);
        watch.saw(0, begin + ms(72), 1070);
        watch.saw(0, begin + ms(90), 1090);
        assert_eq!(watch.outage(0), Some(ms(62)));
        assert_eq!(watch.outage(1), None);
        assert_eq!(watch.gap_max(begin + ms(100)), ms(100), "partition 1 is silent");
        watch.saw(1, begin + ms(101), 1100);
        assert_eq!(watch.outputs(0), 4);
        watch.kill(begin + ms(200), 1200);
        assert_eq!(watch.outage(0), None);
    }

    #[test]
    fn roles_take_turns_where_there_are_such_nodes() {
        let actives = [vec![0, 1], vec![2], vec![3]];
        let role = |turn, leader, actives: &[Vec<u32>]| {
            choose(turn, leader, actives, 0).map(|victim| (victim.node, victim.role))
        };
        assert_eq!(role(0, Some(0), &actives), Some((1, Role::Active)));
        assert_eq!(role(1, Some(0), &actives), Some((0, Role::Both)));
        assert_eq!(role(2, Some(0), &actives), Some((0, Role::Both)));
        let spread = [vec![], vec![0, 2], vec![1, 3]];
        assert_eq!(role(1, Some(0), &spread), Some((1, Role::Active)));
        assert_eq!(role(2, Some(0), &spread), Some((0, Role::Leader)));
        assert_eq!(role(0, Some(0), &[vec![0]]), Some((0, Role::Both)), "there is only one");
        assert_eq!(role(2, None, &spread), Some((1, Role::Active)));
        assert_eq!(role(0, None, &[vec![], vec![]]), None);
        let chosen: Vec<_> = (0..2).filter_map(|chance| choose(0, Some(0), &spread, chance)).collect();
        assert_eq!((chosen[0].node, chosen[1].node), (1, 2));
        assert_eq!(chosen[1].partitions, [1, 3]);
    }

    #[test]
    fn numbers_are_summed_up() {
        assert_eq!(Summary::of(&[]), None);
        let one = Summary { count: 1, min: 5.0, median: 5.0, p90: 5.0, max: 5.0 };
        assert_eq!(Summary::of(&[5.0]), Some(one));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(Summary::of(&ten), Some(Summary { count: 10, min: 1.0, median: 5.5, p90: 9.0, max: 10.0 }));
        let eleven: Vec<f64> = (1..=11).map(f64::from).collect();
        assert_eq!(Summary::of(&eleven).map(|summary| (summary.median, summary.p90)), Some((6.0, 10.0)));
    }
}
