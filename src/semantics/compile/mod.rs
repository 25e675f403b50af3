//! The tables as they are written to the rules that the code follows, with everything checked.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{
    DeviceRules, Format, InputRules, InputSection, LimitsSection, OnImplausible, OutputSection, Pointer, Semantics,
    SemanticsError, Source, TimeRules, TimeSource, TimeUnit, ValueRules, ValueSection, Variance, WindowKind,
    WindowRules, WindowSection, duration, fingerprint,
};
use crate::reading::instant;
use crate::window::Shape;

const NOT_YET: &str = "not supported yet by this version";

pub(super) fn compile(
    input: &InputSection,
    window: &WindowSection,
    output: &OutputSection,
) -> Result<Semantics, Vec<SemanticsError>> {
    let mut errors = Errors::default();
    let input_rules = compile_input(input, &mut errors);
    let window_rules = compile_window(window, &mut errors);
    if output.variance != Variance::None {
        errors.not_yet("output.variance", "variance and stddev are", "none");
    }
    match (input_rules, window_rules) {
        (Some(input_rules), Some(window_rules)) if errors.0.is_empty() => {
            let mut semantics = Semantics {
                topic: input.topic.clone(),
                input: input_rules,
                windows: vec![window_rules],
                emit: output.emit,
                dead_letter: output.dead_letter.clone(),
                hash: 0,
            };
            semantics.hash = fingerprint::hash(&semantics);
            Ok(semantics)
        }
        _ => Err(errors.0),
    }
}

/// What was found to be wrong. The methods that read a setting give None after they noted an error.
#[derive(Default)]
struct Errors(Vec<SemanticsError>);

impl Errors {
    fn add(&mut self, key: &str, message: impl Into<String>) {
        self.0.push(SemanticsError { key: key.to_owned(), message: message.into() });
    }

    fn not_yet(&mut self, key: &str, what: &str, remedy: &str) {
        self.add(key, format!("{what} {NOT_YET}; it must be {remedy:?}"));
    }

    fn out_of_place(&mut self, key: &str, is_set: bool, belongs_to: &str) {
        if is_set {
            self.add(key, format!("is only for {belongs_to}; remove it"));
        }
    }

    fn pointer(&mut self, key: &str, text: &str) -> Option<Pointer> {
        let pointer = Pointer::parse(text);
        if pointer.is_none() {
            self.add(key, format!("pointer {text:?} must be empty or begin with \"/\""));
        }
        pointer
    }

    /// The outer None is an error.
    fn optional_pointer(&mut self, key: &str, text: Option<&str>) -> Option<Option<Pointer>> {
        match text {
            None => Some(None),
            Some(text) => self.pointer(key, text).map(Some),
        }
    }

    fn duration_ms(&mut self, key: &str, text: &str) -> Option<i64> {
        duration::parse_ms(text).map_err(|message| self.add(key, message)).ok()
    }

    fn zone(&mut self, key: &str, name: &str) -> Option<TimeZone> {
        // The bundled rules, never those of the machine: replicas must agree.
        let zone = TimeZoneDatabase::bundled().get(name).ok();
        if zone.is_none() {
            self.add(key, format!("unknown time zone {name:?}: write an IANA name such as \"Europe/Berlin\""));
        }
        zone
    }
}

fn compile_input(input: &InputSection, errors: &mut Errors) -> Option<InputRules> {
    if input.topic.is_empty() {
        errors.add("input.topic", "is required: the name of the input topic");
    }
    if input.format != Format::Json {
        let name = if input.format == Format::Senml { "senml" } else { "influx" };
        errors.not_yet("input.format", &format!("the format {name} is"), "json");
        return None; // its keys have other defaults and places
    }
    errors.out_of_place("input.senml", input.senml.is_some(), "format = \"senml\"");
    if input.dedup.by != "none" {
        errors.not_yet("input.dedup.by", "deduplication is", "none");
    }
    if errors.duration_ms("input.dedup.keep", &input.dedup.keep) == Some(0) {
        errors.add("input.dedup.keep", "must be above 0");
    }
    let records = errors.optional_pointer("input.records", input.records.as_deref());
    let decode = errors.optional_pointer("input.decode", input.decode.as_deref());
    let device = compile_device(input, errors);
    let time = compile_time(input, errors);
    let values = compile_values(input, errors);
    let (future_max_ms, time_min_ms) = compile_limits(&input.limits, errors)?;
    Some(InputRules {
        decode: decode?,
        records: records?,
        device: device?,
        time: time?,
        values: values?,
        future_max_ms,
        time_min_ms,
        device_bytes_max: usize::try_from(input.limits.max_device_id).ok()?,
        readings_max: usize::try_from(input.limits.max_readings_per_record).ok()?,
    })
}

fn compile_device(input: &InputSection, errors: &mut Errors) -> Option<DeviceRules> {
    let section = &input.device;
    let source = source("input.device", &section.from, section.pointer.as_deref(), "/device_id", errors)?;
    let segment = section.segment.and_then(|segment| usize::try_from(segment).ok());
    Some(DeviceRules { source, segment })
}

fn compile_time(input: &InputSection, errors: &mut Errors) -> Option<TimeRules> {
    let section = &input.time;
    let source = if section.from == "record" {
        errors.out_of_place("input.time.pointer", section.pointer.is_some(), "from = \"body\" and \"document\"");
        Some(TimeSource::Record)
    } else {
        source("input.time", &section.from, section.pointer.as_deref(), "/ts", errors).map(TimeSource::From)
    };
    let zone = match &section.zone {
        None => None,
        Some(name) => Some(errors.zone("input.time.zone", name)?),
    };
    Some(TimeRules {
        source: source?,
        unit: section.unit.unwrap_or(TimeUnit::Auto),
        zone_name: zone.as_ref().and_then(|zone| zone.iana_name().map(str::to_owned)),
        zone,
        record_time_if_implausible: section.on_implausible == OnImplausible::RecordTime,
    })
}

fn source(table: &str, from: &str, pointer: Option<&str>, default: &str, errors: &mut Errors) -> Option<Source> {
    let pointer_key = format!("{table}.pointer");
    let place = match from {
        "body" => Source::Body as fn(Pointer) -> Source,
        "document" => Source::Document,
        _ => {
            errors.out_of_place(&pointer_key, pointer.is_some(), "from = \"body\" and \"document\"");
            return match from.strip_prefix("header:") {
                Some(name) if !name.is_empty() => Some(Source::Header(name.to_owned())),
                None if from == "key" => Some(Source::Key),
                _ => {
                    let places = "body, document, key, header:NAME";
                    let more = if table == "input.time" { ", record" } else { "" };
                    errors.add(&format!("{table}.from"), format!("{from:?} is none of {places}{more}"));
                    None
                }
            };
        }
    };
    errors.pointer(&pointer_key, pointer.unwrap_or(default)).map(place)
}

fn compile_values(input: &InputSection, errors: &mut Errors) -> Option<Vec<ValueRules>> {
    let only = ValueSection { name: "value".to_owned(), pointer: Some("/value".to_owned()), ..ValueSection::default() };
    let sections = if input.value.is_empty() { std::slice::from_ref(&only) } else { &input.value };
    let mut values = Vec::with_capacity(sections.len());
    for (index, section) in sections.iter().enumerate() {
        let key = |name: &str| format!("input.value[{index}].{name}");
        if section.name.is_empty() {
            errors.add(&key("name"), "is required: the name of the metric");
        }
        if sections.iter().take(index).any(|other| other.name == section.name) {
            errors.add(&key("name"), format!("{:?} is there twice; names must be unique", section.name));
        }
        errors.out_of_place(&key("metric"), section.metric.is_some(), "format = \"senml\"");
        let Some(pointer) = &section.pointer else {
            errors.add(&key("pointer"), "is required: where the value stands, such as \"/value\"");
            continue;
        };
        let Some(pointer) = errors.pointer(&key("pointer"), pointer) else {
            continue;
        };
        values.push(ValueRules {
            name: section.name.clone(),
            pointer,
            missing: section.missing.as_ref().unwrap_or(&input.missing).clone(),
            missing_text: section.missing_text.as_ref().unwrap_or(&input.missing_text).clone(),
            booleans: section.booleans.unwrap_or(input.booleans),
            numeric_strings: section.numeric_strings.unwrap_or(input.numeric_strings),
        });
    }
    if values.len() == sections.len() { Some(values) } else { None }
}

/// How far in the future times may be, and the earliest.
fn compile_limits(limits: &LimitsSection, errors: &mut Errors) -> Option<(Option<i64>, i64)> {
    for (key, limit) in [
        ("input.limits.max_device_id", limits.max_device_id),
        ("input.limits.max_readings_per_record", limits.max_readings_per_record),
    ] {
        if limit == 0 {
            errors.add(key, "must be above 0");
        }
    }
    let future_max_ms = match limits.max_future.as_str() {
        "off" => Some(None),
        text => errors.duration_ms("input.limits.max_future", text).map(Some),
    };
    let time_min_ms = instant::from_iso(&limits.min_time, None);
    if time_min_ms.is_err() {
        let message = format!("{:?} is no time with an offset, such as \"2000-01-01T00:00:00Z\"", limits.min_time);
        errors.add("input.limits.min_time", message);
    }
    Some((future_max_ms?, time_min_ms.ok()?))
}

fn compile_window(window: &WindowSection, errors: &mut Errors) -> Option<WindowRules> {
    let name = match window.kind {
        WindowKind::Tumbling => None,
        WindowKind::Hopping => Some("hopping"),
        WindowKind::Session => Some("session"),
        WindowKind::Calendar => Some("calendar"),
    };
    if let Some(name) = name {
        errors.not_yet("window.kind", &format!("{name} windows are"), "tumbling");
    } else {
        errors.out_of_place("window.advance", window.advance.is_some(), "kind = \"hopping\"");
        errors.out_of_place("window.gap", window.gap.is_some(), "kind = \"session\"");
        errors.out_of_place("window.unit", window.unit.is_some(), "kind = \"calendar\"");
        errors.out_of_place("window.zone", window.zone.is_some(), "kind = \"calendar\"");
    }
    for (key, value) in [("window.idle_close", &window.idle_close), ("window.retention", &window.retention)] {
        if value != "off" {
            errors.not_yet(key, "closing silent series is", "off");
        }
    }
    let grace_ms = errors.duration_ms("window.grace", &window.grace);
    let size_ms = errors.duration_ms("window.size", window.size.as_deref().unwrap_or("1h"));
    if size_ms == Some(0) {
        errors.add("window.size", "must be above 0");
    }
    Some(WindowRules {
        shape: Shape::Tumbling { size_ms: size_ms.filter(|size_ms| *size_ms > 0)? },
        grace_ms: grace_ms?,
    })
}

#[cfg(test)]
mod tests;
