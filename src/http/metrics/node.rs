//! Metrics of this process and of what surrounds it.

use hotspare_cluster::{Liveness, invariants};
use prometheus::proto::MetricFamily;

use super::{Facts, count, family::Page, flag, number};
use crate::metrics::catalogue as all;

/// All of them.
pub(super) fn all(page: &mut Page, facts: &Facts<'_>) {
    identity(page, facts);
    page.one(&all::KAFKA_LAST_CONTACT, Some(facts.timestamp(facts.kafka_age)));
    page.one(&all::RUNTIME_TICK_AGE, Some(facts.tick_age.as_secs_f64()));
    page.one(&all::DEVICES_ON_TWO_PARTITIONS, Some(count(facts.devices_split)));
    page.fill(&all::INVARIANT_VIOLATIONS, |series| {
        for (invariant, count) in invariants::violations() {
            series.add(&[invariant.name()], number(count));
        }
    });
    for metric in [
        &all::RESTORE_SECONDS,
        &all::CHECKPOINT_SECONDS,
        &all::CHECKPOINT_FAILURES,
        &all::CHECKPOINTS_DISCARDED,
        &all::COMMITS,
        &all::COMMIT_SECONDS,
        &all::COMMIT_ENTRIES,
        &all::END_TO_END,
        &all::KAFKA_ERRORS,
        &all::TOPIC_SETTING_WRONG,
        &all::HTTP_REQUESTS,
        &all::HTTP_REQUEST_SECONDS,
    ] {
        page.tally(metric, facts.tally);
    }
}

fn identity(page: &mut Page, facts: &Facts<'_>) {
    let (view, settings) = (facts.view, facts.settings);
    let commit = option_env!("HOTSPARE_COMMIT").unwrap_or("unknown");
    page.fill(&all::BUILD_INFO, |series| series.add(&[env!("CARGO_PKG_VERSION"), commit], 1.0));
    page.fill(&all::NODE_INFO, |series| {
        series.add(&[&view.node_id.to_string(), &view.store_uuid, &settings.zone], 1.0);
    });
    let hex = |hash: u64| format!("{hash:016x}");
    page.fill(&all::CONFIG_INFO, |series| {
        series.add(&[&hex(settings.config_hash), &hex(settings.semantics_hash)], 1.0);
    });
    let differs = |node: &hotspare_cluster::NodeView| {
        let told = node.report.as_ref().map_or(0, |report| report.config_hash);
        node.state == Liveness::Live && told != 0 && told != settings.config_hash
    };
    page.one(&all::CONFIG_MISMATCH, Some(flag(view.nodes.iter().any(differs))));
    let own = view.nodes.iter().find(|node| node.node_id == view.node_id);
    page.one(&all::NODE_DRAINING, Some(flag(own.is_some_and(|node| node.draining))));
    page.one(&all::NODE_NOFAILOVER, Some(flag(settings.nofailover)));
}

/// What the system tells of the process.
#[cfg(target_os = "linux")]
pub(super) fn process() -> Vec<MetricFamily> {
    use prometheus::{core::Collector as _, process_collector::ProcessCollector};
    ProcessCollector::for_self().collect()
}

/// The system's own way to tell of a process is known for Linux only.
#[cfg(not(target_os = "linux"))]
pub(super) fn process() -> Vec<MetricFamily> {
    Vec::new()
}
