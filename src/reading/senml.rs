//! Sensor Measurement Lists, RFC 8428, in JSON. SEMANTICS 3.5.

use std::borrow::Cow;

use super::body::{BodyOf, Shared, Written};
use super::evidence::{Fault, Look, Metric, Sources, ValuePlace};
use super::identity::BodyIdentity;
use super::json::{self, BadJson, Content, Document, Place};
use super::json_records::JsonBody;
use super::{Candidate, InputRecord, Reason, explain, instant, number, source};
use crate::semantics::{InputRules, NumberRules, Source, Split, TimeSource, ValueRules};

/// Sums of times below this are relative to the record's timestamp: 2^28 seconds.
const RELATIVE_BELOW_NS: i128 = (1 << 28) * 1_000_000_000;
const NS_PER_MS: i128 = 1_000_000;
/// The newest version of SenML that is read.
const VERSION_MAX: f64 = 10.0;
/// One of these at the end of a base name is not part of the device.
const SEPARATORS: [char; 5] = ['-', ':', '.', '/', '_'];
/// A metric without a name.
const UNNAMED: &str = "value";
/// More records of a pack than this are not kept for the next one.
const KEPT_ENTRIES_MAX: usize = 16_384;

/// Room that is used again from record to record.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    json: json::Scratch,
    entries: Vec<Entry>,
}

/// Which field holds the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Number,
    Boolean,
    Text,
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Field::Number => "v",
            Field::Boolean => "vb",
            Field::Text => "vs",
        }
    }
}

/// One record of a pack: where its fields stand, those of the base as they hold for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    base: Base,
    name: Option<Place>,
    time: Option<Place>,
    pub(super) value: Option<(Field, Place)>,
}

/// Base fields hold from their record on.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    name: Option<Place>,
    time: Option<Place>,
    value: Option<Place>,
}

/// The settings of the format.
#[derive(Clone, Copy)]
pub(super) struct SenmlRules<'r> {
    pub(super) split: &'r Split,
    pub(super) values: &'r [ValueRules<String>],
}

/// A pack that is one, and what it is read with.
#[derive(Clone, Copy)]
pub(super) struct Pack<'a, 'd> {
    pub(super) rules: &'a InputRules,
    pub(super) senml: SenmlRules<'a>,
    pub(super) record: &'a InputRecord<'d>,
    pub(super) document: &'a Document<'d>,
}

/// An error means that the whole record is one rejection; no candidate was given then.
pub(super) fn read(
    scratch: &mut Scratch,
    (rules, senml): (&InputRules, SenmlRules<'_>),
    record: &InputRecord<'_>,
    value: &[u8],
    each: &mut impl FnMut(Candidate<'_>),
) -> Result<(), Fault> {
    let (document, entries) = scratch.parse(value).map_err(Fault::Senml)?;
    let pack = Pack { rules, senml, record, document: &document };
    if entries.len() > rules.readings_max {
        let candidates = entries.iter().filter(|entry| pack.select(entry).is_some()).count();
        if candidates > rules.readings_max {
            return Err(Fault::TooMany { candidates });
        }
    }
    let mut is_empty = true;
    for (index, entry) in (0..).zip(entries) {
        if let Some(selected) = pack.select(entry) {
            is_empty = false;
            pack.give(index, entry, &selected, each);
        }
    }
    if is_empty { Err(Fault::Empty) } else { Ok(()) }
}

/// Why a record's value is no pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadSenml {
    Json(BadJson),
    NoArray,
    /// The record of the pack at this position.
    Entry(usize, &'static str),
}

impl Scratch {
    pub(super) fn parse<'d>(&'d mut self, value: &'d [u8]) -> Result<(Document<'d>, &'d [Entry]), BadSenml> {
        self.entries.clear();
        self.entries.shrink_to(KEPT_ENTRIES_MAX);
        let document = self.json.parse(value, None).map_err(BadSenml::Json)?;
        if !document.is_array(Place::ROOT) {
            return Err(BadSenml::NoArray);
        }
        let mut base = Base::default();
        for (index, place) in document.elements(Place::ROOT).enumerate() {
            let entry = Entry::read(&document, place, &mut base).map_err(|message| BadSenml::Entry(index, message))?;
            self.entries.push(entry);
        }
        Ok((document, &self.entries))
    }
}

impl Entry {
    fn read(document: &Document<'_>, place: Place, base: &mut Base) -> Result<Self, &'static str> {
        if !document.is_object(place) {
            return Err("is no object");
        }
        let [mut base_name, mut base_time, mut base_value, mut version] = [None; 4];
        let [mut name, mut time, mut number, mut boolean, mut text] = [None; 5];
        for (member, value) in document.members(place) {
            match &*member {
                "bn" => base_name = Some(value),
                "bt" => base_time = Some(value),
                "bv" => base_value = Some(value),
                "bver" => version = Some(value),
                "n" => name = Some(value),
                "t" => time = Some(value),
                "v" => number = Some(value),
                "vb" => boolean = Some(value),
                "vs" => text = Some(value),
                other if other.ends_with('_') => return Err("has a field that must be understood: its name ends in _"),
                _ => {}
            }
        }
        let is_text =
            |place: Option<Place>| place.is_none_or(|place| matches!(document.content(place), Content::Text(_)));
        let is_number =
            |place: Option<Place>| place.is_none_or(|place| matches!(document.content(place), Content::Number(_)));
        if !is_text(base_name) || !is_text(name) {
            return Err("has a bn or n that is no text");
        }
        if ![base_time, time, base_value, version].into_iter().all(is_number) {
            return Err("has a bt, t, bv or bver that is no number");
        }
        if to_double(document, version).is_some_and(|version| version > VERSION_MAX) {
            return Err("is of a version (bver) above 10");
        }
        *base = Base { name: base_name.or(base.name), time: base_time.or(base.time), value: base_value.or(base.value) };
        let value = number
            .map(|place| (Field::Number, place))
            .or(boolean.map(|place| (Field::Boolean, place)))
            .or(text.map(|place| (Field::Text, place)));
        Ok(Self { place, base: *base, name, time, value })
    }
}

/// What a pack's record is read as.
pub(super) struct Selected<'a, 'd> {
    /// As the names of the pack say.
    device: Cow<'d, str>,
    metric: Cow<'a, str>,
    pub(super) is_named: bool,
    pub(super) numbers: &'a NumberRules,
    field: Field,
    value: Place,
}

impl<'a, 'd: 'a> Pack<'a, 'd> {
    /// None: the record gives no candidate.
    pub(super) fn select(&self, entry: &Entry) -> Option<Selected<'a, 'd>> {
        let (field, value) = entry.value?;
        let (device, metric) = self.names(entry);
        let metric = if metric.is_empty() { Cow::Borrowed(UNNAMED) } else { metric };
        if self.senml.values.is_empty() {
            let numbers = &self.rules.other_values;
            let is_read = field == Field::Number || (field == Field::Boolean && numbers.booleans);
            return is_read.then_some(Selected { device, metric, is_named: false, numbers, field, value });
        }
        let rule = self.senml.values.iter().find(|rule| rule.place == metric)?;
        let metric = Cow::Borrowed(rule.name.as_str());
        Some(Selected { device, metric, is_named: true, numbers: &rule.numbers, field, value })
    }

    /// Device and metric; the metric may be empty.
    pub(super) fn names(&self, entry: &Entry) -> (Cow<'d, str>, Cow<'d, str>) {
        let (base, name) = (self.text(entry.base.name), self.text(entry.name));
        match self.senml.split {
            Split::Base if base.is_empty() => (name, Cow::Borrowed("")),
            Split::Base => {
                let end = base.strip_suffix(SEPARATORS).map_or(base.len(), str::len);
                (part(&base, 0, end), name)
            }
            Split::Last(text) => {
                let full = match (base.is_empty(), name.is_empty()) {
                    (true, _) => name,
                    (_, true) => base,
                    _ => Cow::Owned(base.into_owned() + &name),
                };
                match full.rfind(text.as_str()) {
                    Some(at) => (part(&full, 0, at), part(&full, at + text.len(), full.len())),
                    None => (full, Cow::Borrowed("")),
                }
            }
        }
    }

    fn text(&self, place: Option<Place>) -> Cow<'d, str> {
        match place.map(|place| self.document.content(place)) {
            Some(Content::Text(text)) => text,
            _ => Cow::Borrowed(""),
        }
    }

    fn give(&self, index: u32, entry: &Entry, selected: &Selected<'a, 'd>, each: &mut impl FnMut(Candidate<'_>)) {
        let name = &*selected.metric;
        let base = if selected.field == Field::Number { to_double(self.document, entry.base.value) } else { None };
        let written = Written {
            metric: if selected.is_named { Metric::Named(name) } else { Metric::of_data(self.rules, name) },
            place: ValuePlace::Field(selected.field.name()),
            content: &self.document.content(selected.value),
            numbers: selected.numbers,
            base: base.unwrap_or(0.0),
        };
        let of = EntryOf { pack: self, entry, selected };
        of.shared(index).give(&written, each);
    }

    fn written_time(&self, entry: &Entry) -> Result<i64, Reason> {
        match &self.rules.time.source {
            TimeSource::Record => source::record_time(self.record),
            TimeSource::From(_) => self.own_time(entry),
        }
    }

    fn own_time(&self, entry: &Entry) -> Result<i64, Reason> {
        let nanoseconds = |place: Option<Place>| match place.map(|place| self.document.content(place)) {
            Some(Content::Number(written)) => number::floor_shifted(written, 9).ok_or(Reason::BadTime),
            _ => Ok(0),
        };
        let mut time_ns = nanoseconds(entry.base.time)? + nanoseconds(entry.time)?;
        if time_ns < RELATIVE_BELOW_NS {
            if self.record.timestamp_ms < 0 {
                return Err(Reason::NoTime);
            }
            time_ns += i128::from(self.record.timestamp_ms) * NS_PER_MS;
        }
        let time_ms = i64::try_from(time_ns.div_euclid(NS_PER_MS)).map_err(|_| Reason::BadTime)?;
        instant::in_range(time_ms).map_err(|_| Reason::BadTime)
    }
}

/// A record of a pack with the pack that it is of.
struct EntryOf<'p, 'a, 'd> {
    pack: &'p Pack<'a, 'd>,
    entry: &'p Entry,
    selected: &'p Selected<'a, 'd>,
}

impl<'d> EntryOf<'_, '_, 'd> {
    fn body(&self) -> JsonBody<'_, 'd> {
        JsonBody { document: self.pack.document, place: self.entry.place }
    }

    fn shared(&self, index: u32) -> Shared<'_, 'd> {
        let Pack { rules, record, .. } = *self.pack;
        let device = match &rules.device.source {
            Source::Pack => source::device_from(rules, self.selected.device.clone()),
            _ => source::device(rules, record, &self.body()),
        };
        let time_ms = self.pack.written_time(self.entry).and_then(|time_ms| source::settle(rules, record, time_ms));
        let identity = BodyIdentity::of(rules.dedup.as_ref(), record, index, &self.body());
        Shared { index, device, time_ms, identity, sources: self }
    }
}

impl Sources for EntryOf<'_, '_, '_> {
    fn rules(&self) -> &InputRules {
        self.pack.rules
    }

    fn record(&self) -> &InputRecord<'_> {
        self.pack.record
    }

    fn device(&self) -> Look {
        let Pack { rules, record, .. } = *self.pack;
        match &rules.device.source {
            Source::Pack => {
                let device = Content::Text(self.selected.device.clone());
                explain::look(&Source::Pack, &source::Found::Content(device))
            }
            _ => BodyOf { rules, record, body: self.body() }.device(),
        }
    }

    fn time(&self) -> Look {
        if matches!(self.pack.rules.time.source, TimeSource::Record) {
            return explain::look_at_record_time(self.pack.record);
        }
        let written = |place: Option<Place>| match place.map(|place| self.pack.document.content(place)) {
            Some(Content::Number(written)) => written,
            _ => "0",
        };
        let what = format!("{} + {}", written(self.entry.base.time), written(self.entry.time));
        Look { what, place: "bt + t".to_owned() }
    }

    fn written_time(&self) -> Result<i64, Reason> {
        self.pack.written_time(self.entry)
    }
}

fn to_double(document: &Document<'_>, place: Option<Place>) -> Option<f64> {
    match document.content(place?) {
        Content::Number(written) => number::to_double(written),
        _ => None,
    }
}

/// A part of a text, on boundaries of characters.
fn part<'d>(text: &Cow<'d, str>, start: usize, end: usize) -> Cow<'d, str> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(start..end).unwrap_or("")),
        Cow::Owned(text) => Cow::Owned(text.get(start..end).unwrap_or("").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use crate::reading::tests::outcomes;

    const BASE: &str = "[input]\ntopic = \"t\"\nformat = \"senml\"\n";
    const LAST: &str = "[input]\ntopic = \"t\"\nformat = \"senml\"\n[input.senml]\nsplit = \"::\"\n";

    #[test]
    fn names_are_cut_as_configured() {
        for (config, pack, wanted) in [
            (BASE, r#"[{"bn":"a:-","n":"t","v":1}]"#, "0 a: t 1704067200000 1"),
            (BASE, r#"[{"bn":"a","n":"","v":1}]"#, "0 a value 1704067200000 1"),
            (BASE, r#"[{"bn":"-","n":"t","v":1}]"#, "0 t no_device"),
            (BASE, r#"[{"n":"t","v":1}]"#, "0 t value 1704067200000 1"),
            (LAST, r#"[{"bn":"a:","n":":b::t","v":1}]"#, "0 a::b t 1704067200000 1"),
            (LAST, r#"[{"bn":"a:","n":":","v":1}]"#, "0 a value 1704067200000 1"),
            (LAST, r#"[{"bn":"a:","n":"t","v":1}]"#, "0 a:t value 1704067200000 1"),
            (LAST, r#"[{"bn":"\u0061::","n":"é","v":1}]"#, "0 a é 1704067200000 1"),
        ] {
            assert_eq!(outcomes(config, pack.as_bytes()).join("; "), wanted, "{pack}");
        }
    }

    #[test]
    fn base_fields_hold_from_their_record_on() {
        let pack = r#"[{"n":"a","v":1},{"bn":"d/","bt":1704067200.5,"bv":10,"n":"a","v":1},{"n":"b","t":-0.0004,"v":-2.5},
            {"bv":0,"n":"c","vs":"x"},{"bn":"","n":"e","v":3,"v":4,"vb":true}]"#;
        let wanted = [
            "0 a value 1704067200000 1",
            "1 d a 1704067200500 11",
            "2 d b 1704067200499 7.5",
            "4 e value 1704067200500 4",
        ];
        assert_eq!(outcomes(BASE, pack.as_bytes()), wanted);
    }

    #[test]
    fn what_is_no_pack_is_refused_whole() {
        for pack in [
            r#"{"n":"a","v":1}"#,
            r#"[{"n":"a","v":1},7]"#,
            r#"[{"n":"a","v":1},{"x_":null}]"#,
            r#"[{"n":7,"v":1}]"#,
            r#"[{"bn":null,"v":1}]"#,
            r#"[{"bt":"1","n":"a","v":1}]"#,
            r#"[{"t":true,"n":"a","v":1}]"#,
            r#"[{"bv":"1","n":"a","v":1}]"#,
            r#"[{"bver":10.0001,"n":"a","v":1}]"#,
            r#"[{"bver":"10","n":"a","v":1}]"#,
            "[{]",
        ] {
            assert_eq!(outcomes(BASE, pack.as_bytes()), ["- bad_senml"], "{pack}");
        }
        // Of equal names the last counts; a name is what its escapes say.
        assert_eq!(outcomes(BASE, br#"[{"n":7,"\u006e":"a","v":1,"bver":1e1}]"#), ["0 a value 1704067200000 1"]);
    }

    #[test]
    fn too_many_are_counted_by_what_is_read() {
        let config = format!(
            "{BASE}[input.limits]\nmax_readings_per_record = 1\n[[input.value]]\nname = \"x\"\nmetric = \"value\"\n"
        );
        assert_eq!(outcomes(&config, br#"[{"n":"a","v":1},{"n":"b","v":2}]"#), ["- too_many_readings"]);
        assert_eq!(outcomes(&config, br#"[{"n":"a","v":1},{"bn":"b","n":"c","v":2}]"#), ["0 a x 1704067200000 1"]);
        assert_eq!(outcomes(&config, br#"[{"bn":"b","n":"c","v":2},{"n":"c"}]"#), ["- no_value"]);
    }
}
