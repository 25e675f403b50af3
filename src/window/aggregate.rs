//! What a window holds of its readings.

use super::ExactSum;

/// The aggregate of at least one reading.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) count: u64,
    pub(crate) sum: ExactSum,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Time of the earliest reading, and of equal ones the value read first.
    pub(crate) first_ms: i64,
    pub(crate) first: f64,
    /// Time of the latest reading, and of equal ones the value read last.
    pub(crate) last_ms: i64,
    pub(crate) last: f64,
}

impl Aggregate {
    /// Of one reading. The value is finite and not -0.0.
    pub(crate) fn of(time_ms: i64, value: f64) -> Self {
        let mut sum = ExactSum::ZERO;
        sum.add(value);
        Self { count: 1, sum, min: value, max: value, first_ms: time_ms, first: value, last_ms: time_ms, last: value }
    }

    /// Adds a reading; they must come in the order in which they were read.
    pub(crate) fn add(&mut self, time_ms: i64, value: f64) {
        self.count = self.count.saturating_add(1);
        self.sum.add(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if time_ms < self.first_ms {
            (self.first_ms, self.first) = (time_ms, value);
        }
        if time_ms >= self.last_ms {
            (self.last_ms, self.last) = (time_ms, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Aggregate;

    #[test]
    fn of_equal_times_first_is_read_first_and_last_is_read_last() {
        let mut aggregate = Aggregate::of(5, 1.0);
        for (time_ms, value) in [(5, 2.0), (7, 3.0), (7, -4.0), (6, 9.0)] {
            aggregate.add(time_ms, value);
        }
        assert_eq!((aggregate.first_ms, aggregate.first, aggregate.last_ms, aggregate.last), (5, 1.0, 7, -4.0));
        assert_eq!((aggregate.count, aggregate.min, aggregate.max), (5, -4.0, 9.0));
        assert_eq!(aggregate.sum.rounded(1), Some(11.0));
    }
}
