//! Record formats of the changelog. The first byte of a key is its kind, the first byte of a value its version.
//!
//! | kind | key after it | value after the version |
//! |---|---|---|
//! | 0 progress | nothing: there is one | see `progress.rs` |
//! | 1 window | definition, device, metric, start | the whole aggregate, never a delta: see `entry.rs` |
//! | 2 series | device, metric | watermark, closed end, active time: see `extra.rs` |
//! | 3 log time | the input offset before which it stands | log time: a log-time fact |
//! | 4 identity | device, metric, 16 bytes | log time at which a reading of this identity was counted |
//!
//! Numbers of variable length are LEB128 in their shortest form, all others big-endian. Every state has exactly one
//! encoding, so equal states have equal bytes, and what is not canonical is refused.
//!
//! **Why windows are often enough.** A series' watermark is the largest time among its counted readings. Of tumbling,
//! hopping and calendar windows the one that holds that time and ends last is open: it took the reading, and closes only
//! once the watermark is at or after end + grace, while its end is after the watermark. So the newest open window's
//! `last_ms` is the watermark, at every moment. `closed_end` needs no place either: a window with an end up to it is
//! closed by the watermark too, for the watermark was at or after closed_end + grace when that window closed, and never
//! falls. Sessions, closing for silence, forgetting and deduplication break this: only they write records of series.

mod bytes;
mod counters;
mod entry;
mod extra;
mod progress;
mod unreadable;

pub use counters::{Counters, Rejected};
pub(crate) use entry::{Entry, WindowKey, decode_window, write_window_key, write_window_value};
pub(crate) use extra::{
    Life, SeriesKey, decode_log_time, decode_series, write_fact_key, write_identity_key, write_log_time_value,
    write_series_key, write_series_value,
};
pub use progress::Progress;
pub use unreadable::Unreadable;

/// Kinds of keys.
pub(crate) mod kind {
    /// The progress record.
    pub(crate) const PROGRESS: u8 = 0;
    /// An open window.
    pub(crate) const WINDOW: u8 = 1;
    /// A series.
    pub(crate) const SERIES: u8 = 2;
    /// A log-time fact.
    pub(crate) const LOG_TIME: u8 = 3;
    /// The identity of a counted reading.
    pub(crate) const IDENTITY: u8 = 4;
}

/// The newest version of values that this code writes and reads.
pub const VERSION: u8 = 1;

/// A changelog record that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangelogError {
    /// A later version of hotspare wrote it.
    #[error(
        "changelog record of kind {kind} has format version {version}; this version of hotspare reads up to {VERSION}: \
         upgrade this node"
    )]
    Newer {
        /// First byte of its key.
        kind: u8,
        /// First byte of its value.
        version: u8,
    },
    /// Its bytes are not what any version writes.
    #[error("corrupt changelog record of kind {kind} ({key_bytes} bytes key, {value_bytes} bytes value): {what}")]
    Corrupt {
        /// First byte of its key; 255 if the key is empty.
        kind: u8,
        /// Length of its key in bytes.
        key_bytes: usize,
        /// Length of its value in bytes.
        value_bytes: usize,
        /// What is wrong.
        what: &'static str,
    },
}

impl ChangelogError {
    pub(crate) fn corrupt(key: &[u8], value: Option<&[u8]>, what: &'static str) -> Self {
        Self::Corrupt {
            kind: key.first().copied().unwrap_or(255),
            key_bytes: key.len(),
            value_bytes: value.map_or(0, <[u8]>::len),
            what,
        }
    }
}

/// Reads the version byte of a value: what follows it, or why it cannot be read.
fn versioned<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], ChangelogError> {
    match value.split_first() {
        Some((&VERSION, rest)) => Ok(rest),
        Some((&version, _)) if version > VERSION => {
            Err(ChangelogError::Newer { kind: key.first().copied().unwrap_or(255), version })
        }
        _ => Err(ChangelogError::corrupt(key, Some(value), "it has no version")),
    }
}
