//! The table `[window]`.

use super::Errors;
use crate::semantics::{SilenceRules, WindowKind, WindowRules, WindowSection};
use crate::window::{Calendar, Shape};

/// The most windows that one reading counts in.
const WINDOWS_PER_READING_MAX: i64 = 1000;

pub(super) fn compile(section: &WindowSection, errors: &mut Errors) -> Option<(WindowRules, SilenceRules)> {
    out_of_place(section, errors);
    let shape = match section.kind {
        WindowKind::Tumbling => size_ms(section, errors).map(|size_ms| Shape::Tumbling { size_ms }),
        WindowKind::Hopping => hopping(section, errors),
        WindowKind::Session => {
            required("window.gap", section.gap.as_deref(), "\"5m\"", errors).map(|gap_ms| Shape::Session { gap_ms })
        }
        WindowKind::Calendar => calendar(section, errors),
    };
    let grace_ms = errors.duration_ms("window.grace", &section.grace);
    let idle_close_ms = optional("window.idle_close", &section.idle_close, errors);
    let retention_ms = optional("window.retention", &section.retention, errors);
    if let (Some(Some(idle_close_ms)), Some(Some(retention_ms))) = (idle_close_ms, retention_ms)
        && retention_ms < idle_close_ms
    {
        let (retention, idle_close) = (&section.retention, &section.idle_close);
        errors.add("window.retention", format!("{retention:?} must be at least idle_close, which is {idle_close:?}"));
    }
    let rules = WindowRules { shape: shape?, grace_ms: grace_ms? };
    Some((rules, SilenceRules { idle_close_ms: idle_close_ms?, retention_ms: retention_ms? }))
}

/// Refuses the keys of other kinds.
fn out_of_place(section: &WindowSection, errors: &mut Errors) {
    let kind = section.kind;
    let has_size = matches!(kind, WindowKind::Tumbling | WindowKind::Hopping);
    for (key, is_set, has_it, belongs_to) in [
        ("window.size", section.size.is_some(), has_size, "tumbling and hopping windows"),
        ("window.advance", section.advance.is_some(), kind == WindowKind::Hopping, "kind = \"hopping\""),
        ("window.gap", section.gap.is_some(), kind == WindowKind::Session, "kind = \"session\""),
        ("window.unit", section.unit.is_some(), kind == WindowKind::Calendar, "kind = \"calendar\""),
        ("window.zone", section.zone.is_some(), kind == WindowKind::Calendar, "kind = \"calendar\""),
    ] {
        errors.out_of_place(key, is_set && !has_it, belongs_to);
    }
}

fn size_ms(section: &WindowSection, errors: &mut Errors) -> Option<i64> {
    errors.length_ms("window.size", section.size.as_deref().unwrap_or("1h"))
}

fn hopping(section: &WindowSection, errors: &mut Errors) -> Option<Shape> {
    let size_ms = size_ms(section, errors);
    let advance_ms = required("window.advance", section.advance.as_deref(), "\"10m\"", errors);
    let (size_ms, advance_ms) = (size_ms?, advance_ms?);
    if advance_ms > size_ms {
        errors.add("window.advance", format!("{advance_ms} ms must not be above size, which is {size_ms} ms"));
        return None;
    }
    if size_ms > advance_ms.saturating_mul(WINDOWS_PER_READING_MAX) {
        let message = format!(
            "size, which is {size_ms} ms, must not be above {WINDOWS_PER_READING_MAX} times advance, which is {advance_ms} ms"
        );
        errors.add("window.advance", message);
        return None;
    }
    Some(Shape::Hopping { size_ms, advance_ms })
}

fn calendar(section: &WindowSection, errors: &mut Errors) -> Option<Shape> {
    if section.unit.is_none() {
        errors.add("window.unit", "is required: \"hour\", \"day\", \"week\" or \"month\"");
    }
    let zone_name = section.zone.as_deref().unwrap_or("UTC");
    let zone = errors.zone("window.zone", zone_name);
    Some(Shape::Calendar(Calendar { unit: section.unit?, zone: zone?, zone_name: zone_name.to_owned() }))
}

/// A length that has no default.
fn required(key: &str, text: Option<&str>, example: &str, errors: &mut Errors) -> Option<i64> {
    let Some(text) = text else {
        errors.add(key, format!("is required: a duration such as {example}"));
        return None;
    };
    errors.length_ms(key, text)
}

/// A length that can be off. The outer None is an error.
fn optional(key: &str, text: &str, errors: &mut Errors) -> Option<Option<i64>> {
    if text == "off" { Some(None) } else { errors.length_ms(key, text).map(Some) }
}
