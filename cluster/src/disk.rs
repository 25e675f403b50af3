//! The one place that writes files atomically and frames records with a checksum.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// Longest record that is believed; a longer length is damage.
pub(crate) const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Bytes before each record's payload: length and checksum.
pub(crate) const RECORD_HEADER_BYTES: usize = 8;

/// Replaces a file so that after a crash either the old or the new content is there, whole.
pub(crate) fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or_else(|| io::Error::other("a file needs a folder"))?;
    let mut temp = path.as_os_str().to_owned();
    temp.push(".tmp");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temp)?;
    file.write_all(content)?;
    hotspare_system::disk::sync_all(&file)?;
    fs::rename(&temp, path)?;
    sync_folder(folder)
}

/// Makes renames, creations and removals in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    hotspare_system::disk::sync_all(&File::open(folder)?)
}

/// Appends `length, crc32, payload` to `to`.
pub(crate) fn frame(payload: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
    let length = u32::try_from(payload.len())
        .ok()
        .filter(|_| payload.len() <= RECORD_BYTES_MAX)
        .ok_or_else(|| io::Error::other(format!("a record of {} bytes is too long", payload.len())))?;
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(&crc32fast::hash(payload).to_be_bytes());
    to.extend_from_slice(payload);
    Ok(())
}

/// What stands at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Framed<'a> {
    /// A whole record, and the bytes it takes with its header.
    Record(&'a [u8], usize),
    /// Nothing.
    End,
    /// The beginning of a record whose rest is missing, or whose checksum is wrong.
    Torn,
}

/// Reads one record from the beginning of `bytes`.
pub(crate) fn unframe(bytes: &[u8]) -> Framed<'_> {
    if bytes.is_empty() {
        return Framed::End;
    }
    let (Some(length), Some(crc)) = (word(bytes, 0), word(bytes, 4)) else {
        return Framed::Torn;
    };
    let length = length as usize;
    if length > RECORD_BYTES_MAX {
        return Framed::Torn;
    }
    match bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + length) {
        Some(payload) if crc32fast::hash(payload) == crc => Framed::Record(payload, RECORD_HEADER_BYTES + length),
        _ => Framed::Torn,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_framed_record_comes_back_and_damage_is_noticed() {
        let mut bytes = Vec::new();
        frame(b"first", &mut bytes).unwrap();
        frame(b"", &mut bytes).unwrap();
        assert_eq!(unframe(&bytes), Framed::Record(b"first", 13));
        assert_eq!(unframe(&bytes[13..]), Framed::Record(b"", 8));
        assert_eq!(unframe(&bytes[21..]), Framed::End);
        for cut in 1..13 {
            assert_eq!(unframe(&bytes[..cut]), Framed::Torn, "cut at {cut}");
        }
        bytes[10] ^= 1;
        assert_eq!(unframe(&bytes), Framed::Torn);
    }

    #[test]
    fn an_absurd_length_is_damage_not_an_allocation() {
        assert_eq!(unframe(&[0xff; 64]), Framed::Torn);
    }

    #[test]
    fn a_replaced_file_has_the_new_content_and_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
