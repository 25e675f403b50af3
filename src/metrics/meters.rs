//! What the threads of a node count for metrics. Nothing here is called per reading.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hotspare_cluster::Histogram;

use super::{Kind, Metric};

/// Values of the labels, in the order of the catalogue.
type Values = Vec<String>;

/// Counters and histograms of a process; a cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Meters(Arc<Mutex<Tally>>);

/// All that was counted, by the metric's name and the values of its labels.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Counters and gauges.
    pub values: BTreeMap<&'static str, BTreeMap<Values, f64>>,
    /// Histograms.
    pub histograms: BTreeMap<&'static str, BTreeMap<Values, Histogram>>,
}

impl Meters {
    /// Adds one to a counter.
    pub fn count(&self, metric: &Metric, labels: &[&str]) {
        self.change(metric, labels, |value| *value += 1.0);
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &Metric, labels: &[&str], to: f64) {
        self.change(metric, labels, |value| *value = to);
    }

    fn change(&self, metric: &Metric, labels: &[&str], change: impl FnOnce(&mut f64)) {
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(tally.values.entry(metric.name).or_default().entry(owned(labels)).or_default());
    }

    /// Counts a time in a histogram.
    pub fn time(&self, metric: &Metric, labels: &[&str], time: Duration) {
        self.observe(metric, labels, time.as_secs_f64());
    }

    /// Counts a value in a histogram.
    pub fn observe(&self, metric: &Metric, labels: &[&str], value: f64) {
        let Kind::Histogram(bounds) = metric.kind else { return };
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = tally.histograms.entry(metric.name).or_default().entry(owned(labels)).or_default();
        histogram.observe(bounds, value);
    }

    /// A copy of all.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn owned(labels: &[&str]) -> Values {
    labels.iter().map(|label| (*label).to_owned()).collect()
}
