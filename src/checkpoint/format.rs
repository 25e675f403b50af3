//! The bytes of a checkpoint file: header, blocks, trailer.

use hotspare_cluster::{Offset, PartitionId};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// Format version written, and the newest one read.
pub const FORMAT: u32 = 1;
/// Oldest format version read.
pub(super) const FORMAT_OLDEST: u32 = 1;

pub(super) const MAGIC: [u8; 8] = *b"hsckpt\r\n";
pub(super) const END_MAGIC: [u8; 8] = *b"hsckend\n";
pub(super) const KIND_BLOCK: u32 = 0x6b6c_6200;
pub(super) const KIND_TRAILER: u32 = 0x646e_6500;

/// Magic, format, header length.
pub(super) const PREFIX_BYTES: usize = 16;
/// Kind, payload length, number of entries or blocks: head of a block and of the trailer.
pub(super) const FRAME_HEAD_BYTES: usize = 12;
/// Entries and whole checksum: payload of the trailer.
pub(super) const TRAILER_PAYLOAD_BYTES: usize = 24;
/// Longest header accepted, so that a damaged length asks for no memory.
pub(super) const HEADER_BYTES_MAX: usize = 1024 * 1024;
/// A block is closed when its payload has reached this size.
pub(super) const BLOCK_BYTES: usize = 256 * 1024;
/// Longest payload of a block; one entry, with its 8 bytes of lengths, must fit.
pub(super) const BLOCK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a checkpoint says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the hotspare cluster.
    pub cluster: String,
    /// Id of the Kafka cluster; empty if it was not known.
    pub kafka_cluster_id: String,
    /// Id of the changelog topic, which a re-created topic does not keep; empty if it was not known.
    pub changelog_topic_id: String,
    /// Partition of input and changelog.
    pub partition: PartitionId,
    /// Hash of `input`, `window` and `output` under which the state was made.
    pub semantics_hash: u64,
    /// Changelog offset to read next: everything before it is in the entries.
    pub changelog_offset: Offset,
    /// The last progress record, as encoded in the changelog; may be empty.
    pub progress: Vec<u8>,
    /// Number of entries that follow.
    pub entries: u64,
    /// 128-bit wrapping sum of `xxh3_128(key ++ value)` over the entries.
    pub digest: u128,
    /// When the state was last known to be complete up to the end of the changelog, in milliseconds since 1970. The age
    /// is counted from here, because tombstones after that moment may be gone before they were read: a replica that lags
    /// gives the time at which it was last level, not the time of writing.
    pub created_at_ms: i64,
}

/// The header on disk: numbers beyond 2^53 and bytes as hexadecimal text, so that any JSON reader shows them right.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeaderJson {
    cluster: String,
    kafka_cluster_id: String,
    changelog_topic_id: String,
    partition: u32,
    semantics_hash: String,
    changelog_offset: i64,
    progress: String,
    entries: u64,
    digest: String,
    created_at_ms: i64,
}

impl Header {
    pub(super) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&HeaderJson {
            cluster: self.cluster.clone(),
            kafka_cluster_id: self.kafka_cluster_id.clone(),
            changelog_topic_id: self.changelog_topic_id.clone(),
            partition: self.partition.0,
            semantics_hash: format!("{:016x}", self.semantics_hash),
            changelog_offset: self.changelog_offset.0,
            progress: self.progress.iter().map(|byte| format!("{byte:02x}")).collect(),
            entries: self.entries,
            digest: format!("{:032x}", self.digest),
            created_at_ms: self.created_at_ms,
        })
    }

    /// `None` if these bytes are not the header of this format.
    pub(super) fn from_json(bytes: &[u8]) -> Option<Header> {
        let json: HeaderJson = serde_json::from_slice(bytes).ok()?;
        Some(Header {
            cluster: json.cluster,
            kafka_cluster_id: json.kafka_cluster_id,
            changelog_topic_id: json.changelog_topic_id,
            partition: PartitionId(json.partition),
            semantics_hash: u64::from_str_radix(&json.semantics_hash, 16).ok()?,
            changelog_offset: Offset(json.changelog_offset),
            progress: from_hex(&json.progress)?,
            entries: json.entries,
            digest: u128::from_str_radix(&json.digest, 16).ok()?,
            created_at_ms: json.created_at_ms,
        })
    }

    /// Whether two checkpoints are of one history, so that the one with the higher offset is the newer.
    pub(super) fn same_history(&self, other: &Header) -> bool {
        self.cluster == other.cluster
            && self.kafka_cluster_id == other.kafka_cluster_id
            && self.changelog_topic_id == other.changelog_topic_id
            && self.partition == other.partition
            && self.semantics_hash == other.semantics_hash
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// Magic, format, length, header and its checksum.
pub(super) fn encode_start(header_json: &[u8]) -> Vec<u8> {
    let length = u32::try_from(header_json.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + header_json.len() + 4);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(header_json);
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

/// The trailer and the end magic.
pub(super) fn encode_trailer(blocks: u32, entries: u64, whole: u128) -> Vec<u8> {
    let length = TRAILER_PAYLOAD_BYTES as u32;
    let mut bytes = Vec::with_capacity(FRAME_HEAD_BYTES + TRAILER_PAYLOAD_BYTES + 12);
    bytes.extend_from_slice(&KIND_TRAILER.to_le_bytes());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&blocks.to_le_bytes());
    bytes.extend_from_slice(&entries.to_le_bytes());
    bytes.extend_from_slice(&whole.to_le_bytes());
    let crc = crc32fast::hash(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&END_MAGIC);
    bytes
}

/// Collects entries into blocks, with their count and digest.
#[derive(Debug, Default)]
pub(super) struct BlockBuilder {
    /// Frame head (filled in at the end) and payload.
    bytes: Vec<u8>,
    entries_in_block: u32,
    /// Entries of all blocks so far.
    pub(super) entries: u64,
    /// Digest of all blocks so far.
    pub(super) digest: u128,
}

impl BlockBuilder {
    /// Adds an entry; gives the finished block when it is full. `Err` is the size of an entry that is too large.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>, usize> {
        let size = key.len().saturating_add(value.len()).saturating_add(8);
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len())) else {
            return Err(size);
        };
        if size > BLOCK_BYTES_MAX {
            return Err(size);
        }
        // Small blocks never grow beyond the limit: one that an entry would push over it is closed before.
        let full = if self.payload_bytes() + size > BLOCK_BYTES_MAX { self.finish() } else { None };
        if self.bytes.is_empty() {
            self.bytes.reserve(FRAME_HEAD_BYTES + BLOCK_BYTES + size.min(BLOCK_BYTES) + 4);
            self.bytes.resize(FRAME_HEAD_BYTES, 0);
        }
        self.bytes.extend_from_slice(&key_len.to_le_bytes());
        self.bytes.extend_from_slice(&value_len.to_le_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.digest = self.digest.wrapping_add(xxh3_128(&self.bytes[start..]));
        self.entries += 1;
        self.entries_in_block += 1;
        if full.is_none() && self.payload_bytes() >= BLOCK_BYTES {
            return Ok(self.finish());
        }
        Ok(full)
    }

    /// The block begun, if it has entries.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        if self.entries_in_block == 0 {
            return None;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        let length = u32::try_from(bytes.len() - FRAME_HEAD_BYTES).unwrap_or(u32::MAX);
        bytes[0..4].copy_from_slice(&KIND_BLOCK.to_le_bytes());
        bytes[4..8].copy_from_slice(&length.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.entries_in_block.to_le_bytes());
        let crc = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.entries_in_block = 0;
        Some(bytes)
    }

    fn payload_bytes(&self) -> usize {
        self.bytes.len().saturating_sub(FRAME_HEAD_BYTES)
    }
}
