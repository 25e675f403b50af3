//! Which places are the device, the time and the values.

use super::field::{Field, Fields, TEXTS_MAX, last_token, plain};
use super::sample::Sample;
use crate::reading::instant::{self, TimeError};
use crate::reading::number;
use crate::semantics::TimeUnit;

/// Names of devices, the surest first.
const DEVICE_NAMES: [&str; 31] = [
    "deviceid",
    "device",
    "deveui",
    "devid",
    "sensorid",
    "sensor",
    "clientid",
    "stationid",
    "station",
    "nodeid",
    "node",
    "machineid",
    "machine",
    "assetid",
    "asset",
    "thingid",
    "thing",
    "serialnumber",
    "serial",
    "imei",
    "mac",
    "macaddress",
    "gateway",
    "host",
    "hostname",
    "tag",
    "topic",
    "name",
    "source",
    "uid",
    "id",
];
/// Names from this place on may be those of messages as well.
const UNSURE_FROM: usize = 27;
const TIME_NAMES: [&str; 12] = [
    "ts",
    "timestamp",
    "time",
    "datetime",
    "eventtime",
    "measuredat",
    "observedat",
    "recordedat",
    "createdat",
    "date",
    "epoch",
    "t",
];
/// A sample with at least this many bodies of which no two have the same text there does not name devices there.
const UNIQUE_MIN: usize = 10;
/// 2000-01-01 and 2100-01-01.
const PLAUSIBLE_MS: std::ops::Range<i64> = 946_684_800_000..4_102_444_800_000;

/// Where the device stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Device {
    /// As in `input.device.from`.
    pub(super) from: String,
    pub(super) pointer: Option<String>,
    pub(super) segment: Option<usize>,
    /// How sure that is.
    pub(super) comment: String,
}

/// Where the time stands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Time {
    pub(super) from: String,
    pub(super) pointer: Option<String>,
    pub(super) unit: Option<TimeUnit>,
    /// So many texts are without an offset.
    pub(super) local: usize,
    pub(super) comment: String,
}

/// The device, from the body or elsewhere. `document`: the places of the whole document, where bodies are its parts.
pub(super) fn device(sample: &Sample, body: &Fields, document: Option<&Fields>) -> Device {
    let in_fields = |from: &str, fields: &Fields, is_sure: bool| {
        let (pointer, rank) = named_device(fields)?;
        let field = fields.by_pointer.get(&pointer).filter(|_| (rank < UNSURE_FROM) == is_sure)?;
        let unsure = if is_sure { "" } else { "UNSURE: " };
        let (present, parts) = (field.present, parts(from, fields));
        let comment = format!("{unsure}in {present} of {parts}; {}", different(field));
        Some(Device { from: from.to_owned(), pointer: Some(pointer), segment: None, comment })
    };
    let in_both = |is_sure| in_fields("body", body, is_sure).or_else(|| in_fields("document", document?, is_sure));
    in_both(true).or_else(|| header_device(sample)).or_else(|| key_device(sample)).or_else(|| in_both(false)).unwrap_or(
        Device {
            from: "key".to_owned(),
            pointer: None,
            segment: None,
            comment: "UNSURE: nothing in the sample looks like a device; write where it stands".to_owned(),
        },
    )
}

fn parts(from: &str, fields: &Fields) -> String {
    format!("{} {}", fields.bodies, if from == "body" { "bodies" } else { "documents" })
}

fn different(field: &Field) -> String {
    let examples: Vec<_> = field.texts.keys().take(2).map(|text| format!("{text:?}")).collect();
    let more = if field.texts.len() < TEXTS_MAX { "" } else { " or more" };
    format!("{}{more} different, such as {}", field.texts.len(), examples.join(", "))
}

fn named_device(fields: &Fields) -> Option<(String, usize)> {
    let rank = |(pointer, field): (&str, &Field)| {
        let name = plain(&last_token(pointer));
        let rank = DEVICE_NAMES.iter().position(|device| *device == name)?;
        let texts: usize = field.texts.values().sum();
        let is_unique = field.texts.len() == texts && texts >= UNIQUE_MIN && rank >= UNSURE_FROM;
        let is_there = texts > 0 && field.present * 2 > fields.bodies && field.booleans == 0;
        (is_there && !is_unique).then(|| (rank, pointer.to_owned()))
    };
    fields.in_order().into_iter().filter_map(rank).min().map(|(rank, pointer)| (pointer, rank))
}

fn header_device(sample: &Sample) -> Option<Device> {
    let named = |name: &str| DEVICE_NAMES.iter().take(UNSURE_FROM).any(|device| *device == plain(name));
    let names = sample.records.iter().flat_map(|record| &record.headers);
    let name = names.map(|(name, _)| name).find(|name| named(name))?;
    let with = sample.records.iter().filter(|record| record.headers.iter().any(|(header, _)| header == name)).count();
    let comment = format!("in {with} of {} records", sample.records.len());
    Some(Device { from: format!("header:{name}"), pointer: None, segment: None, comment })
}

/// The key, if most records have one; of a path the piece with the most different texts.
fn key_device(sample: &Sample) -> Option<Device> {
    let keys: Vec<_> = sample
        .records
        .iter()
        .filter_map(|record| std::str::from_utf8(record.key.as_deref()?).ok().filter(|key| !key.is_empty()))
        .collect();
    if keys.len() * 2 <= sample.records.len() {
        return None;
    }
    let pieces = keys.iter().map(|key| key.split('/').count()).max().unwrap_or(1);
    let different = |segment: usize| {
        let mut texts: Vec<_> = keys.iter().filter_map(|key| key.split('/').nth(segment)).collect();
        texts.sort_unstable();
        texts.dedup();
        texts.len()
    };
    let segment = (0..pieces).rev().max_by_key(|segment| different(*segment)).filter(|_| pieces > 1);
    let count =
        segment.map_or_else(|| format!("{} keys", keys.len()), |segment| format!("{} texts", different(segment)));
    let comment =
        format!("{} of {} records have a key; {count} such as {:?}", keys.len(), sample.records.len(), keys.first()?);
    Some(Device { from: "key".to_owned(), pointer: None, segment, comment })
}

/// How the texts and numbers of a field read as times.
struct Readable {
    times: usize,
    local: usize,
    units: Vec<(TimeUnit, usize)>,
}

fn readable(field: &Field) -> Readable {
    let mut found = Readable { times: 0, local: 0, units: Vec::new() };
    for (text, count) in &field.texts {
        let text = text.trim();
        if !number::is_number_text(text) {
            match instant::from_iso(text, None) {
                Ok(_) => found.times += count,
                Err(TimeError::NoZone) => {
                    found.times += count;
                    found.local += count;
                }
                Err(TimeError::BadTime) => {}
            }
            continue;
        }
        let units = [TimeUnit::S, TimeUnit::Ms, TimeUnit::Us, TimeUnit::Ns];
        let is_plausible =
            |unit: &TimeUnit| instant::from_number(text, *unit).is_ok_and(|time_ms| PLAUSIBLE_MS.contains(&time_ms));
        if let Some(unit) = units.into_iter().find(is_plausible) {
            found.times += count;
            match found.units.iter_mut().find(|(known, _)| *known == unit) {
                Some((_, times)) => *times += count,
                None => found.units.push((unit, *count)),
            }
        }
    }
    found
}

/// The time, from the body or elsewhere.
pub(super) fn time(sample: &Sample, body: &Fields, document: Option<&Fields>) -> Time {
    let in_fields = |from: &str, fields: &Fields| {
        let (pointer, Readable { times, local, units }) = best_time(fields)?;
        let field = fields.by_pointer.get(&pointer)?;
        let unit = match units.as_slice() {
            [] => None,
            [(unit, _)] => Some(*unit),
            _ => Some(TimeUnit::Auto),
        };
        let kind = match unit {
            None => "texts",
            Some(TimeUnit::Auto) => "of several units: by their size",
            Some(_) => "numbers",
        };
        let texts: usize = field.texts.values().sum();
        let (present, parts) = (field.present, parts(from, fields));
        let comment = format!("{times} of {texts} read as times, {kind}; in {present} of {parts}");
        Some(Time { from: from.to_owned(), pointer: Some(pointer), unit, local, comment })
    };
    let found = in_fields("body", body).or_else(|| in_fields("document", document?));
    found.unwrap_or_else(|| {
        let without = sample.records.iter().filter(|record| record.timestamp_ms < 0).count();
        let comment = format!(
            "UNSURE: nothing in the sample reads as a time; {without} of {} records are without a timestamp of their own",
            sample.records.len()
        );
        Time { from: "record".to_owned(), pointer: None, unit: None, local: 0, comment }
    })
}

fn best_time(fields: &Fields) -> Option<(String, Readable)> {
    let rank = |(pointer, field): (&str, &Field)| {
        let name = plain(&last_token(pointer));
        let known = TIME_NAMES.iter().position(|time| *time == name);
        let rank = known.unwrap_or(TIME_NAMES.len() + usize::from(!name.contains("time") && !name.contains("date")));
        let found = readable(field);
        let is_named = rank <= TIME_NAMES.len() || found.units.is_empty();
        let texts: usize = field.texts.values().sum();
        let is_time = found.times * 2 > texts && field.present * 2 > fields.bodies && is_named;
        is_time.then(|| (rank, pointer.to_owned(), found))
    };
    let best = fields.in_order().into_iter().filter_map(rank).min_by_key(|(rank, ..)| *rank)?;
    Some((best.1, best.2))
}

/// Whether all that stands there are times, under a name of times.
pub(super) fn is_other_time(pointer: &str, field: &Field) -> bool {
    let name = plain(&last_token(pointer));
    let is_named = TIME_NAMES.contains(&name.as_str()) || name.contains("time") || name.contains("date");
    is_named && readable(field).times * 2 > field.texts.values().sum::<usize>()
}

/// Whether a number there tells things apart and measures nothing.
pub(super) fn is_label(pointer: &str) -> bool {
    let name = plain(&last_token(pointer));
    name.ends_with("id")
        || ["seq", "sequence", "version", "schema", "port", "fcnt", "fport", "channel", "counter", "index"]
            .contains(&name.as_str())
        || DEVICE_NAMES.contains(&name.as_str())
}
