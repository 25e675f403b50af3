//! Where devices and times stand, and which times are plausible. SEMANTICS 3.3.

use std::borrow::Cow;

use super::body::Body;
use super::instant::{self, TimeError};
use super::json::Content;
use super::value::trim;
use super::{InputRecord, Reason, number};
use crate::semantics::{InputRules, Source, TimeSource};

/// What stands at a source.
pub(super) enum Found<'d> {
    Nothing,
    /// Of the key or a header.
    Bytes(&'d [u8]),
    Content(Content<'d>),
}

pub(super) fn find<'d>(source: &Source, record: &InputRecord<'d>, body: &impl Body<'d>) -> Found<'d> {
    let of_content = |content: Option<Content<'d>>| content.map_or(Found::Nothing, Found::Content);
    match source {
        Source::Body(pointer) => of_content(body.look(pointer)),
        Source::Document(pointer) => of_content(body.look_in_document(pointer)),
        Source::Key => record.key.map_or(Found::Nothing, Found::Bytes),
        Source::Header(name) => record.header(name).map_or(Found::Nothing, Found::Bytes),
        Source::Pack => Found::Nothing, // senml.rs reads it itself
    }
}

/// The device that a body names.
pub(super) fn device<'d>(
    rules: &InputRules,
    record: &InputRecord<'d>,
    body: &impl Body<'d>,
) -> Result<Cow<'d, str>, Reason> {
    let whole = match find(&rules.device.source, record, body) {
        Found::Nothing | Found::Content(Content::Null) => return Err(Reason::NoDevice),
        Found::Bytes(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).map_err(|_| Reason::BadDevice)?),
        Found::Content(Content::Text(text)) => text,
        Found::Content(Content::Number(written)) => Cow::Borrowed(written),
        Found::Content(Content::Bool(_) | Content::Container) => return Err(Reason::BadDevice),
    };
    device_from(rules, whole)
}

/// The device of a text: its segment, if it is not too long.
pub(super) fn device_from<'d>(rules: &InputRules, whole: Cow<'d, str>) -> Result<Cow<'d, str>, Reason> {
    let device = match (rules.device.segment, whole) {
        (None, whole) => whole,
        (Some(segment), Cow::Borrowed(whole)) => Cow::Borrowed(whole.split('/').nth(segment).unwrap_or("")),
        (Some(segment), Cow::Owned(whole)) => Cow::Owned(whole.split('/').nth(segment).unwrap_or("").to_owned()),
    };
    match device.len() {
        0 => Err(Reason::NoDevice),
        length if length > rules.name_bytes_max => Err(Reason::DeviceTooLong),
        _ => Ok(device),
    }
}

/// The time at which a body's readings count.
pub(super) fn time<'d>(rules: &InputRules, record: &InputRecord<'d>, body: &impl Body<'d>) -> Result<i64, Reason> {
    settle(rules, record, written_time(rules, record, body)?)
}

/// The time as it is written, plausible or not.
pub(super) fn written_time<'d>(
    rules: &InputRules,
    record: &InputRecord<'d>,
    body: &impl Body<'d>,
) -> Result<i64, Reason> {
    match &rules.time.source {
        TimeSource::Record => record_time(record),
        TimeSource::From(source) => match find(source, record, body) {
            Found::Nothing if rules.time.record_time_if_absent => record_time(record),
            Found::Nothing | Found::Content(Content::Null) => Err(Reason::NoTime),
            Found::Bytes(bytes) => text_time(rules, std::str::from_utf8(bytes).map_err(|_| Reason::BadTime)?),
            Found::Content(Content::Text(text)) => text_time(rules, &text),
            Found::Content(Content::Number(written)) => number_time(rules, written),
            Found::Content(Content::Bool(_) | Content::Container) => Err(Reason::BadTime),
        },
    }
}

/// The time if it is plausible, or that of the record if the configuration wants it so.
pub(super) fn settle(rules: &InputRules, record: &InputRecord<'_>, time_ms: i64) -> Result<i64, Reason> {
    let Err(reason) = plausible(rules, record, time_ms) else {
        return Ok(time_ms);
    };
    if !rules.time.record_time_if_implausible || record.timestamp_ms < 0 {
        return Err(reason);
    }
    let time_ms = record_time(record)?;
    plausible(rules, record, time_ms)?;
    Ok(time_ms)
}

pub(super) fn record_time(record: &InputRecord<'_>) -> Result<i64, Reason> {
    if record.timestamp_ms < 0 {
        return Err(Reason::NoTime);
    }
    instant::in_range(record.timestamp_ms).map_err(reason_of)
}

fn text_time(rules: &InputRules, text: &str) -> Result<i64, Reason> {
    let text = trim(text);
    if text.is_empty() {
        return Err(Reason::NoTime);
    }
    if number::is_number_text(text) {
        return number_time(rules, text);
    }
    instant::from_iso(text, rules.time.zone.as_ref()).map_err(reason_of)
}

fn number_time(rules: &InputRules, text: &str) -> Result<i64, Reason> {
    instant::from_number(text, rules.time.unit).map_err(reason_of)
}

fn reason_of(error: TimeError) -> Reason {
    match error {
        TimeError::BadTime => Reason::BadTime,
        TimeError::NoZone => Reason::NoZone,
    }
}

fn plausible(rules: &InputRules, record: &InputRecord<'_>, time_ms: i64) -> Result<(), Reason> {
    if time_ms < rules.time_min_ms {
        return Err(Reason::BeforeMinTime);
    }
    match rules.future_max_ms {
        Some(future_max_ms)
            if record.timestamp_ms >= 0 && time_ms > record.timestamp_ms.saturating_add(future_max_ms) =>
        {
            Err(Reason::Future)
        }
        _ => Ok(()),
    }
}
