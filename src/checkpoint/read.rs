//! Reading a checkpoint file and checking every byte of it.

use std::io::Read;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::format::{
    BLOCK_BYTES_MAX, END_MAGIC, FORMAT, FORMAT_OLDEST, FRAME_HEAD_BYTES, HEADER_BYTES_MAX, Header, KIND_BLOCK,
    KIND_TRAILER, MAGIC, PREFIX_BYTES, TRAILER_PAYLOAD_BYTES,
};
use super::refusal::Reason;

/// A file being read: knows its position and length and sums up the whole.
struct Source<R> {
    inner: R,
    position: u64,
    length: u64,
    whole: Xxh3,
}

impl<R: Read> Source<R> {
    fn new(inner: R, length: u64) -> Source<R> {
        Source { inner, position: 0, length, whole: Xxh3::new() }
    }

    /// Fills `buffer`, or says in the middle of which part the file ended. No memory is asked for what is not there.
    fn fill(&mut self, buffer: &mut Vec<u8>, bytes: usize, part: impl Fn() -> String) -> Result<(), Reason> {
        let truncated = |length| Reason::Truncated { length, part: part() };
        if self.length.saturating_sub(self.position) < bytes as u64 {
            return Err(truncated(self.length));
        }
        buffer.resize(bytes, 0);
        match self.inner.read_exact(buffer) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(truncated(self.position));
            }
            Err(error) => {
                return Err(Reason::Io { error: error.to_string() });
            }
        }
        self.position += bytes as u64;
        Ok(())
    }
}

/// Reads and checks the beginning of a file only: enough to know what it is, not whether its entries are sound.
pub(super) fn read_header(inner: impl Read, length: u64) -> Result<Header, Reason> {
    header(&mut Source::new(inner, length))
}

/// Reads a whole file, hands out the entries of each block whose checksum is right, and checks everything else.
///
/// After an `Err` the caller must throw away what it was given: the error may be behind the entries.
pub(super) fn scan(inner: impl Read, length: u64, mut entry: impl FnMut(&[u8], &[u8])) -> Result<Header, Reason> {
    let mut source = Source::new(inner, length);
    let header = header(&mut source)?;
    let (mut blocks, mut entries, mut digest) = (0_u32, 0_u64, 0_u128);
    let (mut frame, mut payload) = (Vec::new(), Vec::new());
    loop {
        let at_byte = source.position;
        let part = || format!("block {blocks}");
        source.fill(&mut frame, FRAME_HEAD_BYTES, part)?;
        let (kind, payload_bytes, count) = (u32_at(&frame, 0), u32_at(&frame, 4) as usize, u32_at(&frame, 8));
        match kind {
            KIND_BLOCK if payload_bytes <= BLOCK_BYTES_MAX => {
                rest_of_frame(&mut source, &mut frame, &mut payload, payload_bytes, at_byte, part)?;
                source.whole.update(&frame);
                source.whole.update(&payload);
                let entries_here = &payload[..payload_bytes];
                digest = digest.wrapping_add(walk(entries_here, count, at_byte, &mut entry)?);
                entries += u64::from(count);
                blocks = blocks.saturating_add(1);
            }
            KIND_TRAILER if payload_bytes == TRAILER_PAYLOAD_BYTES => {
                let seen = Seen { blocks, entries, digest };
                trailer(&mut source, &mut frame, at_byte, &seen, count)?;
                return seen.check(header);
            }
            KIND_BLOCK | KIND_TRAILER => {
                return Err(Reason::Malformed {
                    at_byte: at_byte + 4,
                    what: format!("a length of {payload_bytes} bytes"),
                });
            }
            _ => {
                return Err(Reason::Malformed { at_byte, what: format!("a part of the unknown kind {kind:08x}") });
            }
        }
    }
}

struct Seen {
    blocks: u32,
    entries: u64,
    digest: u128,
}

impl Seen {
    fn check(&self, header: Header) -> Result<Header, Reason> {
        if self.entries != header.entries {
            return Err(Reason::Entries { found: self.entries, wanted: header.entries });
        }
        if self.digest != header.digest {
            return Err(Reason::Digest { found: self.digest, wanted: header.digest });
        }
        Ok(header)
    }
}

fn header<R: Read>(source: &mut Source<R>) -> Result<Header, Reason> {
    let part = || "the header".to_owned();
    let mut prefix = Vec::new();
    source.fill(&mut prefix, PREFIX_BYTES, part)?;
    if prefix[..MAGIC.len()] != MAGIC {
        return Err(Reason::Malformed { at_byte: 0, what: "the file does not begin as a checkpoint does".to_owned() });
    }
    let format = u32_at(&prefix, 8);
    // Before the checksum, for another format may have it elsewhere.
    if !(FORMAT_OLDEST..=FORMAT).contains(&format) {
        return Err(Reason::Format { found: format, supported: FORMAT });
    }
    let header_bytes = u32_at(&prefix, 12) as usize;
    if header_bytes > HEADER_BYTES_MAX {
        return Err(Reason::Malformed { at_byte: 12, what: format!("a header of {header_bytes} bytes") });
    }
    let mut rest = Vec::new();
    source.fill(&mut rest, header_bytes + 4, part)?;
    let (json, stored) = rest.split_at(header_bytes);
    let mut crc = crc32fast::Hasher::new();
    crc.update(&prefix);
    crc.update(json);
    if crc.finalize() != u32_at(stored, 0) {
        return Err(Reason::Checksum { at_byte: 0, part: part() });
    }
    source.whole.update(&prefix);
    source.whole.update(&rest);
    Header::from_json(json).ok_or_else(|| Reason::Malformed {
        at_byte: PREFIX_BYTES as u64,
        what: "the header is not one of this format".to_owned(),
    })
}

/// Payload and checksum that follow a frame's head.
fn rest_of_frame<R: Read>(
    source: &mut Source<R>,
    head: &mut [u8],
    payload: &mut Vec<u8>,
    payload_bytes: usize,
    at_byte: u64,
    part: impl Fn() -> String,
) -> Result<(), Reason> {
    source.fill(payload, payload_bytes + 4, &part)?;
    let mut crc = crc32fast::Hasher::new();
    crc.update(head);
    crc.update(&payload[..payload_bytes]);
    if crc.finalize() != u32_at(payload, payload_bytes) {
        return Err(Reason::Checksum { at_byte, part: part() });
    }
    Ok(())
}

/// Checks the trailer, the checksum of the whole, and that nothing follows.
fn trailer<R: Read>(
    source: &mut Source<R>,
    head: &mut [u8],
    at_byte: u64,
    seen: &Seen,
    blocks: u32,
) -> Result<(), Reason> {
    let part = || "the trailer".to_owned();
    let mut payload = Vec::new();
    rest_of_frame(source, head, &mut payload, TRAILER_PAYLOAD_BYTES, at_byte, part)?;
    let entries = u64_at(&payload, 0);
    let whole = u128::from(u64_at(&payload, 8)) | u128::from(u64_at(&payload, 16)) << 64;
    if whole != source.whole.digest128() {
        return Err(Reason::Checksum { at_byte: 0, part: "the whole file".to_owned() });
    }
    if (blocks, entries) != (seen.blocks, seen.entries) {
        return Err(Reason::Malformed {
            at_byte,
            what: format!(
                "the trailer counts {blocks} blocks and {entries} entries, the file has {} and {}",
                seen.blocks, seen.entries
            ),
        });
    }
    let end_at = source.position;
    let mut end = Vec::new();
    source.fill(&mut end, END_MAGIC.len(), part)?;
    if end != END_MAGIC {
        return Err(Reason::Checksum { at_byte: end_at, part: "the end mark".to_owned() });
    }
    if source.position != source.length {
        return Err(Reason::Malformed {
            at_byte: source.position,
            what: format!("{} bytes follow the end", source.length - source.position),
        });
    }
    Ok(())
}

/// Hands out the entries of a block whose checksum is right; returns their digest.
fn walk(payload: &[u8], count: u32, at_byte: u64, entry: &mut impl FnMut(&[u8], &[u8])) -> Result<u128, Reason> {
    let malformed =
        || Reason::Malformed { at_byte, what: format!("the lengths of this block's {count} entries do not fit") };
    let mut digest = 0_u128;
    let mut rest = payload;
    for _ in 0..count {
        let (lengths, after) = rest.split_at_checked(8).ok_or_else(malformed)?;
        let key_bytes = u32_at(lengths, 0) as usize;
        let both_bytes = key_bytes.checked_add(u32_at(lengths, 4) as usize).ok_or_else(malformed)?;
        let (both, after) = after.split_at_checked(both_bytes).ok_or_else(malformed)?;
        digest = digest.wrapping_add(xxh3_128(both));
        let (key, value) = both.split_at(key_bytes);
        entry(key, value);
        rest = after;
    }
    if rest.is_empty() { Ok(digest) } else { Err(malformed()) }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}
