//! From merged values to typed sections, with all errors at once.
//!
//! Serde stops at the first error. So what it stumbled over is taken out, with its name and place noted, and it is asked
//! again until nothing is left to complain about. The structs themselves are thereby the only list of known keys.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::sections::Sections;

/// How alike two names must be to be taken for each other; 1 is equal.
const SIMILARITY_MIN: f64 = 0.8;

/// A value that the sections do not take.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    pub(super) key: String,
    pub(super) span: Range<usize>,
    pub(super) message: String,
}

/// The sections, with defaults in place of what does not fit.
pub(super) fn read(table: &DeTable<'_>) -> (Sections, Vec<Misfit>) {
    let mut table = table.clone();
    let mut misfits = Vec::new();
    loop {
        let error = match deserialize(&table) {
            Ok(sections) => return (sections, misfits),
            Err(error) => error,
        };
        let span = error.span().unwrap_or(0..0);
        let mut path = Vec::new();
        let taken_out = take_out(&mut table, &span, &mut path);
        misfits.push(Misfit { message: explain(error.message(), &path), key: path.join("."), span });
        if !taken_out {
            return (Sections::default(), misfits);
        }
    }
}

/// Whether the only value in this table is of a type that its key takes. An unknown key takes anything: what is wrong
/// with it is not its value.
pub(super) fn fits(table: &DeTable<'_>) -> bool {
    deserialize(table).is_ok()
}

fn deserialize(table: &DeTable<'_>) -> Result<Sections, toml::de::Error> {
    Sections::deserialize(Deserializer::from(Spanned::new(0..0, table.clone())))
}

/// Takes out the key or value with exactly this range; `path` becomes its name.
fn take_out(table: &mut DeTable<'_>, span: &Range<usize>, path: &mut Vec<String>) -> bool {
    let hit = table.iter().find(|(key, value)| key.span() == *span || value.span() == *span);
    if let Some(name) = hit.map(|(key, _)| key.get_ref().clone().into_owned()) {
        table.remove(name.as_str());
        path.push(name);
        return true;
    }
    for (key, value) in table.iter_mut() {
        path.push(key.get_ref().clone().into_owned());
        let found = match value.get_mut() {
            DeValue::Table(inner) => take_out(inner, span, path),
            DeValue::Array(items) => {
                let hit = items.iter().position(|item| item.span() == *span);
                if let Some(at) = hit {
                    *items = items.iter().enumerate().filter(|(n, _)| *n != at).map(|(_, item)| item.clone()).collect();
                }
                hit.is_some()
                    || items.iter_mut().any(|item| match item.get_mut() {
                        DeValue::Table(inner) => take_out(inner, span, path),
                        _ => false,
                    })
            }
            _ => false,
        };
        if found {
            return true;
        }
        path.pop();
    }
    false
}

/// Serde's words in ours.
fn explain(message: &str, path: &[String]) -> String {
    if let Some((name, known)) = unknown(message, "unknown field `") {
        let parent = &path[..path.len().saturating_sub(1)];
        let full = |known: &str| parent.iter().map(String::as_str).chain([known]).collect::<Vec<_>>().join(".");
        let what = if parent.is_empty() { "unknown section" } else { "unknown key" };
        return match nearest(name, &known) {
            Some(nearest) => format!("{what}; did you mean {}?", full(nearest)),
            None => format!("{what}; known here: {}", known.join(", ")),
        };
    }
    if let Some((name, known)) = unknown(message, "unknown variant `") {
        let choice = format!("\"{name}\" is not possible; it must be one of {}", known.join(", "));
        return match nearest(name, &known) {
            Some(nearest) => format!("{choice}; did you mean {nearest}?"),
            None => choice,
        };
    }
    for beginning in ["invalid type: ", "invalid value: "] {
        let found_wanted = message.strip_prefix(beginning).and_then(|rest| rest.rsplit_once(", expected "));
        if let Some((found, wanted)) = found_wanted {
            return format!("it is the {}; it must be {}", found.replace('`', ""), in_words(wanted));
        }
    }
    message.to_owned()
}

/// Name and alternatives of "unknown field `x`, expected one of `a`, `b`".
fn unknown<'a>(message: &'a str, beginning: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let (name, rest) = message.strip_prefix(beginning)?.split_once('`')?;
    Some((name, rest.split('`').skip(1).step_by(2).collect()))
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let likeness = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), known);
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= SIMILARITY_MIN).then_some(*best)
}

fn in_words(wanted: &str) -> &str {
    match wanted {
        "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a sequence" => "a list",
        "a string" | "path string" => "a text",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}
