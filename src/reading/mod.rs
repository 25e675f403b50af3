//! Record bytes to readings or rejections.
//!
//! Everything here is a function of the record and the configuration: no clock, no state of a series. The order of
//! the checks is that of SEMANTICS 4, and the first that fails decides.

use std::borrow::Cow;

use hotspare_cluster::Offset;

pub(crate) mod instant;
mod json;
mod number;
mod outcome;
mod source;
mod value;

pub use outcome::{Outcome, Reason};

use crate::semantics::{InputRules, ValueRules};
use json::{Document, Place};

/// One record of the input topic, borrowed from the Kafka client.
#[derive(Clone, Debug)]
pub struct InputRecord<'a> {
    /// Position in the input partition.
    pub offset: Offset,
    /// The record's own timestamp in milliseconds since 1970; below 0 for none.
    pub timestamp_ms: i64,
    /// The key; None for null.
    pub key: Option<&'a [u8]>,
    /// The value; None for null. No bytes are not null.
    pub value: Option<&'a [u8]>,
    /// The headers in their order: names and values.
    pub headers: Vec<(Cow<'a, str>, Option<&'a [u8]>)>,
}

impl<'a> InputRecord<'a> {
    /// The last header of that name.
    fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers.iter().rev().find(|(header, _)| header == name).and_then(|(_, value)| *value)
    }
}

/// A reading: what passed all checks that need no state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading<'a> {
    pub(crate) device: &'a str,
    pub(crate) metric: &'a str,
    /// Milliseconds since 1970, in the range of times.
    pub(crate) time_ms: i64,
    /// Finite, never -0.0.
    pub(crate) value: f64,
}

/// A candidate for a reading, as it is given to the caller of [`Reader::read`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// Position of its body in the record; None for the record as a whole.
    pub(crate) body: Option<u32>,
    /// The metric's name, if it has one.
    pub(crate) metric: Option<&'a str>,
    /// The reading, or what became of the candidate.
    pub(crate) reading: Result<Reading<'a>, Outcome>,
}

impl Candidate<'_> {
    fn whole_record(outcome: Outcome) -> Self {
        Candidate { body: None, metric: None, reading: Err(outcome) }
    }
}

/// Reads records; keeps nothing but room that is used again.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    scratch: json::Scratch,
}

impl Reader {
    /// Gives each of the record's candidates, at least one, in order.
    pub(crate) fn read(&mut self, rules: &InputRules, record: &InputRecord<'_>, mut each: impl FnMut(Candidate<'_>)) {
        let Some(value) = record.value else {
            return each(Candidate::whole_record(Outcome::NullRecord));
        };
        if let Err(reason) = self.read_json(rules, record, value, &mut each) {
            each(Candidate::whole_record(Outcome::Rejected(reason)));
        }
    }

    /// An error means that the whole record is one rejection; no candidate was given then.
    fn read_json(
        &mut self,
        rules: &InputRules,
        record: &InputRecord<'_>,
        value: &[u8],
        each: &mut impl FnMut(Candidate<'_>),
    ) -> Result<(), Reason> {
        if value.first() == Some(&0) {
            return Err(Reason::SchemaRegistryFraming);
        }
        let document = self.scratch.parse(value, rules.decode.as_ref()).map_err(|_| Reason::BadJson)?;
        let array = match &rules.records {
            None => None,
            Some(pointer) => {
                let place = document.resolve(Place::ROOT, pointer).filter(|place| document.is_array(*place));
                Some(place.ok_or(Reason::NoRecords)?)
            }
        };
        check_candidates(rules, &document, array)?;
        let bodies = Bodies { rules, record, document: &document };
        match array {
            None => bodies.read(0, Place::ROOT, each),
            Some(array) => {
                for (index, body) in (0..).zip(document.elements(array)) {
                    bodies.read(index, body, each);
                }
            }
        }
        Ok(())
    }
}

/// A record must hold a candidate, and not too many.
fn check_candidates(rules: &InputRules, document: &Document<'_>, array: Option<Place>) -> Result<(), Reason> {
    let candidates_of = |body| {
        let is_there = |value: &&ValueRules| document.resolve(body, &value.pointer).is_some();
        rules.values.iter().filter(is_there).count().max(1)
    };
    let Some(array) = array else {
        let is_surely_few = rules.values.len() <= rules.readings_max;
        let is_few = is_surely_few || candidates_of(Place::ROOT) <= rules.readings_max;
        return if is_few { Ok(()) } else { Err(Reason::TooManyReadings) };
    };
    let bodies = document.elements(array).count();
    if bodies == 0 {
        return Err(Reason::NoValue);
    }
    // Counting exactly is needed only where the record could hold too many.
    let is_surely_few = bodies.saturating_mul(rules.values.len()) <= rules.readings_max;
    if is_surely_few || document.elements(array).map(candidates_of).sum::<usize>() <= rules.readings_max {
        Ok(())
    } else {
        Err(Reason::TooManyReadings)
    }
}

/// A record's bodies, each read on its own.
struct Bodies<'r, 'd> {
    rules: &'r InputRules,
    record: &'r InputRecord<'r>,
    document: &'r Document<'d>,
}

impl Bodies<'_, '_> {
    fn read(&self, index: u32, body: Place, each: &mut impl FnMut(Candidate<'_>)) {
        let device = source::device(self.rules, self.record, self.document, body);
        let time = source::time(self.rules, self.record, self.document, body);
        let of_body = match (&device, &time) {
            (Err(reason), _) | (Ok(_), Err(reason)) => Err(Outcome::Rejected(*reason)),
            (Ok(device), Ok(time_ms)) => Ok((device.as_ref(), *time_ms)),
        };
        let mut has_value = false;
        for rule in &self.rules.values {
            let Some(place) = self.document.resolve(body, &rule.pointer) else {
                continue;
            };
            has_value = true;
            let reading = of_body.and_then(|(device, time_ms)| {
                let value = value::value(&self.document.content(place), rule)?;
                Ok(Reading { device, metric: &rule.name, time_ms, value })
            });
            each(Candidate { body: Some(index), metric: Some(&rule.name), reading });
        }
        if !has_value {
            let outcome = of_body.err().unwrap_or(Outcome::Rejected(Reason::NoValue));
            each(Candidate { body: Some(index), metric: None, reading: Err(outcome) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InputRecord, Outcome, Reader, Reason};
    use crate::semantics::Semantics;
    use hotspare_cluster::Offset;
    use proptest::prelude::*;

    /// Body, metric, value or outcome of a candidate.
    type Found = (Option<u32>, Option<String>, Result<f64, Outcome>);

    fn read(config: &str, value: &[u8]) -> Vec<Found> {
        let semantics = Semantics::from_toml(config).expect("a configuration");
        let record = InputRecord {
            offset: Offset(0),
            timestamp_ms: 1_704_067_200_000,
            key: None,
            value: Some(value),
            headers: vec![],
        };
        let mut found = Vec::new();
        Reader::default().read(semantics.input(), &record, |candidate| {
            let metric = candidate.metric.map(str::to_owned);
            found.push((candidate.body, metric, candidate.reading.map(|reading| reading.value)));
        });
        found
    }

    const ARRAY: &str = "[input]\ntopic = \"t\"\nrecords = \"\"\n[input.limits]\nmax_readings_per_record = 2\n\
        [[input.value]]\nname = \"a\"\npointer = \"/a\"\n[[input.value]]\nname = \"b\"\npointer = \"/b\"\n";

    #[test]
    fn candidates_are_counted_by_what_is_there() {
        let rejected = |reason| vec![(None, None, Err(Outcome::Rejected(reason)))];
        assert_eq!(read(ARRAY, br#"[{"a":1,"b":2},{}]"#), rejected(Reason::TooManyReadings));
        assert_eq!(read(ARRAY, br#"[{"a":1},{"b":2},7]"#), rejected(Reason::TooManyReadings));
        assert_eq!(read(ARRAY, br#"[{"a":1},{}]"#).len(), 2);
        assert_eq!(read(ARRAY, br"[]"), rejected(Reason::NoValue));
        assert_eq!(read(ARRAY, br#"{"a":[]}"#), rejected(Reason::NoRecords));
        assert_eq!(read(ARRAY, b""), rejected(Reason::BadJson));
        assert_eq!(read(ARRAY, b"\0[]"), rejected(Reason::SchemaRegistryFraming));
    }

    #[test]
    fn the_device_is_judged_before_the_time_and_the_time_before_the_value() {
        let config = "[input]\ntopic = \"t\"\n";
        let outcome = |text: &str| read(config, text.as_bytes()).pop().expect("a candidate").2;
        assert_eq!(outcome(r#"{"device_id":true,"ts":"x","value":"x"}"#), Err(Outcome::Rejected(Reason::BadDevice)));
        assert_eq!(outcome(r#"{"device_id":1.0,"ts":"x","value":"x"}"#), Err(Outcome::Rejected(Reason::BadTime)));
        assert_eq!(outcome(r#"{"device_id":"a","ts":1,"value":null}"#), Err(Outcome::Rejected(Reason::BeforeMinTime)));
        assert_eq!(outcome(r#"{"device_id":"a","ts":1704067200,"value":null}"#), Err(Outcome::Missing));
        assert_eq!(outcome(r#"{"device_id":"a","ts":1704067200,"value":" 1.5\n"}"#), Ok(1.5));
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(value in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(!read(ARRAY, &value).is_empty());
        }
    }
}
