//! All series of a partition with their windows.

use std::collections::HashSet;
use std::sync::Arc;

use hashbrown::HashTable;
use hotspare_cluster::PartitionId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::semantics::WindowRules;
use crate::window::{Aggregate, Shown, write_output};

/// Handle of a series; valid until the series is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SeriesId(u32);

/// One metric of one device.
#[derive(Debug)]
pub(super) struct Series {
    device: Box<str>,
    metric: Arc<str>,
    hash: u64,
    /// Largest time among the counted readings; the smallest i64 before the first.
    pub(super) watermark_ms: i64,
    /// The earliest watermark at which an open window closes; the largest i64 if none is open.
    pub(super) due_ms: i64,
    /// By definition and start. In an open batch also those that closed in it.
    windows: Vec<Window>,
}

/// A window of a series.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) definition: u8,
    pub(super) start_ms: i64,
    /// None: it closed in the open batch.
    pub(super) aggregate: Option<Aggregate>,
    /// Whether the open batch changed it.
    pub(super) is_touched: bool,
    /// The hash of its entry as of the last commit; of no meaning if there was none.
    pub(super) entry_hash: u128,
}

impl Window {
    /// Its place among the windows of its series.
    pub(super) fn place(&self) -> (u8, i64) {
        (self.definition, self.start_ms)
    }

    /// It and what is in it, if it is open.
    pub(super) fn open(&self) -> Option<(&Self, &Aggregate)> {
        self.aggregate.as_ref().map(|aggregate| (self, aggregate))
    }
}

impl Series {
    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn metric(&self) -> &str {
        &self.metric
    }

    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    pub(super) fn windows_mut(&mut self) -> &mut [Window] {
        &mut self.windows
    }

    fn position(&self, place: (u8, i64)) -> Result<usize, usize> {
        // Most readings are for the newest window.
        match self.windows.last() {
            Some(last) if last.place() == place => Ok(self.windows.len() - 1),
            Some(last) if last.place() < place => Err(self.windows.len()),
            _ => self.windows.binary_search_by_key(&place, Window::place),
        }
    }

    pub(super) fn window(&self, place: (u8, i64)) -> Option<&Window> {
        self.position(place).ok().and_then(|index| self.windows.get(index))
    }

    pub(super) fn window_mut(&mut self, place: (u8, i64)) -> Option<&mut Window> {
        self.position(place).ok().and_then(|index| self.windows.get_mut(index))
    }

    /// Inserts a window that is not there yet.
    pub(super) fn insert(&mut self, window: Window) {
        if let Err(index) = self.position(window.place()) {
            if self.windows.len() < 4 {
                self.windows.reserve_exact(1); // most series have one or two; a Vec would make room for four at once
            }
            self.windows.insert(index, window);
        }
    }

    pub(super) fn remove(&mut self, place: (u8, i64)) -> Option<Window> {
        self.position(place).ok().map(|index| self.windows.remove(index))
    }

    /// Computes anew what follows from the windows (see the note on this in the changelog room).
    pub(super) fn refresh(&mut self, rules: &[WindowRules]) {
        (self.watermark_ms, self.due_ms) = (i64::MIN, i64::MAX);
        for window in &self.windows {
            let Some(aggregate) = &window.aggregate else {
                continue;
            };
            self.watermark_ms = self.watermark_ms.max(aggregate.last_ms);
            self.due_ms = self.due_ms.min(due_ms(rules, window.place()));
        }
    }

    /// The text of a window.
    pub(super) fn show(
        &self,
        partition: PartitionId,
        rules: &[WindowRules],
        window: &Window,
        aggregate: &Aggregate,
        is_final: bool,
    ) -> String {
        let rules = rules.get(usize::from(window.definition));
        write_output(&Shown {
            device: &self.device,
            metric: &self.metric,
            partition,
            start_ms: window.start_ms,
            end_ms: rules.map_or(window.start_ms, |rules| rules.shape.end_of(window.start_ms)),
            aggregate,
            is_final,
        })
    }
}

/// The watermark at which a window closes.
pub(super) fn due_ms(rules: &[WindowRules], (definition, start_ms): (u8, i64)) -> i64 {
    rules
        .get(usize::from(definition))
        .map_or(i64::MAX, |rules| rules.shape.end_of(start_ms).saturating_add(rules.grace_ms))
}

/// All series, found by device and metric.
#[derive(Debug, Default)]
pub(super) struct State {
    slots: Vec<Option<Series>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// The names of metrics, which most series share.
    metrics: HashSet<Arc<str>>,
}

impl State {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, id: SeriesId) -> Option<&Series> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: SeriesId) -> Option<&mut Series> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    pub(super) fn find(&self, device: &str, metric: &str) -> Option<SeriesId> {
        self.find_hashed(hash(device, metric), device, metric)
    }

    fn find_hashed(&self, hash: u64, device: &str, metric: &str) -> Option<SeriesId> {
        let is_it = |slot: &u32| {
            self.get(SeriesId(*slot)).is_some_and(|series| *series.device == *device && *series.metric == *metric)
        };
        self.index.find(hash, is_it).copied().map(SeriesId)
    }

    /// None only when there are 2^32 series.
    pub(super) fn find_or_insert(&mut self, device: &str, metric: &str) -> Option<SeriesId> {
        let hash = hash(device, metric);
        if let Some(found) = self.find_hashed(hash, device, metric) {
            return Some(found);
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                let slot = u32::try_from(self.slots.len()).ok()?;
                self.slots.push(None);
                slot
            }
        };
        let metric = self.shared(metric);
        let series = Series {
            device: device.into(),
            metric,
            hash,
            watermark_ms: i64::MIN,
            due_ms: i64::MAX,
            windows: Vec::new(),
        };
        *self.slots.get_mut(slot as usize)? = Some(series);
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |slot| {
            slots.get(*slot as usize).and_then(Option::as_ref).map_or(0, |series| series.hash)
        });
        Some(SeriesId(slot))
    }

    fn shared(&mut self, metric: &str) -> Arc<str> {
        if let Some(shared) = self.metrics.get(metric) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = metric.into();
        self.metrics.insert(Arc::clone(&shared));
        shared
    }

    /// Removes a series that has no window.
    pub(super) fn remove_if_empty(&mut self, id: SeriesId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else {
            return;
        };
        let Some(series) = slot.take_if(|series| series.windows.is_empty()) else {
            return;
        };
        if let Ok(found) = self.index.find_entry(series.hash, |slot| *slot == id.0) {
            found.remove();
        }
        self.free.push(id.0);
    }

    /// Every open window, in no certain order.
    pub(super) fn open(&self) -> impl Iterator<Item = (&Series, &Window, &Aggregate)> {
        self.slots.iter().flatten().flat_map(|series| {
            series.windows.iter().filter_map(move |window| Some((series, window, window.aggregate.as_ref()?)))
        })
    }
}

fn hash(device: &str, metric: &str) -> u64 {
    xxh3_64_with_seed(device.as_bytes(), xxh3_64(metric.as_bytes()))
}
