//! Writing a checkpoint file: from a running walk over the state, or from a copy taken before.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hotspare_system::thread;
use xxhash_rust::xxh3::Xxh3;

use super::format::{BLOCK_BYTES_MAX, BlockBuilder, Header, encode_start, encode_trailer};
use crate::atomic_file::AtomicFile;

/// What can be wrong while entries are written, without the file's name.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("an entry of {bytes} bytes is larger than the limit of {BLOCK_BYTES_MAX} bytes")]
    TooLarge { bytes: usize },
}

/// Takes the entries of a checkpoint that is being written.
///
/// It never fails to its caller's face, so that it fits a plain walk over the state: after the first error it ignores
/// what follows, and [`super::Directory::write`] returns that error.
pub struct EntrySink<'a> {
    builder: BlockBuilder,
    write_block: &'a mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    error: Option<EntryError>,
}

impl EntrySink<'_> {
    /// Adds one entry. Order does not matter; a key must come once only.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        if self.error.is_some() {
            return;
        }
        self.error = match self.builder.push(key, value) {
            Ok(None) => None,
            Ok(Some(block)) => (self.write_block)(block).err().map(EntryError::Io),
            Err(bytes) => Some(EntryError::TooLarge { bytes }),
        };
    }
}

/// Lets `fill` write its entries and returns their number and digest.
pub(super) fn collect(
    fill: impl FnOnce(&mut EntrySink<'_>),
    write_block: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
) -> Result<(u64, u128), EntryError> {
    let mut sink = EntrySink { builder: BlockBuilder::default(), write_block, error: None };
    fill(&mut sink);
    if let Some(error) = sink.error {
        return Err(error);
    }
    if let Some(block) = sink.builder.finish() {
        (sink.write_block)(block)?;
    }
    Ok((sink.builder.entries, sink.builder.digest))
}

/// A copy of a state's entries in memory, already in blocks.
///
/// A replica takes it at memory speed between two changes and gives it to another thread, which writes it at the speed
/// that is allowed. It needs as much memory as the file has bytes.
#[derive(Debug, Default)]
pub struct Snapshot {
    builder: BlockBuilder,
    blocks: Vec<Vec<u8>>,
    bytes: u64,
    too_large: Option<usize>,
}

impl Snapshot {
    /// An empty one.
    #[must_use]
    pub fn new() -> Snapshot {
        Snapshot::default()
    }

    /// Adds one entry. Order does not matter; a key must come once only.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) {
        match self.builder.push(key, value) {
            Ok(None) => {}
            Ok(Some(block)) => self.keep(block),
            Err(bytes) => self.too_large = Some(bytes),
        }
    }

    /// Number of entries so far.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.builder.entries
    }

    /// Their digest so far.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.builder.digest
    }

    /// Bytes of the finished blocks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn keep(&mut self, block: Vec<u8>) {
        self.bytes += block.len() as u64;
        self.blocks.push(block);
    }

    /// Hands out the blocks, each freed when it is written.
    pub(super) fn drain(
        mut self,
        write_block: &mut dyn FnMut(Vec<u8>) -> io::Result<()>,
    ) -> Result<(u64, u128), EntryError> {
        if let Some(bytes) = self.too_large {
            return Err(EntryError::TooLarge { bytes });
        }
        if let Some(block) = self.builder.finish() {
            self.keep(block);
        }
        for block in self.blocks {
            write_block(block)?;
        }
        Ok((self.builder.entries, self.builder.digest))
    }
}

/// A checkpoint file on its way to disk.
pub(super) struct FileWriter {
    file: AtomicFile,
    whole: Xxh3,
    blocks: u32,
    bytes: u64,
    throttle: Throttle,
}

impl FileWriter {
    pub(super) fn create(path: &Path, header: &Header, bytes_per_s_max: u64) -> io::Result<FileWriter> {
        let json = header.to_json().map_err(io::Error::from)?;
        let start = encode_start(&json);
        let mut writer = FileWriter {
            file: AtomicFile::create(path)?,
            whole: Xxh3::new(),
            blocks: 0,
            bytes: 0,
            throttle: Throttle::new(bytes_per_s_max),
        };
        writer.put(&start)?;
        Ok(writer)
    }

    pub(super) fn block(&mut self, block: &[u8]) -> io::Result<()> {
        self.put(block)?;
        self.blocks = self.blocks.saturating_add(1);
        let pause = self.throttle.after(self.bytes);
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        Ok(())
    }

    /// Writes the trailer and brings everything to the device. The file has no name yet.
    pub(super) fn finish(mut self, entries: u64) -> io::Result<(AtomicFile, u64)> {
        let trailer = encode_trailer(self.blocks, entries, self.whole.digest128());
        self.put(&trailer)?;
        self.file.sync()?;
        Ok((self.file, self.bytes))
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        fail::fail_point!("checkpoint_write_error", |_| Err(io::Error::other("failpoint checkpoint_write_error")));
        self.file.write_all(bytes)?;
        self.whole.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Keeps an average rate of writing, so that a checkpoint does not take the disk from the Raft log.
struct Throttle {
    bytes_per_s_max: u64,
    begun: Instant,
}

impl Throttle {
    /// A rate of 0 means none.
    fn new(bytes_per_s_max: u64) -> Throttle {
        Throttle { bytes_per_s_max, begun: Instant::now() }
    }

    fn after(&self, bytes: u64) -> Duration {
        pause(bytes, self.bytes_per_s_max, self.begun.elapsed())
    }
}

/// How long to wait when so many bytes were written in this time; at most a second, for the next block asks again.
fn pause(bytes: u64, bytes_per_s_max: u64, elapsed: Duration) -> Duration {
    if bytes_per_s_max == 0 {
        return Duration::ZERO;
    }
    let due_ms = u64::try_from(u128::from(bytes) * 1000 / u128::from(bytes_per_s_max)).unwrap_or(u64::MAX);
    Duration::from_millis(due_ms).saturating_sub(elapsed).min(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_is_held_back_to_the_rate_and_not_below_it() {
        assert_eq!(pause(50, 100, Duration::from_millis(200)), Duration::from_millis(300));
        assert_eq!(pause(50, 100, Duration::from_millis(500)), Duration::ZERO);
        assert_eq!(pause(50, 100, Duration::from_secs(9)), Duration::ZERO);
        assert_eq!(pause(u64::MAX, 1, Duration::ZERO), Duration::from_secs(1));
        assert_eq!(pause(u64::MAX, 0, Duration::ZERO), Duration::ZERO);
    }
}
