//! The open batch: what was changed since the last commit, how it is undone and what of it is written.

use std::sync::Arc;

use bytes::Bytes;
use hotspare_cluster::{Epoch, Offset};

use super::DeadLetter;
use super::active::Active;
use super::batch::{Batch, Entry, Output, Records, hash_of};
use super::series::{Place, Remembered, SeriesId, Window};
use crate::changelog::{Life, Progress, VERSION};
use crate::reading::Identity;
use crate::semantics::{Emit, Semantics};
use crate::window::Aggregate;

/// About how many bytes an entry takes besides the names.
const ENTRY_BYTES: usize = 96;

/// What was done since the last commit.
#[derive(Debug, Default)]
pub(super) struct OpenBatch {
    /// In the order of first touch, one for each changed entry.
    pub(super) changes: Vec<Change>,
    /// The log-time facts among them.
    pub(super) facts: Vec<Offset>,
    pub(super) outputs: Vec<Output>,
    pub(super) dead_letters: Vec<Arc<DeadLetter>>,
    pub(super) records: u64,
    pub(super) bytes: usize,
    /// Set by `batch()`, invalid as soon as anything is applied.
    pub(super) prepared: Option<Prepared>,
}

/// What the open batch changed, and what it was at the last commit; None: it was not there.
#[derive(Debug)]
pub(super) enum Change {
    Window { series: SeriesId, place: Place, old: Option<Aggregate> },
    Series { series: SeriesId, old: Option<Life> },
    Identity { series: SeriesId, identity: Identity, old: Option<i64> },
    LogTime { before: Offset, old: Option<i64> },
}

/// What becomes true with the commit.
#[derive(Debug)]
pub(super) struct Prepared {
    progress: Progress,
    /// The hash of each change's entry.
    hashes: Vec<u128>,
}

impl OpenBatch {
    /// Notes the first change of an entry, before it is made.
    pub(super) fn note(&mut self, names_bytes: usize, change: Change) {
        self.bytes += ENTRY_BYTES + names_bytes;
        self.changes.push(change);
    }

    /// Notes the first change of a window that is there, before it is made.
    pub(super) fn touch(&mut self, series: SeriesId, names_bytes: usize, window: &mut Window) {
        if !window.is_touched {
            let old = window.aggregate.clone();
            self.note(names_bytes, Change::Window { series, place: window.place(), old });
            window.is_touched = true;
        }
    }

    pub(super) fn give(&mut self, device: &str, text: String) {
        self.bytes += device.len() + text.len();
        self.outputs.push(output(device, text));
    }

    /// Ready for the next batch, in the same room.
    fn clear(&mut self) {
        self.changes.clear();
        self.facts.clear();
        self.outputs.clear();
        self.dead_letters.clear();
        (self.records, self.bytes, self.prepared) = (0, 0, None);
    }
}

fn output(device: &str, text: String) -> Output {
    Output { key: Bytes::copy_from_slice(device.as_bytes()), value: Bytes::from(text) }
}

/// An entry as it is and as it was at the last commit: the hash that the digest holds of it.
struct Changed<'a> {
    is: Option<Entry<'a>>,
    was: Option<u128>,
    /// The entry whose key a tombstone has.
    key: Entry<'a>,
}

impl Active {
    /// None where the series is not there, as after a panic between the note of a change and the change.
    fn changed<'a>(&'a self, change: &'a Change) -> Option<Changed<'a>> {
        match change {
            Change::Window { series, place, old } => {
                let series = self.state.get(*series)?;
                let window = series.window(*place)?;
                let is = window.open().map(|(window, aggregate)| Entry::Window(series, window, aggregate));
                let key = Entry::WindowKey(series, window);
                Some(Changed { is, was: old.as_ref().map(|_| window.entry_hash), key })
            }
            Change::Series { series, old } => {
                let series = self.state.get(*series)?;
                let kept = series.kept.as_ref()?;
                let entry = |life| Entry::Series(series.key(), life);
                let was = old.map(|_| kept.entry_hash);
                Some(Changed { is: series.life().map(entry), was, key: entry(Life::NEVER) })
            }
            Change::Identity { series, identity, old } => {
                let series = self.state.get(*series)?;
                let remembered = series.kept.as_ref()?.identities.get(identity)?;
                let entry = |since_ms| Entry::Identity(series.key(), *identity, since_ms);
                let was = old.map(|since_ms| hash_of(&entry(since_ms)));
                Some(Changed { is: remembered.since_ms.map(entry), was, key: entry(0) })
            }
            Change::LogTime { before, old } => {
                let entry = |log_time_ms| Entry::LogTime(*before, log_time_ms);
                let was = old.map(|log_time_ms| hash_of(&entry(log_time_ms)));
                Some(Changed { is: self.facts.get(before).copied().map(entry), was, key: entry(0) })
            }
        }
    }

    /// What one transaction writes. One pass over the changes.
    pub(super) fn batch(
        &mut self,
        semantics: &Semantics,
        epoch: Epoch,
        commit: u64,
        next_input_offset: Offset,
    ) -> Batch {
        self.check_conservation();
        let mut records = Records::with_capacity(self.open.changes.len());
        let mut hashes = Vec::with_capacity(self.open.changes.len());
        let (mut digest, mut entries) = (self.digest, self.entries);
        for changed in self.open.changes.iter().map(|change| self.changed(change)) {
            let mut hash = 0;
            if let Some(Changed { is, was, key }) = changed {
                if let Some(was) = was {
                    digest = digest.wrapping_sub(was);
                    entries = entries.saturating_sub(1);
                }
                if let Some(entry) = is {
                    hash = records.put(&entry);
                    digest = digest.wrapping_add(hash);
                    entries += 1;
                } else if was.is_some() {
                    records.tombstone(&key);
                }
            }
            hashes.push(hash);
        }
        let progress = Progress {
            format: VERSION,
            epoch,
            commit,
            next_input_offset,
            log_time_ms: self.totals.log_time_ms,
            counters: self.totals.counters.clone(),
            digest,
            entries,
            semantics_hash: semantics.hash(),
        };
        self.open.prepared = Some(Prepared { progress: progress.clone(), hashes });
        let mut outputs = self.open.outputs.clone();
        if semantics.emit() == Emit::Changes {
            outputs.extend(self.shown_changes(semantics));
        }
        Batch { entries: records.finish(), outputs, dead_letters: self.open.dead_letters.clone(), progress }
    }

    /// The open windows that were counted into, by device, metric and start.
    fn shown_changes(&self, semantics: &Semantics) -> impl Iterator<Item = Output> {
        let mut changed: Vec<_> = self
            .open
            .changes
            .iter()
            .filter_map(|change| {
                let Change::Window { series, place, .. } = change else { return None };
                let series = self.state.get(*series)?;
                let (window, aggregate) = series.window(*place)?.open()?;
                Some((series, window, aggregate))
            })
            .collect();
        changed.sort_unstable_by_key(|(series, window, _)| (series.device(), series.metric(), window.place()));
        let variance = semantics.variance();
        changed.into_iter().map(move |(series, window, aggregate)| {
            output(series.device(), series.show(self.partition(), variance, window, aggregate, false))
        })
    }

    /// Ends the batch that `batch()` gave last; None, and nothing is done, when there is none.
    pub(super) fn committed(&mut self) -> Option<Progress> {
        let Prepared { progress, hashes } = self.open.prepared.take()?;
        for (change, hash) in self.open.changes.drain(..).zip(hashes) {
            let (Change::Window { series: id, .. }
            | Change::Series { series: id, .. }
            | Change::Identity { series: id, .. }) = change
            else {
                continue;
            };
            let Some(series) = self.state.get_mut(id) else { continue };
            match change {
                Change::Window { place, .. } => {
                    let Some(window) = series.window_mut(place) else { continue };
                    (window.is_touched, window.entry_hash) = (false, hash);
                    if window.aggregate.is_none() {
                        series.remove(place);
                    }
                }
                Change::Series { .. } => {
                    if let Some(kept) = &mut series.kept {
                        (kept.is_touched, kept.entry_hash) = (false, hash);
                    }
                }
                Change::Identity { identity, .. } => {
                    let Some(kept) = &mut series.kept else { continue };
                    if let Some(remembered) = kept.identities.get_mut(&identity) {
                        remembered.is_touched = false;
                        if remembered.since_ms.is_none() {
                            kept.identities.remove(&identity);
                        }
                    }
                }
                Change::LogTime { .. } => {}
            }
            self.state.remove_if_empty(id);
        }
        self.open.clear();
        self.committed = self.totals.clone();
        (self.digest, self.entries) = (progress.digest, progress.entries);
        Some(progress)
    }

    /// Back to the last commit.
    pub(super) fn undo(&mut self, semantics: &Semantics) {
        let mut changes = std::mem::take(&mut self.open.changes);
        let mut series: Vec<_> =
            changes.drain(..).rev().filter_map(|change| self.undo_change(semantics, change)).collect();
        // Not before all is back: amid it a series can look as if nothing were left of it.
        series.sort_unstable();
        series.dedup();
        for id in series {
            self.schedule(semantics, id);
            self.state.remove_if_empty(id);
        }
        self.open.changes = changes;
        self.open.clear();
        self.totals = self.committed.clone();
    }

    /// Gives the series that it was a change of.
    fn undo_change(&mut self, semantics: &Semantics, change: Change) -> Option<SeriesId> {
        let id = match change {
            Change::LogTime { before, old } => {
                match old {
                    Some(log_time_ms) => self.facts.insert(before, log_time_ms),
                    None => self.facts.remove(&before),
                };
                return None;
            }
            Change::Window { series, .. } | Change::Series { series, .. } | Change::Identity { series, .. } => series,
        };
        let series = self.state.get_mut(id)?;
        match change {
            Change::Window { place, old, .. } => {
                match (old, series.window_mut(place)) {
                    (Some(old), Some(window)) => {
                        if let Some(rules) = semantics.windows().get(usize::from(place.0)) {
                            window.end_ms = rules.shape.end_of(window.start_ms, old.last_ms);
                        }
                        (window.aggregate, window.is_touched) = (Some(old), false);
                    }
                    (None, Some(_)) => {
                        series.remove(place);
                    }
                    (_, None) => {} // a panic came between the note of the change and the change
                }
                series.refresh(semantics.windows());
            }
            Change::Series { old, .. } => {
                series.set_life(old);
                if let Some(kept) = &mut series.kept {
                    kept.is_touched = false;
                }
            }
            Change::Identity { identity, old, .. } => {
                if let Some(kept) = &mut series.kept {
                    match old {
                        Some(since_ms) => {
                            let remembered = Remembered { since_ms: Some(since_ms), is_touched: false };
                            kept.identities.insert(identity, remembered);
                            self.silence.remember(since_ms, id, identity);
                        }
                        None => {
                            kept.identities.remove(&identity);
                        }
                    }
                }
            }
            Change::LogTime { .. } => {}
        }
        Some(id)
    }
}
