//! Whether the replicas of a node are near enough to their actives for the node to be ready, with hysteresis.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use hotspare_cluster::{PartitionId, Role, View};

use crate::partition::status::ReplicaStatus;

/// A node loses readiness only above so many times the limits.
const LOSE_FACTOR: u32 = 4;

/// When replicas are near enough; `replication.ready_lag`, `ready_lag_records` and `unready_after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyLimits {
    /// Ready at or under this age of the oldest record not yet applied.
    pub lag: Duration,
    /// Ready at or under so many records not yet applied.
    pub lag_records: u64,
    /// No longer ready when a replica was above four times a limit for so long.
    pub unready_after: Duration,
}

/// How far a replica is behind; what is unknown counts as too far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lag {
    /// The partition.
    pub partition: PartitionId,
    /// Records not yet applied.
    pub records: Option<u64>,
    /// Age of the oldest of them.
    pub age: Option<Duration>,
}

impl Lag {
    fn is_within(&self, factor: u32, limits: &ReadyLimits) -> bool {
        let records_max = limits.lag_records.saturating_mul(u64::from(factor));
        self.records.is_some_and(|records| records <= records_max)
            && self.age.is_some_and(|age| age <= limits.lag.saturating_mul(factor))
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition {} lag ", self.partition)?;
        match self.records {
            Some(records) => write!(f, "{records} records")?,
            None => f.write_str("? records")?,
        }
        match self.age {
            Some(age) => write!(f, ", {:.1} s", age.as_secs_f64()),
            None => f.write_str(", ? s"),
        }
    }
}

/// The lag of a replica: records and the age of the oldest one. None is unknown.
#[must_use]
pub(super) fn lag_of(status: &ReplicaStatus, now: Instant) -> (Option<u64>, Option<Duration>) {
    match status.role {
        Role::Active | Role::Promoting => (Some(0), Some(Duration::ZERO)),
        // Its position and the end of the log may be unknown yet, and 0 would look like the best of all.
        Role::Restoring if status.level_at.is_none() && status.lag_records() == 0 => (None, None),
        _ => {
            let records = u64::try_from(status.lag_records()).unwrap_or(0);
            let age = match records {
                0 => Some(Duration::ZERO),
                _ => status.level_at.map(|at| now.saturating_duration_since(at)),
            };
            (Some(records), age)
        }
    }
}

/// The lag of each replica that is here, or that should be.
#[must_use]
pub(super) fn lags(view: &View, replicas: &BTreeMap<PartitionId, ReplicaStatus>, now: Instant) -> Vec<Lag> {
    let unusable = |role| matches!(role, Role::Restoring | Role::Divergent);
    let mut lags: BTreeMap<PartitionId, Lag> = BTreeMap::new();
    for assigned in &view.partitions {
        if assigned.active == Some(view.node_id) || assigned.standbys.contains(&view.node_id) {
            let partition = assigned.partition;
            lags.insert(partition, Lag { partition, records: None, age: None });
        }
    }
    for (partition, status) in replicas {
        let (records, age) = lag_of(status, now);
        let age = age.filter(|_| !unusable(status.role));
        lags.insert(*partition, Lag { partition: *partition, records, age });
    }
    lags.into_values().collect()
}

/// Readiness of the replicas over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Readiness {
    ready: bool,
    above_since: BTreeMap<PartitionId, Instant>,
    detail: String,
}

impl Readiness {
    /// Takes in how far the replicas are behind now.
    pub(super) fn observe(&mut self, lags: &[Lag], limits: &ReadyLimits, now: Instant) {
        self.above_since.retain(|partition, _| lags.iter().any(|lag| lag.partition == *partition));
        for lag in lags {
            if lag.is_within(LOSE_FACTOR, limits) {
                self.above_since.remove(&lag.partition);
            } else {
                self.above_since.entry(lag.partition).or_insert(now);
            }
        }
        let late = |lag: &&Lag| {
            let since = self.above_since.get(&lag.partition);
            since.is_some_and(|since| now.saturating_duration_since(*since) >= limits.unready_after)
        };
        let behind = lags.iter().find(|lag| !lag.is_within(1, limits));
        if let Some(lag) = lags.iter().find(late) {
            let above =
                self.above_since.get(&lag.partition).map_or(Duration::ZERO, |at| now.saturating_duration_since(*at));
            self.ready = false;
            self.detail = format!(
                "{lag} > {} records or {:.1} s for {} s",
                limits.lag_records.saturating_mul(u64::from(LOSE_FACTOR)),
                limits.lag.saturating_mul(LOSE_FACTOR).as_secs_f64(),
                above.as_secs(),
            );
        } else if let Some(lag) = behind.filter(|_| !self.ready) {
            let (records, seconds) = (limits.lag_records, limits.lag.as_secs_f64());
            self.detail = format!("{lag}; ready at or under {records} records and {seconds:.1} s");
        } else {
            self.ready = true;
            self.detail.clear();
        }
    }

    /// Whether they are near enough, else why not.
    ///
    /// # Errors
    /// The partition that is too far behind, with its lag and the limits.
    pub(super) fn result(&self) -> Result<(), String> {
        match self.ready {
            true => Ok(()),
            false if self.detail.is_empty() => Err("not looked at yet".to_owned()),
            false => Err(self.detail.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ReadyLimits =
        ReadyLimits { lag: Duration::from_secs(1), lag_records: 10_000, unready_after: Duration::from_secs(30) };

    fn lag(records: u64, age_ms: u64) -> Lag {
        Lag { partition: PartitionId(4), records: Some(records), age: Some(Duration::from_millis(age_ms)) }
    }

    #[test]
    fn a_node_becomes_ready_at_or_under_both_limits() {
        let now = Instant::now();
        for (lag, ready) in [
            (lag(0, 0), true),
            (lag(10_000, 1000), true),
            (lag(10_001, 1000), false),
            (lag(10_000, 1001), false),
            (Lag { age: None, ..lag(0, 0) }, false),
            (Lag { records: None, ..lag(0, 0) }, false),
        ] {
            let mut readiness = Readiness::default();
            readiness.observe(&[lag], &LIMITS, now);
            assert_eq!(readiness.result().is_ok(), ready, "{lag}");
        }
    }

    #[test]
    fn a_node_loses_readiness_only_far_above_the_limits_and_only_after_a_while() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let mut readiness = Readiness::default();
        readiness.observe(&[lag(0, 0)], &LIMITS, start);
        readiness.observe(&[lag(40_000, 4000)], &LIMITS, after(100));
        assert!(readiness.result().is_ok(), "four times the limit is still ready");
        readiness.observe(&[lag(5, 12_100)], &LIMITS, after(200));
        readiness.observe(&[lag(5, 12_100)], &LIMITS, after(229));
        assert!(readiness.result().is_ok());
        readiness.observe(&[lag(5, 12_100)], &LIMITS, after(231));
        let detail = readiness.result().unwrap_err();
        assert_eq!(detail, "partition 4 lag 5 records, 12.1 s > 40000 records or 4.0 s for 31 s");
        readiness.observe(&[lag(5, 3000)], &LIMITS, after(232));
        assert!(readiness.result().is_err(), "under four times is not enough to become ready again");
        readiness.observe(&[lag(5, 900)], &LIMITS, after(233));
        assert!(readiness.result().is_ok());
    }

    #[test]
    fn a_short_recovery_begins_the_wait_anew() {
        let start = Instant::now();
        let after = |s| start + Duration::from_secs(s);
        let mut readiness = Readiness::default();
        readiness.observe(&[lag(0, 0)], &LIMITS, start);
        readiness.observe(&[lag(50_000, 0)], &LIMITS, after(1));
        readiness.observe(&[lag(20_000, 0)], &LIMITS, after(20));
        readiness.observe(&[lag(50_000, 0)], &LIMITS, after(21));
        readiness.observe(&[lag(50_000, 0)], &LIMITS, after(45));
        assert!(readiness.result().is_ok());
    }

    #[test]
    fn a_node_that_was_never_looked_at_is_not_ready_and_one_without_replicas_is() {
        assert!(Readiness::default().result().is_err());
        let mut readiness = Readiness::default();
        readiness.observe(&[], &LIMITS, Instant::now());
        assert!(readiness.result().is_ok());
    }
}
