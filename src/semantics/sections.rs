//! The tables `[input]`, `[window]` and `[output]` as they are written. What they mean is in `compile.rs`.

use serde::{Deserialize, Serialize};

/// `[input]`: the topic and how its records become readings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InputSection {
    /// The input topic. Required.
    pub topic: String,
    /// How the records are written.
    pub format: Format,
    /// json: pointer to an array whose elements are read one by one; empty means that the document is the array.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<String>,
    /// json: pointer to a string that holds JSON; what it holds takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decode: Option<String>,
    /// Numbers that mean that nothing was measured; the default of every `[[input.value]]`.
    pub missing: Vec<f64>,
    /// Texts that mean that nothing was measured; the default of every `[[input.value]]`.
    pub missing_text: Vec<String>,
    /// Whether true and false count as 1 and 0; the default of every `[[input.value]]`.
    pub booleans: bool,
    /// Whether `"21.5"` is a number; the default of every `[[input.value]]`.
    pub numeric_strings: bool,
    /// Where the device's name stands.
    pub device: DeviceSection,
    /// Where the time of a reading stands and how it is written.
    pub time: TimeSection,
    /// The values to aggregate. If there is none: json one named `value` at `/value`, senml and influx all numeric ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<ValueSection>,
    /// senml: how names are cut into device and metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub senml: Option<SenmlSection>,
    /// What is refused because it is too far off or too large.
    pub limits: LimitsSection,
    /// How copies of a reading are recognised.
    pub dedup: DedupSection,
}

impl Default for InputSection {
    fn default() -> Self {
        Self {
            topic: String::new(),
            format: Format::Json,
            records: None,
            decode: None,
            missing: Vec::new(),
            missing_text: Vec::new(),
            booleans: false,
            numeric_strings: true,
            device: DeviceSection::default(),
            time: TimeSection::default(),
            value: Vec::new(),
            senml: None,
            limits: LimitsSection::default(),
            dedup: DedupSection::default(),
        }
    }
}

/// How the records of the input topic are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// JSON by RFC 8259, read with JSON Pointers.
    Json,
    /// Sensor Measurement Lists, RFC 8428, in JSON.
    Senml,
    /// InfluxDB line protocol.
    Influx,
}

/// `[input.device]`: where the device's name stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeviceSection {
    /// `body`, `document` (json), `key` or `header:NAME`.
    pub from: String,
    /// For `body` and `document`; `/device_id` if absent, influx `/tags/device_id`. Not for senml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Split the text at `/` and take this piece, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<u32>,
}

impl Default for DeviceSection {
    fn default() -> Self {
        Self { from: "body".to_owned(), pointer: None, segment: None }
    }
}

/// `[input.time]`: where the time of a reading stands and how it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimeSection {
    /// `body`, `document` (json), `key`, `header:NAME`, or `record`: the record's own timestamp. senml: `body` or `record`.
    pub from: String,
    /// For `body` and `document`; `/ts` if absent, influx `/timestamp`. Not for senml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Unit of times that are numbers; `auto` goes by their size. `auto` if absent, influx `ns`. Not for senml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<TimeUnit>,
    /// IANA time zone of times that are written without an offset. Not for senml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// What happens to times before `min_time` and in the future.
    pub on_implausible: OnImplausible,
}

impl Default for TimeSection {
    fn default() -> Self {
        Self { from: "body".to_owned(), pointer: None, unit: None, zone: None, on_implausible: OnImplausible::Reject }
    }
}

/// Unit of times that are written as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// By size: below 1e11 seconds, below 1e14 milliseconds, below 1e17 microseconds, else nanoseconds.
    Auto,
}

/// What happens to a reading whose time is before `min_time` or in the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnImplausible {
    /// It is rejected.
    Reject,
    /// The record's own timestamp takes the place of its time.
    RecordTime,
}

/// One `[[input.value]]`: a metric and where its value stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValueSection {
    /// The metric's name in the outputs. Required, unique.
    pub name: String,
    /// json and influx: where the value stands in the body. Required there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// senml: the metric's name in the data, if it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// As in `[input]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<f64>>,
    /// As in `[input]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing_text: Option<Vec<String>>,
    /// As in `[input]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booleans: Option<bool>,
    /// As in `[input]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numeric_strings: Option<bool>,
}

/// `[input.senml]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SenmlSection {
    /// `base`, or the text at whose last occurrence a full name is cut into device and metric.
    pub split: String,
}

impl Default for SenmlSection {
    fn default() -> Self {
        Self { split: "base".to_owned() }
    }
}

/// `[input.limits]`: what is refused because it is too far off or too large.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsSection {
    /// How far a reading's time may be after its record's timestamp: a duration, or `off`.
    pub max_future: String,
    /// Times before this one are rejected: an ISO 8601 time with offset.
    pub min_time: String,
    /// Longest device name in bytes; also of metric names that come from the data.
    pub max_device_id: u32,
    /// Most candidates for readings in one record.
    pub max_readings_per_record: u32,
}

impl Default for LimitsSection {
    fn default() -> Self {
        Self {
            max_future: "5m".to_owned(),
            min_time: "2000-01-01T00:00:00Z".to_owned(),
            max_device_id: 256,
            max_readings_per_record: 10_000,
        }
    }
}

/// `[input.dedup]`: how copies of a reading are recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DedupSection {
    /// `none`, `id:/pointer`, `header:NAME` or `reading`.
    pub by: String,
    /// How long identities are kept, in log time: a duration.
    pub keep: String,
}

impl Default for DedupSection {
    fn default() -> Self {
        Self { by: "none".to_owned(), keep: "1h".to_owned() }
    }
}

/// `[window]`: which windows there are and when they close.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowSection {
    /// The kind of windows.
    pub kind: WindowKind,
    /// tumbling, hopping: their length, a duration; `1h` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// hopping: how far apart they begin, a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advance: Option<String>,
    /// session: the silence that ends one, a duration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
    /// calendar: `hour`, `day`, `week` or `month`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<CalendarUnit>,
    /// calendar: IANA time zone; `UTC` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// How far behind its series' watermark a reading may be and still count: a duration.
    pub grace: String,
    /// After how much silence of a series its windows are closed: a duration, or `off`.
    pub idle_close: String,
    /// After how much silence a series is forgotten: a duration, or `off`.
    pub retention: String,
}

impl Default for WindowSection {
    fn default() -> Self {
        Self {
            kind: WindowKind::Tumbling,
            size: None,
            advance: None,
            gap: None,
            unit: None,
            zone: None,
            grace: "0s".to_owned(),
            idle_close: "off".to_owned(),
            retention: "off".to_owned(),
        }
    }
}

/// The kinds of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WindowKind {
    /// One after the other, all of one length.
    Tumbling,
    /// Of one length, each beginning a fixed time after the one before.
    Hopping,
    /// As long as readings follow one another closely enough.
    Session,
    /// Hours, days, weeks or months of a time zone.
    Calendar,
}

/// The units of calendar windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CalendarUnit {
    /// Whole hours of the local clock.
    Hour,
    /// Local dates.
    Day,
    /// From Monday.
    Week,
    /// From the first.
    Month,
}

/// `[output]`: what is published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OutputSection {
    /// When outputs are given.
    pub emit: Emit,
    /// Whether variance and standard deviation are added.
    pub variance: Variance,
    /// The outcomes whose records go to the dead-letter topic.
    pub dead_letter: Vec<DeadLetterOutcome>,
}

impl Default for OutputSection {
    fn default() -> Self {
        Self {
            emit: Emit::Final,
            variance: Variance::None,
            dead_letter: vec![DeadLetterOutcome::Late, DeadLetterOutcome::Rejected],
        }
    }
}

/// When outputs are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Emit {
    /// Once a window, when it closes.
    Final,
    /// Also at every commit, for each open window that was counted into since the last.
    Changes,
}

/// Which variance is added to the outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Variance {
    /// None.
    None,
    /// Divided by count - 1.
    Sample,
    /// Divided by count.
    Population,
}

/// Outcomes that can be sent to the dead-letter topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadLetterOutcome {
    /// No window takes the reading any more.
    Late,
    /// Refused for a reason.
    Rejected,
    /// Nothing was measured.
    Missing,
    /// A copy of a counted reading.
    Duplicate,
    /// The record's value is null.
    NullRecord,
}
