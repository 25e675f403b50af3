//! `docs/METRICS.md`, generated from the catalogue.

use std::fmt::Write as _;

use super::{Kind, Metric, Source, catalogue::ALL};

/// The page.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(HEAD);
    for metric in ALL {
        line(&mut text, metric);
    }
    text
}

const HEAD: &str = "# Metrics

Generated from `src/metrics/catalogue.rs`; `HOTSPARE_WRITE_DOCS=1 cargo test --lib metrics::` writes it anew.

`/metrics` at `http.metrics_listen` in the Prometheus text format. All names begin with `hotspare_`; each series has the labels
`cluster` and `slot`. Series whose labels are known beforehand are there as 0 from the start, so that `increase()` sees the
first event; timestamps are absent until there is one. On Linux there is `process_*` too. Sources:

- **H**, the replicated history: every survivor exports the same, and restarts do not reset it. Absent until the node has
  applied the log up to the commit index that it learnt first. Query: rate first, then `max by (cluster, …)`.
- **P**, progress records: active and standbys export the same. Absent while the replica restores, so a rebuild never looks
  like a reset. Query as H, by partition.
- **L**, the Raft leader alone, while its last quorum answer is under 1 s old. **N**, the node's own.

With `metrics.per_partition = false` the label `partition` is left out, and a node's partitions are added up or, where
\"max\" stands at the type, the largest is shown.

| name | type, source | labels | meaning |
|---|---|---|---|
";

fn line(text: &mut String, metric: &Metric) {
    let partition = metric.labels.iter().any(|label| label.name == "partition");
    let kind = match metric.kind {
        Kind::Gauge if partition => "gauge (max)",
        Kind::Gauge | Kind::GaugeSum => "gauge",
        Kind::Counter => "counter",
        Kind::Histogram(_) => "histogram",
    };
    let source = match metric.source {
        Source::History => "H",
        Source::Progress => "P",
        Source::Leader => "L",
        Source::Node => "N",
    };
    let label = |label: &super::Label| match label.values {
        [] => label.name.to_owned(),
        values => format!("{}={}", label.name, values.join(", ")),
    };
    let labels: Vec<String> = metric.labels.iter().map(label).collect();
    let labels = if labels.is_empty() { "–".to_owned() } else { labels.join("; ") };
    let mut help = metric.help.to_owned();
    if let Kind::Histogram(bounds) = metric.kind {
        let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
        write!(help, " le {}", bounds.join(" ")).ok();
    }
    writeln!(text, "| `hotspare_{}` | {kind} {source} | {labels} | {help} |", metric.name).ok();
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, path::Path};

    use super::*;

    /// Those of the operations specification that have no source yet.
    const LATER: [(&str, &str); 12] = [
        ("failover_predicted_seconds", "nothing predicts yet"),
        ("node_stop_safe", "comes with can-stop"),
        ("paused", "comes with pause"),
        ("pause_end_timestamp_seconds", "comes with pause"),
        ("state_bytes", "the store does not count its bytes"),
        ("state_bytes_limit", "comes with state_bytes"),
        ("kafka_rtt_seconds", "the client's statistics are not read yet"),
        ("drill_running", "comes with drills"),
        ("drills_total", "comes with drills"),
        ("drill_last_timestamp_seconds", "comes with drills"),
        ("restore_seconds{source=\"peer\"}", "state is not fetched from peers yet"),
        ("checkpoint_failures_total{stage=\"send\"}", "state is not fetched from peers yet"),
    ];
    /// Beyond the specification, and why.
    const BEYOND: [(&str, &str); 2] = [
        ("devices_on_two_partitions", "a producer without the device as the key splits windows, which must show"),
        ("changelog_unreadable_records", "a damaged changelog must show before somebody needs it"),
    ];
    /// The table of the operations specification.
    const WANTED: &str = "build_info node_info config_info config_mismatch failovers_total failover_duration_seconds \
        failover_phase_seconds failover_last_duration_seconds failover_last_timestamp_seconds unavailable_seconds_total \
        false_failovers_total failovers_withheld_total failovers_blocked_no_quorum_total suspicions_total nodes partitions \
        promotable_standbys under_replicated_partitions failure_tolerance failover_predicted_seconds node_stop_safe paused \
        pause_end_timestamp_seconds node_draining node_nofailover replica_role active_claims replica_epoch commit_number \
        changelog_applied_offset changelog_lso_offset digest_checks_total fenced_total standby_lag_records \
        standby_lag_seconds last_applied_timestamp_seconds last_commit_timestamp_seconds state_entries state_series \
        state_bytes state_bytes_limit restore_remaining_records checkpoint_last_timestamp_seconds checkpoint_bytes \
        restore_seconds checkpoint_seconds checkpoint_failures_total checkpoints_discarded_total input_records_total \
        windows_final_total dead_letters_total consumed_total readings_total readings_rejected_total readings_unaccounted \
        input_lag_records input_lag_seconds commits_total commit_seconds commit_entries end_to_end_seconds \
        kafka_errors_total kafka_last_contact_timestamp_seconds kafka_rtt_seconds topic_setting_wrong raft_is_leader \
        raft_has_leader raft_term raft_committed_index raft_applied_index raft_voters raft_quorum_ack_timestamp_seconds \
        raft_elections_total raft_leader_changes_total raft_fsync_seconds raft_commit_seconds peer_rtt_seconds \
        peer_last_heard_timestamp_seconds peer_rejected_total invariant_violations_total runtime_tick_age_seconds \
        http_requests_total http_request_seconds drill_running drills_total drill_last_timestamp_seconds";

    #[test]
    fn the_catalogue_is_the_specified_table_without_what_comes_later() {
        let names = |list: &[(&'static str, &str)]| list.iter().map(|(name, _)| *name).collect::<BTreeSet<_>>();
        let mut wanted: BTreeSet<&str> = WANTED.split_whitespace().collect();
        for name in names(&LATER).into_iter().filter(|name| !name.contains('{')) {
            assert!(wanted.remove(name), "{name} is not in the table");
        }
        wanted.extend(names(&BEYOND));
        let found: Vec<&str> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(found.len(), found.iter().collect::<BTreeSet<_>>().len(), "a name stands twice");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), wanted);
    }

    #[test]
    fn names_and_types_follow_the_rules_of_prometheus() {
        for metric in ALL {
            assert_eq!(metric.name.ends_with("_total"), metric.kind == Kind::Counter, "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }

    #[test]
    fn the_page_is_that_of_the_catalogue() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/METRICS.md");
        if std::env::var_os("HOTSPARE_WRITE_DOCS").is_some() {
            std::fs::write(&path, markdown()).unwrap();
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == markdown(), "docs/METRICS.md is old: HOTSPARE_WRITE_DOCS=1 cargo test --lib metrics::");
    }
}
