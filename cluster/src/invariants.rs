//! What must hold whatever dies and when: each with a name, its meaning, the promise it serves, and a check that looks at
//! plain facts only. Product, tests and the model of the protocol call the same checks.
//!
//! [`uphold`] counts and logs a violation and goes on; where debug assertions are on, as in tests, it panics.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Epoch, NodeId, Offset, PartitionId};

/// A promise of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Exact: state and windows are those of an uninterrupted run.
    P1,
    /// Nothing vanishes: every record is accounted for.
    P3,
    /// Fast: somebody is there to take over.
    P4,
    /// One writer: a deposed active cannot write.
    P5,
    /// Proof: replicas compare digests.
    P7,
    /// Every decision is recorded.
    P8,
}

macro_rules! invariants {
    ($($(#[doc = $meaning:literal])+ $name:ident = $label:literal, $promise:ident;)+) => {
        /// Something that must always hold.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Invariant {
            $($(#[doc = $meaning])+ $name,)+
        }

        impl Invariant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name in metrics, logs and reports; never changed.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)+ }
            }

            /// What it says, in one sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($meaning),+).trim_ascii(),)+ }
            }

            /// The promise that would be broken without it.
            #[must_use]
            pub fn promise(self) -> Promise {
                match self { $(Self::$name => Promise::$promise,)+ }
            }
        }
    };
}

invariants! {
    /// Every candidate for a reading and every null record has exactly one outcome, and every record at least one.
    Conservation = "conservation", P3;
    /// Commit numbers of a partition rise by one; where compaction removed progress records between two, they rise.
    CommitByOne = "commit_by_one", P1;
    /// No committed record of a lower epoch stands after one of a higher.
    EpochNeverFalls = "epoch_never_falls", P5;
    /// From commit to commit, the input offset up to which everything is counted never falls.
    InputOffsetNeverFalls = "input_offset_never_falls", P1;
    /// From commit to commit, log time never falls.
    LogTimeNeverFalls = "log_time_never_falls", P1;
    /// A reading never lowers the watermark of its series.
    WatermarkNeverFalls = "watermark_never_falls", P1;
    /// A replica applies changelog records in the order of their offsets, none of them twice.
    ChangelogInOrder = "changelog_in_order", P1;
    /// A promoted replica has applied the changelog up to the last stable offset that was read after the fence.
    PromotedAtLogEnd = "promoted_at_log_end", P1;
    /// At equal commits the digests of all replicas are equal.
    DigestEqual = "digest_equal", P7;
    /// At most one node claims to be the active of a partition in an epoch.
    OneActivePerEpoch = "one_active_per_epoch", P5;
    /// The epoch of an order is above every epoch ordered before and every one seen in the changelog.
    OrderedEpochRises = "ordered_epoch_rises", P5;
    /// The active of a partition is not among its own standbys.
    ActiveIsNoStandby = "active_is_no_standby", P4;
    /// The events of the history are numbered without holes.
    HistoryWithoutHoles = "history_without_holes", P8;
}

/// An invariant that does not hold, with the numbers that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub invariant: Invariant,
    /// The numbers.
    pub found: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, found } = self;
        write!(f, "invariant {} ({:?}) is violated: {found}", invariant.name(), invariant.promise())
    }
}

impl std::error::Error for Violation {}

fn ensure(holds: bool, invariant: Invariant, found: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { invariant, found: found() }) }
}

fn never_falls<T: PartialOrd + fmt::Display>(invariant: Invariant, before: T, after: T) -> Result<(), Violation> {
    ensure(after >= before, invariant, || format!("{after} after {before}"))
}

/// See [`Invariant::Conservation`]. `consumed` is counted at the way in, `outcomes` is the sum of the outcomes.
///
/// # Errors
/// It does not hold.
pub fn conservation(consumed: u64, outcomes: u64, records: u64) -> Result<(), Violation> {
    ensure(consumed == outcomes && consumed >= records, Invariant::Conservation, || {
        format!("{consumed} consumed of {records} records, {outcomes} outcomes")
    })
}

/// What a progress record says of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Tenure that wrote it.
    pub epoch: Epoch,
    /// Its number, from 1.
    pub number: u64,
    /// First input offset that is not counted in it.
    pub next_input: Offset,
    /// Log time in milliseconds.
    pub log_time_ms: i64,
}

/// Whether progress records between two may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// None is: the second follows the first.
    Nothing,
    /// Compaction may have removed some.
    Compacted,
}

/// See [`Invariant::CommitByOne`].
///
/// # Errors
/// It does not hold.
pub fn commit_by_one(before: u64, after: u64, between: Between) -> Result<(), Violation> {
    let holds = match between {
        Between::Nothing => before.checked_add(1) == Some(after),
        Between::Compacted => after > before,
    };
    ensure(holds, Invariant::CommitByOne, || format!("commit {after} after commit {before}"))
}

/// See [`Invariant::EpochNeverFalls`].
///
/// # Errors
/// It does not hold.
pub fn epoch_never_falls(before: Epoch, after: Epoch) -> Result<(), Violation> {
    never_falls(Invariant::EpochNeverFalls, before, after)
}

/// See [`Invariant::InputOffsetNeverFalls`].
///
/// # Errors
/// It does not hold.
pub fn input_offset_never_falls(before: Offset, after: Offset) -> Result<(), Violation> {
    never_falls(Invariant::InputOffsetNeverFalls, before, after)
}

/// See [`Invariant::LogTimeNeverFalls`].
///
/// # Errors
/// It does not hold.
pub fn log_time_never_falls(before_ms: i64, after_ms: i64) -> Result<(), Violation> {
    never_falls(Invariant::LogTimeNeverFalls, before_ms, after_ms)
}

/// See [`Invariant::WatermarkNeverFalls`].
///
/// # Errors
/// It does not hold.
pub fn watermark_never_falls(before_ms: i64, after_ms: i64) -> Result<(), Violation> {
    never_falls(Invariant::WatermarkNeverFalls, before_ms, after_ms)
}

/// All that must hold from one commit to the next. Where records may be missing, one may also stand there again: that is how
/// an operator replaces one that cannot be read.
///
/// # Errors
/// The first that does not hold.
pub fn succession(before: &Commit, after: &Commit, between: Between) -> Result<(), Violation> {
    if between == Between::Compacted && before == after {
        return Ok(());
    }
    epoch_never_falls(before.epoch, after.epoch)
        .and_then(|()| commit_by_one(before.number, after.number, between))
        .and_then(|()| input_offset_never_falls(before.next_input, after.next_input))
        .and_then(|()| log_time_never_falls(before.log_time_ms, after.log_time_ms))
        .map_err(|Violation { invariant, found }| {
            let found = format!("{found} (commit {} of epoch {})", after.number, after.epoch);
            Violation { invariant, found }
        })
}

/// See [`Invariant::ChangelogInOrder`]. `next` is the first offset that is not applied.
///
/// # Errors
/// It does not hold.
pub fn changelog_in_order(next: Offset, offset: Offset) -> Result<(), Violation> {
    ensure(offset >= next, Invariant::ChangelogInOrder, || format!("offset {offset} where {next} is the next"))
}

/// See [`Invariant::PromotedAtLogEnd`]. `next` is the first changelog offset that the replica has not applied.
///
/// # Errors
/// It does not hold.
pub fn promoted_at_log_end(next: Offset, stable_end: Offset) -> Result<(), Violation> {
    ensure(next >= stable_end, Invariant::PromotedAtLogEnd, || {
        format!("applied up to {next}, the last stable offset is {stable_end}")
    })
}

/// See [`Invariant::DigestEqual`].
///
/// # Errors
/// It does not hold.
pub fn digest_equal(commit: u64, active: u128, here: u128) -> Result<(), Violation> {
    ensure(active == here, Invariant::DigestEqual, || {
        format!("at commit {commit} the digest is {here:032x} here, {active:032x} at the active")
    })
}

/// See [`Invariant::OneActivePerEpoch`]. A claim: this node says that it is the active of the partition in this epoch.
///
/// # Errors
/// It does not hold.
pub fn one_active_per_epoch(claims: impl Iterator<Item = (PartitionId, Epoch, NodeId)>) -> Result<(), Violation> {
    let mut known = HashMap::new();
    for (partition, epoch, node) in claims {
        let first = *known.entry((partition, epoch)).or_insert(node);
        ensure(first == node, Invariant::OneActivePerEpoch, || {
            format!("nodes {first} and {node} are active in epoch {epoch} of partition {partition}")
        })?;
    }
    Ok(())
}

/// See [`Invariant::OrderedEpochRises`].
///
/// # Errors
/// It does not hold.
pub fn ordered_epoch_rises(before: Epoch, in_changelog: Epoch, ordered: Epoch) -> Result<(), Violation> {
    ensure(ordered > before.max(in_changelog), Invariant::OrderedEpochRises, || {
        format!("epoch {ordered} ordered after {before}, {in_changelog} stands in the changelog")
    })
}

/// See [`Invariant::ActiveIsNoStandby`].
///
/// # Errors
/// It does not hold.
pub fn active_is_no_standby(active: Option<NodeId>, standbys: &[NodeId]) -> Result<(), Violation> {
    let twice = active.filter(|active| standbys.contains(active));
    ensure(twice.is_none(), Invariant::ActiveIsNoStandby, || {
        format!("node {} is active and standby", twice.unwrap_or_default())
    })
}

/// See [`Invariant::HistoryWithoutHoles`]. The first and the last number that are kept, and how many events are.
///
/// # Errors
/// It does not hold.
pub fn history_without_holes(first: u64, last: u64, kept: usize) -> Result<(), Violation> {
    let holds = last.checked_sub(first).is_some_and(|more| usize::try_from(more).is_ok_and(|more| more + 1 == kept));
    ensure(holds, Invariant::HistoryWithoutHoles, || format!("{kept} events numbered from {first} to {last}"))
}

/// How often each invariant was violated in this process.
struct Violations([AtomicU64; Invariant::ALL.len()]);

static VIOLATIONS: Violations = Violations::new();

impl Violations {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Invariant::ALL.len()])
    }

    /// Counts it, and says so: the first one, and then each time that the number has doubled.
    fn count(&self, violation: &Violation, partition: Option<PartitionId>) {
        let invariant = violation.invariant;
        let Some(counter) = self.0.get(invariant as usize) else { return };
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::error!(
                event = "invariant_violated",
                invariant = invariant.name(),
                promise = ?invariant.promise(),
                partition = partition.map(|partition| partition.0),
                found = violation.found,
                count,
                "{} This does not hold: report it with this line, and check the results with: hotspare verify",
                invariant.meaning()
            );
        }
    }

    fn uphold(&self, checked: Result<(), Violation>, partition: Option<PartitionId>) {
        if let Err(violation) = checked {
            debug_assert!(false, "{violation}");
            self.count(&violation, partition);
        }
    }

    fn all(&self) -> impl Iterator<Item = (Invariant, u64)> {
        Invariant::ALL.iter().zip(&self.0).map(|(invariant, count)| (*invariant, count.load(Ordering::Relaxed)))
    }
}

/// How often each invariant was violated in this process; all of them, also those that never were.
pub fn violations() -> impl Iterator<Item = (Invariant, u64)> {
    VIOLATIONS.all()
}

/// Counts and logs a violation that the caller deals with itself.
pub fn report(violation: &Violation, partition: Option<PartitionId>) {
    VIOLATIONS.count(violation, partition);
}

/// Counts and logs a violation and goes on.
///
/// # Panics
/// On a violation, uncounted, where debug assertions are on.
pub fn uphold(checked: Result<(), Violation>, partition: Option<PartitionId>) {
    VIOLATIONS.uphold(checked, partition);
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLIER: Commit = Commit { epoch: Epoch(5), number: 41, next_input: Offset(900), log_time_ms: 7_000 };
    const LATER: Commit = Commit { epoch: Epoch(6), number: 42, next_input: Offset(950), log_time_ms: 7_000 };

    fn violated(checked: Result<(), Violation>) -> Option<Invariant> {
        checked.err().map(|violation| violation.invariant)
    }

    #[test]
    fn each_has_its_own_name_and_one_sentence() {
        let mut names: Vec<_> = Invariant::ALL.iter().map(|invariant| invariant.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Invariant::ALL.len());
        for invariant in Invariant::ALL {
            assert!(invariant.name().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{invariant:?}");
            let meaning = invariant.meaning();
            assert!(meaning.ends_with('.') && !meaning.contains(". "), "{meaning}");
        }
    }

    #[test]
    fn one_commit_follows_the_other() {
        let next = |change: fn(&mut Commit)| {
            let mut after = LATER;
            change(&mut after);
            violated(succession(&EARLIER, &after, Between::Nothing))
        };
        assert_eq!(next(|_| {}), None);
        assert_eq!(next(|after| after.epoch = Epoch(5)), None);
        assert_eq!(next(|after| after.epoch = Epoch(4)), Some(Invariant::EpochNeverFalls));
        assert_eq!(next(|after| after.number = 41), Some(Invariant::CommitByOne));
        assert_eq!(next(|after| after.number = 43), Some(Invariant::CommitByOne));
        assert_eq!(next(|after| after.next_input = Offset(899)), Some(Invariant::InputOffsetNeverFalls));
        assert_eq!(next(|after| after.log_time_ms = 6_999), Some(Invariant::LogTimeNeverFalls));
        let far = Commit { number: 90, ..LATER };
        assert_eq!(violated(succession(&EARLIER, &far, Between::Compacted)), None);
        assert_eq!(violated(succession(&LATER, &LATER, Between::Compacted)), None);
        assert_eq!(violated(succession(&LATER, &LATER, Between::Nothing)), Some(Invariant::CommitByOne));
        let another = Commit { log_time_ms: LATER.log_time_ms + 1, ..LATER };
        assert_eq!(violated(succession(&LATER, &another, Between::Compacted)), Some(Invariant::CommitByOne));
    }

    #[test]
    fn counts_must_agree() {
        assert!(conservation(7, 7, 5).is_ok());
        assert_eq!(violated(conservation(7, 6, 5)), Some(Invariant::Conservation));
        assert_eq!(violated(conservation(4, 4, 5)), Some(Invariant::Conservation));
        assert!(history_without_holes(3, 7, 5).is_ok());
        for (first, last, kept) in [(3, 7, 4), (3, 7, 6), (7, 3, 5), (1, 0, 0)] {
            assert_eq!(violated(history_without_holes(first, last, kept)), Some(Invariant::HistoryWithoutHoles));
        }
    }

    #[test]
    fn positions_must_be_reached() {
        assert!(changelog_in_order(Offset(8), Offset(8)).is_ok() && changelog_in_order(Offset(8), Offset(9)).is_ok());
        assert_eq!(violated(changelog_in_order(Offset(8), Offset(7))), Some(Invariant::ChangelogInOrder));
        assert!(promoted_at_log_end(Offset(8), Offset(8)).is_ok());
        assert_eq!(violated(promoted_at_log_end(Offset(7), Offset(8))), Some(Invariant::PromotedAtLogEnd));
        assert_eq!(violated(watermark_never_falls(8, 7)), Some(Invariant::WatermarkNeverFalls));
        assert_eq!(violated(digest_equal(3, 1, 2)), Some(Invariant::DigestEqual));
        assert!(digest_equal(3, 2, 2).is_ok());
    }

    #[test]
    fn there_is_one_active() {
        let claim = |partition, epoch, node| (PartitionId(partition), Epoch(epoch), NodeId(node));
        assert!(one_active_per_epoch([claim(0, 5, 1), claim(0, 6, 2), claim(1, 5, 2)].into_iter()).is_ok());
        let two = one_active_per_epoch([claim(0, 5, 1), claim(1, 5, 2), claim(0, 5, 3)].into_iter());
        assert_eq!(two.map_err(|v| v.found).unwrap_err(), "nodes 1 and 3 are active in epoch 5 of partition 0");
        assert!(ordered_epoch_rises(Epoch(5), Epoch(7), Epoch(8)).is_ok());
        for ordered in [5, 7] {
            let checked = ordered_epoch_rises(Epoch(5), Epoch(7), Epoch(ordered));
            assert_eq!(violated(checked), Some(Invariant::OrderedEpochRises));
        }
        assert!(active_is_no_standby(Some(NodeId(1)), &[NodeId(2)]).is_ok());
        assert!(active_is_no_standby(None, &[NodeId(2)]).is_ok());
        let twice = active_is_no_standby(Some(NodeId(2)), &[NodeId(1), NodeId(2)]);
        assert_eq!(violated(twice), Some(Invariant::ActiveIsNoStandby));
    }

    #[test]
    fn a_violation_is_counted_under_its_name_and_the_others_stay_zero() {
        let counted = Violations::new();
        let violation = epoch_never_falls(Epoch(6), Epoch(5)).unwrap_err();
        assert_eq!(violation.to_string(), "invariant epoch_never_falls (P5) is violated: 5 after 6");
        counted.count(&violation, Some(PartitionId(3)));
        counted.count(&violation, None);
        for (invariant, count) in counted.all() {
            assert_eq!(count, if invariant == Invariant::EpochNeverFalls { 2 } else { 0 }, "{invariant:?}");
        }
        assert_eq!(counted.all().count(), Invariant::ALL.len());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "invariant conservation (P3) is violated: 7 consumed of 5 records, 6 outcomes")]
    fn a_violation_is_fatal_in_a_debug_build() {
        Violations::new().uphold(conservation(7, 6, 5), None);
    }
}
