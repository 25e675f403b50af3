//! What the replicas of a node are doing, for heartbeats, health and status. Written by their threads, read by all.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use hotspare_cluster::{Epoch, Offset, PartitionId, ReplicaReport, Role};

use super::devices::Devices;
use super::machine::{Checks, Replica};
use crate::changelog::Progress;

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
pub struct Statuses {
    replicas: Arc<Mutex<BTreeMap<PartitionId, ReplicaStatus>>>,
    devices: Devices,
}

impl Statuses {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PartitionId, ReplicaStatus>> {
        self.replicas.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The devices of the replicas.
    #[must_use]
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Changes the status of a replica, which is made if it is new.
    pub fn update(&self, partition: PartitionId, change: impl FnOnce(&mut ReplicaStatus)) {
        change(self.lock().entry(partition).or_insert_with(ReplicaStatus::new));
    }

    /// The replica is gone.
    pub fn remove(&self, partition: PartitionId) {
        self.lock().remove(&partition);
    }

    /// A copy of all.
    #[must_use]
    pub fn all(&self) -> BTreeMap<PartitionId, ReplicaStatus> {
        self.lock().clone()
    }

    /// The short reports for the heartbeat.
    #[must_use]
    pub fn reports(&self) -> Vec<ReplicaReport> {
        self.lock().iter().map(|(partition, status)| status.report(*partition)).collect()
    }
}
