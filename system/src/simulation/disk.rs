//! What brings files to the disk: it takes as long as the disk of the host that asks is slow. A simulated crash loses no file.

use std::{fs::File, io};

use super::scheduler;

/// See [`File::sync_data`].
///
/// # Errors
/// Never.
pub fn sync_data(_: &File) -> io::Result<()> {
    scheduler::wait_for_disk();
    Ok(())
}

/// See [`File::sync_all`].
///
/// # Errors
/// Never.
pub fn sync_all(_: &File) -> io::Result<()> {
    scheduler::wait_for_disk();
    Ok(())
}
