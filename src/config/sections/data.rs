//! Sections of the data plane: topics, active, replication, checkpoint.

use super::section;
use crate::config::units::{ByteSize, Timespan};

section! {
    /// `[topics]`, **C**: our topics. The input is `input.topic` and is never altered.
    pub struct TopicsSection {
        /// Changelog topic. Default: `<cluster>-changelog`.
        pub changelog: String = String::new(),
        /// Output topic. Default: `<cluster>-windows`.
        pub output: String = String::new(),
        /// Dead-letter topic. Default: `<cluster>-dead-letters`.
        pub dead_letters: String = String::new(),
        /// Create those of ours that are missing.
        pub create: bool = true,
        /// Replicas of our topics.
        pub replication_factor: u32 = 3,
        /// In-sync replicas that a write to our topics needs.
        pub min_insync_replicas: u32 = 2,
        /// How often settings are checked.
        pub check_interval: Timespan = Timespan::from_secs(60),
        /// Segment size of the changelog; the newest segment is never compacted.
        pub changelog_segment_bytes: ByteSize = ByteSize::from_mib(64),
        /// Longest time until the changelog begins a new segment.
        pub changelog_segment: Timespan = Timespan::from_secs(600),
        /// Share of not yet compacted records from which on the changelog is compacted, 0 to 1.
        pub changelog_min_cleanable_dirty_ratio: f64 = 0.1,
        /// Longest time until a record of the changelog is compacted.
        pub changelog_max_compaction_lag: Timespan = Timespan::from_secs(3600),
        /// How long tombstones stay; replicas and checkpoints older than this are discarded.
        pub changelog_delete_retention: Timespan = Timespan::from_secs(86_400),
    }
}

impl TopicsSection {
    /// Name of the changelog topic.
    #[must_use]
    pub fn changelog(&self) -> &str {
        &self.changelog
    }

    /// Name of the output topic.
    #[must_use]
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Name of the dead-letter topic.
    #[must_use]
    pub fn dead_letters(&self) -> &str {
        &self.dead_letters
    }
}

section! {
    /// `[active]`, **C**: the active replica of a partition.
    pub struct ActiveSection {
        /// Longest time between commits; the first transaction of a tenure and an idle partition commit at once.
        pub commit_interval: Timespan = Timespan::from_ms(100),
        /// Changed entries in one transaction.
        pub commit_entries_max: u64 = 10_000,
        /// Bytes in one transaction.
        pub commit_bytes_max: ByteSize = ByteSize::from_mib(8),
        /// After so long the broker aborts an open transaction; at least 20 commit intervals.
        pub transaction_timeout: Timespan = Timespan::from_secs(10),
        /// Input fetched and not yet applied, per node.
        pub input_bytes_max: ByteSize = ByteSize::from_mib(64),
    }
}

section! {
    /// `[replication]`: standby replicas.
    pub struct ReplicationSection {
        /// **C** Standbys per partition.
        pub standbys: u32 = 1,
        /// **R** A node becomes ready when each replica's lag is at or under this and `ready_lag_records`.
        pub ready_lag: Timespan = Timespan::from_secs(1),
        /// **R** See `ready_lag`.
        pub ready_lag_records: u64 = 10_000,
        /// **R** A node is no longer ready when it was above 4 times the limits for so long.
        pub unready_after: Timespan = Timespan::from_secs(30),
        /// Changelog fetched and not yet applied, also when the active stalls.
        pub buffer_bytes_max: ByteSize = ByteSize::from_mib(64),
        /// Longest wait of the broker for more to send.
        pub fetch_wait: Timespan = Timespan::from_ms(5),
    }
}

section! {
    /// `[checkpoint]`: snapshot files of the state.
    pub struct CheckpointSection {
        /// Longest time between two of a partition, also when nothing changed.
        pub interval: Timespan = Timespan::from_secs(60),
        /// Changelog bytes after which one is taken before its time.
        pub changelog_bytes: ByteSize = ByteSize::from_mib(64),
        /// Kept per partition.
        pub keep: u32 = 2,
        /// Rate per second of writing; 0: no limit.
        pub bytes_per_s_max: ByteSize = ByteSize::from_mib(50),
    }
}
