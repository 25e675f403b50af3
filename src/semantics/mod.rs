//! What a reading, a window and an output mean: the tables `[input]`, `[window]` and `[output]`, checked and compiled.

mod compile;
mod duration;
mod fingerprint;
mod pointer;
mod sections;

use jiff::tz::TimeZone;
use serde::Deserialize;

pub use sections::{
    CalendarUnit, DeadLetterOutcome, DedupSection, DeviceSection, Emit, Format, InputSection, LimitsSection,
    OnImplausible, OutputSection, SenmlSection, TimeSection, TimeUnit, ValueSection, Variance, WindowKind,
    WindowSection,
};

pub(crate) use pointer::Pointer;

use crate::reading::Outcome;
use crate::window::Shape;

/// A setting that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", key, if key.is_empty() { "" } else { ": " })]
pub struct SemanticsError {
    /// The setting's full name, such as `input.time.zone`; empty when the text is no TOML.
    pub key: String,
    /// What is wrong with it and what to do.
    pub message: String,
}

/// The three tables, checked and compiled. Cheap to share, never changed.
#[derive(Clone, Debug)]
pub struct Semantics {
    topic: String,
    input: InputRules,
    windows: Vec<WindowRules>,
    silence: SilenceRules,
    emit: Emit,
    variance: Variance,
    dead_letter: Vec<DeadLetterOutcome>,
    hash: u64,
}

/// How records become readings.
#[derive(Clone, Debug)]
pub(crate) struct InputRules {
    pub(crate) format: FormatRules,
    pub(crate) device: DeviceRules,
    pub(crate) time: TimeRules,
    /// For values that no `[[input.value]]` names.
    pub(crate) other_values: NumberRules,
    /// None: copies are not looked for.
    pub(crate) dedup: Option<DedupRules>,
    /// None: not checked.
    pub(crate) future_max_ms: Option<i64>,
    pub(crate) time_min_ms: i64,
    /// Of devices, and of metrics whose names come from the data.
    pub(crate) name_bytes_max: usize,
    pub(crate) readings_max: usize,
}

/// How records are written, and what only that format has.
#[derive(Clone, Debug)]
pub(crate) enum FormatRules {
    Json {
        decode: Option<Pointer>,
        records: Option<Pointer>,
        values: Vec<ValueRules<Pointer>>,
    },
    /// Without values all numeric ones are read.
    Senml {
        split: Split,
        values: Vec<ValueRules<String>>,
    },
    /// Without values all numeric ones are read.
    Influx {
        values: Vec<ValueRules<Pointer>>,
    },
}

/// How the names of SenML are cut into device and metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// The base name is the device.
    Base,
    /// At the last occurrence of this text in the full name.
    Last(String),
}

/// Where a device or a time stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Body(Pointer),
    Document(Pointer),
    /// In the fields that SenML has for it.
    Pack,
    Key,
    Header(String),
}

/// Where the device's name stands.
#[derive(Clone, Debug)]
pub(crate) struct DeviceRules {
    pub(crate) source: Source,
    pub(crate) segment: Option<usize>,
}

/// Where a time stands: the record's own timestamp, or elsewhere.
#[derive(Clone, Debug)]
pub(crate) enum TimeSource {
    Record,
    From(Source),
}

/// Where the time stands and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct TimeRules {
    pub(crate) source: TimeSource,
    /// The record's timestamp is taken where nothing stands at the source.
    pub(crate) record_time_if_absent: bool,
    pub(crate) unit: TimeUnit,
    pub(crate) zone: Option<TimeZone>,
    /// The zone's name, for the hash.
    pub(crate) zone_name: Option<String>,
    pub(crate) record_time_if_implausible: bool,
}

/// One `[[input.value]]`: the metric's name, where its value stands, and what counts as a number there.
#[derive(Clone, Debug)]
pub(crate) struct ValueRules<Place> {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) numbers: NumberRules,
}

/// What counts as a number.
#[derive(Clone, Debug)]
pub(crate) struct NumberRules {
    pub(crate) missing: Vec<f64>,
    pub(crate) missing_text: Vec<String>,
    pub(crate) booleans: bool,
    pub(crate) numeric_strings: bool,
}

/// What becomes of a series that is silent; None is never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SilenceRules {
    /// Its open windows are closed after so much log time.
    pub(crate) idle_close_ms: Option<i64>,
    /// It is forgotten after so much log time.
    pub(crate) retention_ms: Option<i64>,
}

/// How copies of a reading are recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DedupRules {
    pub(crate) by: DedupBy,
    /// How long an identity is kept, in log time; above 0.
    pub(crate) keep_ms: i64,
}

/// What tells a reading apart from others of its series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DedupBy {
    /// The text or number at a pointer in the body.
    Id(Pointer),
    /// The last header of that name, and the body's position in the record.
    Header(String),
    /// Time and value.
    Reading,
}

/// One definition of windows over the input. There is one for now; its index stands in changelog keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WindowRules {
    pub(crate) shape: Shape,
    pub(crate) grace_ms: i64,
}

impl Semantics {
    /// Checks and compiles the three tables.
    ///
    /// # Errors
    /// All that is wrong, each with the name of its setting.
    pub fn compile(
        input: &InputSection,
        window: &WindowSection,
        output: &OutputSection,
    ) -> Result<Self, Vec<SemanticsError>> {
        compile::compile(input, window, output)
    }

    /// Reads the three tables of a TOML text; other tables are ignored.
    ///
    /// # Errors
    /// As [`Semantics::compile`]; one error without a key when the text is no TOML, or names an unknown setting.
    pub fn from_toml(text: &str) -> Result<Self, Vec<SemanticsError>> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Sections {
            input: InputSection,
            window: WindowSection,
            output: OutputSection,
        }
        let sections: Sections = toml::from_str(text)
            .map_err(|error| vec![SemanticsError { key: String::new(), message: error.to_string() }])?;
        Self::compile(&sections.input, &sections.window, &sections.output)
    }

    /// The input topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// When outputs are given.
    #[must_use]
    pub fn emit(&self) -> Emit {
        self.emit
    }

    /// A number that differs when the meaning differs: a hash of all settings that are not at their defaults and, if
    /// a time zone is named, of the version of the zone rules. How a setting is written does not matter.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// What becomes of series that are silent.
    pub(crate) fn silence(&self) -> &SilenceRules {
        &self.silence
    }

    /// Which variance is shown.
    #[must_use]
    pub fn variance(&self) -> Variance {
        self.variance
    }

    /// For how long, in log time, identities of counted readings are kept; None if duplicates are not looked for.
    pub(crate) fn dedup_keep_ms(&self) -> Option<i64> {
        self.input.dedup.as_ref().map(|rules| rules.keep_ms)
    }

    /// Whether series know more than their open windows tell (see the note on this in the changelog room).
    pub(crate) fn keeps_series(&self) -> bool {
        let SilenceRules { idle_close_ms, retention_ms } = self.silence;
        let has_sessions = self.windows.iter().any(|rules| rules.shape.is_session());
        has_sessions || idle_close_ms.is_some() || retention_ms.is_some() || self.dedup_keep_ms().is_some()
    }

    pub(crate) fn input(&self) -> &InputRules {
        &self.input
    }

    pub(crate) fn windows(&self) -> &[WindowRules] {
        &self.windows
    }

    /// Whether records with a candidate of that outcome become dead letters.
    pub(crate) fn keeps(&self, outcome: Outcome) -> bool {
        let kind = match outcome {
            Outcome::Counted => return false,
            Outcome::Rejected(crate::reading::Reason::InternalError) => return true,
            Outcome::Late => DeadLetterOutcome::Late,
            Outcome::Missing => DeadLetterOutcome::Missing,
            Outcome::Duplicate => DeadLetterOutcome::Duplicate,
            Outcome::NullRecord => DeadLetterOutcome::NullRecord,
            Outcome::Rejected(_) => DeadLetterOutcome::Rejected,
        };
        self.dead_letter.contains(&kind)
    }
}
