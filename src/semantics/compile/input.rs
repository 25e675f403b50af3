//! The table `[input]`.

use super::Errors;
use crate::reading::instant;
use crate::semantics::{
    DedupBy, DedupRules, DedupSection, DeviceRules, Format, FormatRules, InputRules, InputSection, LimitsSection,
    NumberRules, OnImplausible, Pointer, SenmlSection, Source, Split, TimeRules, TimeSource, TimeUnit, ValueRules,
    ValueSection,
};

const JSON: &str = "format = \"json\"";
const SENML: &str = "format = \"senml\"";
const WITH_POINTERS: &str = "from = \"body\" and \"document\"";
const WITHOUT_SENML: &str = "the formats json and influx";
/// Where an influx line has its timestamp; lines may be without.
const INFLUX_TIMESTAMP: &str = "/timestamp";

pub(super) fn compile(input: &InputSection, errors: &mut Errors) -> Option<InputRules> {
    if input.topic.is_empty() {
        errors.add("input.topic", "is required: the name of the input topic");
    }
    let dedup = compile_dedup(&input.dedup, errors);
    let format = compile_format(input, errors);
    let device = compile_device(input, errors);
    let time = compile_time(input, errors);
    let (future_max_ms, time_min_ms) = compile_limits(&input.limits, errors)?;
    Some(InputRules {
        format: format?,
        device: device?,
        time: time?,
        other_values: number_rules(input, &ValueSection::default()),
        dedup: dedup?,
        future_max_ms,
        time_min_ms,
        name_bytes_max: usize::try_from(input.limits.max_device_id).ok()?,
        readings_max: usize::try_from(input.limits.max_readings_per_record).ok()?,
    })
}

fn compile_format(input: &InputSection, errors: &mut Errors) -> Option<FormatRules> {
    errors.out_of_place("input.senml", input.senml.is_some() && input.format != Format::Senml, SENML);
    if input.format != Format::Json {
        errors.out_of_place("input.records", input.records.is_some(), JSON);
        errors.out_of_place("input.decode", input.decode.is_some(), JSON);
    }
    match input.format {
        Format::Json => {
            let records = errors.optional_pointer("input.records", input.records.as_deref());
            let decode = errors.optional_pointer("input.decode", input.decode.as_deref());
            let pointer = Some("/value".to_owned());
            let only = ValueSection { name: "value".to_owned(), pointer, ..ValueSection::default() };
            let sections = if input.value.is_empty() { std::slice::from_ref(&only) } else { &input.value };
            let values = compile_values(input, sections, errors, pointer_of);
            Some(FormatRules::Json { decode: decode?, records: records?, values: values? })
        }
        Format::Senml => {
            let split = compile_split(input.senml.as_ref(), errors);
            let values = compile_values(input, &input.value, errors, metric_of);
            Some(FormatRules::Senml { split: split?, values: values? })
        }
        Format::Influx => {
            Some(FormatRules::Influx { values: compile_values(input, &input.value, errors, pointer_of)? })
        }
    }
}

fn compile_split(section: Option<&SenmlSection>, errors: &mut Errors) -> Option<Split> {
    match section.map_or("base", |section| section.split.as_str()) {
        "base" => Some(Split::Base),
        "" => {
            errors
                .add("input.senml.split", "is empty: write \"base\", or the text that stands before the metric's name");
            None
        }
        text => Some(Split::Last(text.to_owned())),
    }
}

fn compile_device(input: &InputSection, errors: &mut Errors) -> Option<DeviceRules> {
    let section = &input.device;
    let default = if input.format == Format::Influx { "/tags/device_id" } else { "/device_id" };
    let place = Placed { table: "input.device", from: &section.from, pointer: section.pointer.as_deref(), default };
    let source = place.source(input.format, errors)?;
    let segment = section.segment.and_then(|segment| usize::try_from(segment).ok());
    Some(DeviceRules { source, segment })
}

fn compile_time(input: &InputSection, errors: &mut Errors) -> Option<TimeRules> {
    let (section, is_influx) = (&input.time, input.format == Format::Influx);
    let default = if is_influx { INFLUX_TIMESTAMP } else { "/ts" };
    let place = Placed { table: "input.time", from: &section.from, pointer: section.pointer.as_deref(), default };
    let source = match (input.format, section.from.as_str()) {
        (_, "record") => {
            errors.out_of_place("input.time.pointer", section.pointer.is_some(), WITH_POINTERS);
            Some(TimeSource::Record)
        }
        (Format::Senml, from) if from != "body" => {
            errors.add("input.time.from", format!("{from:?} is none of body, record, which senml may have"));
            None
        }
        _ => place.source(input.format, errors).map(TimeSource::From),
    };
    if input.format == Format::Senml {
        errors.out_of_place("input.time.unit", section.unit.is_some(), WITHOUT_SENML);
        errors.out_of_place("input.time.zone", section.zone.is_some(), WITHOUT_SENML);
    }
    let zone = match &section.zone {
        None => None,
        Some(name) => Some(errors.zone("input.time.zone", name)?),
    };
    let source = source?;
    let is_line_time = matches!(&source, TimeSource::From(Source::Body(pointer)) if pointer.text() == INFLUX_TIMESTAMP);
    Some(TimeRules {
        record_time_if_absent: is_influx && is_line_time,
        source,
        unit: section.unit.unwrap_or(if is_influx { TimeUnit::Ns } else { TimeUnit::Auto }),
        zone_name: zone.as_ref().and_then(|zone| zone.iana_name().map(str::to_owned)),
        zone,
        record_time_if_implausible: section.on_implausible == OnImplausible::RecordTime,
    })
}

/// The settings that say where a device or a time stands.
struct Placed<'a> {
    table: &'a str,
    from: &'a str,
    pointer: Option<&'a str>,
    /// The pointer if there is none.
    default: &'a str,
}

impl Placed<'_> {
    fn source(&self, format: Format, errors: &mut Errors) -> Option<Source> {
        let pointer_key = format!("{}.pointer", self.table);
        let has_pointer = self.pointer.is_some();
        let place = match (format, self.from) {
            (Format::Senml, "body") => {
                errors.out_of_place(&pointer_key, has_pointer, WITHOUT_SENML);
                return Some(Source::Pack);
            }
            (_, "body") => Source::Body as fn(Pointer) -> Source,
            (Format::Json, "document") => Source::Document,
            _ => {
                errors.out_of_place(&pointer_key, has_pointer, WITH_POINTERS);
                return self.outside(format, errors);
            }
        };
        errors.pointer(&pointer_key, self.pointer.unwrap_or(self.default)).map(place)
    }

    /// In the record, but not in its value.
    fn outside(&self, format: Format, errors: &mut Errors) -> Option<Source> {
        match self.from.strip_prefix("header:") {
            Some(name) if !name.is_empty() => Some(Source::Header(name.to_owned())),
            None if self.from == "key" => Some(Source::Key),
            _ => {
                let document = if format == Format::Json { " document," } else { "" };
                let record = if self.table == "input.time" { ", record" } else { "" };
                let message = format!("{:?} is none of body,{document} key, header:NAME{record}", self.from);
                errors.add(&format!("{}.from", self.table), message);
                None
            }
        }
    }
}

fn compile_values<Place>(
    input: &InputSection,
    sections: &[ValueSection],
    errors: &mut Errors,
    place_of: impl Fn(usize, &ValueSection, &mut Errors) -> Option<Place>,
) -> Option<Vec<ValueRules<Place>>> {
    let mut values = Vec::with_capacity(sections.len());
    for (index, section) in sections.iter().enumerate() {
        if section.name.is_empty() {
            errors.add(&value_key(index, "name"), "is required: the name of the metric");
        }
        if sections.iter().take(index).any(|other| other.name == section.name) {
            let message = format!("{:?} is there twice; names must be unique", section.name);
            errors.add(&value_key(index, "name"), message);
        }
        if let Some(place) = place_of(index, section, errors) {
            values.push(ValueRules { name: section.name.clone(), place, numbers: number_rules(input, section) });
        }
    }
    if values.len() == sections.len() { Some(values) } else { None }
}

fn value_key(index: usize, name: &str) -> String {
    format!("input.value[{index}].{name}")
}

fn pointer_of(index: usize, section: &ValueSection, errors: &mut Errors) -> Option<Pointer> {
    errors.out_of_place(&value_key(index, "metric"), section.metric.is_some(), SENML);
    let key = value_key(index, "pointer");
    match &section.pointer {
        Some(pointer) => errors.pointer(&key, pointer),
        None => {
            errors.add(&key, "is required: where the value stands, such as \"/value\"; influx: \"/fields/NAME\"");
            None
        }
    }
}

fn metric_of(index: usize, section: &ValueSection, errors: &mut Errors) -> Option<String> {
    errors.out_of_place(&value_key(index, "pointer"), section.pointer.is_some(), WITHOUT_SENML);
    let metric = section.metric.as_ref().unwrap_or(&section.name);
    if section.metric.as_deref() == Some("") {
        errors.add(&value_key(index, "metric"), "is empty: a value without a name is of the metric \"value\"");
        return None;
    }
    Some(metric.clone())
}

/// With the defaults of `[input]` filled in.
fn number_rules(input: &InputSection, section: &ValueSection) -> NumberRules {
    NumberRules {
        missing: section.missing.as_ref().unwrap_or(&input.missing).clone(),
        missing_text: section.missing_text.as_ref().unwrap_or(&input.missing_text).clone(),
        booleans: section.booleans.unwrap_or(input.booleans),
        numeric_strings: section.numeric_strings.unwrap_or(input.numeric_strings),
    }
}

/// The outer None is an error.
fn compile_dedup(section: &DedupSection, errors: &mut Errors) -> Option<Option<DedupRules>> {
    let keep_ms = errors.duration_ms("input.dedup.keep", &section.keep);
    if keep_ms == Some(0) {
        errors.add("input.dedup.keep", "must be above 0");
    }
    let (kind, source) = section.by.split_once(':').unwrap_or((&section.by, ""));
    let by = match (kind, source) {
        ("none", "") if section.by == "none" => return keep_ms.map(|_| None),
        ("reading", "") if section.by == "reading" => DedupBy::Reading,
        ("header", name) if !name.is_empty() => DedupBy::Header(name.to_owned()),
        ("id", pointer) if !pointer.is_empty() => DedupBy::Id(errors.pointer("input.dedup.by", pointer)?),
        _ => {
            let message = format!("{:?} is none of none, id:/POINTER, header:NAME, reading", section.by);
            errors.add("input.dedup.by", message);
            return None;
        }
    };
    Some(Some(DedupRules { by, keep_ms: keep_ms? }))
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

#[cfg(test)]
mod tests {
    use super::{DedupBy, DedupRules, Errors, Pointer, compile};
    use crate::semantics::{DedupSection, InputRules, InputSection};

    fn input(by: &str, keep: &str) -> (Option<InputRules>, Vec<String>) {
        let dedup = DedupSection { by: by.to_owned(), keep: keep.to_owned() };
        let section = InputSection { topic: "t".to_owned(), dedup, ..InputSection::default() };
        let mut errors = Errors::default();
        let rules = compile(&section, &mut errors);
        (rules, errors.0.into_iter().map(|error| error.key).collect())
    }

    #[test]
    fn every_way_of_recognising_copies_is_read() {
        let dedup = |by| input(by, "2m").0.expect("rules").dedup;
        let rules = |by| Some(DedupRules { by, keep_ms: 120_000 });
        let pointer = |text| Pointer::parse(text).expect("a pointer");
        assert_eq!(dedup("none"), None);
        assert_eq!(dedup("reading"), rules(DedupBy::Reading));
        assert_eq!(dedup("id:/a:b/c"), rules(DedupBy::Id(pointer("/a:b/c"))));
        assert_eq!(dedup("header:id:7"), rules(DedupBy::Header("id:7".to_owned())));
    }

    #[test]
    fn what_tells_no_copies_apart_is_refused() {
        for by in ["", "id", "id:", "id:x", "header", "header:", "reading:", "none:", "reading:x", "Reading"] {
            assert_eq!(input(by, "1h").1, ["input.dedup.by"], "{by}");
        }
        for (by, keep) in [("reading", "0s"), ("none", "0s"), ("id:/id", "off")] {
            assert_eq!(input(by, keep).1, ["input.dedup.keep"], "{by} {keep}");
        }
    }
}
