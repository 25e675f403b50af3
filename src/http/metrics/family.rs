//! Metric families built from values that are known elsewhere.

use std::collections::BTreeMap;

use hotspare_cluster::Histogram;
use prometheus::proto::{self, Bucket, Counter, Gauge, LabelPair, MetricFamily, MetricType};

use crate::metrics::{Kind, Label, Metric, Tally};

/// Label that is left out where one series a partition is too many.
const PARTITION: &str = "partition";

/// All families of a scrape.
pub(super) struct Page {
    common: [(&'static str, String); 2],
    per_partition: bool,
    families: BTreeMap<&'static str, MetricFamily>,
}

/// The series of one family.
pub(super) struct Series<'a> {
    metric: &'a Metric,
    per_partition: bool,
    values: BTreeMap<Vec<String>, f64>,
}

impl Series<'_> {
    /// Adds a series, or to it; the values of the labels in the order of the catalogue.
    pub(super) fn add(&mut self, labels: &[&str], value: f64) {
        let kept = |(label, value): (&Label, &&str)| {
            (self.per_partition || label.name != PARTITION).then(|| (*value).to_owned())
        };
        let labels = self.metric.labels.iter().zip(labels).filter_map(kept).collect();
        let is_max = self.metric.kind == Kind::Gauge;
        let merge = |known: &mut f64| *known = if is_max { known.max(value) } else { *known + value };
        self.values.entry(labels).and_modify(merge).or_insert(value);
    }

    /// Adds a series of 0 for all values that the labels can have, where all are known.
    pub(super) fn begin(&mut self) {
        for labels in combinations(self.metric.labels) {
            self.add(&labels, 0.0);
        }
    }
}

/// All combinations of the values of labels; none if a label's are not known.
pub(super) fn combinations(labels: &'static [Label]) -> Vec<Vec<&'static str>> {
    labels.iter().fold(vec![Vec::new()], |before, label| {
        let with = |begin: &Vec<&'static str>| {
            let begin = begin.clone();
            label.values.iter().map(move |value| begin.iter().copied().chain([*value]).collect())
        };
        before.iter().flat_map(with).collect()
    })
}

impl Page {
    /// An empty page; the two labels stand on each series.
    pub(super) fn new(cluster: &str, slot: &str, per_partition: bool) -> Self {
        let common = [("cluster", cluster.to_owned()), ("slot", slot.to_owned())];
        Self { common, per_partition, families: BTreeMap::new() }
    }

    /// A family of gauges or counters.
    pub(super) fn fill(&mut self, metric: &Metric, fill: impl FnOnce(&mut Series<'_>)) {
        let mut series = Series { metric, per_partition: self.per_partition, values: BTreeMap::new() };
        fill(&mut series);
        let is_counter = metric.kind == Kind::Counter;
        let samples = series.values.iter().map(|(labels, value)| {
            let mut sample = proto::Metric::from_label(self.labels(metric, labels));
            if is_counter {
                let mut counter = Counter::default();
                counter.set_value(*value);
                sample.set_counter(counter);
            } else {
                let mut gauge = Gauge::default();
                gauge.set_value(*value);
                sample.set_gauge(gauge);
            }
            sample
        });
        let samples = samples.collect();
        self.push(metric, if is_counter { MetricType::COUNTER } else { MetricType::GAUGE }, samples);
    }

    /// A family of one gauge.
    pub(super) fn one(&mut self, metric: &Metric, value: Option<f64>) {
        self.fill(metric, |series| {
            if let Some(value) = value {
                series.add(&[], value);
            }
        });
    }

    /// A family of histograms with the values of their labels.
    pub(super) fn histograms<'h>(
        &mut self,
        metric: &Metric,
        histograms: impl Iterator<Item = (Vec<String>, &'h Histogram)>,
    ) {
        let Kind::Histogram(bounds) = metric.kind else { return };
        let samples = histograms.map(|(labels, histogram)| {
            let buckets = histogram.cumulative(bounds).map(|(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(bound);
                bucket.set_cumulative_count(count);
                bucket
            });
            let mut shown = proto::Histogram::default();
            shown.set_bucket(buckets.collect());
            shown.set_sample_sum(histogram.sum());
            shown.set_sample_count(histogram.count());
            let mut sample = proto::Metric::from_label(self.labels(metric, &labels));
            sample.set_histogram(shown);
            sample
        });
        let samples = samples.collect();
        self.push(metric, MetricType::HISTOGRAM, samples);
    }

    /// A family of what threads have counted; 0 for all known values of the labels where nothing was.
    pub(super) fn tally(&mut self, metric: &Metric, tally: &Tally) {
        if matches!(metric.kind, Kind::Histogram(_)) {
            let none = Histogram::default();
            let begin = combinations(metric.labels).into_iter();
            let mut all: BTreeMap<Vec<String>, &Histogram> =
                begin.map(|labels| (labels.into_iter().map(str::to_owned).collect(), &none)).collect();
            let counted = tally.histograms.get(metric.name);
            all.extend(counted.into_iter().flatten().map(|(labels, histogram)| (labels.clone(), histogram)));
            self.histograms(metric, all.into_iter());
        } else {
            self.fill(metric, |series| {
                series.begin();
                for (labels, value) in tally.values.get(metric.name).into_iter().flatten() {
                    let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                    series.add(&labels, *value);
                }
            });
        }
    }

    fn labels(&self, metric: &Metric, values: &[String]) -> Vec<LabelPair> {
        let own = metric.labels.iter().map(|label| label.name);
        let own = own.filter(|name| self.per_partition || *name != PARTITION).zip(values);
        let pair = |(name, value): (&str, &String)| {
            let mut pair = LabelPair::default();
            pair.set_name(name.to_owned());
            pair.set_value(value.clone());
            pair
        };
        self.common.iter().map(|(name, value)| (*name, value)).chain(own).map(pair).collect()
    }

    /// A family without series is left out: the encoder refuses it.
    fn push(&mut self, metric: &Metric, kind: MetricType, samples: Vec<proto::Metric>) {
        if samples.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(format!("hotspare_{}", metric.name));
        family.set_help(metric.help.to_owned());
        family.set_field_type(kind);
        family.set_metric(samples);
        self.families.insert(metric.name, family);
    }

    /// Puts the two labels on families that are made elsewhere.
    pub(super) fn put_labels_on(&self, families: &mut [MetricFamily]) {
        for family in families {
            for sample in family.mut_metric() {
                let pairs = self.common.iter().map(|(name, value)| {
                    let mut pair = LabelPair::default();
                    pair.set_name((*name).to_owned());
                    pair.set_value(value.clone());
                    pair
                });
                sample.set_label(pairs.collect());
            }
        }
    }

    /// The families by name.
    pub(super) fn into_families(self) -> Vec<MetricFamily> {
        self.families.into_values().collect()
    }
}
