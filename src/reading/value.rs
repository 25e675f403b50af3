//! What stands where a value is expected, to a finite double. SEMANTICS 3.4.

use super::json::Content;
use super::{Outcome, Reason, number};
use crate::semantics::ValueRules;

/// Without the blanks around it: space, tab, CR and LF.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// The value, or what becomes of the candidate.
pub(super) fn value(content: &Content<'_>, rule: &ValueRules) -> Result<f64, Outcome> {
    match content {
        Content::Null => Err(Outcome::Missing),
        Content::Bool(value) if rule.booleans => unless_missing(f64::from(u8::from(*value)), rule),
        Content::Bool(_) | Content::Container => Err(Outcome::Rejected(Reason::NotNumeric)),
        Content::Number(written) => from_number_text(written, rule),
        Content::Text(text) => from_text(trim(text), rule),
    }
}

fn from_text(text: &str, rule: &ValueRules) -> Result<f64, Outcome> {
    if text.is_empty() || rule.missing_text.iter().any(|missing| missing == text) {
        return Err(Outcome::Missing);
    }
    if rule.numeric_strings && number::is_number_text(text) {
        return from_number_text(text, rule);
    }
    let is_non_finite = number::is_non_finite_text(text);
    Err(Outcome::Rejected(if is_non_finite { Reason::NotFinite } else { Reason::NotNumeric }))
}

fn from_number_text(text: &str, rule: &ValueRules) -> Result<f64, Outcome> {
    match number::to_double(text) {
        Some(value) if value.is_finite() => unless_missing(value, rule),
        Some(_) => Err(Outcome::Rejected(Reason::NotFinite)),
        None => Err(Outcome::Rejected(Reason::NotNumeric)),
    }
}

#[allow(clippy::float_cmp, reason = "a value is missing if it is exactly one of the configured numbers")]
fn unless_missing(value: f64, rule: &ValueRules) -> Result<f64, Outcome> {
    if rule.missing.contains(&value) { Err(Outcome::Missing) } else { Ok(value) }
}
