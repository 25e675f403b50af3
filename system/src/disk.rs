//! What brings files to the disk.

use std::{fs::File, io};

/// See [`File::sync_data`].
///
/// # Errors
/// The disk is full or failed.
pub fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// See [`File::sync_all`].
///
/// # Errors
/// The disk is full or failed.
pub fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all()
}
