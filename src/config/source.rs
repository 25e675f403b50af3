//! Where each value comes from: file, environment variable or flag, laid over one another.
//!
//! The file and every single override have a range of their own in one line of numbers. Values carry their ranges through
//! the parser, so that an error found at a value leads back to its line, variable or flag.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;
use super::read;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// In a file.
    File {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
    },
    /// By an environment variable of this name.
    Variable(String),
    /// By the flag `--set` with this key.
    Flag(String),
    /// Nowhere.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{}:{line}", path.display()),
            Origin::Variable(name) => write!(f, "{name}"),
            Origin::Flag(key) => write!(f, "--set {key}"),
            Origin::Default => f.write_str("configuration"),
        }
    }
}

/// Tables whose keys are properties with dots in their names.
const PROPERTY_TABLES: [&str; 3] = ["properties", "consumer", "producer"];

/// The merged configuration and where its parts come from.
#[derive(Debug, Default)]
pub(super) struct Sources<'a> {
    pub(super) table: DeTable<'a>,
    file: PathBuf,
    /// Where the lines of the file begin.
    lines: Vec<usize>,
    /// End of the file's range.
    file_end: usize,
    overrides: Vec<(Range<usize>, Origin)>,
}

impl<'a> Sources<'a> {
    /// Parses the file; its errors come all at once, and nothing else is looked at then.
    pub(super) fn parse(path: &Path, text: &'a str) -> Result<Sources<'a>, Vec<ConfigError>> {
        let mut sources = Sources { file: path.to_path_buf(), file_end: text.len() + 1, ..Sources::default() };
        sources.lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let to_error = |error: &toml::de::Error| ConfigError {
                key: String::new(),
                origin: sources.origin(&error.span().unwrap_or(0..0)),
                message: format!("this is no TOML: {}", error.message()),
            };
            return Err(errors.iter().map(to_error).collect());
        }
        sources.table = table.into_inner();
        sources.join_property_names();
        Ok(sources)
    }

    /// Lays one value over what is there. What type it has is found by trying.
    pub(super) fn set(&mut self, path: &[String], raw: &'a str, origin: Origin) {
        let start = self.overrides.last().map_or(self.file_end, |(range, _)| range.end);
        let mut candidates = candidates(raw);
        let fits = |value: &DeValue<'a>| {
            let mut alone = DeTable::new();
            insert(&mut alone, path, start, value.clone());
            read::fits(&alone)
        };
        let chosen = candidates.iter().position(fits).unwrap_or(0);
        insert(&mut self.table, path, start, candidates.swap_remove(chosen));
        self.overrides.push((start..start + 2 * path.len() + 1, origin));
    }

    /// Where the value with this range was set.
    pub(super) fn origin(&self, span: &Range<usize>) -> Origin {
        if let Some((_, origin)) = self.overrides.iter().find(|(range, _)| range.contains(&span.start)) {
            return origin.clone();
        }
        if self.lines.is_empty() {
            return Origin::Default;
        }
        Origin::File { path: self.file.clone(), line: self.lines.partition_point(|begin| *begin <= span.start).max(1) }
    }

    /// Where a key, such as `failover.suspect_after`, was set.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        locate(&self.table, key).map_or(Origin::Default, |span| self.origin(&span))
    }

    /// `bootstrap.servers = "x"` without quotes is a table in a table for TOML; it is meant as one name.
    fn join_property_names(&mut self) {
        let Some(DeValue::Table(kafka)) = self.table.get_mut("kafka").map(Spanned::get_mut) else {
            return;
        };
        for name in PROPERTY_TABLES {
            if let Some(DeValue::Table(properties)) = kafka.get_mut(name).map(Spanned::get_mut) {
                let mut joined = DeTable::new();
                join(std::mem::take(properties), "", &mut joined);
                *properties = joined;
            }
        }
    }
}

/// How an override names a key: the parts, where property names are one part whatever their dots.
pub(super) fn path_of(parts: Vec<String>) -> Vec<String> {
    let is_property = parts.len() > 3
        && parts.first().is_some_and(|part| part == "kafka")
        && PROPERTY_TABLES.contains(&parts[1].as_str());
    if is_property {
        return vec![parts[0].clone(), parts[1].clone(), parts[2..].join(".")];
    }
    parts
}

fn join<'a>(table: DeTable<'a>, prefix: &str, joined: &mut DeTable<'a>) {
    for (key, value) in table {
        let name = format!("{prefix}{}", key.get_ref());
        let (key_span, value_span) = (key.span(), value.span());
        match value.into_inner() {
            DeValue::Table(inner) if !is_secret(&inner) => join(inner, &format!("{name}."), joined),
            other => {
                joined.insert(Spanned::new(key_span, Cow::Owned(name)), Spanned::new(value_span, other));
            }
        }
    }
}

/// `{ file = "/path" }`, or an empty table, which is left to be refused.
fn is_secret(table: &DeTable<'_>) -> bool {
    table.is_empty() || table.get("file").is_some_and(|value| value.get_ref().is_str())
}

fn locate(table: &DeTable<'_>, key: &str) -> Option<Range<usize>> {
    for (name, value) in table {
        let name = name.get_ref().as_ref();
        if name == key {
            return Some(value.span());
        }
        let rest = key.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        if let (Some(rest), DeValue::Table(inner)) = (rest, value.get_ref())
            && let Some(span) = locate(inner, rest)
        {
            return Some(span);
        }
    }
    None
}

/// Puts a value at a path. Each name and each value on the way gets a range of its own, from `start` on.
fn insert<'a>(table: &mut DeTable<'a>, path: &[String], start: usize, value: DeValue<'a>) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    let is_table = table.get(first.as_str()).is_some_and(|value| value.get_ref().is_table());
    if rest.is_empty() || !is_table {
        let new = if rest.is_empty() { value.clone() } else { DeValue::Table(DeTable::new()) };
        // Removed first, for a map keeps the old key, with its old range.
        table.remove(first.as_str());
        table
            .insert(Spanned::new(start..start + 1, Cow::Owned(first.clone())), Spanned::new(start + 1..start + 2, new));
    }
    if let (false, Some(DeValue::Table(inner))) = (rest.is_empty(), table.get_mut(first.as_str()).map(Spanned::get_mut))
    {
        insert(inner, rest, start + 2, value);
    }
}

/// What a text from outside may mean, likeliest first: a text, a TOML value, a list of texts, a list of TOML values.
fn candidates(raw: &str) -> Vec<DeValue<'_>> {
    let parts = || raw.split(',').map(str::trim).filter(|part| !part.is_empty());
    let mut candidates = vec![text_value(raw)];
    candidates.extend(toml_value(raw));
    candidates.push(DeValue::Array(parts().map(|part| Spanned::new(0..0, text_value(part))).collect()));
    let values: Option<Vec<_>> = parts().map(|part| Some(Spanned::new(0..0, toml_value(part)?))).collect();
    candidates.extend(values.map(|values| DeValue::Array(values.into_iter().collect())));
    // What is written as TOML with brackets or quotes is meant so.
    if raw.starts_with(['[', '{', '"', '\'']) && toml_value(raw).is_some() {
        candidates.swap(0, 1);
    }
    candidates
}

fn text_value(raw: &str) -> DeValue<'_> {
    DeValue::String(Cow::Borrowed(raw))
}

fn toml_value(raw: &str) -> Option<DeValue<'_>> {
    DeValue::parse(raw.trim()).ok().map(Spanned::into_inner)
}
