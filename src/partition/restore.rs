//! Getting a replica's state back: the newest checkpoint that verifies and fits, else the one before, else the changelog
//! from its beginning. The log is asked first, so that a checkpoint of another log is refused.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hotspare_cluster::{Offset, PartitionId, Role};
use hotspare_system::thread;

use super::{
    machine::Replica,
    snapshot::{CheckpointRules, Checkpoints, wall_clock_ms},
    status::Statuses,
};
use crate::{
    checkpoint::{Directory, Expect, Loaded},
    log::{Log, LogError, Topic},
    metrics::catalogue::{CHECKPOINT_FAILURES, CHECKPOINTS_DISCARDED, KAFKA_ERRORS},
    semantics::Semantics,
    store::Store,
};

const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Why a replica cannot be restored now.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The changelog cannot be asked.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The folder of the checkpoints cannot be used.
    #[error(transparent)]
    Folder(#[from] crate::checkpoint::CheckpointError),
}

/// What a restore needs.
#[derive(Clone)]
pub struct Restore {
    /// The topics.
    pub log: Arc<dyn Log>,
    /// The rules of aggregation.
    pub semantics: Arc<Semantics>,
    /// The rules of checkpoints.
    pub rules: CheckpointRules,
    /// Where the status is told.
    pub statuses: Statuses,
}

impl Restore {
    /// Restores a replica, and tries again until it succeeds or nobody wants it any more.
    pub fn run(&self, partition: PartitionId, wanted: impl Fn() -> bool) -> Option<(Replica, Checkpoints)> {
        let (mut said, begin) = (false, Instant::now());
        while wanted() {
            match self.once(partition) {
                Ok((mut restored, source)) => {
                    restored.0.tell_devices(self.statuses.devices().clone());
                    self.statuses.update(partition, |status| {
                        status.problem = None;
                        status.role = Role::Restoring;
                        status.restoring = Some((begin, source));
                        status.observe(&restored.0);
                    });
                    return Some(restored);
                }
                Err(error) => {
                    if matches!(error, RestoreError::Log(_)) {
                        self.statuses.meters().count(&KAFKA_ERRORS, &["queries", "retriable"]);
                    }
                    if !std::mem::replace(&mut said, true) {
                        tracing::warn!(%partition, %error, "cannot restore yet, trying again");
                    }
                    self.statuses.update(partition, |status| status.problem = Some(error.to_string()));
                    thread::sleep(RETRY_AFTER);
                }
            }
        }
        None
    }

    /// Throws the checkpoints of a partition away, because a replica made from them turned out to be wrong or too old.
    pub fn distrust(&self, partition: PartitionId) {
        let folder = self.rules.folder.join(partition.to_string());
        let cleared = Directory::open(folder, self.rules.files).map(|directory| directory.clear());
        match cleared {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%partition, %error, "checkpoints cannot be removed"),
            Err(error) => tracing::error!(%partition, %error, "checkpoints cannot be removed"),
        }
    }

    fn once(&self, partition: PartitionId) -> Result<((Replica, Checkpoints), &'static str), RestoreError> {
        let identity = self.log.identity()?;
        let (log_start, log_end) = self.log.bounds(Topic::Changelog, partition)?;
        let checkpoints = Checkpoints::open(&self.rules, identity, &self.semantics, partition, &self.statuses)?;
        let expect = Expect {
            cluster: self.rules.cluster.clone(),
            kafka_cluster_id: checkpoints.identity().kafka_cluster_id.clone(),
            changelog_topic_id: checkpoints.identity().changelog_topic_id.clone(),
            partition,
            semantics_hash: self.semantics.hash(),
            age_max_ms: Some(self.rules.age_max.as_millis().try_into().unwrap_or(u64::MAX)),
            now_ms: wall_clock_ms(),
            log_start: Some(log_start),
            log_end: Some(log_end),
        };
        let (loaded, refused) = checkpoints.directory().newest_valid(&expect).unwrap_or_else(|error| {
            tracing::error!(%partition, %error, "folder of the checkpoints cannot be read");
            self.statuses.meters().count(&CHECKPOINT_FAILURES, &["load"]);
            (None, Vec::new())
        });
        for refusal in refused {
            self.statuses.meters().count(&CHECKPOINTS_DISCARDED, &[refusal.reason.label()]);
            tracing::warn!(%partition, path = %refusal.path.display(), reason = %refusal.reason, "checkpoint refused");
        }
        if let Some(replica) = loaded.and_then(|loaded| self.load(partition, loaded)) {
            checkpoints.loaded(replica.next());
            return Ok(((replica, checkpoints), "checkpoint"));
        }
        tracing::info!(%partition, from = %log_start, to = %log_end, "restoring from the changelog");
        Ok(((Replica::empty(&self.semantics, partition, log_start), checkpoints), "changelog"))
    }

    fn load(&self, partition: PartitionId, mut loaded: Loaded) -> Option<Replica> {
        let mut store = Store::new(Arc::clone(&self.semantics), partition);
        let mut failed = None;
        let read = loaded.for_each_entry(|key, value| {
            if let Err(error) = store.apply_changelog(key, Some(value)) {
                failed.get_or_insert(error.to_string());
            }
        });
        if let Err(error) = store.apply_changelog(crate::changelog::Progress::key(), Some(&loaded.header.progress)) {
            failed.get_or_insert(error.to_string());
        }
        let failed = failed.or_else(|| read.err().map(|refused| refused.reason.to_string())).or_else(|| {
            (store.digest() != loaded.header.digest).then(|| "its entries do not give the digest it names".to_owned())
        });
        if let Some(reason) = failed {
            self.statuses.meters().count(&CHECKPOINTS_DISCARDED, &["checksum"]);
            tracing::warn!(%partition, path = %loaded.path.display(), reason, "checkpoint refused");
            return None;
        }
        let next: Offset = loaded.header.changelog_offset;
        tracing::info!(%partition, offset = %next, entries = loaded.header.entries, "restored from a checkpoint");
        Some(Replica::from_store(store, &self.semantics, next))
    }
}
