//! The one place that replaces files on disk: a reader finds the old content or the new one, never a part.
//!
//! Temporary file in the same folder, fsync, rename, fsync of the folder. Without the first fsync a crash could leave an
//! empty file under the final name, without the second one the rename itself could be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Ending of the names of temporary files. [`remove_leftovers`] deletes every file that has it.
pub const TEMP_SUFFIX: &str = ".tmp";

const BUFFER_BYTES: usize = 64 * 1024;

/// A file that appears under its name only when [`AtomicFile::persist`] has succeeded.
///
/// Dropped before that, it leaves nothing behind and the file of that name stays as it was. Not for two writers of one
/// name at once: they would share the temporary file.
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<File>,
    temp: PathBuf,
    target: PathBuf,
    persisted: bool,
}

impl AtomicFile {
    /// Opens the temporary file `<target>.tmp`, empty, beside `target`.
    ///
    /// # Errors
    /// The folder does not exist or is not writable, or `target` has no file name.
    pub fn create(target: &Path) -> io::Result<AtomicFile> {
        let name = target
            .file_name()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path without a file name"))?;
        let mut temp_name = name.to_os_string();
        temp_name.push(TEMP_SUFFIX);
        let temp = target.with_file_name(temp_name);
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&temp)?;
        Ok(AtomicFile {
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            temp,
            target: target.to_path_buf(),
            persisted: false,
        })
    }

    /// Writes everything to the device and returns the temporary file's path, for a check before [`AtomicFile::persist`].
    ///
    /// # Errors
    /// The device is full or failed; drop this file then, for after a failed fsync a second one proves nothing.
    pub fn sync(&mut self) -> io::Result<&Path> {
        self.file.flush()?;
        disk::check(0)?;
        hotspare_system::disk::sync_all(self.file.get_ref())?;
        Ok(&self.temp)
    }

    /// Puts the file in place under its final name. After `Ok` it survives a crash of the machine.
    ///
    /// # Errors
    /// As [`AtomicFile::sync`], or the rename failed: the old file stays. If only the fsync of the folder failed, the new
    /// file is in place but may be gone after a crash.
    pub fn persist(mut self) -> io::Result<()> {
        self.sync()?;
        fs::rename(&self.temp, &self.target)?;
        self.persisted = true;
        sync_folder_of(&self.target)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        disk::check(bytes.len())?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.persisted {
            // Nothing can be done about a failure here; `remove_leftovers` tries again at the next start.
            let _ = fs::remove_file(&self.temp);
        }
    }
}

/// Replaces the file `target` by one with these bytes, atomically and durably.
///
/// # Errors
/// As [`AtomicFile::create`] and [`AtomicFile::persist`]; the old content is then still there.
pub fn write(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(target)?;
    file.write_all(bytes)?;
    file.persist()
}

/// Makes additions to and removals from a folder durable.
///
/// # Errors
/// The folder cannot be opened or the device failed.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    hotspare_system::disk::sync_all(&File::open(folder)?)
}

fn sync_folder_of(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => sync_folder(folder),
        _ => sync_folder(Path::new(".")),
    }
}

/// Deletes what a crash left of unfinished writes in a folder; returns the number of files deleted.
///
/// Only the process that owns the folder may call this: it would delete the temporary file of a write in progress.
///
/// # Errors
/// The folder cannot be read or a file not be deleted.
pub fn remove_leftovers(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_leftover = entry.file_name().to_string_lossy().ends_with(TEMP_SUFFIX);
        if is_leftover && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(not(test))]
mod disk {
    /// Nothing to simulate outside tests.
    #[inline]
    pub(super) fn check(_bytes: usize) -> std::io::Result<()> {
        Ok(())
    }
}

/// A disk of this thread that is full after a number of bytes, for tests.
#[cfg(test)]
pub(crate) mod disk {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Runs `f` with a disk on which so many more bytes fit; at 0 left the next write or sync fails.
    pub(crate) fn with_room_for<T>(bytes: usize, f: impl FnOnce() -> T) -> T {
        LEFT_BYTES.set(Some(bytes));
        let result = f();
        LEFT_BYTES.set(None);
        result
    }

    pub(super) fn check(bytes: usize) -> io::Result<()> {
        match LEFT_BYTES.get() {
            Some(left) if left <= bytes => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some(left) => {
                LEFT_BYTES.set(Some(left - bytes));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_written_file_holds_the_new_bytes_and_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.json");
        write(&path, b"old").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["identity.json"]);
    }

    #[test]
    fn a_disk_that_is_full_at_any_byte_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.json");
        write(&path, b"old").unwrap();
        for room in 0..=10 {
            let error = disk::with_room_for(room, || write(&path, b"0123456789")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "room for {room} bytes");
            assert_eq!(fs::read(&path).unwrap(), b"old");
            assert_eq!(names(folder.path()), ["identity.json"]);
        }
        disk::with_room_for(11, || write(&path, b"0123456789")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0123456789");
    }

    #[test]
    fn an_unfinished_file_is_never_seen_under_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity.json");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!path.exists());
        drop(file);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.tmp"), b"x").unwrap();
        fs::write(folder.path().join("a"), b"x").unwrap();
        fs::create_dir(folder.path().join("folder.tmp")).unwrap();
        assert_eq!(remove_leftovers(folder.path()).unwrap(), 1);
        assert_eq!(names(folder.path()), ["a", "folder.tmp"]);
    }

    #[test]
    fn a_path_without_a_file_name_is_refused() {
        assert_eq!(AtomicFile::create(Path::new("/")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
