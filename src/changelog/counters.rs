//! Exact counters of a partition.

use crate::reading::{Outcome, Reason};

/// Counters of a partition since its first record. They stand in the progress record and so survive every failover.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records of the input topic.
    pub records: u64,
    /// Readings that are in at least one window.
    pub counted: u64,
    /// Readings that no window took.
    pub late: u64,
    /// Candidates for which nothing was measured.
    pub missing: u64,
    /// Copies of counted readings.
    pub duplicate: u64,
    /// Records whose value is null.
    pub null_record: u64,
    /// Rejections by reason.
    pub rejected: Rejected,
    /// Final outputs.
    pub windows_final: u64,
    /// Dead letters.
    pub dead_letters: u64,
}

/// Rejections by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rejected([u64; Reason::COUNT]);

impl Rejected {
    /// How many there were for the reason.
    #[must_use]
    pub fn get(&self, reason: Reason) -> u64 {
        self.0.get(usize::from(reason.code())).copied().unwrap_or(0)
    }

    /// All reasons with how many there were, in byte order of their names.
    #[must_use]
    pub fn by_name(&self) -> Vec<(Reason, u64)> {
        let mut all: Vec<_> = self.in_order().collect();
        all.sort_unstable_by_key(|(reason, _)| reason.name());
        all
    }

    /// How many there were altogether.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// All reasons in the order of their numbers.
    pub(super) fn in_order(&self) -> impl Iterator<Item = (Reason, u64)> + '_ {
        Reason::ALL.into_iter().zip(self.0.iter().copied())
    }

    pub(super) fn set(&mut self, reason: Reason, count: u64) {
        if let Some(place) = self.0.get_mut(usize::from(reason.code())) {
            *place = count;
        }
    }
}

impl Counters {
    /// Everything with an outcome: the right side of the law of conservation (SEMANTICS 4).
    #[must_use]
    pub fn consumed(&self) -> u64 {
        [self.late, self.missing, self.duplicate, self.null_record, self.rejected.total()]
            .into_iter()
            .fold(self.counted, u64::saturating_add)
    }

    /// Counts an outcome.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Counted => self.counted += 1,
            Outcome::Late => self.late += 1,
            Outcome::Missing => self.missing += 1,
            Outcome::Duplicate => self.duplicate += 1,
            Outcome::NullRecord => self.null_record += 1,
            Outcome::Rejected(reason) => self.rejected.set(reason, self.rejected.get(reason) + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Counters;
    use crate::reading::{Outcome, Reason};

    #[test]
    fn every_outcome_is_consumed_once() {
        let mut counters = Counters::default();
        let plain = [Outcome::Counted, Outcome::Late, Outcome::Missing, Outcome::Duplicate, Outcome::NullRecord];
        for outcome in plain.into_iter().chain(Reason::ALL.map(Outcome::Rejected)) {
            let before = counters.consumed();
            counters.count(outcome);
            assert_eq!(counters.consumed(), before + 1, "{outcome:?}");
        }
        let names: Vec<_> = counters.rejected.by_name().iter().map(|(reason, _)| reason.name()).collect();
        assert!(names.is_sorted() && names.len() == Reason::COUNT);
    }
}
