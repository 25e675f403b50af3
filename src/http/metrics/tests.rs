use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use hotspare_cluster::{NodeId, PartitionId, Role, Totals, View, invariants::Invariant};

use super::{Facts, text};
use crate::{
    http::{
        fixture::{replicas, rules, snapshot, view},
        status::status,
    },
    metrics::{
        Kind, Meters,
        catalogue::{ALL, COMMITS, FENCED, HTTP_REQUEST_SECONDS, HTTP_REQUESTS, TOPIC_SETTING_WRONG},
    },
    partition::status::ReplicaStatus,
};

/// What is scraped, with its own parts.
struct Scene {
    view: View,
    replicas: BTreeMap<PartitionId, ReplicaStatus>,
    meters: Meters,
    history_known: bool,
    per_partition: bool,
}

/// All lines of hotspare's own, without the labels that stand on each sample.
fn lines(change: impl FnOnce(&mut Scene)) -> Vec<String> {
    let now = Instant::now();
    let mut scene = Scene {
        view: view(),
        replicas: replicas(now),
        meters: Meters::default(),
        history_known: true,
        per_partition: true,
    };
    change(&mut scene);
    let snapshot = snapshot(scene.view.clone());
    let facts = Facts {
        cluster: "plant-a",
        slot: "hotspare-2",
        view: &scene.view,
        status: &status(&snapshot),
        replicas: &scene.replicas,
        tally: &scene.meters.tally(),
        history_known: scene.history_known,
        per_partition: scene.per_partition,
        settings: &rules().shown,
        devices_split: 3,
        kafka_age: Duration::from_secs(2),
        tick_age: Duration::from_millis(50),
        now,
        wall_ms: snapshot.at.0,
    };
    let text = text(&facts).unwrap();
    let begin = if cfg!(target_os = "linux") { "process_start_time_seconds{cluster=\"plant-a\",slot=" } else { "" };
    assert!(text.lines().any(|line| line.starts_with(begin)), "{text}");
    let own = text.lines().filter(|line| line.contains("hotspare_"));
    let short = |line: &str| {
        let labels = "cluster=\"plant-a\",slot=\"hotspare-2\"";
        let stands = line.starts_with("hotspare_") && line.contains(labels);
        assert!(stands || line.starts_with("# "), "{line}");
        line.replacen(&format!("{labels},"), "", 1).replacen(&format!("{{{labels}}}"), "", 1)
    };
    own.map(short).collect()
}

/// The samples alone.
fn scrape(change: impl FnOnce(&mut Scene)) -> Vec<String> {
    let mut lines = lines(change);
    lines.retain(|line| !line.starts_with('#'));
    lines
}

/// A node that has seen everything at least once leads, so that each metric has a series.
fn see_everything(scene: &mut Scene) {
    (scene.view.is_leader, scene.view.leader, scene.view.quorum_age_ms) = (true, Some(NodeId(57)), Some(10));
    scene.view.refused_connections.insert("cluster_id".to_owned(), 1);
    scene.view.meters.peer_rtt.entry("hotspare-0".to_owned()).or_default().observe(&[1.0], 0.1);
    scene.meters.set(&TOPIC_SETTING_WRONG, &["t", "exists"], 0.0);
    scene.meters.count(&HTTP_REQUESTS, &["/metrics", "200"]);
    scene.meters.time(&HTTP_REQUEST_SECONDS, &["/metrics", "200"], Duration::from_millis(1));
    scene.replicas.entry(PartitionId(0)).and_modify(|status| {
        status.role = Role::Restoring;
    });
}

/// Name and labels of a sample.
fn parts(line: &str) -> (&str, Vec<(&str, &str)>) {
    let (name, rest) = line.split_once('{').unwrap_or_else(|| line.split_once(' ').unwrap());
    let labels = rest.rsplit_once("} ").map_or("", |(labels, _)| labels);
    (name, labels.split("\",").filter_map(|pair| pair.trim_end_matches('"').split_once("=\"")).collect())
}

#[test]
fn every_metric_of_the_catalogue_is_exported_and_no_other_with_its_labels_and_values() {
    let lines = lines(see_everything);
    let mut seen = BTreeSet::new();
    for line in lines.iter().filter(|line| !line.starts_with('#')) {
        let (name, labels) = parts(line);
        let name = name.strip_prefix("hotspare_").unwrap();
        let metric = ALL.iter().find(|metric| match metric.kind {
            Kind::Histogram(_) => {
                name.strip_prefix(metric.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
            }
            _ => name == metric.name,
        });
        let metric = metric.unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        seen.insert(metric.name);
        let own: Vec<_> = labels.into_iter().filter(|(name, _)| *name != "le").collect();
        let names: Vec<&str> = own.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, metric.labels.iter().map(|label| label.name).collect::<Vec<_>>(), "{line}");
        for (label, (_, value)) in metric.labels.iter().zip(own) {
            assert!(label.values.is_empty() || label.values.contains(&value), "{line}");
        }
    }
    let all: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(seen, all);
}

#[test]
fn the_text_for_a_known_node_is_this() {
    let lines = lines(|_| {});
    // Buckets, and series that are zero because nothing has happened yet, are checked below.
    let is_shown = |line: &&String| {
        let zero = line.ends_with(" 0") && !line.contains("unaccounted");
        !zero && !line.contains("_bucket") && !line.contains("_info{") && !line.starts_with("# HELP")
    };
    let found: Vec<&str> = lines.iter().filter(is_shown).map(String::as_str).collect();
    assert_eq!(found, include_str!("golden.txt").lines().collect::<Vec<_>>(), "found:\n{}", found.join("\n"));
    let count = |begin: &str| lines.iter().filter(|line| line.starts_with(begin)).count();
    assert_eq!(count("# HELP"), count("# TYPE"));
    let build = format!("hotspare_build_info{{version=\"{}\",commit=", env!("CARGO_PKG_VERSION"));
    assert_eq!(count(&build), 1);
    assert_eq!(count(r#"hotspare_node_info{node_id="57",store_uuid="disk-2",zone="z1"} 1"#), 1);
    assert_eq!(count(r#"hotspare_config_info{hash="0000000000000077",semantics_hash="000000000000abcd"} 1"#), 1);
}

#[test]
fn every_series_of_the_history_is_there_before_the_first_event() {
    let lines = scrape(|scene| {
        scene.view.events_total.clear();
        scene.view.totals = Totals::default();
    });
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
fn what_threads_counted_is_beside_the_zeros_of_what_they_did_not() {
    let lines = scrape(|scene| {
        scene.meters.count(&COMMITS, &["aborted"]);
        scene.meters.count(&COMMITS, &["aborted"]);
        scene.meters.count(&FENCED, &["1", "superseded"]);
    });
    for line in [
        r#"hotspare_commits_total{result="aborted"} 2"#,
        r#"hotspare_commits_total{result="committed"} 0"#,
        r#"hotspare_fenced_total{partition="1",cause="superseded"} 1"#,
        r#"hotspare_fenced_total{partition="0",cause="unknown"} 0"#,
        r#"hotspare_restore_seconds_count{source="changelog"} 0"#,
    ] {
        assert!(lines.iter().any(|found| found == line), "{line}");
    }
}

#[test]
fn other_settings_on_a_live_node_are_a_mismatch() {
    let mismatch = |hash: u64| {
        let lines = scrape(|scene| scene.view.nodes[0].report.as_mut().unwrap().config_hash = hash);
        lines.iter().any(|line| line == "hotspare_config_mismatch 1")
    };
    assert_eq!((mismatch(0x77), mismatch(0x78), mismatch(0)), (false, true, false));
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
    let lines = scrape(|scene| scene.history_known = false);
    let own = ["node_nofailover", "blocked_no_quorum"];
    let of_history = |line: &&String| line.contains("failover") && !own.iter().any(|name| line.contains(name));
    assert_eq!(lines.iter().find(of_history), None);
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
    let series = scrape(|scene| {
        see_everything(scene);
        scene.replicas = many;
    });
    assert!(series.len() < 10_000, "{}", series.len());
}
