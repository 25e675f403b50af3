//! What the formats have in common: a body that pointers lead into, and the candidates that it gives.

use std::borrow::Cow;

use super::identity::BodyIdentity;
use super::json::Content;
use super::{Candidate, InputRecord, Outcome, Reading, Reason, source, value};
use crate::semantics::{InputRules, Pointer, ValueRules};

/// What a device, a time and values are read from.
pub(super) trait Body<'d> {
    /// What the pointer leads to in the body.
    fn look(&self, pointer: &Pointer) -> Option<Content<'d>>;

    /// What the pointer leads to in the whole document.
    fn look_in_document(&self, pointer: &Pointer) -> Option<Content<'d>>;
}

/// What all candidates of a body share.
pub(super) struct Shared<'d> {
    /// Position in the record.
    pub(super) index: u32,
    pub(super) device: Result<Cow<'d, str>, Reason>,
    pub(super) time_ms: Result<i64, Reason>,
    pub(super) identity: BodyIdentity,
}

impl<'d> Shared<'d> {
    pub(super) fn of(rules: &InputRules, record: &InputRecord<'d>, index: u32, body: &impl Body<'d>) -> Self {
        Self {
            index,
            device: source::device(rules, record, body),
            time_ms: source::time(rules, record, body),
            identity: BodyIdentity::of(rules.dedup.as_ref(), record, index, body),
        }
    }

    /// Gives a candidate; the first check that fails decides.
    pub(super) fn give(
        &self,
        metric: Result<&str, Reason>,
        value: impl FnOnce() -> Result<f64, Outcome>,
        each: &mut impl FnMut(Candidate<'_>),
    ) {
        let reading = self.reading(metric, value);
        each(Candidate { body: Some(self.index), metric: metric.ok(), reading });
    }

    fn reading<'a>(
        &'a self,
        metric: Result<&'a str, Reason>,
        value: impl FnOnce() -> Result<f64, Outcome>,
    ) -> Result<Reading<'a>, Outcome> {
        let device = self.device.as_deref().map_err(|reason| *reason)?;
        let (metric, time_ms, value) = (metric?, self.time_ms?, value()?);
        Ok(Reading { device, metric, time_ms, value, identity: self.identity.of_reading(time_ms, value) })
    }

    /// Gives the candidate of a body without values.
    pub(super) fn give_without_value(&self, each: &mut impl FnMut(Candidate<'_>)) {
        let outcome = self.device.as_ref().err().or(self.time_ms.as_ref().err()).unwrap_or(&Reason::NoValue);
        each(Candidate { body: Some(self.index), metric: None, reading: Err(Outcome::Rejected(*outcome)) });
    }

    /// Gives a candidate for each value whose pointer leads to something, or one without a value.
    pub(super) fn give_pointed(
        &self,
        values: &[ValueRules<Pointer>],
        body: &impl Body<'d>,
        each: &mut impl FnMut(Candidate<'_>),
    ) {
        let mut has_value = false;
        for rule in values {
            if let Some(content) = body.look(&rule.place) {
                has_value = true;
                self.give(Ok(&rule.name), || value::value(&content, &rule.numbers, 0.0), each);
            }
        }
        if !has_value {
            self.give_without_value(each);
        }
    }
}

/// How many candidates a body gives by the pointers of the configuration.
pub(super) fn count_pointed<'d>(values: &[ValueRules<Pointer>], body: &impl Body<'d>) -> usize {
    values.iter().filter(|rule| body.look(&rule.place).is_some()).count().max(1)
}
