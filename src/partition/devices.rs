//! Finds devices that are on more than one partition: their windows are split (SEMANTICS 1), mostly because a producer
//! does not use the device as the key.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use hotspare_cluster::PartitionId;

use crate::store::{DeviceMove, Store};

/// So many of them are named; the others are only counted.
const NAMED_MAX: usize = 100;

/// The devices of all replicas of a node; a cheap handle. Some 30 bytes for each device.
#[derive(Clone, Debug, Default)]
pub struct Devices(Arc<Mutex<Book>>);

/// A device that is on more than one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// The device.
    pub device: String,
    /// Its partitions, in order.
    pub partitions: Vec<PartitionId>,
}

#[derive(Debug, Default)]
struct Book {
    /// By the hash of its name: where a device was seen first.
    first: HashMap<u64, Place>,
    /// Where else, for devices that are on more than one partition.
    others: HashMap<u64, Vec<Place>>,
    names: HashMap<u64, String>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    partition: PartitionId,
    /// Series of the device there.
    series: u32,
}

impl Devices {
    fn lock(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in which devices came to and went from a state. Gives those that turned out to be on a further partition.
    pub fn note(&self, store: &mut Store) -> Vec<Split> {
        let moves = store.take_device_moves();
        if moves.is_empty() {
            return Vec::new();
        }
        let (partition, mut book, mut found) = (store.partition(), self.lock(), Vec::new());
        for DeviceMove { device_hash, series, has_come } in moves {
            if !has_come {
                book.goes(device_hash, partition);
            } else if book.comes(device_hash, partition)
                && book.names.len() < NAMED_MAX
                && let Some(device) = store.device_of(series, device_hash)
            {
                book.names.insert(device_hash, device.to_owned());
                found.extend(book.split(device_hash));
            }
        }
        found
    }

    /// A replica is gone from this node.
    pub fn forget(&self, partition: PartitionId) {
        let mut book = self.lock();
        let hashes: Vec<u64> =
            book.places().filter(|(_, place)| place.partition == partition).map(|(h, _)| h).collect();
        for hash in hashes {
            book.drop_place(hash, partition);
        }
    }

    /// How many devices are on more than one partition of this node's replicas, and the first of them, by name.
    #[must_use]
    pub fn split(&self) -> (usize, Vec<Split>) {
        let book = self.lock();
        let mut named: Vec<_> = book.names.keys().filter_map(|hash| book.split(*hash)).collect();
        named.sort_by(|a, b| a.device.cmp(&b.device));
        (book.others.len(), named)
    }
}

impl Book {
    fn places(&self) -> impl Iterator<Item = (u64, &Place)> {
        let others = self.others.iter().flat_map(|(hash, places)| places.iter().map(|place| (*hash, place)));
        self.first.iter().map(|(hash, place)| (*hash, place)).chain(others)
    }

    fn split(&self, hash: u64) -> Option<Split> {
        let mut partitions: Vec<_> = self.others.get(&hash)?.iter().map(|place| place.partition).collect();
        partitions.extend(self.first.get(&hash).map(|place| place.partition));
        partitions.sort_unstable();
        Some(Split { device: self.names.get(&hash)?.clone(), partitions })
    }

    fn place_mut(&mut self, hash: u64, partition: PartitionId) -> Option<&mut Place> {
        let first = self.first.get_mut(&hash).filter(|place| place.partition == partition);
        if first.is_some() {
            return first;
        }
        self.others.get_mut(&hash)?.iter_mut().find(|place| place.partition == partition)
    }

    /// A series of a device is there. True if that makes it a device of a further partition.
    fn comes(&mut self, hash: u64, partition: PartitionId) -> bool {
        if let Some(place) = self.place_mut(hash, partition) {
            place.series = place.series.saturating_add(1);
            return false;
        }
        let place = Place { partition, series: 1 };
        if let std::collections::hash_map::Entry::Vacant(vacant) = self.first.entry(hash) {
            vacant.insert(place);
            return false;
        }
        self.others.entry(hash).or_default().push(place);
        true
    }

    fn goes(&mut self, hash: u64, partition: PartitionId) {
        let Some(place) = self.place_mut(hash, partition) else { return };
        place.series = place.series.saturating_sub(1);
        if place.series == 0 {
            self.drop_place(hash, partition);
        }
    }

    fn drop_place(&mut self, hash: u64, partition: PartitionId) {
        let mut others = self.others.remove(&hash).unwrap_or_default();
        others.retain(|place| place.partition != partition);
        if self.first.get(&hash).is_some_and(|place| place.partition == partition) {
            self.first.remove(&hash);
            if let Some(place) = others.pop() {
                self.first.insert(hash, place);
            }
        }
        if others.is_empty() {
            self.names.remove(&hash);
        } else {
            self.others.insert(hash, others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Devices, Split};
    use crate::reading::InputRecord;
    use crate::semantics::Semantics;
    use crate::store::Store;
    use hotspare_cluster::{Epoch, Offset, PartitionId};
    use std::sync::Arc;

    fn store(partition: u32) -> Store {
        let text = "[input]\ntopic = \"t\"\n[input.time]\nfrom = \"record\"\n[window]\nretention = \"1h\"\n";
        let mut store =
            Store::new(Arc::new(Semantics::from_toml(text).expect("a configuration")), PartitionId(partition));
        store.watch_devices();
        store
    }

    fn read(store: &mut Store, device: &str, timestamp_ms: i64) {
        let value = format!("{{\"device_id\":\"{device}\",\"value\":1}}");
        store.apply(&InputRecord {
            offset: Offset(0),
            timestamp_ms: 1_704_067_200_000 + timestamp_ms,
            key: None,
            value: Some(value.as_bytes()),
            headers: Vec::new(),
        });
    }

    fn split(device: &str, partitions: &[u32]) -> Split {
        Split { device: device.to_owned(), partitions: partitions.iter().map(|number| PartitionId(*number)).collect() }
    }

    #[test]
    fn devices_on_two_partitions_are_named_until_one_forgets_them() {
        let devices = Devices::default();
        let (mut first, mut second) = (store(0), store(3));
        for device in ["a", "b"] {
            read(&mut first, device, 0);
        }
        assert_eq!(devices.note(&mut first), []);
        for device in ["b", "c"] {
            read(&mut second, device, 0);
        }
        assert_eq!(devices.note(&mut second), [split("b", &[0, 3])]);
        assert_eq!(devices.split(), (1, vec![split("b", &[0, 3])]));
        // Undone and read again it is not counted twice.
        second.undo();
        assert_eq!(devices.note(&mut second), []);
        assert_eq!(devices.split(), (0, vec![]));
        read(&mut second, "b", 0);
        assert_eq!(devices.note(&mut second), [split("b", &[0, 3])]);
        // It goes silent on the first partition and is forgotten there.
        read(&mut first, "a", 3 * 3_600_000);
        first.batch(Epoch(1), Offset(1));
        first.committed();
        devices.note(&mut first);
        assert_eq!(devices.split(), (0, vec![]));
        read(&mut first, "b", 3 * 3_600_000);
        assert_eq!(devices.note(&mut first), [split("b", &[0, 3])]);
        devices.forget(PartitionId(3));
        assert_eq!(devices.split(), (0, vec![]));
    }
}
