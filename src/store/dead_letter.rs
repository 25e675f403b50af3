//! Records that did not count, kept for a repair. SEMANTICS 9.

use std::collections::BTreeMap;

use hotspare_cluster::{Offset, PartitionId};

use crate::reading::{InputRecord, Outcome};
use crate::window::text::{write_integer, write_string};

/// Headers that are added to those of the record.
const OURS: usize = 6;
/// More readings of one record than these are not listed.
const LISTED_MAX: u64 = 100;

/// A record for the dead-letter topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The record's offset in the input partition.
    pub offset: Offset,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's value.
    pub value: Option<Vec<u8>>,
    /// The record's headers, then those that begin with `hotspare.`.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// What became of it, with numbers: `late=2,not_numeric=1`.
    pub reasons: String,
    /// A JSON array of `[body, metric, reason]`, the first 100 at most.
    pub readings: String,
}

impl DeadLetter {
    /// The same without its value, for when the broker refuses the size: `hotspare.value_omitted` is its length.
    #[must_use]
    pub fn without_value(&self) -> Self {
        let mut letter = Self { value: None, ..self.clone() };
        let length = self.value.as_ref().map_or(0, Vec::len);
        letter.headers.push(("hotspare.value_omitted".to_owned(), Some(length.to_string().into_bytes())));
        letter
    }

    /// The same without key and headers of the record too, for when even that is refused: `hotspare.key_omitted` is the
    /// key's length, `hotspare.headers_omitted` the number of headers.
    #[must_use]
    pub fn without_record(&self) -> Self {
        let mut letter = self.without_value();
        let key = letter.key.take();
        // Ours are the last ones; the record may have some of the same names.
        let ours = letter.headers.len().min(OURS + 1);
        let theirs = letter.headers.len() - ours;
        letter.headers.drain(..theirs);
        let omitted = [("hotspare.key_omitted", key.map_or(0, |key| key.len())), ("hotspare.headers_omitted", theirs)];
        for (name, count) in omitted {
            letter.headers.push((name.to_owned(), Some(count.to_string().into_bytes())));
        }
        letter
    }

    /// About how many bytes it takes in a batch.
    pub(super) fn bytes(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + length(value)).sum();
        length(&self.key) + length(&self.value) + headers
    }
}

/// What of a record is to be in its dead letter.
#[derive(Debug, Default)]
pub(super) struct Lost {
    reasons: BTreeMap<&'static str, u64>,
    listed: u64,
    readings: String,
}

impl Lost {
    pub(super) fn add(&mut self, body: Option<u32>, metric: Option<&str>, outcome: Outcome) {
        *self.reasons.entry(outcome.label()).or_insert(0) += 1;
        if self.listed == LISTED_MAX {
            return;
        }
        self.listed += 1;
        let text = &mut self.readings;
        text.push_str(if text.is_empty() { "[[" } else { ",[" });
        match body {
            Some(body) => write_integer(text, body),
            None => text.push_str("null"),
        }
        text.push(',');
        match metric {
            Some(metric) => write_string(text, metric),
            None => text.push_str("null"),
        }
        text.push(',');
        write_string(text, outcome.label());
        text.push(']');
    }

    pub(super) fn into_letter(self, topic: &str, partition: PartitionId, record: &InputRecord<'_>) -> DeadLetter {
        let reasons: Vec<_> = self.reasons.iter().map(|(reason, count)| format!("{reason}={count}")).collect();
        let (reasons, readings) = (reasons.join(","), self.readings + "]");
        let own = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let mut headers: Vec<_> =
            record.headers.iter().map(|(name, value)| (name.clone().into_owned(), own(*value))).collect();
        let ours: [_; OURS] = [
            ("hotspare.topic", topic.to_owned()),
            ("hotspare.partition", partition.to_string()),
            ("hotspare.offset", record.offset.to_string()),
            ("hotspare.timestamp", record.timestamp_ms.to_string()),
            ("hotspare.reasons", reasons.clone()),
            ("hotspare.readings", readings.clone()),
        ];
        for (name, value) in ours {
            headers.push((name.to_owned(), Some(value.into_bytes())));
        }
        DeadLetter { offset: record.offset, key: own(record.key), value: own(record.value), headers, reasons, readings }
    }
}

#[cfg(test)]
mod tests {
    use super::Lost;
    use crate::reading::{InputRecord, Outcome, Reason};
    use hotspare_cluster::{Offset, PartitionId};

    fn record() -> InputRecord<'static> {
        let headers = vec![("a".into(), None), ("hotspare.topic".into(), Some(&b"x"[..]))];
        InputRecord { offset: Offset(7), timestamp_ms: -1, key: Some(b"k"), value: Some(b"vvv"), headers }
    }

    #[test]
    fn the_record_is_unchanged_and_headers_are_added() {
        let mut lost = Lost::default();
        lost.add(Some(3), Some("m\""), Outcome::Rejected(Reason::NotNumeric));
        lost.add(Some(4), None, Outcome::Late);
        lost.add(Some(5), None, Outcome::Late);
        let letter = lost.into_letter("iot", PartitionId(2), &record());
        assert_eq!((letter.key.as_deref(), letter.value.as_deref()), (Some(&b"k"[..]), Some(&b"vvv"[..])));
        assert_eq!(letter.reasons, "late=2,not_numeric=1");
        assert_eq!(letter.readings, r#"[[3,"m\"","not_numeric"],[4,null,"late"],[5,null,"late"]]"#);
        let headers: Vec<_> = letter
            .headers
            .iter()
            .map(|(name, value)| {
                (name.as_str(), value.as_deref().map(|value| std::str::from_utf8(value).expect("UTF-8")))
            })
            .collect();
        let wanted = [
            ("a", None),
            ("hotspare.topic", Some("x")),
            ("hotspare.topic", Some("iot")),
            ("hotspare.partition", Some("2")),
            ("hotspare.offset", Some("7")),
            ("hotspare.timestamp", Some("-1")),
            ("hotspare.reasons", Some("late=2,not_numeric=1")),
            ("hotspare.readings", Some(letter.readings.as_str())),
        ];
        assert_eq!(headers, wanted);
        let without = letter.without_value();
        assert_eq!(without.value, None);
        assert_eq!(without.headers.last(), Some(&("hotspare.value_omitted".to_owned(), Some(b"3".to_vec()))));
    }

    #[test]
    fn a_hundred_readings_are_listed_and_all_are_counted() {
        let mut lost = Lost::default();
        (0..250).for_each(|body| lost.add(Some(body), None, Outcome::Late));
        let letter = lost.into_letter("iot", PartitionId(0), &record());
        assert_eq!(letter.reasons, "late=250");
        assert!(letter.readings.ends_with(r#",[99,null,"late"]]"#));
    }
}
