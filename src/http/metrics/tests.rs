use std::{collections::BTreeMap, time::Instant};

use hotspare_cluster::{HistoryEvent, NodeId, PartitionId, Role, View, invariants::Invariant};

use super::{Facts, text};
use crate::{
    http::fixture::{events, replicas, view},
    partition::status::ReplicaStatus,
};

/// What is scraped, with its own parts.
struct Scene {
    view: View,
    replicas: BTreeMap<PartitionId, ReplicaStatus>,
    events: Option<Vec<HistoryEvent>>,
    per_partition: bool,
}

/// All lines, without the labels that stand on each sample.
fn lines(change: impl FnOnce(&mut Scene)) -> Vec<String> {
    let (replicas, events) = (replicas(Instant::now()), Some(events()));
    let mut scene = Scene { view: view(), replicas, events, per_partition: true };
    change(&mut scene);
    let facts = Facts {
        cluster: "plant-a",
        slot: "hotspare-2",
        view: &scene.view,
        replicas: &scene.replicas,
        events: scene.events.as_deref(),
        per_partition: scene.per_partition,
    };
    let short = |line: &str| {
        let labels = "cluster=\"plant-a\",slot=\"hotspare-2\"";
        let stands = line.starts_with("hotspare_") && line.contains(labels);
        assert!(stands || line.starts_with("# "), "{line}");
        line.replacen(&format!("{labels},"), "", 1).replacen(&format!("{{{labels}}}"), "", 1)
    };
    text(&facts).unwrap().lines().map(short).collect()
}

/// The samples alone.
fn scrape(change: impl FnOnce(&mut Scene)) -> Vec<String> {
    let mut lines = lines(change);
    lines.retain(|line| !line.starts_with('#'));
    lines
}

#[test]
fn the_text_for_a_known_node_is_this() {
    let lines = lines(|_| {});
    // Buckets, and series that are zero because nothing has happened yet, are checked below.
    let is_shown = |line: &&String| {
        let zero = line.ends_with(" 0") && !line.contains("unaccounted");
        !zero && !line.contains("_bucket") && !line.contains("build_info{") && !line.starts_with("# HELP")
    };
    let found: Vec<&str> = lines.iter().filter(is_shown).map(String::as_str).collect();
    assert_eq!(found, include_str!("golden.txt").lines().collect::<Vec<_>>(), "found:\n{}", found.join("\n"));
    let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!(count("# HELP"), count("# TYPE"));
    let build = format!("hotspare_build_info{{version=\"{}\",commit=", env!("CARGO_PKG_VERSION"));
    assert_eq!(count(&build), 1);
}

#[test]
fn every_series_of_the_history_is_there_before_the_first_event() {
    let lines = scrape(|scene| scene.events = Some(Vec::new()));
    for line in [
        r#"hotspare_failovers_total{kind="failover",reason="silent",result="failed"} 0"#,
        r#"hotspare_failovers_total{kind="switchover",reason="drain",result="success"} 0"#,
        r#"hotspare_false_failovers_total{reason="stalled"} 0"#,
        r#"hotspare_failover_duration_seconds_count{kind="failover",reason="operator"} 0"#,
        r#"hotspare_failover_phase_seconds_bucket{kind="switchover",phase="catch_up",le="+Inf"} 0"#,
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}");
    }
}

#[test]
fn every_invariant_is_there_before_the_first_violation() {
    let lines = scrape(|_| {});
    let found = lines.iter().filter(|line| line.starts_with("hotspare_invariant_violations_total{")).count();
    assert_eq!(found, Invariant::ALL.len());
    let line = r#"hotspare_invariant_violations_total{invariant="epoch_never_falls"} 0"#;
    assert!(lines.iter().any(|found| found == line), "{lines:?}");
}

#[test]
fn a_failover_is_in_the_buckets_above_its_duration() {
    let lines = scrape(|_| {});
    let bucket = |le: &str, count: u32| {
        let line = format!(
            r#"hotspare_failover_duration_seconds_bucket{{kind="failover",reason="process_dead",le="{le}"}} {count}"#
        );
        assert!(lines.contains(&line), "{line}");
    };
    bucket("0.03", 0);
    bucket("0.05", 1);
    bucket("30", 1);
    bucket("+Inf", 1);
}

#[test]
fn counters_of_the_history_are_absent_until_it_is_known() {
    let lines = scrape(|scene| scene.events = None);
    assert!(!lines.iter().any(|line| line.contains("failover")), "{lines:?}");
}

#[test]
fn counters_of_a_replica_that_restores_are_absent() {
    let lines = scrape(|scene| {
        scene.replicas.retain(|partition, _| *partition == PartitionId(0));
        scene.replicas.values_mut().for_each(|status| status.role = Role::Restoring);
    });
    for name in ["readings_total", "consumed_total", "commit_number", "readings_unaccounted"] {
        assert!(!lines.iter().any(|line| line.contains(name)), "{name}");
    }
    assert!(lines.iter().any(|line| line == r#"hotspare_replica_role{partition="0",role="restoring"} 1"#));
}

#[test]
fn only_the_leader_with_a_quorum_counts_nodes_and_partitions() {
    let exported = |leads: bool, quorum_age_ms: Option<u64>| {
        let lines = scrape(|scene| {
            let view = &mut scene.view;
            (view.is_leader, view.leader, view.quorum_age_ms) = (leads, Some(NodeId(57)), quorum_age_ms);
        });
        let has = |line: &str| lines.iter().any(|found| found == line);
        has(r#"hotspare_nodes{state="live"} 3"#) && has(r#"hotspare_partitions{state="active"} 2"#)
    };
    assert!(exported(true, Some(999)));
    assert!(!exported(true, Some(1000)) && !exported(true, None) && !exported(false, None));
}

#[test]
fn without_series_for_each_partition_they_are_summed_or_the_largest_is_shown() {
    let lines = scrape(|scene| scene.per_partition = false);
    for line in [
        r#"hotspare_consumed_total 14"#,
        r#"hotspare_readings_total{outcome="rejected"} 4"#,
        r#"hotspare_commit_number 81233"#,
        r#"hotspare_replica_role{role="active"} 1"#,
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}");
    }
    assert!(!lines.iter().any(|line| line.contains("partition=")));
}

#[test]
fn a_large_cluster_stays_under_ten_thousand_series() {
    let one = replicas(Instant::now()).remove(&PartitionId(1)).unwrap();
    let many: BTreeMap<_, _> = (0..64).map(|partition| (PartitionId(partition), one.clone())).collect();
    assert!(scrape(|scene| scene.replicas = many).len() < 10_000);
}
