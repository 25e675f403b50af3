//! What stands where a value is expected, to a finite double. SEMANTICS 3.4.

use super::json::Content;
use super::{Outcome, Reason, number};
use crate::semantics::NumberRules;

/// Without the blanks around it: space, tab, CR and LF.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// The rule by which what stands there is no value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NoNumber {
    Null,
    EmptyText,
    /// One of the texts in `missing_text`.
    MissingText,
    /// One of the numbers in `missing`.
    MissingNumber(f64),
    /// true or false, and `booleans` is not set.
    Boolean,
    Container,
    Text,
    /// It would be number text if `numeric_strings` were set.
    NumberText,
    NonFiniteText,
    BeyondDoubles,
    /// With the base value of SenML.
    SumBeyondDoubles,
}

impl NoNumber {
    pub(super) fn outcome(self) -> Outcome {
        match self {
            Self::Null | Self::EmptyText | Self::MissingText | Self::MissingNumber(_) => Outcome::Missing,
            Self::Boolean | Self::Container | Self::Text | Self::NumberText => Reason::NotNumeric.into(),
            Self::NonFiniteText | Self::BeyondDoubles | Self::SumBeyondDoubles => Reason::NotFinite.into(),
        }
    }
}

/// The value. `base` is added to numbers (SenML).
pub(super) fn value(content: &Content<'_>, rules: &NumberRules, base: f64) -> Result<f64, NoNumber> {
    match content {
        Content::Null => Err(NoNumber::Null),
        Content::Bool(value) if rules.booleans => unless_missing(f64::from(u8::from(*value)), rules),
        Content::Bool(_) => Err(NoNumber::Boolean),
        Content::Container => Err(NoNumber::Container),
        Content::Number(written) => from_number_text(written, rules, base),
        Content::Text(text) => from_text(trim(text), rules, base),
    }
}

fn from_text(text: &str, rules: &NumberRules, base: f64) -> Result<f64, NoNumber> {
    if text.is_empty() {
        return Err(NoNumber::EmptyText);
    }
    if rules.missing_text.iter().any(|missing| missing == text) {
        return Err(NoNumber::MissingText);
    }
    let is_number = number::is_number_text(text);
    if rules.numeric_strings && is_number {
        return from_number_text(text, rules, base);
    }
    Err(match number::is_non_finite_text(text) {
        true => NoNumber::NonFiniteText,
        false if is_number => NoNumber::NumberText,
        false => NoNumber::Text,
    })
}

fn from_number_text(text: &str, rules: &NumberRules, base: f64) -> Result<f64, NoNumber> {
    match number::to_double(text) {
        Some(value) if value.is_finite() => {
            let value = unless_missing(value, rules)? + base + 0.0;
            if value.is_finite() { Ok(value) } else { Err(NoNumber::SumBeyondDoubles) }
        }
        Some(_) => Err(NoNumber::BeyondDoubles),
        None => Err(NoNumber::Text),
    }
}

#[allow(clippy::float_cmp, reason = "a value is missing if it is exactly one of the configured numbers")]
fn unless_missing(value: f64, rules: &NumberRules) -> Result<f64, NoNumber> {
    if rules.missing.contains(&value) { Err(NoNumber::MissingNumber(value)) } else { Ok(value) }
}
