//! Counts of values by upper bounds, for metrics.

use serde::{Deserialize, Serialize};

/// Upper bounds of the whole time of a failover, in seconds.
pub const TOTAL_BOUNDS_S: &[f64] =
    &[0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of a phase of a failover, in seconds.
pub const PHASE_BOUNDS_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.6, 1.0, 5.0];
/// Upper bounds of what takes well under a second: fsync, commit, round trip; in seconds.
pub const SHORT_BOUNDS_S: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

/// Values counted by upper bounds, which the user of a histogram gives each time; exact and equal on all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// One for each bound, and one for what is above the last.
    counts: Vec<u64>,
    sum_millionths: u64,
}

impl Histogram {
    /// Counts a value, exact to a millionth; seconds for a time.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and NaN becomes 0"
    )]
    pub fn observe(&mut self, bounds: &[f64], value: f64) {
        let place = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
        if self.counts.len() <= bounds.len() {
            self.counts.resize(bounds.len() + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.sum_millionths = self.sum_millionths.saturating_add((value * 1e6).round() as u64);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact below 285 years of seconds")]
    pub fn sum(&self) -> f64 {
        self.sum_millionths as f64 / 1e6
    }

    /// How many were at most each bound.
    pub fn cumulative<'a>(&'a self, bounds: &'a [f64]) -> impl Iterator<Item = (f64, u64)> + 'a {
        let counts = self.counts.iter().copied().chain(std::iter::repeat(0));
        bounds.iter().zip(counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((*bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_counted_from_its_bound_on() {
        let (mut histogram, bounds) = (Histogram::default(), [0.1, 1.0]);
        assert_eq!(histogram.cumulative(&bounds).collect::<Vec<_>>(), [(0.1, 0), (1.0, 0)]);
        for value in [0.1, 0.101, 5.0] {
            histogram.observe(&bounds, value);
        }
        assert_eq!(histogram.cumulative(&bounds).collect::<Vec<_>>(), [(0.1, 1), (1.0, 2)]);
        assert_eq!((histogram.count(), histogram.sum()), (3, 5.201));
    }
}
