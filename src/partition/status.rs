//! What the replicas of a node are doing, for heartbeats, health and status. Written by their threads, read by all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hotspare_cluster::{Epoch, Offset, PartitionId, ReplicaReport, Role};

use super::devices::Devices;
use super::machine::{Checks, Replica};
use crate::{changelog::Progress, metrics::Meters};

/// One replica, as its thread last told.
#[derive(Debug, Clone)]
pub struct ReplicaStatus {
    /// What it is doing.
    pub role: Role,
    /// Its own epoch, or the highest it has seen.
    pub epoch: Epoch,
    /// Next changelog offset to apply.
    pub applied: Offset,
    /// Last stable offset as last seen.
    pub lso: Offset,
    /// When everything before the last stable offset was last known to be applied.
    pub level_at: Option<Instant>,
    /// When the last commit was applied or written.
    pub commit_at: Option<Instant>,
    /// The last progress record.
    pub progress: Option<Progress>,
    /// Outcomes counted one by one since the first record: the left side of the conservation law.
    pub consumed: u64,
    /// Series of the state.
    pub series: usize,
    /// Input records not yet read; only of an active.
    pub input_lag_records: Option<i64>,
    /// Whether the digest equals the active's.
    pub digest_equal: Option<bool>,
    /// Comparisons of digests.
    pub checks: Checks,
    /// Changelog records that cannot be read and were not replaced yet.
    pub unreadable_records: usize,
    /// When its thread turned last, outside a Kafka call.
    pub turned_at: Instant,
    /// When the last checkpoint was written.
    pub checkpoint_at: Option<Instant>,
    /// Size of that checkpoint.
    pub checkpoint_bytes: Option<u64>,
    /// While it restores: since when, and from what.
    pub restoring: Option<(Instant, &'static str)>,
    /// Why the last checkpoint was not written, if so.
    pub checkpoint_problem: Option<String>,
    /// Why it does not go on, if so, for the operator.
    pub problem: Option<String>,
}

impl ReplicaStatus {
    fn new() -> Self {
        Self {
            role: Role::Restoring,
            epoch: Epoch(0),
            applied: Offset(0),
            lso: Offset(0),
            level_at: None,
            commit_at: None,
            progress: None,
            consumed: 0,
            series: 0,
            input_lag_records: None,
            digest_equal: None,
            checks: Checks::default(),
            unreadable_records: 0,
            turned_at: Instant::now(),
            checkpoint_at: None,
            checkpoint_bytes: None,
            restoring: None,
            checkpoint_problem: None,
            problem: None,
        }
    }

    /// Takes over what the replica knows of itself.
    pub fn observe(&mut self, replica: &Replica) {
        let commit = |progress: Option<&Progress>| progress.map(|progress| progress.commit);
        if commit(self.progress.as_ref()) != commit(replica.progress()) {
            self.progress = replica.progress().cloned();
            self.commit_at = Some(Instant::now());
            self.consumed = replica.store().consumed();
        }
        self.epoch = self.epoch.max(replica.epoch_seen());
        self.applied = replica.next();
        self.lso = self.lso.max(self.applied);
        self.series = replica.store().series();
        self.digest_equal = replica.digest_equal();
        self.checks = replica.checks();
        self.unreadable_records = replica.unreadable_records();
        self.turned_at = Instant::now();
    }

    /// Records between the position and the last stable offset.
    #[must_use]
    pub fn lag_records(&self) -> i64 {
        (self.lso.0 - self.applied.0).max(0)
    }

    fn report(&self, partition: PartitionId) -> ReplicaReport {
        let age_ms = |at: Instant| i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        let lag_ms = if self.lag_records() == 0 { 0 } else { self.level_at.map_or(i64::MAX, age_ms) };
        ReplicaReport {
            partition,
            role: self.role,
            epoch: self.epoch,
            applied: self.applied,
            lso: self.lso,
            lag_records: self.lag_records(),
            lag_ms,
            commit: self.progress.as_ref().map_or(0, |progress| progress.commit),
            commit_age_ms: self.commit_at.map(|at| at.elapsed().as_millis().try_into().unwrap_or(u64::MAX)),
            input_lag_records: self.input_lag_records,
            digest_equal: self.digest_equal,
            loop_age_ms: self.turned_at.elapsed().as_millis().try_into().unwrap_or(u64::MAX),
            next_input: self.progress.as_ref().map(|progress| progress.next_input_offset),
        }
    }
}

/// The status of all replicas of a node; a cheap handle.
#[derive(Debug, Clone, Default)]
pub struct Statuses(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    replicas: Mutex<BTreeMap<PartitionId, ReplicaStatus>>,
    /// Comparisons of digests by replicas that are gone, for a counter must not forget what it has counted.
    checks_before: Mutex<BTreeMap<PartitionId, Checks>>,
    devices: Devices,
    meters: Meters,
}

impl Statuses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, ReplicaStatus>> {
        self.0.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The devices of the replicas.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.0.devices
    }

    /// What threads count for metrics.
    #[must_use]
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    fn checks_before(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Checks>> {
        self.0.checks_before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status of a replica, which is made if it is new.
    pub fn update(&self, partition: PartitionId, change: impl FnOnce(&mut ReplicaStatus)) {
        change(self.lock().entry(partition).or_insert_with(ReplicaStatus::new));
    }

    /// The replica is gone.
    pub fn remove(&self, partition: PartitionId) {
        if let Some(gone) = self.lock().remove(&partition) {
            self.checks_before().entry(partition).or_default().add(gone.checks);
        }
    }

    /// Whether a replica follows the changelog and was at its end a moment ago.
    #[must_use]
    pub fn is_level(&self, partition: PartitionId, within: Duration) -> bool {
        let replicas = self.lock();
        let level = |status: &ReplicaStatus| status.level_at.is_some_and(|at| at.elapsed() <= within);
        replicas.get(&partition).is_some_and(|status| status.role == Role::Standby && level(status))
    }

    /// A copy of all.
    #[must_use]
    pub fn all(&self) -> BTreeMap<PartitionId, ReplicaStatus> {
        let mut all = self.lock().clone();
        for (partition, checks) in &*self.checks_before() {
            if let Some(status) = all.get_mut(partition) {
                status.checks.add(*checks);
            }
        }
        all
    }

    /// The short reports for the heartbeat.
    #[must_use]
    pub fn reports(&self) -> Vec<ReplicaReport> {
        self.lock().iter().map(|(partition, status)| status.report(*partition)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_of_a_replica_that_is_built_anew_go_on_counting() {
        let (statuses, partition) = (Statuses::default(), PartitionId(3));
        let note = |equal, different| {
            statuses.update(partition, |status| status.checks = Checks { equal, different });
            statuses.all()[&partition].checks
        };
        assert_eq!(note(5, 1), Checks { equal: 5, different: 1 });
        statuses.remove(partition);
        assert_eq!(note(0, 0), Checks { equal: 5, different: 1 });
        assert_eq!(note(2, 0), Checks { equal: 7, different: 1 });
    }
}
