//! When a replica's state goes to a checkpoint file, and how: copied at a commit, written by a thread of its own.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use hotspare_cluster::{Offset, PartitionId};
use hotspare_system::thread;

use super::{machine::Replica, status::Statuses};
use crate::{
    checkpoint::{CheckpointError, Directory, Header, Settings, Snapshot},
    log::LogIdentity,
    metrics::catalogue::{CHECKPOINT_FAILURES, CHECKPOINT_SECONDS},
    semantics::Semantics,
};

/// How checkpoints are taken.
#[derive(Debug, Clone)]
pub struct CheckpointRules {
    /// Folder with one folder for each partition.
    pub folder: PathBuf,
    /// Name of the cluster.
    pub cluster: String,
    /// Longest time between two.
    pub interval: Duration,
    /// Changelog records after which the next one is due before that time.
    pub changelog_records: i64,
    /// How the files are written and kept.
    pub files: Settings,
    /// `delete.retention.ms` of the changelog: an older checkpoint may have missed tombstones.
    pub age_max: Duration,
}

/// Takes the checkpoints of one partition.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    rules: CheckpointRules,
    directory: Arc<Directory>,
    identity: LogIdentity,
    semantics: Arc<Semantics>,
    partition: PartitionId,
    busy: Arc<AtomicBool>,
    last: Arc<Mutex<(Instant, Offset)>>,
    statuses: Statuses,
}

impl Checkpoints {
    /// Opens the partition's folder.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open(
        rules: &CheckpointRules,
        identity: LogIdentity,
        semantics: &Arc<Semantics>,
        partition: PartitionId,
        statuses: &Statuses,
    ) -> Result<Self, CheckpointError> {
        let directory = Directory::open(rules.folder.join(partition.to_string()), rules.files)?;
        Ok(Self {
            directory: Arc::new(directory),
            rules: rules.clone(),
            identity,
            semantics: Arc::clone(semantics),
            partition,
            busy: Arc::default(),
            // Spread over the partitions, so that a node does not write all of them at once.
            last: Arc::new(Mutex::new((Instant::now() - spread(partition, rules.interval), Offset(0)))),
            statuses: statuses.clone(),
        })
    }

    /// The folder.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &CheckpointRules {
        &self.rules
    }

    /// Which log they belong to.
    #[must_use]
    pub fn identity(&self) -> &LogIdentity {
        &self.identity
    }

    /// A checkpoint at this offset was loaded, so the next one is not due at once.
    pub fn loaded(&self, offset: Offset) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).1 = offset;
    }

    /// Takes a checkpoint if one is due. To be called at a commit, when the state is that of a progress record.
    pub fn take_if_due(&self, replica: &Replica) {
        let (at, offset) = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = at.elapsed() >= self.rules.interval
            || replica.next().0.saturating_sub(offset.0) >= self.rules.changelog_records;
        if due {
            self.take(replica);
        }
    }

    fn take(&self, replica: &Replica) {
        let Some(progress) = replica.progress() else { return };
        if self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (Instant::now(), replica.next());
        let mut snapshot = Snapshot::new();
        replica.store().for_each_entry(|key, value| snapshot.entry(key, value));
        let header = Header {
            cluster: self.rules.cluster.clone(),
            kafka_cluster_id: self.identity.kafka_cluster_id.clone(),
            changelog_topic_id: self.identity.changelog_topic_id.clone(),
            partition: self.partition,
            semantics_hash: self.semantics.hash(),
            changelog_offset: replica.next(),
            progress: progress.encode(),
            entries: progress.entries,
            digest: progress.digest,
            created_at_ms: wall_clock_ms() - self.level_age_ms(),
        };
        let this = self.clone();
        thread::spawn(move || {
            let (meters, begin) = (this.statuses.meters(), Instant::now());
            match this.directory.write_snapshot(&header, snapshot) {
                Ok(written) => {
                    tracing::debug!(partition = %this.partition, offset = %header.changelog_offset, bytes = written.bytes,
                        "checkpoint written");
                    meters.time(&CHECKPOINT_SECONDS, &[], begin.elapsed());
                    this.statuses.update(this.partition, |status| {
                        status.checkpoint_at = Some(Instant::now());
                        status.checkpoint_bytes = Some(written.bytes);
                        status.checkpoint_problem = None;
                    });
                }
                Err(error) => {
                    tracing::error!(partition = %this.partition, %error, "checkpoint not written");
                    meters.count(&CHECKPOINT_FAILURES, &[error.stage()]);
                    this.statuses.update(this.partition, |status| status.checkpoint_problem = Some(error.to_string()));
                }
            }
            this.busy.store(false, Ordering::Release);
        });
    }

    /// How long ago everything in the changelog was known to be applied: an older tombstone may be gone unread.
    fn level_age_ms(&self) -> i64 {
        let level_at = self.statuses.all().get(&self.partition).and_then(|status| status.level_at);
        level_at.map_or(0, |at| at.elapsed().as_millis().try_into().unwrap_or(i64::MAX))
    }
}

fn spread(partition: PartitionId, interval: Duration) -> Duration {
    interval / 8 * (partition.0 % 8)
}

/// Milliseconds since 1970 by this machine's clock: for ages of files only.
#[must_use]
pub fn wall_clock_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_millis().try_into().unwrap_or(i64::MAX))
}
