//! Metric families built from values that are known elsewhere.

use std::collections::BTreeMap;

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// Label that is left out where one series a partition is too many.
const PARTITION: &str = "partition";

type Labels = Vec<(String, String)>;

/// All families of a scrape.
pub(super) struct Page {
    common: Labels,
    per_partition: bool,
    families: Vec<MetricFamily>,
}

/// How series are put together that differ only in a label that is left out.
#[derive(Clone, Copy)]
enum Merge {
    Sum,
    Max,
}

/// The series of one family.
pub(super) struct Series {
    per_partition: bool,
    merge: Merge,
    values: BTreeMap<Labels, f64>,
}

impl Series {
    /// Adds a series, or to it.
    pub(super) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let kept = labels.iter().filter(|(name, _)| self.per_partition || *name != PARTITION);
        let labels: Labels = kept.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let merge = self.merge;
        self.values
            .entry(labels)
            .and_modify(|known| {
                *known = match merge {
                    Merge::Sum => *known + value,
                    Merge::Max => known.max(value),
                }
            })
            .or_insert(value);
    }
}

/// Counts of a histogram with its upper bounds.
pub(super) struct Counts {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
    count: u64,
}

impl Counts {
    /// Empty, with these upper bounds.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len()], sum: 0.0, count: 0 }
    }

    /// Counts a value.
    pub(super) fn observe(&mut self, value: f64) {
        for (bound, count) in self.bounds.iter().zip(&mut self.counts) {
            if value <= *bound {
                *count += 1;
            }
        }
        self.sum += value;
        self.count += 1;
    }
}

impl Page {
    /// An empty page; the two labels stand on each series.
    pub(super) fn new(cluster: &str, slot: &str, per_partition: bool) -> Self {
        let common = vec![("cluster".to_owned(), cluster.to_owned()), ("slot".to_owned(), slot.to_owned())];
        Self { common, per_partition, families: Vec::new() }
    }

    /// A family of gauges; of a node's partitions the maximum, where they are not shown one by one.
    pub(super) fn gauge(&mut self, name: &str, help: &str, fill: impl FnOnce(&mut Series)) {
        self.values(name, help, MetricType::GAUGE, Merge::Max, fill);
    }

    /// A family of gauges; of a node's partitions the sum, where they are not shown one by one.
    pub(super) fn gauge_sum(&mut self, name: &str, help: &str, fill: impl FnOnce(&mut Series)) {
        self.values(name, help, MetricType::GAUGE, Merge::Sum, fill);
    }

    /// A family of counters.
    pub(super) fn counter(&mut self, name: &str, help: &str, fill: impl FnOnce(&mut Series)) {
        self.values(name, help, MetricType::COUNTER, Merge::Sum, fill);
    }

    fn values(&mut self, name: &str, help: &str, kind: MetricType, merge: Merge, fill: impl FnOnce(&mut Series)) {
        let mut series = Series { per_partition: self.per_partition, merge, values: BTreeMap::new() };
        fill(&mut series);
        let metrics = series.values.into_iter().map(|(labels, value)| {
            let mut metric = Metric::from_label(self.labels(&labels));
            if kind == MetricType::COUNTER {
                let mut counter = Counter::default();
                counter.set_value(value);
                metric.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                metric.set_gauge(gauge);
            }
            metric
        });
        let metrics = metrics.collect();
        self.push(name, help, kind, metrics);
    }

    /// A family of histograms.
    pub(super) fn histogram<'a>(
        &mut self,
        name: &str,
        help: &str,
        histograms: impl Iterator<Item = (Labels, &'a Counts)>,
    ) {
        let metrics = histograms.map(|(labels, counts)| {
            let buckets = counts.bounds.iter().zip(&counts.counts).map(|(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(*count);
                bucket
            });
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_sum(counts.sum);
            histogram.set_sample_count(counts.count);
            let mut metric = Metric::from_label(self.labels(&labels));
            metric.set_histogram(histogram);
            metric
        });
        let metrics = metrics.collect();
        self.push(name, help, MetricType::HISTOGRAM, metrics);
    }

    fn labels(&self, own: &Labels) -> Vec<LabelPair> {
        let pair = |(name, value): &(String, String)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.clone());
            pair.set_value(value.clone());
            pair
        };
        self.common.iter().chain(own).map(pair).collect()
    }

    /// A family without series is left out: the encoder refuses it.
    fn push(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(format!("hotspare_{name}"));
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.families.push(family);
    }

    /// The families by name.
    pub(super) fn into_families(mut self) -> Vec<MetricFamily> {
        self.families.sort_by(|a, b| a.name().cmp(b.name()));
        self.families
    }
}
