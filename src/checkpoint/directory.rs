//! The folder with one partition's checkpoints.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hotspare_cluster::Offset;

use super::error::CheckpointError;
use super::format::Header;
use super::read::{read_header, scan};
use super::refusal::{Expect, Reason, Refused};
use super::write::{EntryError, EntrySink, FileWriter, Snapshot, collect};
use crate::atomic_file::{self, AtomicFile};

const SUFFIX: &str = ".ckpt";
const READ_BUFFER_BYTES: usize = 256 * 1024;

/// How a folder's checkpoints are written and kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Checkpoints kept, at least 1.
    pub keep: usize,
    /// Average rate of writing; 0: no limit.
    pub bytes_per_s_max: u64,
    /// Read each file back from the device and check it before it gets its name.
    pub read_back: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { keep: 2, bytes_per_s_max: 50 * 1024 * 1024, read_back: true }
    }
}

/// A checkpoint file by its name; nothing of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The file.
    pub path: PathBuf,
    /// Changelog offset in the name.
    pub changelog_offset: Offset,
    /// Time in the name, in milliseconds since 1970.
    pub created_at_ms: i64,
}

/// A checkpoint that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Older ones that were deleted for it.
    pub removed: Vec<PathBuf>,
}

/// A checkpoint of which every byte was checked. The file stays readable even if it is deleted meanwhile.
#[derive(Debug)]
pub struct Loaded {
    /// What it says about itself.
    pub header: Header,
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    file: File,
}

impl Loaded {
    /// Opens a checkpoint and checks every byte of it, but not whom it belongs to.
    ///
    /// # Errors
    /// The file cannot be read or is not a sound checkpoint.
    pub fn open(path: &Path) -> Result<Loaded, Refused> {
        Loaded::open_if(path, |_| Ok(()))
    }

    fn open_if(path: &Path, fits: impl FnOnce(&Header) -> Result<(), Reason>) -> Result<Loaded, Refused> {
        let refused = |reason| Refused { path: path.to_path_buf(), reason };
        let open = || -> io::Result<(File, u64)> {
            let file = File::open(path)?;
            let bytes = file.metadata()?.len();
            Ok((file, bytes))
        };
        let (mut file, bytes) = open().map_err(|error| refused(Reason::Io { error: error.to_string() }))?;
        // The header first: a foreign file of many gigabytes is refused at once.
        fits(&read_header(&file, bytes).map_err(refused)?).map_err(refused)?;
        let header = scan_from_start(&mut file, bytes, |_, _| {}).map_err(refused)?;
        Ok(Loaded { header, path: path.to_path_buf(), bytes, file })
    }

    /// Hands out all entries, reading and checking the file once more.
    ///
    /// # Errors
    /// The disk gave other bytes than at the first reading. The caller throws away what it has built from them.
    pub fn for_each_entry(&mut self, mut entry: impl FnMut(&[u8], &[u8])) -> Result<(), Refused> {
        let half = self.header.entries / 2;
        let mut seen = 0_u64;
        scan_from_start(&mut self.file, self.bytes, |key, value| {
            if seen == half {
                fail::fail_point!("restore_mid");
            }
            seen += 1;
            entry(key, value);
        })
        .map(|_| ())
        .map_err(|reason| Refused { path: self.path.clone(), reason })
    }
}

fn scan_from_start(file: &mut File, bytes: u64, entry: impl FnMut(&[u8], &[u8])) -> Result<Header, Reason> {
    file.rewind().map_err(|error| Reason::Io { error: error.to_string() })?;
    scan(BufReader::with_capacity(READ_BUFFER_BYTES, &*file), bytes, entry)
}

/// The folder with the checkpoints of one partition; at most one process has it open for writing.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Files found damaged, the first to go when there are too many.
    damaged: BTreeSet<PathBuf>,
}

impl Directory {
    /// Opens the folder for writing; makes it if it is missing, and removes what a crash left of an unfinished write.
    ///
    /// # Errors
    /// The folder cannot be made, read or changed.
    pub fn open(path: impl Into<PathBuf>, settings: Settings) -> Result<Directory, CheckpointError> {
        let path = path.into();
        let prepare = || {
            fs::create_dir_all(&path)?;
            atomic_file::remove_leftovers(&path)
        };
        match prepare() {
            Ok(0) => {}
            Ok(files) => {
                tracing::info!(path = %path.display(), files, "checkpoint leftovers removed")
            }
            Err(source) => {
                return Err(CheckpointError::Io { action: "open", path, source });
            }
        }
        Ok(Directory { path, settings, state: Mutex::default() })
    }

    /// Opens the folder to look at it while a node may be using it; changes nothing.
    #[must_use]
    pub fn open_to_read(path: impl Into<PathBuf>) -> Directory {
        Directory { path: path.into(), settings: Settings::default(), state: Mutex::default() }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All checkpoint files, that of the highest changelog offset first. Other files are passed over.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if let Some((changelog_offset, created_at_ms)) = parse_name(&path) {
                found.push(Listed { path, changelog_offset, created_at_ms });
            }
        }
        // By offset, not by time: clocks jump, and offsets of one topic only grow.
        found.sort_by_key(|listed| std::cmp::Reverse((listed.changelog_offset, listed.created_at_ms)));
        Ok(found)
    }

    /// The checkpoint with the highest changelog offset that is sound and fits, and those passed over before it was found.
    ///
    /// # Errors
    /// The folder cannot be read. Anything wrong with single files is in the list.
    pub fn newest_valid(&self, expect: &Expect) -> io::Result<(Option<Loaded>, Vec<Refused>)> {
        let mut refused = Vec::new();
        for listed in self.list()? {
            match Loaded::open_if(&listed.path, |header| expect.check(header)) {
                Ok(loaded) => return Ok((Some(loaded), refused)),
                Err(this) => {
                    if this.reason.is_damage() {
                        self.state().damaged.insert(this.path.clone());
                    }
                    refused.push(this);
                }
            }
        }
        Ok((None, refused))
    }

    /// Writes a checkpoint from a walk over the state, then deletes the oldest beyond `keep`. Blocks as long as it takes
    /// at the allowed rate; see [`Snapshot`] for a state that must not stand still meanwhile.
    ///
    /// # Errors
    /// See [`CheckpointError`]; the checkpoints before it are untouched and nothing of this one is left.
    pub fn write(&self, header: &Header, fill: impl FnOnce(&mut EntrySink<'_>)) -> Result<Written, CheckpointError> {
        self.write_blocks(header, |write_block| collect(fill, write_block))
    }

    /// As [`Directory::write`], from a copy of the state.
    ///
    /// # Errors
    /// As [`Directory::write`].
    pub fn write_snapshot(&self, header: &Header, snapshot: Snapshot) -> Result<Written, CheckpointError> {
        self.write_blocks(header, |write_block| snapshot.drain(write_block))
    }

    fn write_blocks(
        &self,
        header: &Header,
        blocks: impl FnOnce(&mut dyn FnMut(Vec<u8>) -> io::Result<()>) -> Result<(u64, u128), EntryError>,
    ) -> Result<Written, CheckpointError> {
        // One writer at a time, for two would share a temporary file.
        let mut state = self.state();
        let path = self.path.join(name_of(header));
        let io_error = |source| CheckpointError::Io { action: "write", path: path.clone(), source };
        let mut writer = FileWriter::create(&path, header, self.settings.bytes_per_s_max).map_err(io_error)?;
        let (entries, digest) = blocks(&mut |block| writer.block(&block)).map_err(|error| match error {
            EntryError::Io(source) => io_error(source),
            EntryError::TooLarge { bytes } => CheckpointError::EntryTooLarge { path: path.clone(), bytes },
        })?;
        if (entries, digest) != (header.entries, header.digest) {
            return Err(CheckpointError::EntriesDiffer {
                path,
                found_entries: entries,
                found_digest: digest,
                wanted_entries: header.entries,
                wanted_digest: header.digest,
            });
        }
        let (mut file, bytes) = writer.finish(entries).map_err(io_error)?;
        if self.settings.read_back {
            read_back(&mut file).map_err(|reason| CheckpointError::ReadBack { path: path.clone(), reason })?;
        }
        fail::fail_point!("checkpoint_before_rename");
        file.persist().map_err(io_error)?;
        fail::fail_point!("checkpoint_after_rename");
        state.damaged.remove(&path);
        let removed = self.prune_locked(&mut state, self.settings.keep, Some((&path, header)));
        Ok(Written { path, bytes, removed })
    }

    /// Deletes all but the `keep` best checkpoints (at least 1); returns those deleted. [`Directory::write`] does it by
    /// itself.
    pub fn prune(&self, keep: usize) -> Vec<PathBuf> {
        self.prune_locked(&mut self.state(), keep, None)
    }

    /// Deletes all checkpoints: those of a replica whose state turned out to be wrong.
    ///
    /// # Errors
    /// The folder cannot be read or changed; some may be deleted already.
    pub fn clear(&self) -> io::Result<()> {
        let _one_at_a_time = self.state();
        for listed in self.list()? {
            fs::remove_file(&listed.path)?;
        }
        atomic_file::sync_folder(&self.path)
    }

    /// A failure to delete costs space only, so it is logged here and goes no further.
    fn prune_locked(&self, state: &mut State, keep: usize, written: Option<(&Path, &Header)>) -> Vec<PathBuf> {
        let mut removed = Vec::new();
        let mut ranked: Vec<(Rank, PathBuf)> = match self.list() {
            Ok(listed) => listed.into_iter().map(|l| (rank(&l, state, written), l.path)).collect(),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "checkpoints not pruned");
                return removed;
            }
        };
        ranked.sort_by(|a, b| b.cmp(a));
        for (_, path) in ranked.into_iter().skip(keep.max(1)) {
            match fs::remove_file(&path) {
                Ok(()) => {
                    state.damaged.remove(&path);
                    removed.push(path);
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "old checkpoint not deleted")
                }
            }
        }
        removed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much a file is worth keeping; the higher the better.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Damaged(Offset, i64),
    /// Of another topic, cluster or configuration than the one just written, or ahead of it: ahead is what a changelog
    /// that lost records leaves behind, and must not push out what is valid now.
    Foreign(Offset, i64),
    Usable(Offset, i64),
    JustWritten,
}

fn rank(listed: &Listed, state: &State, written: Option<(&Path, &Header)>) -> Rank {
    let (offset, at_ms) = (listed.changelog_offset, listed.created_at_ms);
    let header = || -> Option<Header> {
        let file = File::open(&listed.path).ok()?;
        let bytes = file.metadata().ok()?.len();
        read_header(file, bytes).ok()
    };
    match (header(), written) {
        _ if written.is_some_and(|(path, _)| path == listed.path) => Rank::JustWritten,
        _ if state.damaged.contains(&listed.path) => Rank::Damaged(offset, at_ms),
        (None, _) => Rank::Damaged(offset, at_ms),
        (Some(this), Some((_, newest))) if !this.same_history(newest) || offset > newest.changelog_offset => {
            Rank::Foreign(offset, at_ms)
        }
        _ => Rank::Usable(offset, at_ms),
    }
}

/// Checks the temporary file; from the device where the system permits, not from the page cache.
fn read_back(file: &mut AtomicFile) -> Result<(), Reason> {
    let io_reason = |error: io::Error| Reason::Io { error: error.to_string() };
    let path = file.sync().map_err(io_reason)?;
    let mut file = File::open(path).map_err(io_reason)?;
    // Only advice: without it the check still finds a wrong writer, if not a wrong disk.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    let bytes = file.metadata().map_err(io_reason)?.len();
    scan_from_start(&mut file, bytes, |_, _| {}).map(|_| ())
}

fn name_of(header: &Header) -> String {
    format!("{:020}-{}{SUFFIX}", header.changelog_offset.0.max(0), header.created_at_ms.max(0))
}

fn parse_name(path: &Path) -> Option<(Offset, i64)> {
    let (offset, at_ms) = path.file_name()?.to_str()?.strip_suffix(SUFFIX)?.split_once('-')?;
    let number = |text: &str| -> Option<i64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse().ok() } else { None }
    };
    Some((Offset(number(offset)?), number(at_ms)?))
}
