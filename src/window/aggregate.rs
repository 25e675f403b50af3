//! What a window holds of its readings.

use super::spread::{Spread, spread};
use super::{ExactSquares, ExactSum};
use crate::semantics::Variance;

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
    /// The sum of the squares; None where no variance is shown, for it costs memory.
    pub(crate) squares: Option<Box<ExactSquares>>,
}

impl Aggregate {
    /// Of one reading. The value is finite and not -0.0.
    pub(crate) fn of(time_ms: i64, value: f64, has_squares: bool) -> Self {
        let mut aggregate = Self {
            count: 1,
            sum: ExactSum::ZERO,
            min: value,
            max: value,
            first_ms: time_ms,
            first: value,
            last_ms: time_ms,
            last: value,
            squares: if has_squares { Some(Box::default()) } else { None },
        };
        aggregate.sum.add(value);
        if let Some(squares) = &mut aggregate.squares {
            squares.add(value);
        }
        aggregate
    }

    /// Joins that of another session, whose readings all have other times.
    pub(crate) fn merge(&mut self, other: &Aggregate) {
        self.count = self.count.saturating_add(other.count);
        self.sum.merge(&other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        if other.first_ms < self.first_ms {
            (self.first_ms, self.first) = (other.first_ms, other.first);
        }
        if other.last_ms > self.last_ms {
            (self.last_ms, self.last) = (other.last_ms, other.last);
        }
        if let (Some(squares), Some(other)) = (&mut self.squares, &other.squares) {
            squares.merge(other);
        }
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
        if let Some(squares) = &mut self.squares {
            squares.add(value);
        }
    }

    /// Variance and standard deviation; None where there is none: of a sample of one, and without squares.
    pub(crate) fn spread(&self, kind: Variance) -> Option<Spread> {
        let divisor = match kind {
            Variance::None => 0,
            Variance::Sample => self.count.saturating_sub(1),
            Variance::Population => self.count,
        };
        spread(self.count, &self.sum, self.squares.as_deref()?, divisor)
    }

    /// Whether there can be readings with this sum and these squares.
    pub(crate) fn is_possible(&self) -> bool {
        self.squares.is_none() || self.spread(Variance::Population).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::Aggregate;

    #[test]
    fn of_equal_times_first_is_read_first_and_last_is_read_last() {
        let mut aggregate = Aggregate::of(5, 1.0, false);
        for (time_ms, value) in [(5, 2.0), (7, 3.0), (7, -4.0), (6, 9.0)] {
            aggregate.add(time_ms, value);
        }
        assert_eq!((aggregate.first_ms, aggregate.first, aggregate.last_ms, aggregate.last), (5, 1.0, 7, -4.0));
        assert_eq!((aggregate.count, aggregate.min, aggregate.max), (5, -4.0, 9.0));
        assert_eq!(aggregate.sum.rounded(1), Some(11.0));
    }
}
