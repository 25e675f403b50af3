//! A proposal as TOML, with a comment at each line that says what speaks for it.

use super::choose::{self, Device, Time};
use super::field::{Field, Fields, last_token};
use super::json::Shape;
use super::sample::Sample;
use super::senml::Packs;
use super::{Outcomes, name};
use crate::semantics::{Format, TimeUnit};

/// A TOML text, line by line.
struct Tables(String);

impl Tables {
    fn new(topic: &str, format: Format, comment: &str) -> Self {
        let mut tables = Self(String::new());
        tables.table("[input]");
        tables.set("topic", &quoted(topic), "the name of your topic; a sample does not tell");
        tables.set("format", &quoted(name(format)), comment);
        tables
    }

    fn table(&mut self, name: &str) {
        let blank = if self.0.is_empty() { "" } else { "\n" };
        self.0 += &format!("{blank}{name}\n");
    }

    fn set(&mut self, key: &str, value: &str, comment: &str) {
        let comment = comment.replace(char::is_control, " ");
        let comment = if comment.is_empty() { comment } else { format!("  # {comment}") };
        self.0 += &format!("{key} = {value}{comment}\n");
    }

    fn note(&mut self, text: &str) {
        let text = text.replace(char::is_control, " ");
        self.0 += &if text.is_empty() { "\n".to_owned() } else { format!("# {text}\n") };
    }

    fn device(&mut self, device: &Device) {
        self.table("[input.device]");
        let (from_comment, comment) =
            if device.pointer.is_some() { ("", device.comment.as_str()) } else { (device.comment.as_str(), "") };
        if device.from != "body" {
            self.set("from", &quoted(&device.from), from_comment);
        }
        if let Some(pointer) = &device.pointer {
            self.set("pointer", &quoted(pointer), comment);
        }
        if let Some(segment) = device.segment {
            self.set("segment", &segment.to_string(), "the piece between \"/\" that differs most, counted from 0");
        }
    }

    fn time(&mut self, time: &Time, format: Format) {
        self.table("[input.time]");
        match &time.pointer {
            None => self.set("from", &quoted(&time.from), &time.comment),
            Some(pointer) => {
                if time.from != "body" {
                    self.set("from", &quoted(&time.from), "the time of the whole document");
                }
                self.set("pointer", &quoted(pointer), &time.comment);
            }
        }
        if let Some(unit) = time.unit {
            let (unit, comment) = match unit {
                TimeUnit::S => ("s", "the times are of the years 2000 to 2100 as seconds"),
                TimeUnit::Ms => ("ms", "the times are of the years 2000 to 2100 as milliseconds"),
                TimeUnit::Us => ("us", "the times are of the years 2000 to 2100 as microseconds"),
                TimeUnit::Ns => ("ns", "the times are of the years 2000 to 2100 as nanoseconds"),
                TimeUnit::Auto => ("auto", "UNSURE: the times are not all of one unit"),
            };
            self.set("unit", &quoted(unit), comment);
        } else if format == Format::Influx && time.pointer.is_some() {
            self.note("unit = \"ns\" is the default of line protocol");
        }
        if time.local > 0 {
            let comment = format!(
                "UNSURE: {} times are without an offset; write the zone of the clocks, such as Europe/Berlin",
                time.local
            );
            self.set("zone", &quoted("UTC"), &comment);
        }
    }

    fn value(&mut self, metric: &str, pointer: &str, field: &Field, bodies: usize) {
        let sentinels = field.sentinels();
        self.table("[[input.value]]");
        self.set("name", &quoted(metric), "the metric in the outputs");
        let range =
            field.range(&sentinels).map_or(String::new(), |(least, greatest)| format!(", from {least} to {greatest}"));
        let in_texts = if field.numbers_in_texts > 0 {
            format!(" ({} of them in texts)", field.numbers_in_texts)
        } else {
            String::new()
        };
        let numbers = field.numbers.len();
        self.set("pointer", &quoted(pointer), &format!("a number in {numbers} of {bodies} bodies{in_texts}{range}"));
        if !sentinels.is_empty() {
            let count = field.numbers.iter().filter(|number| sentinels.contains(number)).count();
            let comment = format!(
                "UNSURE: far from the others ({count} of {numbers}): devices send it when they measured nothing"
            );
            self.set("missing", &toml::Value::from(sentinels).to_string(), &comment);
        }
        let odd: Vec<_> = field.odd_texts().into_iter().take(10).map(str::to_owned).collect();
        if !odd.is_empty() {
            self.set("missing_text", &toml::Value::from(odd).to_string(), "UNSURE: texts beside the numbers");
        }
    }

    fn boolean(&mut self, metric: &str, pointer: &str, field: &Field, bodies: usize) {
        self.note("");
        self.note(&format!("true or false in {} of {bodies} bodies; to count them as 1 and 0:", field.booleans));
        self.note("[[input.value]]");
        for (key, value) in [("name", quoted(metric)), ("pointer", quoted(pointer)), ("booleans", "true".to_owned())] {
            self.note(&format!("{key} = {value}"));
        }
    }
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// What the proposal is made of and what it gave.
pub(super) fn head(sample: &Sample, outcomes: &Outcomes) -> String {
    let counts: Vec<_> = outcomes.counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let total: u64 = outcomes.counts.values().sum();
    let mut head = format!(
        "# Proposed by `hotspare config init` from {} records ({}).\n# Tried on them: {} of {total} readings and null records.\n",
        outcomes.records,
        sample.how,
        counts.join(", ")
    );
    if !sample.is_whole {
        head += "# The sample has no keys, headers and timestamps of records: future times were not looked for.\n";
    }
    head + "# Look at each line, above all at those that are UNSURE; then see each reading with `hotspare try --explain`.\n\n"
}

pub(super) fn json(
    topic: &str,
    records: usize,
    sample: &Sample,
    shape: &Shape,
    body: &Fields,
    document: Option<&Fields>,
) -> String {
    let documents = shape.documents.len();
    let mut tables = Tables::new(topic, Format::Json, &format!("{documents} of {records} values are JSON"));
    for (key, found, what) in
        [("decode", &shape.decode, "a text that holds JSON"), ("records", &shape.records, "an array of objects")]
    {
        if let Some(found) = found {
            let comment = format!("{what} in {} of {documents} documents", found.documents);
            tables.set(key, &quoted(&found.pointer), &comment);
        }
    }
    let (device, time) = (choose::device(sample, body, document), choose::time(sample, body, document));
    tables.device(&device);
    tables.time(&time, Format::Json);
    values(&mut tables, body, &device, &time);
    tables.0
}

fn values(tables: &mut Tables, body: &Fields, device: &Device, time: &Time) {
    let is_taken = |pointer: &str| {
        (device.from == "body" && device.pointer.as_deref() == Some(pointer))
            || (time.from == "body" && time.pointer.as_deref() == Some(pointer))
    };
    let free = || body.in_order().into_iter().filter(|(pointer, _)| !is_taken(pointer));
    let is_value = |(pointer, field): &(&str, &Field)| {
        !pointer.is_empty()
            && field.is_numeric()
            && !choose::is_other_time(pointer, field)
            && !choose::is_label(pointer)
    };
    let mut values: Vec<_> = free().filter(is_value).collect();
    if values.is_empty() {
        let others = free().filter(|(_, field)| !field.numbers.is_empty());
        values.extend(others.max_by_key(|(_, field)| field.numbers.len()));
    }
    let mut names = Vec::new();
    for (pointer, field) in &values {
        tables.value(&metric_name(pointer, &mut names), pointer, field, body.bodies);
    }
    if values.is_empty() {
        tables.table("[[input.value]]");
        tables.set("name", &quoted("value"), "UNSURE: there is no number in the sample");
        tables.set("pointer", &quoted("/value"), "write where the value stands");
    }
    for (pointer, field) in free().filter(|it| !values.contains(it)) {
        if field.booleans * 2 > field.present {
            tables.boolean(&metric_name(pointer, &mut names), pointer, field, body.bodies);
        } else if field.is_numeric() {
            let why = if choose::is_label(pointer) { "its name is that of a label" } else { "it holds times" };
            tables.note("");
            tables.note(&format!("{} is left out: {why}", quoted(pointer)));
        }
    }
}

/// The last part of the pointer, or more of it where that is not unique.
fn metric_name(pointer: &str, names: &mut Vec<String>) -> String {
    let last = last_token(pointer);
    let is_index = last.chars().all(|character| character.is_ascii_digit());
    let whole = || pointer.trim_start_matches('/').replace('/', ".");
    let mut name = if is_index || names.contains(&last) { whole() } else { last };
    while name.is_empty() || names.contains(&name) {
        name.push_str(if name.is_empty() { "value" } else { "_" });
    }
    names.push(name.clone());
    name
}

pub(super) fn influx(topic: &str, bad: usize, sample: &Sample, lines: &Fields) -> String {
    let comment = format!("{} lines of line protocol, {bad} that are none", lines.bodies);
    let mut tables = Tables::new(topic, Format::Influx, &comment);
    tables.device(&choose::device(sample, &tags(lines), None));
    let timestamp = lines.by_pointer.get("/timestamp");
    let with = timestamp.map_or(0, |field| field.present);
    let mut time = choose::time(sample, &only(lines, |pointer| pointer == "/timestamp"), None);
    if time.pointer.is_none() {
        (time.from, time.pointer) = ("body".to_owned(), Some("/timestamp".to_owned()));
    }
    time.comment = format!("in {with} of {} lines; the others are of their record's timestamp", lines.bodies);
    tables.time(&time, Format::Influx);
    tables.note("");
    tables.note("Without [[input.value]] every numeric field is read, as MEASUREMENT.FIELD. There are:");
    for (pointer, field) in lines.in_order() {
        let Some(name) = pointer.strip_prefix("/fields/").filter(|_| field.is_numeric()) else { continue };
        let sentinels = field.sentinels();
        let range =
            field.range(&sentinels).map_or(String::new(), |(least, greatest)| format!(", {least} to {greatest}"));
        let suspect = if sentinels.is_empty() {
            String::new()
        } else {
            format!(
                "; UNSURE: {sentinels:?} is far from the others: write it into `missing` if it means nothing was measured"
            )
        };
        tables.note(&format!("  {name}: in {} lines{range}{suspect}", field.numbers.len()));
    }
    tables.0
}

/// The places that may name devices: the tags, then the measurement.
fn tags(lines: &Fields) -> Fields {
    only(lines, |pointer| pointer.starts_with("/tags/"))
}

fn only(lines: &Fields, is_kept: impl Fn(&str) -> bool) -> Fields {
    let mut kept = Fields { bodies: lines.bodies, ..Fields::default() };
    for (pointer, field) in &lines.by_pointer {
        if is_kept(pointer) {
            kept.by_pointer.insert(pointer.clone(), field.clone());
        }
    }
    kept
}

pub(super) fn senml(topic: &str, records: usize, packs: &Packs) -> String {
    let comment = format!("packs of SenML: {} of {records} values are JSON", packs.packs);
    let mut tables = Tables::new(topic, Format::Senml, &comment);
    if packs.booleans > 0 {
        tables.note(&format!("booleans = true would count {} values vb as 1 and 0", packs.booleans));
    }
    match packs.split() {
        None => tables.note(&format!(
            "The device is the base name, which {} of {} packs have; the metric is the name.",
            packs.with_base_name, packs.packs
        )),
        Some(split) => {
            tables.table("[input.senml]");
            let comment = format!(
                "{} of {} packs have no base name; names are cut at the last",
                packs.packs - packs.with_base_name,
                packs.packs
            );
            tables.set("split", &quoted(split), &comment);
        }
    }
    tables.note(&format!(
        "Times are bt + t, which {} of {} packs have; the others are of their record's timestamp.",
        packs.with_time, packs.packs
    ));
    let names: Vec<_> = packs.names.iter().take(20).map(|(name, count)| format!("{name} ({count})")).collect();
    tables.note(&format!(
        "Without [[input.value]] all {} numbers are read. Names: {}",
        packs.numbers,
        names.join(", ")
    ));
    tables.0
}
