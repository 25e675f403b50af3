//! Checkpoints: snapshot files of one partition's state together with the changelog offset they belong to.
//!
//! This room works on bytes: it knows keys and values, no store. A file is refused, with a reason, if it is truncated at
//! any byte, if any bit differs, or if it belongs to another cluster, topic, partition, configuration or time.
//!
//! Numbers are little-endian. Layout of format 1:
//!
//! ```text
//! magic 8 | format u32 | header length u32 | header (JSON) | crc32 of all before u32
//! block:    kind u32 | length u32 | entries u32 | payload | crc32 of kind .. payload u32     (any number of them)
//!           payload = entries of: key length u32 | value length u32 | key | value
//! trailer:  kind u32 | length u32 | blocks u32 | entries u64 | xxh3_128 of the file up to the trailer u128
//!           | crc32 of the trailer so far u32 | end magic 8
//! ```
//!
//! The digest in the header is the 128-bit wrapping sum of `xxh3_128(key ++ value)` over all entries. Writer and reader
//! both compute it from the entries and hold it against the header, so a checkpoint cannot differ from the state whose
//! digest the active and the standbys agreed on.

mod directory;
mod error;
mod format;
mod read;
mod refusal;
mod write;

#[cfg(test)]
mod tests;

pub use directory::{Directory, Listed, Loaded, Settings, Written};
pub use error::CheckpointError;
pub use format::{FORMAT, Header};
pub use refusal::{Expect, FUTURE_TOLERANCE_MS, Reason, Refused};
pub use write::{EntrySink, Snapshot};
