//! InfluxDB line protocol. SEMANTICS 3.6.
//!
//! Own code, because no crate is faithful: `influxdb-line-protocol`, InfluxData's own, gives fields and times as f64 and
//! i64, where devices, ids and times need numbers as they are written, and has InfluxDB's own rules of where a line ends
//! and what a backslash escapes; the others go by regular expressions or only write.

mod line;
mod lines;

use std::borrow::Cow;

use super::body::{Body, BodyOf, Shared, Written, count_pointed};
use super::evidence::{Evidence, Fault, Metric, ValuePlace};
use super::json::Content;
use super::{Candidate, InputRecord};
use crate::semantics::{InputRules, NumberRules, Pointer, ValueRules};
use line::Parser;
use lines::lines;

/// Room for more pairs or lines than this is not kept for the next record.
const KEPT_MAX: usize = 65_536;

/// Room that is used again from record to record.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    lines: Vec<LineNode>,
    pairs: Vec<Pair>,
    metric: String,
}

/// Where a part of the text stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    start: u32,
    end: u32,
    is_escaped: bool,
}

/// Where a line does not go on as it must, and what must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadLine {
    at: usize,
    expected: &'static str,
}

/// A line that can be read, or not.
#[derive(Clone, Copy, Debug, Default)]
struct LineNode {
    bad: Option<BadLine>,
    name: Span,
    /// Tags stand from here in the list of pairs, fields from `fields` to `end`.
    tags: u32,
    fields: u32,
    end: u32,
    timestamp: Option<Span>,
}

/// A tag or a field.
#[derive(Clone, Copy, Debug)]
struct Pair {
    key: Span,
    value: Span,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tag,
    Text,
    Number,
    NonFinite,
    True,
    False,
}

impl Kind {
    fn is_numeric(self, numbers: &NumberRules) -> bool {
        match self {
            Kind::Number | Kind::NonFinite => true,
            Kind::True | Kind::False => numbers.booleans,
            Kind::Tag | Kind::Text => false,
        }
    }
}

/// A record's lines, cut into their parts.
#[derive(Clone, Copy)]
pub(super) struct Lines<'d> {
    text: &'d str,
    nodes: &'d [LineNode],
    pairs: &'d [Pair],
}

/// A line as the body `{"name","tags":{},"fields":{},"timestamp"}`.
#[derive(Clone, Copy)]
pub(super) struct Line<'d> {
    text: &'d str,
    node: &'d LineNode,
    tags: &'d [Pair],
    fields: &'d [Pair],
}

impl Scratch {
    fn parse<'d>(&'d mut self, value: &'d [u8]) -> Result<(Lines<'d>, &'d mut String), Fault> {
        let Self { lines: nodes, pairs, metric } = self;
        nodes.clear();
        nodes.shrink_to(KEPT_MAX);
        pairs.clear();
        pairs.shrink_to(KEPT_MAX);
        let text = std::str::from_utf8(value.strip_prefix(b"\xef\xbb\xbf").unwrap_or(value))
            .map_err(|error| Fault::NotUtf8 { at: error.valid_up_to() })?;
        // Positions are 32 bits wide; Kafka's records are smaller.
        u32::try_from(text.len()).map_err(|_| Fault::NotUtf8 { at: text.len() })?;
        for range in lines(text) {
            let pairs_before = pairs.len();
            let mut parser = Parser::new(text, range, pairs);
            let node = parser.parse().ok_or(BadLine { at: parser.at, expected: parser.expected });
            let node = node.unwrap_or_else(|bad| {
                pairs.truncate(pairs_before);
                LineNode { bad: Some(bad), ..LineNode::default() }
            });
            nodes.push(node);
        }
        Ok((Lines { text, nodes, pairs }, metric))
    }
}

/// An error means that the whole record is one rejection; no candidate was given then.
pub(super) fn read(
    scratch: &mut Scratch,
    (rules, values): (&InputRules, &[ValueRules<Pointer>]),
    record: &InputRecord<'_>,
    value: &[u8],
    each: &mut impl FnMut(Candidate<'_>),
) -> Result<(), Fault> {
    let (lines, metric) = scratch.parse(value)?;
    if lines.nodes.is_empty() {
        return Err(Fault::Empty);
    }
    check_candidates(rules, values, &lines)?;
    for (index, line) in (0..).zip(lines.iter()) {
        let line = match line {
            Ok(line) => line,
            Err(BadLine { at, expected }) => {
                let fault = Fault::Line { at, expected };
                let (reading, evidence) = (Err(fault.outcome()), Evidence::Fault(fault));
                each(Candidate { body: Some(index), metric: None, reading, evidence });
                continue;
            }
        };
        let of = BodyOf { rules, record, body: line };
        let shared = Shared::of(&of, index);
        if values.is_empty() {
            give_all(rules, &line, &shared, metric, each);
        } else {
            shared.give_pointed(values, &line, each);
        }
    }
    Ok(())
}

/// A record must not hold too many candidates.
fn check_candidates(rules: &InputRules, values: &[ValueRules<Pointer>], lines: &Lines<'_>) -> Result<(), Fault> {
    // Counting exactly is needed only where the record could hold too many.
    let surely = if values.is_empty() { lines.pairs.len() } else { lines.nodes.len().saturating_mul(values.len()) };
    if surely.saturating_add(lines.nodes.len()) <= rules.readings_max {
        return Ok(());
    }
    let candidates_of = |line: Result<Line<'_>, BadLine>| match line {
        Ok(line) if values.is_empty() => line.numeric(&rules.other_values).count().max(1),
        Ok(line) => count_pointed(values, &line),
        Err(_) => 1,
    };
    let candidates = lines.iter().map(candidates_of).sum();
    if candidates <= rules.readings_max { Ok(()) } else { Err(Fault::TooMany { candidates }) }
}

/// Gives each numeric field, named after measurement and field.
fn give_all<'d>(
    rules: &InputRules,
    line: &Line<'d>,
    shared: &Shared<'_, 'd>,
    metric: &mut String,
    each: &mut impl FnMut(Candidate<'_>),
) {
    let numbers = &rules.other_values;
    let mut has_value = false;
    for field in line.numeric(numbers) {
        has_value = true;
        line.write_metric(field, metric);
        let written = Written {
            metric: Metric::of_data(rules, metric),
            place: ValuePlace::Field(written(line.text, field.key)),
            content: &line.content(field),
            numbers,
            base: 0.0,
        };
        shared.give(&written, each);
    }
    if !has_value {
        shared.give_without_value(each);
    }
}

impl<'d> Lines<'d> {
    /// In order, with those that cannot be read.
    fn iter(&self) -> impl Iterator<Item = Result<Line<'d>, BadLine>> + use<'d> {
        let Self { text, nodes, pairs } = *self;
        nodes.iter().map(move |node| {
            let tags = pairs.get(node.tags as usize..node.fields as usize).unwrap_or(&[]);
            let fields = pairs.get(node.fields as usize..node.end as usize).unwrap_or(&[]);
            node.bad.map_or(Ok(Line { text, node, tags, fields }), Err)
        })
    }
}

impl<'d> Line<'d> {
    fn numeric(&self, numbers: &NumberRules) -> impl Iterator<Item = &'d Pair> {
        self.fields.iter().filter(|field| field.kind.is_numeric(numbers))
    }

    fn content(&self, pair: &Pair) -> Content<'d> {
        match pair.kind {
            Kind::Tag => Content::Text(unescaped(self.text, pair.value, NAMES)),
            Kind::Text => Content::Text(unescaped(self.text, pair.value, STRINGS)),
            Kind::NonFinite => Content::Text(Cow::Borrowed(written(self.text, pair.value))),
            Kind::Number => Content::Number(written(self.text, pair.value)),
            Kind::True => Content::Bool(true),
            Kind::False => Content::Bool(false),
        }
    }

    /// Measurement and field with a dot between; dots of the measurement are escaped, so that no two collide.
    fn write_metric(&self, field: &Pair, metric: &mut String) {
        metric.clear();
        for character in unescaped(self.text, self.node.name, NAMES).chars() {
            if matches!(character, '\\' | '.') {
                metric.push('\\');
            }
            metric.push(character);
        }
        metric.push('.');
        metric.push_str(&unescaped(self.text, field.key, NAMES));
    }

    fn find(&self, pairs: &[Pair], key: &str) -> Option<Content<'d>> {
        let pair = pairs.iter().find(|pair| unescaped(self.text, pair.key, NAMES) == key)?;
        Some(self.content(pair))
    }
}

impl<'d> Body<'d> for Line<'d> {
    fn look(&self, pointer: &Pointer) -> Option<Content<'d>> {
        let mut tokens = pointer.tokens().iter().map(|token| token.name.as_str());
        let (Some(part), key, deeper) = (tokens.next(), tokens.next(), tokens.next()) else {
            return Some(Content::Container);
        };
        match (part, key, deeper) {
            ("tags" | "fields", None, _) => Some(Content::Container),
            ("tags", Some(key), None) => self.find(self.tags, key),
            ("fields", Some(key), None) => self.find(self.fields, key),
            ("name", None, _) => Some(Content::Text(unescaped(self.text, self.node.name, NAMES))),
            ("timestamp", None, _) => self.node.timestamp.map(|at| Content::Number(written(self.text, at))),
            _ => None,
        }
    }

    fn look_in_document(&self, pointer: &Pointer) -> Option<Content<'d>> {
        self.look(pointer)
    }
}

/// The lines that can be read as the JSON of their bodies, and how many cannot. None: not UTF-8.
pub(crate) fn to_json(value: &[u8]) -> Option<(Vec<serde_json::Value>, usize)> {
    let mut scratch = Scratch::default();
    let (lines, _) = scratch.parse(value).ok()?;
    let object = |line: &Line<'_>, pairs: &[Pair]| -> serde_json::Map<String, serde_json::Value> {
        let key = |pair: &Pair| unescaped(line.text, pair.key, NAMES).into_owned();
        pairs.iter().map(|pair| (key(pair), json_of(&line.content(pair)))).collect()
    };
    let body = |line: Line<'_>| {
        let timestamp = line.node.timestamp.map(|at| json_of(&Content::Number(written(line.text, at))));
        let mut body = serde_json::json!({
            "name": unescaped(line.text, line.node.name, NAMES),
            "tags": object(&line, line.tags),
            "fields": object(&line, line.fields),
        });
        if let (Some(body), Some(timestamp)) = (body.as_object_mut(), timestamp) {
            body.insert("timestamp".to_owned(), timestamp);
        }
        body
    };
    let bodies: Vec<_> = lines.iter().filter_map(Result::ok).map(body).collect();
    let bad = lines.nodes.len() - bodies.len();
    Some((bodies, bad))
}

fn json_of(content: &Content<'_>) -> serde_json::Value {
    match content {
        Content::Bool(value) => (*value).into(),
        Content::Number(written) => serde_json::from_str(written).unwrap_or_else(|_| (*written).into()),
        Content::Text(text) => text.as_ref().into(),
        Content::Null | Content::Container => serde_json::Value::Null,
    }
}

/// What a backslash escapes in names, keys and tags.
const NAMES: &[u8] = b",= ";
/// What a backslash escapes in quoted strings.
const STRINGS: &[u8] = b"\"\\";

fn written(text: &str, span: Span) -> &str {
    text.get(span.start as usize..span.end as usize).unwrap_or("")
}

/// The text of a span; a backslash before anything that it does not escape stands for itself.
fn unescaped<'d>(text: &'d str, span: Span, escapable: &[u8]) -> Cow<'d, str> {
    let written = written(text, span);
    if !span.is_escaped {
        return Cow::Borrowed(written);
    }
    let mut unescaped = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        let is_escape = rest.as_bytes().get(at + 1).is_some_and(|next| escapable.contains(next));
        let end = if is_escape { at } else { at + 1 };
        unescaped.push_str(rest.get(..end).unwrap_or(""));
        rest = rest.get(at + 1..).unwrap_or("");
        if is_escape {
            unescaped.push_str(rest.get(..1).unwrap_or(""));
            rest = rest.get(1..).unwrap_or("");
        }
    }
    unescaped.push_str(rest);
    Cow::Owned(unescaped)
}

#[cfg(test)]
mod tests;
