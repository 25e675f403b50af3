//! Records that could not be read, each until a later record of its key takes its place.
//!
//! The active writes entries in full, so what it writes next for the same key is all that anybody needs: to put an
//! unreadable record aside until then is to read the changelog as it is once compaction has removed that record.

use std::collections::BTreeMap;

use hotspare_cluster::Offset;

use super::{ChangelogError, Entry, Progress, SeriesKey};

/// More keys than these are not remembered: then it is the changelog that cannot be read, not a record of it.
const KEYS_MAX: usize = 1000;
/// Bytes of a key that are shown.
const SHOWN_BYTES: usize = 64;

/// The unreadable records that still stand.
#[derive(Debug, Default)]
pub struct Unreadable {
    by_key: BTreeMap<Box<[u8]>, (Offset, ChangelogError)>,
    too_many: bool,
}

impl Unreadable {
    /// Takes in what became of a record; true if it could not be read and is put aside.
    pub fn note(&mut self, offset: Offset, key: &[u8], value: Option<&[u8]>, error: Option<ChangelogError>) -> bool {
        // A tombstone takes away whatever it was, even under a key that is none of ours.
        let stands = error.filter(|_| value.is_some() || key == Progress::key());
        let Some(error) = stands else {
            if !self.by_key.is_empty() {
                self.by_key.remove(key);
            }
            return false;
        };
        if self.by_key.len() >= KEYS_MAX && !self.by_key.contains_key(key) {
            self.too_many = true;
        } else {
            self.by_key.insert(key.into(), (offset, error));
        }
        true
    }

    /// Whether nothing stands.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// How many stand.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there were more than are remembered, so that nobody knows which of them still stand.
    #[must_use]
    pub fn is_too_many(&self) -> bool {
        self.too_many
    }

    /// Whether a progress record is among them: then nobody knows how far the input is consumed.
    #[must_use]
    pub fn has_progress(&self) -> bool {
        self.by_key.contains_key(Progress::key())
    }

    /// Their keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.by_key.keys().map(|key| &**key)
    }

    /// The first one in the changelog, with why it cannot be read.
    #[must_use]
    pub fn first(&self) -> Option<(Offset, &ChangelogError)> {
        self.by_key.values().min_by_key(|(offset, _)| *offset).map(|(offset, error)| (*offset, error))
    }

    /// All are replaced.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Offset, key and reason of the first one, and how many there are.
impl std::fmt::Display for Unreadable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = self.by_key.iter().min_by_key(|(_, (offset, _))| *offset);
        let Some((key, (offset, error))) = first else { return out.write_str("no unreadable changelog record") };
        write!(out, "changelog offset {offset}, key ")?;
        write_key(out, key)?;
        write!(out, ": {error}")?;
        match self.by_key.len() - 1 {
            0 => Ok(()),
            more if self.too_many => write!(out, " (and more than {more} others)"),
            more => write!(out, " (and {more} others)"),
        }
    }
}

fn write_key(out: &mut std::fmt::Formatter<'_>, key: &[u8]) -> std::fmt::Result {
    for byte in key.iter().take(SHOWN_BYTES) {
        write!(out, "{byte:02x}")?;
    }
    if key.len() > SHOWN_BYTES {
        write!(out, "… ({} bytes)", key.len())?;
    }
    let of = |SeriesKey { device, metric }: SeriesKey<'_>| format!("device {device:?}, metric {metric:?}");
    match Entry::of_key(key) {
        Ok(Entry::Progress) => write!(out, " (progress record)"),
        Ok(Entry::Window(window)) => {
            let series = SeriesKey { device: window.device, metric: window.metric };
            write!(out, " (window from {} ms of {})", window.start_ms, of(series))
        }
        Ok(Entry::Series(series)) => write!(out, " (series of {})", of(series)),
        Ok(Entry::Identity(series, _)) => write!(out, " (identity of {})", of(series)),
        Ok(Entry::LogTime(before)) => write!(out, " (log-time fact before input offset {before})"),
        Ok(Entry::Unknown) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newer() -> ChangelogError {
        ChangelogError::Newer { kind: 1, version: 9 }
    }

    #[test]
    fn a_record_stands_until_the_next_of_its_key() {
        let mut unreadable = Unreadable::default();
        assert!(unreadable.note(Offset(7), b"\x01no key", Some(b"x"), Some(newer())));
        assert!(unreadable.note(Offset(8), Progress::key(), Some(b"\x09"), Some(newer())));
        assert!(!unreadable.note(Offset(9), b"another", Some(b"x"), None));
        let said = unreadable.to_string();
        for part in ["offset 7", "016e6f206b6579", "version 9", "1 others"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        // No tombstone takes a progress record away: the next one does.
        assert!(unreadable.note(Offset(10), Progress::key(), None, Some(newer())));
        assert!(unreadable.has_progress());
        assert!(!unreadable.note(Offset(11), Progress::key(), Some(b"x"), None));
        assert!(!unreadable.note(Offset(12), b"\x01no key", None, Some(newer())));
        assert!(unreadable.is_empty() && unreadable.first().is_none());
    }

    #[test]
    fn what_is_not_remembered_is_not_taken_for_replaced() {
        let mut unreadable = Unreadable::default();
        for number in 0..=KEYS_MAX {
            unreadable.note(Offset(0), &number.to_be_bytes(), Some(b"x"), Some(newer()));
        }
        for number in 0..=KEYS_MAX {
            unreadable.note(Offset(1), &number.to_be_bytes(), Some(b"x"), None);
        }
        assert!(unreadable.is_empty() && unreadable.is_too_many());
    }
}
