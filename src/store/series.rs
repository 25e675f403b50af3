//! All series of a partition with their windows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hashbrown::HashTable;
use hotspare_cluster::PartitionId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::changelog::{Life, SeriesKey};
use crate::reading::Identity;
use crate::semantics::{Variance, WindowRules};
use crate::window::{Aggregate, Shown, write_output};

/// Handle of a series; valid until the series is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesId(u32);

/// One metric of one device.
#[derive(Debug)]
pub(super) struct Series {
    device: Box<str>,
    metric: Arc<str>,
    hash: u64,
    /// Largest time among the counted readings; the smallest i64 before the first.
    pub(super) watermark_ms: i64,
    /// No open window closes at an earlier watermark; the largest i64 if none is open.
    pub(super) due_ms: i64,
    /// By definition and start. In an open batch also those that closed in it.
    windows: Vec<Window>,
    /// What the windows do not tell, where the rules need more.
    pub(super) kept: Option<Box<Kept>>,
}

/// What a series knows beyond its windows.
#[derive(Debug)]
pub(super) struct Kept {
    /// Whether there is such a series: not before its first counted reading, nor after it was forgotten.
    pub(super) is_there: bool,
    /// Whether the open batch changed it.
    pub(super) is_touched: bool,
    pub(super) closed_end_ms: i64,
    pub(super) active_ms: i64,
    /// The hash of its entry as of the last commit; of no meaning if there was none.
    pub(super) entry_hash: u128,
    /// Its place in the schedule of silences; the largest i64 if it has none.
    pub(super) scheduled_ms: i64,
    pub(super) identities: HashMap<Identity, Remembered>,
}

/// An identity of a series.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered {
    /// Log time at which its reading was counted. None: it was forgotten in the open batch.
    pub(super) since_ms: Option<i64>,
    /// Whether the open batch changed it.
    pub(super) is_touched: bool,
}

impl Kept {
    fn new() -> Self {
        Self {
            is_there: false,
            is_touched: false,
            closed_end_ms: i64::MIN,
            active_ms: i64::MIN,
            entry_hash: 0,
            scheduled_ms: i64::MAX,
            identities: HashMap::new(),
        }
    }
}

/// Place of a window among those of its series: definition and start.
pub(super) type Place = (u8, i64);

/// A window of a series.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) definition: u8,
    pub(super) start_ms: i64,
    pub(super) end_ms: i64,
    /// None: it closed in the open batch.
    pub(super) aggregate: Option<Aggregate>,
    /// Whether the open batch changed it.
    pub(super) is_touched: bool,
    /// The hash of its entry as of the last commit; of no meaning if there was none.
    pub(super) entry_hash: u128,
}

impl Window {
    /// Its place among the windows of its series.
    pub(super) fn place(&self) -> Place {
        (self.definition, self.start_ms)
    }

    /// It and what is in it, if it is open.
    pub(super) fn open(&self) -> Option<(&Self, &Aggregate)> {
        self.aggregate.as_ref().map(|aggregate| (self, aggregate))
    }

    /// The watermark at which it closes.
    pub(super) fn due_ms(&self, rules: &[WindowRules]) -> i64 {
        let grace_ms = rules.get(usize::from(self.definition)).map_or(0, |rules| rules.grace_ms);
        self.end_ms.saturating_add(grace_ms)
    }
}

impl Series {
    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn metric(&self) -> &str {
        &self.metric
    }

    pub(super) fn key(&self) -> SeriesKey<'_> {
        SeriesKey { device: &self.device, metric: &self.metric }
    }

    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    pub(super) fn windows_mut(&mut self) -> &mut [Window] {
        &mut self.windows
    }

    fn position(&self, place: Place) -> Result<usize, usize> {
        // Most readings are for the newest window.
        match self.windows.last() {
            Some(last) if last.place() == place => Ok(self.windows.len() - 1),
            Some(last) if last.place() < place => Err(self.windows.len()),
            _ => self.windows.binary_search_by_key(&place, Window::place),
        }
    }

    pub(super) fn window(&self, place: Place) -> Option<&Window> {
        self.position(place).ok().and_then(|index| self.windows.get(index))
    }

    pub(super) fn window_mut(&mut self, place: Place) -> Option<&mut Window> {
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

    pub(super) fn remove(&mut self, place: Place) -> Option<Window> {
        self.position(place).ok().map(|index| self.windows.remove(index))
    }

    /// What is kept of it beyond its windows, if there is such a series.
    pub(super) fn life(&self) -> Option<Life> {
        let kept = self.kept.as_ref().filter(|kept| kept.is_there)?;
        Some(Life { watermark_ms: self.watermark_ms, closed_end_ms: kept.closed_end_ms, active_ms: kept.active_ms })
    }

    /// Puts in place what is kept of it; None: there is no such series.
    pub(super) fn set_life(&mut self, life: Option<Life>) {
        let Some(kept) = &mut self.kept else { return };
        kept.is_there = life.is_some();
        let life = life.unwrap_or(Life::NEVER);
        (kept.closed_end_ms, kept.active_ms) = (life.closed_end_ms, life.active_ms);
        self.watermark_ms = life.watermark_ms;
    }

    /// Whether a counted reading had that identity and is not forgotten.
    pub(super) fn remembers(&self, identity: &Identity) -> bool {
        let kept = self.kept.as_ref();
        kept.and_then(|kept| kept.identities.get(identity)).is_some_and(|remembered| remembered.since_ms.is_some())
    }

    /// The largest end of its windows, open or closed; the smallest i64 if it had none.
    pub(super) fn newest_end_ms(&self) -> i64 {
        let open = self.windows.iter().filter(|window| window.aggregate.is_some()).map(|window| window.end_ms);
        let closed = self.kept.as_ref().map_or(i64::MIN, |kept| kept.closed_end_ms);
        open.fold(closed, i64::max)
    }

    pub(super) fn has_open_windows(&self) -> bool {
        self.windows.iter().any(|window| window.aggregate.is_some())
    }

    /// Computes anew what follows from the windows (see the note on this in the changelog room).
    pub(super) fn refresh(&mut self, rules: &[WindowRules]) {
        let open = || self.windows.iter().filter_map(Window::open);
        let due_ms = open().map(|(window, _)| window.due_ms(rules)).min();
        if self.kept.is_none() {
            self.watermark_ms = open().map(|(_, aggregate)| aggregate.last_ms).max().unwrap_or(i64::MIN);
        }
        self.due_ms = due_ms.unwrap_or(i64::MAX);
    }

    /// The text of a window.
    pub(super) fn show(
        &self,
        partition: PartitionId,
        variance: Variance,
        window: &Window,
        aggregate: &Aggregate,
        is_final: bool,
    ) -> String {
        write_output(&Shown {
            device: &self.device,
            metric: &self.metric,
            partition,
            start_ms: window.start_ms,
            end_ms: window.end_ms,
            aggregate,
            variance,
            is_final,
        })
    }

    fn is_empty(&self) -> bool {
        let is_kept = |kept: &Kept| kept.is_there || !kept.identities.is_empty();
        self.windows.is_empty() && !self.kept.as_ref().is_some_and(|kept| is_kept(kept))
    }
}

/// All series, found by device and metric.
#[derive(Debug)]
pub(super) struct State {
    /// Whether series know more than their windows tell.
    keeps: bool,
    slots: Vec<Option<Series>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    /// The names of metrics, which most series share.
    metrics: HashSet<Arc<str>>,
    /// Series that came and went, where somebody wants to know.
    moves: Option<Vec<DeviceMove>>,
}

/// A series of a device came to a state or went from it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMove {
    /// A hash of the device's name.
    pub device_hash: u64,
    /// The series.
    pub series: SeriesId,
    /// Whether it came.
    pub has_come: bool,
}

impl State {
    /// No series. `keeps`: whether they will know more than their windows tell.
    pub(super) fn new(keeps: bool) -> Self {
        Self {
            keeps,
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            metrics: HashSet::new(),
            moves: None,
        }
    }

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
            kept: self.keeps.then(|| Box::new(Kept::new())),
        };
        *self.slots.get_mut(slot as usize)? = Some(series);
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |slot| {
            slots.get(*slot as usize).and_then(Option::as_ref).map_or(0, |series| series.hash)
        });
        self.moved(device, SeriesId(slot), true);
        Some(SeriesId(slot))
    }

    fn moved(&mut self, device: &str, series: SeriesId, has_come: bool) {
        if let Some(moves) = &mut self.moves {
            moves.push(DeviceMove { device_hash: xxh3_64(device.as_bytes()), series, has_come });
        }
    }

    /// From now on says which series come and go, beginning with those that are there.
    pub(super) fn watch_moves(&mut self) {
        let come = |(slot, series): (u32, &Option<Series>)| {
            let device_hash = xxh3_64(series.as_ref()?.device.as_bytes());
            Some(DeviceMove { device_hash, series: SeriesId(slot), has_come: true })
        };
        self.moves = Some((0..).zip(&self.slots).filter_map(come).collect());
    }

    pub(super) fn take_moves(&mut self) -> Vec<DeviceMove> {
        self.moves.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn shared(&mut self, metric: &str) -> Arc<str> {
        if let Some(shared) = self.metrics.get(metric) {
            return Arc::clone(shared);
        }
        let shared: Arc<str> = metric.into();
        self.metrics.insert(Arc::clone(&shared));
        shared
    }

    /// Removes a series of which nothing is left.
    pub(super) fn remove_if_empty(&mut self, id: SeriesId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize) else {
            return;
        };
        let Some(series) = slot.take_if(|series| series.is_empty()) else {
            return;
        };
        if let Ok(found) = self.index.find_entry(series.hash, |slot| *slot == id.0) {
            found.remove();
        }
        // The set's own and this one: no other series has such a metric, and names may come from the data.
        if Arc::strong_count(&series.metric) == 2 {
            self.metrics.remove(&series.metric);
        }
        self.free.push(id.0);
        self.moved(&series.device, id, false);
    }

    /// Every series, in no certain order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Series> {
        self.slots.iter().flatten()
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
