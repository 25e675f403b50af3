//! `/metrics` in the Prometheus text format, computed at each scrape from snapshots: nothing is counted per reading.

mod cluster;
mod family;
mod replicas;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use hotspare_cluster::{HistoryEvent, PartitionId, View, invariants};
use prometheus::TextEncoder;

use crate::partition::status::ReplicaStatus;

/// What the metrics are made of.
pub(super) struct Facts<'a> {
    /// Name of the cluster.
    pub(super) cluster: &'a str,
    /// Name of the node.
    pub(super) slot: &'a str,
    /// The cluster as this node sees it.
    pub(super) view: &'a View,
    /// This node's replicas.
    pub(super) replicas: &'a BTreeMap<PartitionId, ReplicaStatus>,
    /// The history; None until this node knows it.
    pub(super) events: Option<&'a [HistoryEvent]>,
    /// One series a partition, or one for all.
    pub(super) per_partition: bool,
}

/// The whole text.
///
/// # Errors
/// None that any input could cause; the encoder's interface has one.
pub(super) fn text(facts: &Facts<'_>) -> prometheus::Result<String> {
    let mut page = family::Page::new(facts.cluster, facts.slot, facts.per_partition);
    let commit = option_env!("HOTSPARE_COMMIT").unwrap_or("unknown");
    page.gauge("build_info", "Version and commit of the program; constant 1.", |build| {
        build.add(&[("version", env!("CARGO_PKG_VERSION")), ("commit", commit)], 1.0);
    });
    page.counter("invariant_violations_total", "Violations of what must always hold; must be 0.", |series| {
        for (invariant, count) in invariants::violations() {
            series.add(&[("invariant", invariant.name())], replicas::number(count));
        }
    });
    cluster::raft(&mut page, facts.view);
    cluster::planner(&mut page, facts.view);
    if let Some(events) = facts.events {
        cluster::history(&mut page, facts.view, events);
    }
    replicas::all(&mut page, facts.replicas);
    TextEncoder::new().encode_to_string(&page.into_families())
}
