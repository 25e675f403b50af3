//! What a candidate was read from, and what was found wrong with it: kept by reference, for whoever asks.

use super::json::{BadJson, Content};
use super::senml::BadSenml;
use super::value::NoNumber;
use super::{InputRecord, Outcome, Reason};
use crate::semantics::InputRules;

/// Why a record as a whole, or a line of it, gives no reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The value is null.
    Null,
    /// Our own code failed on it.
    Internal,
    Framing,
    Json(BadJson),
    Senml(BadSenml),
    /// Line protocol that is not UTF-8 from this byte on.
    NotUtf8 {
        at: usize,
    },
    /// A line that does not go on as it must at this byte of the record.
    Line {
        at: usize,
        expected: &'static str,
    },
    NoRecords,
    /// There is no candidate in it.
    Empty,
    TooMany {
        candidates: usize,
    },
}

impl Fault {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Fault::Null => Outcome::NullRecord,
            Fault::Internal => Reason::InternalError.into(),
            Fault::Framing => Reason::SchemaRegistryFraming.into(),
            Fault::Json(_) => Reason::BadJson.into(),
            Fault::Senml(_) => Reason::BadSenml.into(),
            Fault::NotUtf8 { .. } | Fault::Line { .. } => Reason::BadInflux.into(),
            Fault::NoRecords => Reason::NoRecords.into(),
            Fault::Empty => Reason::NoValue.into(),
            Fault::TooMany { .. } => Reason::TooManyReadings.into(),
        }
    }
}

/// What a candidate was judged by.
#[derive(Clone, Copy)]
pub(crate) enum Evidence<'a> {
    Fault(Fault),
    Body(BodyEvidence<'a>),
}

/// What a candidate of a body was judged by.
#[derive(Clone, Copy)]
pub(crate) struct BodyEvidence<'a> {
    pub(super) sources: &'a dyn Sources,
    pub(super) device: Result<&'a str, Reason>,
    pub(super) time_ms: Result<i64, Reason>,
    /// None: the body has no value.
    pub(super) value: Option<ValueEvidence<'a>>,
}

/// The value of a candidate.
#[derive(Clone, Copy)]
pub(super) struct ValueEvidence<'a> {
    pub(super) metric: Metric<'a>,
    pub(super) place: ValuePlace<'a>,
    pub(super) content: &'a Content<'a>,
    /// The rule by which it is no value, where it was looked at.
    pub(super) no_number: Option<NoNumber>,
}

/// A metric's name.
#[derive(Clone, Copy)]
pub(super) enum Metric<'a> {
    Named(&'a str),
    TooLong(&'a str),
}

impl<'a> Metric<'a> {
    /// A name that comes from the data.
    pub(super) fn of_data(rules: &InputRules, name: &'a str) -> Self {
        if name.len() > rules.name_bytes_max { Metric::TooLong(name) } else { Metric::Named(name) }
    }

    pub(super) fn name(self) -> Result<&'a str, Reason> {
        match self {
            Metric::Named(name) => Ok(name),
            Metric::TooLong(_) => Err(Reason::MetricTooLong),
        }
    }
}

/// Where a value stands.
#[derive(Clone, Copy)]
pub(super) enum ValuePlace<'a> {
    Pointer(&'a str),
    /// Of a line or a record of a pack, as it is written.
    Field(&'a str),
}

/// What stands at a source, and where that is, for people.
pub(super) struct Look {
    pub(super) what: String,
    pub(super) place: String,
}

/// Looks again at what a body was read from, with the functions that were used to read it.
pub(super) trait Sources {
    fn rules(&self) -> &InputRules;

    fn record(&self) -> &InputRecord<'_>;

    /// Where the device stands, before it is cut into segments.
    fn device(&self) -> Look;

    /// Where the time stands.
    fn time(&self) -> Look;

    /// The time as it is written, before it is held against the limits.
    fn written_time(&self) -> Result<i64, Reason>;
}
