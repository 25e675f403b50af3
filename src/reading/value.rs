//! What stands where a value is expected, to a finite double. SEMANTICS 3.4.

use super::json::Content;
use super::{Outcome, Reason, number};
use crate::semantics::NumberRules;

/// Without the blanks around it: space, tab, CR and LF.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// The value, or what becomes of the candidate. `base` is added to numbers (SenML).
pub(super) fn value(content: &Content<'_>, rules: &NumberRules, base: f64) -> Result<f64, Outcome> {
    match content {
        Content::Null => Err(Outcome::Missing),
        Content::Bool(value) if rules.booleans => unless_missing(f64::from(u8::from(*value)), rules),
        Content::Bool(_) | Content::Container => Err(Outcome::Rejected(Reason::NotNumeric)),
        Content::Number(written) => from_number_text(written, rules, base),
        Content::Text(text) => from_text(trim(text), rules, base),
    }
}

fn from_text(text: &str, rules: &NumberRules, base: f64) -> Result<f64, Outcome> {
    if text.is_empty() || rules.missing_text.iter().any(|missing| missing == text) {
        return Err(Outcome::Missing);
    }
    if rules.numeric_strings && number::is_number_text(text) {
        return from_number_text(text, rules, base);
    }
    let is_non_finite = number::is_non_finite_text(text);
    Err(Outcome::Rejected(if is_non_finite { Reason::NotFinite } else { Reason::NotNumeric }))
}

fn from_number_text(text: &str, rules: &NumberRules, base: f64) -> Result<f64, Outcome> {
    match number::to_double(text) {
        Some(value) if value.is_finite() => {
            let value = unless_missing(value, rules)? + base + 0.0;
            if value.is_finite() { Ok(value) } else { Err(Reason::NotFinite.into()) }
        }
        Some(_) => Err(Reason::NotFinite.into()),
        None => Err(Reason::NotNumeric.into()),
    }
}

#[allow(clippy::float_cmp, reason = "a value is missing if it is exactly one of the configured numbers")]
fn unless_missing(value: f64, rules: &NumberRules) -> Result<f64, Outcome> {
    if rules.missing.contains(&value) { Err(Outcome::Missing) } else { Ok(value) }
}
