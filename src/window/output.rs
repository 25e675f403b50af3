//! A window as one JSON object. SEMANTICS 8.

use hotspare_cluster::PartitionId;

use super::Aggregate;
use super::spread::Spread;
use super::text::{write_double, write_integer, write_string};
use crate::semantics::Variance;

/// A window with all that is shown of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) device: &'a str,
    pub(crate) metric: &'a str,
    pub(crate) partition: PartitionId,
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    pub(crate) aggregate: &'a Aggregate,
    pub(crate) variance: Variance,
    pub(crate) is_final: bool,
}

/// The object's text, with nothing in it but what the input log says.
pub(crate) fn write_output(window: &Shown<'_>) -> String {
    let aggregate = window.aggregate;
    let (sum, mean) = (aggregate.sum.rounded(1), aggregate.sum.rounded(aggregate.count));
    let mut text = String::with_capacity(320 + window.device.len() + window.metric.len());
    text.push_str("{\"device\":");
    write_string(&mut text, window.device);
    text.push_str(",\"metric\":");
    write_string(&mut text, window.metric);
    integer(&mut text, "partition", i128::from(window.partition.0));
    integer(&mut text, "window_start_ms", i128::from(window.start_ms));
    integer(&mut text, "window_end_ms", i128::from(window.end_ms));
    integer(&mut text, "count", i128::from(aggregate.count));
    double(&mut text, "sum", sum);
    double(&mut text, "mean", mean);
    double(&mut text, "min", Some(aggregate.min));
    double(&mut text, "max", Some(aggregate.max));
    double(&mut text, "first", Some(aggregate.first));
    integer(&mut text, "first_ms", i128::from(aggregate.first_ms));
    double(&mut text, "last", Some(aggregate.last));
    integer(&mut text, "last_ms", i128::from(aggregate.last_ms));
    let mut is_beyond = sum.is_none() || mean.is_none();
    if window.variance != Variance::None {
        let spread = aggregate.spread(window.variance);
        is_beyond |= matches!(spread, Some(Spread { variance: None, .. } | Spread { stddev: None, .. }));
        double(&mut text, "variance", spread.and_then(|spread| spread.variance));
        double(&mut text, "stddev", spread.and_then(|spread| spread.stddev));
    }
    if is_beyond {
        text.push_str(",\"overflow\":true");
    }
    text.push_str(if window.is_final { ",\"final\":true}" } else { ",\"final\":false}" });
    text
}

fn name(text: &mut String, name: &str) {
    text.push_str(",\"");
    text.push_str(name);
    text.push_str("\":");
}

fn integer(text: &mut String, field: &str, number: i128) {
    name(text, field);
    write_integer(text, number);
}

fn double(text: &mut String, field: &str, value: Option<f64>) {
    name(text, field);
    match value {
        Some(value) => write_double(text, value),
        None => text.push_str("null"),
    }
}
