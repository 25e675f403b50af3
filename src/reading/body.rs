//! What the formats have in common: a body that pointers lead into, and the candidates that it gives.

use std::borrow::Cow;

use super::evidence::{BodyEvidence, Evidence, Look, Metric, Sources, ValueEvidence, ValuePlace};
use super::identity::BodyIdentity;
use super::json::Content;
use super::value::NoNumber;
use super::{Candidate, InputRecord, Outcome, Reading, Reason, explain, source, value};
use crate::semantics::{InputRules, NumberRules, Pointer, TimeSource, ValueRules};

/// What a device, a time and values are read from.
pub(super) trait Body<'d> {
    /// What the pointer leads to in the body.
    fn look(&self, pointer: &Pointer) -> Option<Content<'d>>;

    /// What the pointer leads to in the whole document.
    fn look_in_document(&self, pointer: &Pointer) -> Option<Content<'d>>;
}

/// A body with the record that it is of, and the rules.
pub(super) struct BodyOf<'a, 'd, B> {
    pub(super) rules: &'a InputRules,
    pub(super) record: &'a InputRecord<'d>,
    pub(super) body: B,
}

impl<'d, B: Body<'d>> Sources for BodyOf<'_, 'd, B> {
    fn rules(&self) -> &InputRules {
        self.rules
    }

    fn record(&self) -> &InputRecord<'_> {
        self.record
    }

    fn device(&self) -> Look {
        let source = &self.rules.device.source;
        explain::look(source, &source::find(source, self.record, &self.body))
    }

    fn time(&self) -> Look {
        match &self.rules.time.source {
            TimeSource::Record => explain::look_at_record_time(self.record),
            TimeSource::From(source) => match source::find(source, self.record, &self.body) {
                source::Found::Nothing if self.rules.time.record_time_if_absent => {
                    explain::look_at_record_time(self.record)
                }
                found => explain::look(source, &found),
            },
        }
    }

    fn written_time(&self) -> Result<i64, Reason> {
        source::written_time(self.rules, self.record, &self.body)
    }
}

/// What all candidates of a body share.
pub(super) struct Shared<'a, 'd> {
    /// Position in the record.
    pub(super) index: u32,
    pub(super) device: Result<Cow<'d, str>, Reason>,
    pub(super) time_ms: Result<i64, Reason>,
    pub(super) identity: BodyIdentity,
    pub(super) sources: &'a dyn Sources,
}

/// A value as it stands in a body.
pub(super) struct Written<'a> {
    pub(super) metric: Metric<'a>,
    pub(super) place: ValuePlace<'a>,
    pub(super) content: &'a Content<'a>,
    pub(super) numbers: &'a NumberRules,
    /// Is added to numbers.
    pub(super) base: f64,
}

impl<'a, 'd> Shared<'a, 'd> {
    pub(super) fn of(of: &'a BodyOf<'_, 'd, impl Body<'d>>, index: u32) -> Self {
        let BodyOf { rules, record, body } = of;
        Self {
            index,
            device: source::device(rules, record, body),
            time_ms: source::time(rules, record, body),
            identity: BodyIdentity::of(rules.dedup.as_ref(), record, index, body),
            sources: of,
        }
    }

    /// Gives a candidate; the first check that fails decides.
    pub(super) fn give(&self, written: &Written<'_>, each: &mut impl FnMut(Candidate<'_>)) {
        let Written { metric, place, content, .. } = *written;
        let mut no_number = None;
        let reading = self.reading(written, &mut no_number);
        let value = Some(ValueEvidence { metric, place, content, no_number });
        each(Candidate {
            body: Some(self.index),
            metric: metric.name().ok(),
            reading,
            evidence: Evidence::Body(self.evidence(value)),
        });
    }

    fn reading<'r>(&'r self, written: &Written<'r>, no_number: &mut Option<NoNumber>) -> Result<Reading<'r>, Outcome> {
        let device = self.device.as_deref().map_err(|reason| *reason)?;
        let (metric, time_ms) = (written.metric.name()?, self.time_ms?);
        let value = value::value(written.content, written.numbers, written.base).map_err(|rule| {
            *no_number = Some(rule);
            rule.outcome()
        })?;
        Ok(Reading { device, metric, time_ms, value, identity: self.identity.of_reading(time_ms, value) })
    }

    fn evidence<'r>(&'r self, value: Option<ValueEvidence<'r>>) -> BodyEvidence<'r> {
        let device = self.device.as_deref().map_err(|reason| *reason);
        BodyEvidence { sources: self.sources, device, time_ms: self.time_ms, value }
    }

    /// Gives the candidate of a body without values.
    pub(super) fn give_without_value(&self, each: &mut impl FnMut(Candidate<'_>)) {
        let outcome = self.device.as_ref().err().or(self.time_ms.as_ref().err()).unwrap_or(&Reason::NoValue);
        let (reading, evidence) = (Err(Outcome::Rejected(*outcome)), Evidence::Body(self.evidence(None)));
        each(Candidate { body: Some(self.index), metric: None, reading, evidence });
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
                let written = Written {
                    metric: Metric::Named(&rule.name),
                    place: ValuePlace::Pointer(rule.place.text()),
                    content: &content,
                    numbers: &rule.numbers,
                    base: 0.0,
                };
                self.give(&written, each);
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
