//! `/metrics` in the Prometheus text format, computed at each scrape from snapshots: nothing is counted per reading.

mod cluster;
mod family;
mod node;
mod replicas;

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hotspare_cluster::{PartitionId, View};
use prometheus::TextEncoder;

use super::document::StatusDoc;
use crate::{metrics::Tally, partition::status::ReplicaStatus};

/// What the metrics are made of.
pub(super) struct Facts<'a> {
    /// Name of the cluster.
    pub(super) cluster: &'a str,
    /// Name of the node.
    pub(super) slot: &'a str,
    /// The cluster as this node sees it.
    pub(super) view: &'a View,
    /// The same, judged.
    pub(super) status: &'a StatusDoc,
    /// This node's replicas.
    pub(super) replicas: &'a BTreeMap<PartitionId, ReplicaStatus>,
    /// What threads have counted.
    pub(super) tally: &'a Tally,
    /// Whether the log is applied so far that the history is known.
    pub(super) history_known: bool,
    /// One series a partition, or one for all.
    pub(super) per_partition: bool,
    /// What the configuration says.
    pub(super) settings: &'a super::rules::Shown,
    /// Devices on more than one partition.
    pub(super) devices_split: usize,
    /// Since a broker answered, or since the start.
    pub(super) kafka_age: Duration,
    /// Since the async runtime last turned.
    pub(super) tick_age: Duration,
    /// Now, for ages.
    pub(super) now: Instant,
    /// Now, in milliseconds since 1970.
    pub(super) wall_ms: i64,
}

impl Facts<'_> {
    /// The time so long ago, in seconds since 1970.
    fn timestamp(&self, age: Duration) -> f64 {
        seconds(self.wall_ms) - age.as_secs_f64()
    }
}

/// The whole text.
///
/// # Errors
/// None that any input could cause; the encoder's interface has one.
pub(super) fn text(facts: &Facts<'_>) -> prometheus::Result<String> {
    let mut page = family::Page::new(facts.cluster, facts.slot, facts.per_partition);
    node::all(&mut page, facts);
    cluster::raft(&mut page, facts);
    cluster::planner(&mut page, facts);
    if facts.history_known {
        cluster::history(&mut page, facts.view);
    }
    replicas::all(&mut page, facts);
    let mut families = node::process();
    page.put_labels_on(&mut families);
    families.extend(page.into_families());
    TextEncoder::new().encode_to_string(&families)
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only doubles")]
fn number(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only doubles")]
fn signed(value: i64) -> f64 {
    value as f64
}

fn count(value: usize) -> f64 {
    number(u64::try_from(value).unwrap_or(u64::MAX))
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// Milliseconds as seconds.
fn seconds(ms: i64) -> f64 {
    signed(ms) / 1000.0
}
