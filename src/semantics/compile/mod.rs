//! The tables as they are written to the rules that the code follows, with everything checked.

mod input;
mod window;

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::{
    Emit, InputSection, OutputSection, Pointer, Semantics, SemanticsError, WindowKind, WindowSection, duration,
    fingerprint,
};

pub(super) fn compile(
    input: &InputSection,
    window: &WindowSection,
    output: &OutputSection,
) -> Result<Semantics, Vec<SemanticsError>> {
    let mut errors = Errors::default();
    let input_rules = input::compile(input, &mut errors);
    let window_rules = window::compile(window, &mut errors);
    if window.kind == WindowKind::Session && output.emit == Emit::Changes {
        errors.add("output.emit", "sessions change their start and end, so they are shown when they are final only");
    }
    if let Some(rules) = &input_rules
        && window.kind == WindowKind::Calendar
        && rules.time_min_ms < 0
    {
        let message = "calendar windows need times of 1970 or later, for older zone rules are unsure";
        errors.add("input.limits.min_time", message);
    }
    match (input_rules, window_rules) {
        (Some(input_rules), Some((window_rules, silence))) if errors.0.is_empty() => {
            let mut semantics = Semantics {
                topic: input.topic.clone(),
                input: input_rules,
                windows: vec![window_rules],
                silence,
                emit: output.emit,
                variance: output.variance,
                dead_letter: output.dead_letter.clone(),
                hash: 0,
            };
            semantics.hash = fingerprint::hash(&semantics);
            Ok(semantics)
        }
        _ => Err(errors.0),
    }
}

/// What was found to be wrong. The methods that read a setting give None after they noted an error.
#[derive(Default)]
struct Errors(Vec<SemanticsError>);

impl Errors {
    fn add(&mut self, key: &str, message: impl Into<String>) {
        self.0.push(SemanticsError { key: key.to_owned(), message: message.into() });
    }

    fn out_of_place(&mut self, key: &str, is_set: bool, belongs_to: &str) {
        if is_set {
            self.add(key, format!("is only for {belongs_to}; remove it"));
        }
    }

    fn pointer(&mut self, key: &str, text: &str) -> Option<Pointer> {
        let pointer = Pointer::parse(text);
        if pointer.is_none() {
            self.add(key, format!("pointer {text:?} must be empty or begin with \"/\""));
        }
        pointer
    }

    /// The outer None is an error.
    fn optional_pointer(&mut self, key: &str, text: Option<&str>) -> Option<Option<Pointer>> {
        match text {
            None => Some(None),
            Some(text) => self.pointer(key, text).map(Some),
        }
    }

    fn duration_ms(&mut self, key: &str, text: &str) -> Option<i64> {
        duration::parse_ms(text).map_err(|message| self.add(key, message)).ok()
    }

    /// Of a length that cannot be 0.
    fn length_ms(&mut self, key: &str, text: &str) -> Option<i64> {
        let length_ms = self.duration_ms(key, text)?;
        if length_ms == 0 {
            self.add(key, "must be above 0");
            return None;
        }
        Some(length_ms)
    }

    fn zone(&mut self, key: &str, name: &str) -> Option<TimeZone> {
        // The bundled rules, never those of the machine: replicas must agree.
        let zone = TimeZoneDatabase::bundled().get(name).ok();
        if zone.is_none() {
            self.add(key, format!("unknown time zone {name:?}: write an IANA name such as \"Europe/Berlin\""));
        }
        zone
    }
}

#[cfg(test)]
mod tests;
