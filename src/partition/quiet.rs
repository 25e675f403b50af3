//! When an active may tell log time to the changelog: SEMANTICS 7, "Log-time fact". Pure.

use std::time::{Duration, Instant};

const TELL_EVERY: Duration = Duration::from_secs(1);

/// How long the input has been silent.
#[derive(Debug)]
pub(super) struct Quiet {
    is_at_end: bool,
    /// A log time in milliseconds and when it was seen.
    anchor: (i64, Instant),
    told_at: Option<Instant>,
}

impl Quiet {
    /// At the begin of a tenure.
    pub(super) fn new(log_time_ms: i64, now: Instant) -> Self {
        Self { is_at_end: false, anchor: (log_time_ms, now), told_at: None }
    }

    /// Nothing is unread.
    pub(super) fn reached_end(&mut self) {
        self.is_at_end = true;
    }

    /// There is, or may be, something to read.
    pub(super) fn has_unread(&mut self) {
        self.is_at_end = false;
    }

    /// The log time in milliseconds that may be told now, if any. It is not ahead of this machine's clock, and no further
    /// after a log time that was seen here than the time that has gone by since: so a clock that jumps ahead closes
    /// nothing.
    pub(super) fn log_time_to_tell(&mut self, log_time_ms: i64, now: Instant, wall_ms: i64) -> Option<i64> {
        let (anchor_ms, at) = self.anchor;
        let gone_ms = i64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(i64::MAX);
        let estimate_ms = anchor_ms.saturating_add(gone_ms);
        if log_time_ms > estimate_ms {
            self.anchor = (log_time_ms, now);
            return None;
        }
        let tell_ms = estimate_ms.min(wall_ms);
        let is_too_early = self.told_at.is_some_and(|told_at| now.saturating_duration_since(told_at) < TELL_EVERY);
        if !self.is_at_end || is_too_early || tell_ms <= log_time_ms {
            return None;
        }
        self.told_at = Some(now);
        Some(tell_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Quiet;
    use std::time::{Duration, Instant};

    #[test]
    fn log_time_is_told_only_of_a_silent_input_and_by_the_slower_of_two_clocks() {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let mut quiet = Quiet::new(1_000_000, begin);
        assert_eq!(quiet.log_time_to_tell(1_000_000, after(5_000), i64::MAX), None);
        quiet.reached_end();
        assert_eq!(quiet.log_time_to_tell(1_000_000, after(5_000), i64::MAX), Some(1_005_000));
        // Not again at once, and not beyond the wall clock.
        assert_eq!(quiet.log_time_to_tell(1_005_000, after(5_500), i64::MAX), None);
        assert_eq!(quiet.log_time_to_tell(1_005_000, after(7_000), 1_006_000), Some(1_006_000));
        assert_eq!(quiet.log_time_to_tell(1_006_000, after(9_000), 900_000), None);
        quiet.has_unread();
        assert_eq!(quiet.log_time_to_tell(1_006_000, after(12_000), i64::MAX), None);
        // A record from ahead: from there on it goes by the time that goes by.
        quiet.reached_end();
        assert_eq!(quiet.log_time_to_tell(2_000_000, after(13_000), i64::MAX), None);
        assert_eq!(quiet.log_time_to_tell(2_000_000, after(15_000), i64::MAX), Some(2_002_000));
    }
}
