//! Why a checkpoint could not be written.

use std::io;
use std::path::PathBuf;

use super::refusal::Reason;

/// Why a checkpoint was not written; those before it are as they were.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The disk is full or failed, or the folder cannot be used.
    #[error("cannot {action} \"{}\": {source}. The checkpoints before it are untouched; free space or check the disk", path.display())]
    Io {
        /// What was tried: "write", "open".
        action: &'static str,
        /// File or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An entry is beyond what a checkpoint can hold.
    #[error("cannot write checkpoint \"{}\": an entry of {bytes} bytes is larger than the limit of 67108864 bytes", path.display())]
    EntryTooLarge {
        /// The file.
        path: PathBuf,
        /// Key, value and lengths.
        bytes: usize,
    },
    /// The entries are not those that the header speaks of: the state in memory is damaged or changed meanwhile.
    #[error("checkpoint \"{}\" not written: {found_entries} entries with digest {found_digest:032x} were given, the header says {wanted_entries} with {wanted_digest:032x}; the state in memory is not what its digest says, rebuild this replica", path.display())]
    EntriesDiffer {
        /// The file.
        path: PathBuf,
        /// Entries given.
        found_entries: u64,
        /// Their digest.
        found_digest: u128,
        /// Entries in the header.
        wanted_entries: u64,
        /// Digest in the header.
        wanted_digest: u128,
    },
    /// What was read back is not what was written.
    #[error("checkpoint \"{}\" not written: reading it back failed: {reason}", path.display())]
    ReadBack {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Reason,
    },
}

impl CheckpointError {
    /// `write` or `verify`: the label `stage` of the metric.
    #[must_use]
    pub fn stage(&self) -> &'static str {
        match self {
            CheckpointError::Io { .. } | CheckpointError::EntryTooLarge { .. } => "write",
            CheckpointError::EntriesDiffer { .. } | CheckpointError::ReadBack { .. } => "verify",
        }
    }
}
