//! Record bytes to readings or rejections.
//!
//! Everything here is a function of the record and the configuration: no clock, no state of a series. The order of
//! the checks is that of SEMANTICS 4, and the first that fails decides.

use std::borrow::Cow;

use hotspare_cluster::Offset;

mod body;
mod evidence;
mod explain;
mod identity;
mod influx;
pub(crate) mod instant;
mod json;
mod json_records;
pub(crate) mod number;
mod outcome;
mod senml;
mod source;
mod value;

pub(crate) use evidence::{Evidence, Fault};
pub(crate) use identity::Identity;
pub(crate) use influx::to_json as influx_to_json;
pub use outcome::{Outcome, Reason};

use crate::semantics::{FormatRules, InputRules};
use json_records::JsonRules;
use senml::SenmlRules;

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
    /// None: it is no copy of any other reading.
    pub(crate) identity: Option<Identity>,
}

/// A candidate for a reading, as it is given to the caller of [`Reader::read`].
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    /// Position of its body in the record; None for the record as a whole.
    pub(crate) body: Option<u32>,
    /// The metric's name, if it has one.
    pub(crate) metric: Option<&'a str>,
    /// The reading, or what became of the candidate.
    pub(crate) reading: Result<Reading<'a>, Outcome>,
    /// What it was judged by.
    pub(crate) evidence: Evidence<'a>,
}

impl Candidate<'_> {
    /// The only candidate of a record that cannot be read.
    pub(crate) fn whole_record(fault: Fault) -> Self {
        Candidate { body: None, metric: None, reading: Err(fault.outcome()), evidence: Evidence::Fault(fault) }
    }
}

/// Reads records; keeps nothing but room that is used again.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    json: json::Scratch,
    senml: senml::Scratch,
    influx: influx::Scratch,
}

impl Reader {
    /// Gives each of the record's candidates, at least one, in order.
    pub(crate) fn read(&mut self, rules: &InputRules, record: &InputRecord<'_>, mut each: impl FnMut(Candidate<'_>)) {
        let Some(value) = record.value else {
            return each(Candidate::whole_record(Fault::Null));
        };
        if let Err(fault) = self.read_value(rules, record, value, &mut each) {
            each(Candidate::whole_record(fault));
        }
    }

    /// An error means that the whole record is one rejection; no candidate was given then.
    fn read_value(
        &mut self,
        rules: &InputRules,
        record: &InputRecord<'_>,
        value: &[u8],
        each: &mut impl FnMut(Candidate<'_>),
    ) -> Result<(), Fault> {
        if value.first() == Some(&0) {
            return Err(Fault::Framing);
        }
        match &rules.format {
            FormatRules::Json { decode, records, values } => {
                let json = JsonRules { decode: decode.as_ref(), records: records.as_ref(), values };
                json_records::read(&mut self.json, (rules, json), record, value, each)
            }
            FormatRules::Senml { split, values } => {
                senml::read(&mut self.senml, (rules, SenmlRules { split, values }), record, value, each)
            }
            FormatRules::Influx { values } => influx::read(&mut self.influx, (rules, values), record, value, each),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InputRecord, Outcome, Reader, Reason};
    use crate::semantics::Semantics;
    use hotspare_cluster::Offset;
    use proptest::prelude::*;

    /// Each candidate as `body device metric time value`, or `body metric outcome`; the record's timestamp is
    /// 1704067200000.
    pub(super) fn outcomes(config: &str, value: &[u8]) -> Vec<String> {
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
            let body = candidate.body.map_or("-".to_owned(), |body| body.to_string());
            let metric = candidate.metric.map_or(String::new(), |metric| format!(" {metric}"));
            found.push(match candidate.reading {
                Ok(reading) => format!("{body} {}{metric} {} {}", reading.device, reading.time_ms, reading.value),
                Err(outcome) => format!("{body}{metric} {}", outcome.label()),
            });
        });
        found
    }

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
