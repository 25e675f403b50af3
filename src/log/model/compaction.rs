//! What the log cleaner does to a compacted partition in one pass (Kafka's `Cleaner`, KIP-534 for tombstones).

use std::collections::BTreeMap;

use bytes::Bytes;

use super::partition::{Content, Entry, Partition};

impl Partition {
    /// Goes over whole segments, up to the active one or the first with something that is not stable. Of each key the last
    /// committed record stays; a tombstone stays until `delete_retention_ms` after the first pass that met it; aborted
    /// records go at once.
    pub(super) fn compact(&mut self, delete_retention_ms: i64, now_ms: i64) {
        let until = self.cleanable_until();
        if until <= self.dirty_from {
            return;
        }
        let last = self.last_offsets(until);
        let aborted: Vec<i64> =
            self.entries().filter(|entry| self.is_aborted(entry)).map(|entry| entry.offset).collect();
        let stays = |entry: &mut Entry| {
            let Content::Data(record) = &entry.content else { return true };
            if entry.offset >= until {
                return true;
            }
            // A record without key cannot be in a compacted topic, unless the policy was changed afterwards.
            let Some(key) = &record.key else { return false };
            if aborted.binary_search(&entry.offset).is_ok() || last.get(key).is_some_and(|at| entry.offset < *at) {
                return false;
            }
            record.value.is_some()
                || now_ms < *entry.delete_horizon_ms.get_or_insert(now_ms.saturating_add(delete_retention_ms))
        };
        let active = self.segments.pop();
        for segment in &mut self.segments {
            segment.entries.retain_mut(stays);
        }
        self.segments.retain(|segment| !segment.entries.is_empty());
        self.segments.extend(active);
        self.dirty_from = until;
    }

    /// The last offset of each key between what was cleaned before and `until`.
    fn last_offsets(&self, until: i64) -> BTreeMap<Bytes, i64> {
        let dirty = |entry: &&Entry| (self.dirty_from..until).contains(&entry.offset) && !self.is_aborted(entry);
        let key = |entry: &Entry| Some((entry.data()?.key.clone()?, entry.offset));
        self.entries().filter(dirty).filter_map(key).collect()
    }
}
