//! The output topic against the outputs of the clean run.
//!
//! Of each output only hashes are kept, about 50 bytes, so that millions of changes fit.

use std::collections::{HashMap, hash_map::Entry};

use hotspare_cluster::PartitionId;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::findings::{Example, Findings, text};

/// Which output it is: of which window, after how many readings, final or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    /// Hash of device, metric, partition, start and end.
    window: u128,
    count: u64,
    is_final: bool,
}

impl Identity {
    /// None if it is no output of SEMANTICS 8.
    fn of(value: &[u8]) -> Option<Self> {
        const COUNT: &str = ",\"count\":";
        let value = std::str::from_utf8(value).ok()?;
        // A quote within a string is escaped, so neither a device nor a metric can look like this.
        let (window, rest) = value.split_once(COUNT)?;
        let (count, _) = rest.split_once(',')?;
        let is_final = value.ends_with(",\"final\":true}");
        if !is_final && !value.ends_with(",\"final\":false}") {
            return None;
        }
        Some(Self { window: xxh3_128(window.as_bytes()), count: count.parse().ok()?, is_final })
    }
}

#[derive(Debug)]
struct Seen {
    hash: u64,
    offset: i64,
    is_expected: bool,
}

/// What the output topic holds, to be held against the clean run.
#[derive(Debug)]
pub(super) struct Outputs {
    partition: PartitionId,
    finals: HashMap<u128, Seen>,
    changes: HashMap<(u128, u64), Seen>,
    /// By window, the largest count of its changes.
    newest: HashMap<u128, u64>,
}

impl Outputs {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self { partition, finals: HashMap::new(), changes: HashMap::new(), newest: HashMap::new() }
    }

    /// Takes an output of the topic, in the order of offsets.
    pub(super) fn read(&mut self, offset: i64, key: Option<&[u8]>, value: Option<&[u8]>, findings: &mut Findings) {
        let partition = self.partition;
        let found = value.unwrap_or_default();
        let example = |what, note| Example {
            partition,
            what,
            offset: Some(offset),
            expected: None,
            found: Some(text(found)),
            note,
        };
        let Some(identity) = Identity::of(found) else {
            return findings.wrong(|| example("final", "this is no output of hotspare"));
        };
        let hash = hash(key, found);
        if identity.is_final {
            return match self.finals.entry(identity.window) {
                Entry::Vacant(place) => {
                    place.insert(Seen { hash, offset, is_expected: false });
                }
                Entry::Occupied(first) if first.get().hash == hash => {
                    findings.duplicated(|| example("final", "the window's final output stands there already"));
                }
                Entry::Occupied(_) => {
                    findings.wrong(|| example("final", "the window has another final output already"));
                }
            };
        }
        let newest = self.newest.entry(identity.window).or_default();
        let is_older = identity.count < *newest;
        *newest = identity.count.max(*newest);
        match self.changes.entry((identity.window, identity.count)) {
            Entry::Occupied(_) => {
                findings.duplicated(|| example("change", "this state of the window stands there already"));
            }
            Entry::Vacant(place) => {
                place.insert(Seen { hash, offset, is_expected: false });
                if is_older {
                    findings.wrong(|| example("change", "a newer state of the window stands before it"));
                } else if self.finals.contains_key(&identity.window) {
                    findings.wrong(|| example("change", "the window's final output stands before it"));
                }
            }
        }
    }

    /// Takes an output that the clean run gives at this place of the input. A change need not be in the topic, for the
    /// commits decide which are; if it is there, it must be this one. With `is_judged` false a difference is no finding.
    pub(super) fn expect(&mut self, key: &[u8], value: &[u8], is_judged: bool, findings: &mut Findings) {
        let Some(identity) = Identity::of(value) else { return };
        let what = if identity.is_final { "final" } else { "change" };
        let seen = if identity.is_final {
            self.finals.get_mut(&identity.window)
        } else {
            self.changes.get_mut(&(identity.window, identity.count))
        };
        let partition = self.partition;
        let example = |offset, note| {
            let expected = Some(text(value));
            Example { partition, what, offset, expected, found: None, note }
        };
        match seen {
            None if is_judged && identity.is_final => {
                findings.lost(|| example(None, "the window's final output is not in the topic"));
            }
            None => {}
            Some(seen) => {
                seen.is_expected = true;
                if is_judged && seen.hash != hash(Some(key), value) {
                    let offset = Some(seen.offset);
                    findings.wrong(|| example(offset, "the output differs from the clean run's"));
                }
            }
        }
    }

    /// Takes an open window of the clean run at its end: its state must be in the topic, as every commit gives it.
    pub(super) fn expect_current(&self, value: &[u8], findings: &mut Findings) {
        let Some(identity) = Identity::of(value) else { return };
        if !self.changes.contains_key(&(identity.window, identity.count)) {
            findings.lost(|| Example {
                partition: self.partition,
                what: "change",
                offset: None,
                expected: Some(text(value)),
                found: None,
                note: "the newest state of the open window is not in the topic",
            });
        }
    }

    /// What the clean run did not give is wrong, unless it stands at or after `tail`: that may be of a later commit.
    pub(super) fn finish(self, tail: i64, findings: &mut Findings) {
        let of = |what| move |seen: Seen| (seen.is_expected, seen.offset, what);
        let finals = self.finals.into_values().map(of("final"));
        let changes = self.changes.into_values().map(of("change"));
        let mut unexpected: Vec<_> =
            finals.chain(changes).filter(|(is_expected, offset, _)| !is_expected && *offset < tail).collect();
        unexpected.sort_unstable();
        for (_, offset, what) in unexpected {
            findings.wrong(|| Example {
                partition: self.partition,
                what,
                offset: Some(offset),
                expected: None,
                found: None,
                note: "the clean run gives no such output",
            });
        }
    }
}

fn hash(key: Option<&[u8]>, value: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&key.map_or(u64::MAX, |key| key.len() as u64).to_le_bytes());
    hash.update(key.unwrap_or_default());
    hash.update(value);
    hash.digest()
}
