//! Why a checkpoint is not used.

use std::fmt;
use std::path::PathBuf;

use hotspare_cluster::{Offset, PartitionId};

use super::format::{FORMAT_OLDEST, Header};

/// How far a checkpoint's time may be ahead of this machine's clock. Beyond it one of the clocks was wrong and the
/// checkpoint's age is not known.
pub const FUTURE_TOLERANCE_MS: i64 = 5 * 60 * 1000;

/// What a checkpoint must match to be used.
#[derive(Clone, Debug)]
pub struct Expect {
    /// Name of the hotspare cluster.
    pub cluster: String,
    /// Id of the Kafka cluster; empty: unknown, not checked.
    pub kafka_cluster_id: String,
    /// Id of the changelog topic; empty: unknown, not checked.
    pub changelog_topic_id: String,
    /// The partition.
    pub partition: PartitionId,
    /// Hash of this node's `input`, `window` and `output`.
    pub semantics_hash: u64,
    /// `delete.retention.ms` of the changelog topic; an older checkpoint may have missed tombstones. `None`: unknown, not
    /// checked.
    pub age_max_ms: Option<u64>,
    /// Wall clock, in milliseconds since 1970.
    pub now_ms: i64,
    /// First offset of the changelog partition; `None`: unknown, not checked.
    pub log_start: Option<Offset>,
    /// End of the changelog partition (next offset to be written); `None`: unknown, not checked.
    pub log_end: Option<Offset>,
}

impl Expect {
    /// `Err` if a sound checkpoint with this header is not to be used.
    pub(super) fn check(&self, header: &Header) -> Result<(), Reason> {
        let differ = |found: &str, wanted: &str| !wanted.is_empty() && found != wanted;
        if header.cluster != self.cluster {
            return Err(Reason::Cluster { found: header.cluster.clone(), wanted: self.cluster.clone() });
        }
        if header.partition != self.partition {
            return Err(Reason::Partition { found: header.partition, wanted: self.partition });
        }
        if differ(&header.kafka_cluster_id, &self.kafka_cluster_id) {
            return Err(Reason::KafkaClusterId {
                found: header.kafka_cluster_id.clone(),
                wanted: self.kafka_cluster_id.clone(),
            });
        }
        if differ(&header.changelog_topic_id, &self.changelog_topic_id) {
            return Err(Reason::TopicId {
                found: header.changelog_topic_id.clone(),
                wanted: self.changelog_topic_id.clone(),
            });
        }
        if header.semantics_hash != self.semantics_hash {
            return Err(Reason::Semantics { found: header.semantics_hash, wanted: self.semantics_hash });
        }
        self.check_age(header)?;
        self.check_offset(header.changelog_offset)
    }

    fn check_age(&self, header: &Header) -> Result<(), Reason> {
        let Some(age_max_ms) = self.age_max_ms else {
            return Ok(());
        };
        let age_ms = self.now_ms.saturating_sub(header.created_at_ms);
        if age_ms < -FUTURE_TOLERANCE_MS {
            return Err(Reason::FromTheFuture { ahead_ms: age_ms.unsigned_abs() });
        }
        let age_ms = u64::try_from(age_ms).unwrap_or(0);
        if age_ms > age_max_ms {
            return Err(Reason::Age { age_ms, age_max_ms });
        }
        Ok(())
    }

    /// Whether the changelog still has, and already has, what follows this offset.
    fn check_offset(&self, offset: Offset) -> Result<(), Reason> {
        match (self.log_start, self.log_end) {
            (Some(log_start), _) if offset < log_start => Err(Reason::OffsetBelowLogStart { offset, log_start }),
            (_, Some(log_end)) if offset > log_end => Err(Reason::BeyondLogEnd { offset, log_end }),
            _ => Ok(()),
        }
    }
}

/// Why one checkpoint was refused. Byte positions count from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Bytes differ from what was written.
    #[error("{part} beginning at byte {at_byte} fails its checksum: the file is damaged; check the disk")]
    Checksum {
        /// First byte of the part.
        at_byte: u64,
        /// Which part: "the header", "block 3", "the trailer", "the whole file".
        part: String,
    },
    /// The file ends too early.
    #[error("the file ends at byte {length}, in the middle of {part}: it was cut off")]
    Truncated {
        /// Length of the file.
        length: u64,
        /// What was being read there.
        part: String,
    },
    /// Sound checksums or none reached, but not the layout of a checkpoint.
    #[error("not a checkpoint's layout at byte {at_byte}: {what}")]
    Malformed {
        /// Where.
        at_byte: u64,
        /// What is wrong there.
        what: String,
    },
    /// Number of entries differs from the header's.
    #[error("it holds {found} entries, its header says {wanted}: the file is damaged or was written wrongly")]
    Entries {
        /// Counted.
        found: u64,
        /// In the header.
        wanted: u64,
    },
    /// The digest computed from the entries differs from the header's.
    #[error(
        "its entries have the digest {found:032x}, its header says {wanted:032x}: the state was damaged before it was written; check the memory of the host that wrote it"
    )]
    Digest {
        /// Computed from the entries.
        found: u128,
        /// In the header.
        wanted: u128,
    },
    /// Written in a format that this version does not read.
    #[error(
        "it has format {found}, this version reads {FORMAT_OLDEST} to {supported}: it was written by another version of hotspare"
    )]
    Format {
        /// Of the file.
        found: u32,
        /// Newest that is read.
        supported: u32,
    },
    /// Of another hotspare cluster.
    #[error("it is of the cluster \"{found}\", this node is of \"{wanted}\": look at node.data_dir and cluster.name")]
    Cluster {
        /// In the header.
        found: String,
        /// This node's.
        wanted: String,
    },
    /// Of another Kafka cluster.
    #[error(
        "it is of the Kafka cluster {found}, this node is connected to {wanted}: look at kafka.properties \"bootstrap.servers\""
    )]
    KafkaClusterId {
        /// In the header.
        found: String,
        /// That of the connected cluster.
        wanted: String,
    },
    /// Of another topic of the same name.
    #[error(
        "it is of the changelog topic with id {found}, the topic has now id {wanted}: the topic was deleted and created again"
    )]
    TopicId {
        /// In the header.
        found: String,
        /// The topic's.
        wanted: String,
    },
    /// Of another partition.
    #[error("it is of partition {found}, wanted is partition {wanted}: the file was moved between folders")]
    Partition {
        /// In the header.
        found: PartitionId,
        /// The folder's.
        wanted: PartitionId,
    },
    /// Made under other semantics.
    #[error(
        "it was made with semantics {found:016x}, this node has {wanted:016x}: input, window or output were changed since"
    )]
    Semantics {
        /// In the header.
        found: u64,
        /// This node's.
        wanted: u64,
    },
    /// Too old: tombstones written since may be gone from the changelog.
    #[error("it is {} old, the changelog keeps tombstones for {} (delete.retention.ms): deletions since may be lost to it", show_ms(*age_ms), show_ms(*age_max_ms))]
    Age {
        /// Its age in milliseconds.
        age_ms: u64,
        /// The limit in milliseconds.
        age_max_ms: u64,
    },
    /// Its time is ahead of the clock, so its age is not known.
    #[error("its time is {} ahead of this machine's clock, so that its age is not known: check the clock", show_ms(*ahead_ms))]
    FromTheFuture {
        /// How far ahead, in milliseconds.
        ahead_ms: u64,
    },
    /// The changelog ends before the checkpoint: it lost records, or is another one.
    #[error(
        "it belongs to changelog offset {offset}, the changelog ends at {log_end}: the changelog lost records that were committed, or was created again"
    )]
    BeyondLogEnd {
        /// The checkpoint's.
        offset: Offset,
        /// The log's end.
        log_end: Offset,
    },
    /// The changelog no longer holds what follows the checkpoint.
    #[error(
        "it belongs to changelog offset {offset}, the changelog begins at {log_start}: the records between them are gone"
    )]
    OffsetBelowLogStart {
        /// The checkpoint's.
        offset: Offset,
        /// The log's first offset.
        log_start: Offset,
    },
    /// The file cannot be read.
    #[error("it cannot be read: {error}")]
    Io {
        /// The system's words.
        error: String,
    },
}

impl Reason {
    /// Short name for the label `reason` of metrics and for JSON; one of a fixed list.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Reason::Checksum { .. }
            | Reason::Truncated { .. }
            | Reason::Malformed { .. }
            | Reason::Entries { .. }
            | Reason::Digest { .. } => "checksum",
            Reason::Format { .. } => "format",
            Reason::Cluster { .. } => "cluster",
            Reason::KafkaClusterId { .. } => "kafka_cluster_id",
            Reason::TopicId { .. } => "topic_id",
            Reason::Partition { .. } => "partition",
            Reason::Semantics { .. } => "semantics",
            Reason::Age { .. } | Reason::FromTheFuture { .. } => "age",
            Reason::BeyondLogEnd { .. } | Reason::OffsetBelowLogStart { .. } => "offset",
            Reason::Io { .. } => "io",
        }
    }

    /// Whether the file itself is bad, whoever would use it; such a file is the first to be deleted.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.label() == "checksum"
    }
}

/// A checkpoint that was passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint \"{}\" refused: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for Refused {}

/// `3h 20m`, `41s`, `120ms`: the two largest units that are not zero.
fn show_ms(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let mut rest = ms;
    let mut parts = Vec::new();
    for (unit, size) in units {
        if rest >= size {
            parts.push(format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    parts.truncate(2);
    if parts.is_empty() { "0ms".to_owned() } else { parts.join(" ") }
}
