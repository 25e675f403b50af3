//! The dead-letter topic against the dead letters of the clean run.

use std::{
    borrow::Cow,
    collections::{HashMap, hash_map::Entry},
};

use hotspare_cluster::PartitionId;
use xxhash_rust::xxh3::Xxh3;

use super::findings::{Example, Findings};
use crate::store::DeadLetter;

/// Names and values of headers.
type Headers<'a> = [(Cow<'a, str>, Option<&'a [u8]>)];

struct Seen {
    hash: u64,
    offset: i64,
    is_expected: bool,
}

/// What the dead-letter topic holds, by input offset.
pub(super) struct Letters {
    partition: PartitionId,
    seen: HashMap<i64, Seen>,
}

impl Letters {
    pub(super) fn new(partition: PartitionId) -> Self {
        Self { partition, seen: HashMap::new() }
    }

    /// Takes a dead letter of the topic.
    pub(super) fn read(
        &mut self,
        offset: i64,
        (key, value): (Option<&[u8]>, Option<&[u8]>),
        headers: &Headers<'_>,
        findings: &mut Findings,
    ) {
        let partition = self.partition;
        let example = |note| Example {
            partition,
            what: "dead_letter",
            offset: Some(offset),
            expected: None,
            found: Some(show(headers)),
            note,
        };
        // The last one of that name is ours; the record may have had one before.
        let header = |wanted: &str| headers.iter().rev().find(|(name, _)| name == wanted).and_then(|(_, value)| *value);
        let of_input = header("hotspare.offset").and_then(|value| std::str::from_utf8(value).ok()?.parse::<i64>().ok());
        let Some(of_input) = of_input else {
            return findings.wrong(|| example("it has no header hotspare.offset"));
        };
        let hash = hash(key, value, headers.iter().map(|(name, value)| (name.as_ref(), *value)));
        match self.seen.entry(of_input) {
            Entry::Vacant(place) => {
                place.insert(Seen { hash, offset, is_expected: false });
            }
            Entry::Occupied(_) => findings.duplicated(|| example("the record has a dead letter already")),
        }
    }

    /// Takes a dead letter that the clean run gives.
    pub(super) fn expect(&mut self, letter: &DeadLetter, is_judged: bool, findings: &mut Findings) {
        let partition = self.partition;
        let example = |offset, note| {
            let expected = Some(format!("input offset {}: {}", letter.offset, letter.reasons));
            Example { partition, what: "dead_letter", offset, expected, found: None, note }
        };
        match self.seen.get_mut(&letter.offset.0) {
            None if is_judged => findings.lost(|| example(None, "the dead letter is not in the topic")),
            None => {}
            Some(seen) => {
                seen.is_expected = true;
                // The broker may have refused its size.
                let is_same =
                    [letter, &letter.without_value(), &letter.without_record()].map(hash_of).contains(&seen.hash);
                if is_judged && !is_same {
                    let offset = Some(seen.offset);
                    findings.wrong(|| example(offset, "the dead letter differs from the clean run's"));
                }
            }
        }
    }

    /// What the clean run did not give is wrong, if it is of a record that it has read.
    pub(super) fn finish(self, next_input_offset: i64, findings: &mut Findings) {
        let mut unexpected: Vec<_> = self
            .seen
            .into_iter()
            .filter(|(of_input, seen)| !seen.is_expected && *of_input < next_input_offset)
            .map(|(of_input, seen)| (seen.offset, of_input))
            .collect();
        unexpected.sort_unstable();
        for (offset, of_input) in unexpected {
            findings.wrong(|| Example {
                partition: self.partition,
                what: "dead_letter",
                offset: Some(offset),
                expected: None,
                found: Some(format!("input offset {of_input}")),
                note: "the clean run gives no dead letter for this record",
            });
        }
    }
}

fn hash_of(letter: &DeadLetter) -> u64 {
    let headers = letter.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
    hash(letter.key.as_deref(), letter.value.as_deref(), headers)
}

fn hash<'a>(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> u64 {
    let mut hash = Xxh3::new();
    let mut add = |bytes: Option<&[u8]>| {
        hash.update(&bytes.map_or(u64::MAX, |bytes| bytes.len() as u64).to_le_bytes());
        hash.update(bytes.unwrap_or_default());
    };
    add(key);
    add(value);
    for (name, value) in headers {
        add(Some(name.as_bytes()));
        add(value);
    }
    hash.digest()
}

fn show(headers: &Headers<'_>) -> String {
    let shown = headers.iter().filter(|(name, _)| name.starts_with("hotspare."));
    let shown = shown.map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(value.unwrap_or_default())));
    shown.collect::<Vec<_>>().join(" ")
}
