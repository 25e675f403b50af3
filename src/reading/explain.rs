//! Evidence in words, for `hotspare try --explain`: what was looked at, what stood there, what was wrong with it.

use super::evidence::{BodyEvidence, Evidence, Fault, Look, Metric, Sources, ValueEvidence, ValuePlace};
use super::json::Content;
use super::senml::BadSenml;
use super::source::Found;
use super::value::NoNumber;
use super::{Candidate, InputRecord, Outcome, Reason};
use crate::semantics::{FormatRules, InputRules, Source};
use crate::window::text::write_string;

/// Longer texts of the data are cut; their length is given.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// A text of the data in quotes, in one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::new();
    match text.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        None => write_string(&mut quoted, text),
        Some((end, _)) => {
            write_string(&mut quoted, text.get(..end).unwrap_or(""));
            quoted += &format!("... ({} bytes)", text.len());
        }
    }
    quoted
}

fn shown(content: &Content<'_>) -> String {
    match content {
        Content::Null => "null".to_owned(),
        Content::Bool(value) => value.to_string(),
        Content::Number(written) if written.len() <= SHOWN_CHARACTERS_MAX => (*written).to_owned(),
        Content::Number(written) => quoted(written),
        Content::Text(text) => quoted(text),
        Content::Container => "an array or object".to_owned(),
    }
}

fn pointer_place(pointer: &str) -> String {
    if pointer.is_empty() { "the pointer \"\"".to_owned() } else { pointer.to_owned() }
}

/// What was found at a source.
pub(super) fn look(source: &Source, found: &Found<'_>) -> Look {
    let what = match found {
        Found::Nothing => "nothing".to_owned(),
        Found::Bytes(bytes) => std::str::from_utf8(bytes).map_or("bytes that are not UTF-8".to_owned(), quoted),
        Found::Content(content) => shown(content),
    };
    let place = match source {
        Source::Body(pointer) => pointer_place(pointer.text()),
        Source::Document(pointer) => format!("{} of the document", pointer_place(pointer.text())),
        Source::Pack => "bn and n".to_owned(),
        Source::Key => "the key".to_owned(),
        Source::Header(name) => format!("the header {}", quoted(name)),
    };
    Look { what, place }
}

pub(super) fn look_at_record_time(record: &InputRecord<'_>) -> Look {
    let what = if record.timestamp_ms < 0 { "nothing".to_owned() } else { record.timestamp_ms.to_string() };
    Look { what, place: "the record's timestamp".to_owned() }
}

impl Candidate<'_> {
    /// What was read, as far as it could be: `device "a" from /device_id; metric "value" from /value; ...`. Empty if
    /// nothing was.
    pub(crate) fn describe(&self) -> String {
        let Evidence::Body(body) = &self.evidence else { return String::new() };
        let mut parts = Vec::new();
        if let Ok(device) = body.device {
            parts.push(device_part(body.sources, device));
            parts.extend(body.value.as_ref().and_then(metric_part));
            let is_too_long = body.value.as_ref().is_some_and(|value| matches!(value.metric, Metric::TooLong(_)));
            parts.extend(body.time_ms.ok().filter(|_| !is_too_long).map(|time_ms| time_part(body.sources, time_ms)));
        }
        if let (Ok(reading), Some(value)) = (&self.reading, &body.value) {
            let mut number = String::new();
            crate::window::text::write_double(&mut number, reading.value);
            parts.push(format!("value {number} from {}", shown(value.content)));
        }
        parts.join("; ")
    }

    /// Why it gives no reading; None if it gives one.
    pub(crate) fn why_no_reading(&self) -> Option<String> {
        let outcome = self.reading.as_ref().err()?;
        Some(match &self.evidence {
            Evidence::Fault(fault) => fault_in_words(*fault),
            Evidence::Body(body) => match outcome {
                Outcome::Rejected(reason) => body.why_rejected(*reason),
                _ => body.why_no_number(),
            },
        })
    }
}

fn device_part(sources: &dyn Sources, device: &str) -> String {
    let Look { what, place } = sources.device();
    match sources.rules().device.segment {
        Some(segment) => format!("device {} from segment {segment} of {what} at {place}", quoted(device)),
        None => format!("device {} from {place}", quoted(device)),
    }
}

fn metric_part(value: &ValueEvidence<'_>) -> Option<String> {
    let Metric::Named(name) = value.metric else { return None };
    Some(format!("metric {} from {}", quoted(name), value_place(value.place)))
}

fn value_place(place: ValuePlace<'_>) -> String {
    match place {
        ValuePlace::Pointer(pointer) => pointer_place(pointer),
        ValuePlace::Field(name) => format!("field {}", quoted(name)),
    }
}

fn time_part(sources: &dyn Sources, time_ms: i64) -> String {
    let Look { what, place } = sources.time();
    match sources.written_time() {
        Ok(written_ms) if written_ms != time_ms => {
            format!("time {time_ms}, the record's timestamp, for the implausible {written_ms} from {what} at {place}")
        }
        _ => format!("time {time_ms} from {what} at {place}"),
    }
}

fn fault_in_words(fault: Fault) -> String {
    match fault {
        Fault::Null => "the record's value is null".to_owned(),
        Fault::Internal => "hotspare failed on it".to_owned(),
        Fault::Framing => "the value begins with a zero byte, as the framing of schema registries does".to_owned(),
        Fault::Json(bad) => format!("{} at its byte {}", not_json(bad.is_inner), bad.at),
        Fault::Senml(BadSenml::Json(bad)) => format!("{} at its byte {}", not_json(false), bad.at),
        Fault::Senml(BadSenml::NoArray) => "the value is no JSON array".to_owned(),
        Fault::Senml(BadSenml::Entry(index, message)) => format!("record {index} of the pack {message}"),
        Fault::NotUtf8 { at } => format!("the value is not UTF-8 at its byte {at}"),
        Fault::Line { at, expected } => format!("at byte {at} of the value there must be {expected}"),
        Fault::NoRecords => "the pointer input.records does not lead to an array".to_owned(),
        Fault::Empty => "there is nothing in it that input names as a reading".to_owned(),
        Fault::TooMany { candidates } => {
            format!("it has {candidates}, more than input.limits.max_readings_per_record")
        }
    }
}

fn not_json(is_inner: bool) -> &'static str {
    if is_inner { "the text at input.decode is not JSON (RFC 8259)" } else { "the value is not JSON (RFC 8259)" }
}

impl BodyEvidence<'_> {
    fn why_rejected(&self, reason: Reason) -> String {
        let (sources, rules) = (self.sources, self.sources.rules());
        match reason {
            Reason::NoDevice | Reason::BadDevice | Reason::DeviceTooLong => why_no_device(sources, reason),
            Reason::MetricTooLong => {
                let name = self.value.as_ref().map_or("", |value| match value.metric {
                    Metric::Named(name) | Metric::TooLong(name) => name,
                });
                let (bytes, bytes_max) = (name.len(), rules.name_bytes_max);
                format!("{} has {bytes} bytes, more than input.limits.max_device_id = {bytes_max}", quoted(name))
            }
            Reason::NoTime | Reason::NoZone | Reason::BadTime => why_no_time(sources, reason),
            Reason::BeforeMinTime | Reason::Future => why_implausible(sources, reason),
            Reason::NoValue => why_no_value(rules),
            _ => self.why_no_number(),
        }
    }

    fn why_no_number(&self) -> String {
        let Some(ValueEvidence { content, no_number: Some(rule), .. }) = &self.value else { return String::new() };
        let what = shown(content);
        match rule {
            NoNumber::Null => "null means that nothing was measured".to_owned(),
            NoNumber::EmptyText => format!("{what} is empty text, which means that nothing was measured"),
            NoNumber::MissingText => format!("{what} is in missing_text"),
            NoNumber::MissingNumber(number) => format!("{what} is {number}, which is in missing"),
            NoNumber::Boolean => format!("{what} is no number unless booleans = true"),
            NoNumber::Container => format!("{what} is no number"),
            NoNumber::Text => format!("{what} is text and no number"),
            NoNumber::NumberText => format!("{what} is text, and numeric_strings = false"),
            NoNumber::NonFiniteText => format!("{what} is no finite number"),
            NoNumber::BeyondDoubles => format!("{what} is beyond the doubles"),
            NoNumber::SumBeyondDoubles => format!("{what} and bv together are beyond the doubles"),
        }
    }
}

fn why_no_device(sources: &dyn Sources, reason: Reason) -> String {
    let (rules, Look { what, place }) = (sources.rules(), sources.device());
    let segment = rules.device.segment.map_or(String::new(), |segment| format!("segment {segment} of "));
    match reason {
        Reason::NoDevice if segment.is_empty() => format!("{what} at {place}"),
        Reason::NoDevice => format!("{segment}{what} at {place} is absent or empty"),
        Reason::BadDevice => format!("{what} at {place}: a device is text or a number"),
        _ => format!(
            "{segment}{what} at {place} has more bytes than input.limits.max_device_id = {}",
            rules.name_bytes_max
        ),
    }
}

fn why_no_time(sources: &dyn Sources, reason: Reason) -> String {
    let Look { what, place } = sources.time();
    let timestamp_ms = sources.record().timestamp_ms;
    match reason {
        Reason::BadTime if sources.written_time().is_ok() => format!(
            "{what} at {place} is implausible, and the record's timestamp {timestamp_ms} is no time of the years 0001 to 9998"
        ),
        Reason::NoTime => format!("{what} at {place}"),
        Reason::NoZone => format!("{what} at {place} is without an offset, and input.time.zone is not set"),
        _ => format!("{what} at {place} is no time of the years 0001 to 9998"),
    }
}

fn why_implausible(sources: &dyn Sources, reason: Reason) -> String {
    let (rules, Look { what, place }) = (sources.rules(), sources.time());
    let time = match sources.written_time() {
        Ok(time_ms) => format!("time {time_ms} from {what} at {place}"),
        Err(_) => format!("{what} at {place}"),
    };
    let timestamp_ms = sources.record().timestamp_ms;
    let limit = if reason == Reason::Future {
        let future_max_ms = rules.future_max_ms.unwrap_or(0);
        format!("after the record's timestamp {timestamp_ms} + input.limits.max_future of {future_max_ms} ms")
    } else {
        format!("before input.limits.min_time, {}", rules.time_min_ms)
    };
    if rules.time.record_time_if_implausible && timestamp_ms >= 0 {
        format!("{time} is implausible, and the record's timestamp {timestamp_ms} is {limit}")
    } else {
        format!("{time} is {limit}")
    }
}

fn why_no_value(rules: &InputRules) -> String {
    match &rules.format {
        FormatRules::Json { values, .. } | FormatRules::Influx { values } if !values.is_empty() => {
            let pointers: Vec<_> = values.iter().map(|rule| pointer_place(rule.place.text())).collect();
            format!("nothing at {}", pointers.join(", "))
        }
        _ => "there is no numeric field".to_owned(),
    }
}
