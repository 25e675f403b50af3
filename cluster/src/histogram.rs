//! Counts of times, for metrics.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Upper bounds of the whole time of a failover, in seconds.
pub const TOTAL_BOUNDS_S: &[f64] =
    &[0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of a phase of a failover, in seconds.
pub const PHASE_BOUNDS_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.6, 1.0, 5.0];
/// Upper bounds of what takes well under a second: fsync, commit, round trip; in seconds.
pub const SHORT_BOUNDS_S: &[f64] = &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5];

/// Times counted by upper bounds, which the user of a histogram gives each time; exact and equal on all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Histogram {
    /// One for each bound, and one for what is above the last.
    counts: Vec<u64>,
    sum_us: u64,
}

impl Histogram {
    /// Counts a time.
    pub fn observe(&mut self, bounds_s: &[f64], time: Duration) {
        let seconds = time.as_secs_f64();
        let place = bounds_s.iter().position(|bound| seconds <= *bound).unwrap_or(bounds_s.len());
        if self.counts.len() <= bounds_s.len() {
            self.counts.resize(bounds_s.len() + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(place) {
            *count += 1;
        }
        self.sum_us = self.sum_us.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many times were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum, in microseconds.
    #[must_use]
    pub fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// How many were at most as long as each bound.
    pub fn cumulative<'a>(&'a self, bounds_s: &'a [f64]) -> impl Iterator<Item = (f64, u64)> + 'a {
        let counts = self.counts.iter().copied().chain(std::iter::repeat(0));
        bounds_s.iter().zip(counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((*bound, *sum))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_from_its_bound_on() {
        let (mut histogram, bounds) = (Histogram::default(), [0.1, 1.0]);
        assert_eq!(histogram.cumulative(&bounds).collect::<Vec<_>>(), [(0.1, 0), (1.0, 0)]);
        for ms in [100, 101, 5000] {
            histogram.observe(&bounds, Duration::from_millis(ms));
        }
        assert_eq!(histogram.cumulative(&bounds).collect::<Vec<_>>(), [(0.1, 1), (1.0, 2)]);
        assert_eq!((histogram.count(), histogram.sum_us()), (3, 5_201_000));
    }
}
