use hotspare_cluster::{Liveness, NodeId, PartitionId, Role};
use serde_json::Value;

use super::{Snapshot, status};
use crate::{
    http::{
        document::{HealthState, PartitionState, StatusDoc},
        fixture::{healthy_view, snapshot, view},
    },
    partition::devices::Split,
};

fn of(change: impl FnOnce(&mut Snapshot)) -> StatusDoc {
    let mut snapshot = snapshot(healthy_view());
    change(&mut snapshot);
    status(&snapshot)
}

fn role(snapshot: &mut Snapshot, node: usize, replica: usize, role: Role) {
    snapshot.view.nodes[node].report.as_mut().unwrap().replicas[replica].role = role;
}

#[test]
fn a_cluster_of_which_nothing_is_missing_is_ok() {
    let status = of(|_| {});
    assert_eq!((status.health, status.problems.len()), (HealthState::Ok, 0), "{:?}", status.problems);
    assert_eq!(status.summary, "2 partitions, all active; survives 1 failure");
}

/// What is changed in a healthy cluster.
type Change = fn(&mut Snapshot);

#[test]
fn a_partition_without_a_working_active_is_an_outage() {
    let cases: [(Change, &str); 5] = [
        (|s| s.view.partitions[0].active = None, "no active for 0"),
        (|s| s.view.nodes[0].state = Liveness::Dead, "no active for 0"),
        (|s| role(s, 0, 0, Role::Fenced), "no active for 0"),
        (|s| role(s, 0, 0, Role::Promoting), "being promoted for 0"),
        (|s| s.view.partitions.clear(), "no partition is known here"),
    ];
    for (change, problem) in cases {
        first_problem(change, HealthState::Outage, problem);
    }
}

#[test]
fn what_else_is_missing_is_degraded() {
    let standby = "no promotable standby for 1";
    let cases: [(Change, &str); 11] = [
        (split, "2 devices on more than one partition, so their windows are split, such as \"b\" on 0, 3"),
        (|s| s.view.nodes[0].state = Liveness::Suspect, "node hotspare-0 is suspect, last heard 21 ms ago"),
        (|s| role(s, 1, 0, Role::Restoring), standby),
        (|s| role(s, 1, 0, Role::Divergent), standby),
        (|s| s.view.nodes[1].draining = true, standby),
        (|s| s.view.leader = None, "no quorum is known here"),
        (|s| s.view.is_leader = true, "no quorum answered the Raft leader yet"),
        (|s| s.view.problems.push("raft has stopped".into()), "raft has stopped"),
        (|s| s.topics = Some("topic x has y".into()), "topic x has y"),
        (|s| s.replicas.values_mut().for_each(|r| r.problem = Some("disk".into())), "partition 0: disk"),
        (|s| s.replicas.values_mut().for_each(|r| r.checkpoint_problem = Some("full".into())), "partition 0: full"),
    ];
    for (change, problem) in cases {
        first_problem(change, HealthState::Degraded, problem);
    }
}

fn split(snapshot: &mut Snapshot) {
    let split = Split { device: "b".to_owned(), partitions: vec![PartitionId(0), PartitionId(3)] };
    snapshot.devices_split = (2, vec![split]);
}

fn first_problem(change: Change, health: HealthState, problem: &str) {
    let status = of(change);
    assert_eq!(status.health, health, "{problem}: {:?}", status.problems);
    assert!(status.problems[0].starts_with(problem), "{problem}: {:?}", status.problems);
    assert!(status.summary.starts_with(problem), "{problem}: {}", status.summary);
}

#[test]
fn an_active_that_was_not_heard_of_yet_is_unknown_and_no_outage() {
    let status = of(|s| {
        s.view.nodes[0].state = Liveness::Unknown;
        s.view.nodes[0].report = None;
    });
    assert_eq!(status.partitions[0].state, PartitionState::Unknown);
    assert_eq!(status.partitions[0].commit_age_ms, None);
    assert_eq!(status.health, HealthState::Degraded);
}

#[test]
fn a_node_that_hears_nobody_says_so() {
    let status = of(|s| s.view.nodes.iter_mut().take(2).for_each(|node| node.state = Liveness::Dead));
    assert!(status.problems.iter().any(|p| p.starts_with("cut off")), "{:?}", status.problems);
    assert_eq!(status.tolerance, Some(0));
}

#[test]
fn a_standby_that_cannot_take_over_says_why() {
    let cases: [(Change, &str); 8] = [
        (|s| s.view.nodes[1].state = Liveness::Dead, "dead"),
        (|s| s.view.nodes[1].state = Liveness::Unknown, "unknown"),
        (|s| s.view.nodes[1].stopping = true, "stopping"),
        (|s| s.view.nodes[1].draining = true, "draining"),
        (|s| s.view.nodes[1].report.as_mut().unwrap().semantics_hash = 1, "semantics_differ"),
        (|s| s.view.nodes[1].report.as_mut().unwrap().replicas.clear(), "no_replica"),
        (|s| role(s, 1, 0, Role::Divergent), "divergent"),
        (|s| s.view.nodes[1].report.as_mut().unwrap().replicas[0].lag_records = 10_001, "cold"),
    ];
    for (change, reason) in cases {
        let status = of(change);
        let standby = &status.partitions[1].standbys[0];
        assert_eq!((standby.promotable, standby.reason.as_deref()), (false, Some(reason)));
        assert_eq!(status.partitions[1].promotable, 0);
    }
}

#[test]
fn what_is_not_known_is_null_and_never_zero() {
    let status = of(|s| {
        let replica = &mut s.view.nodes[1].report.as_mut().unwrap().replicas[0];
        (replica.role, replica.lag_records, replica.lag_ms) = (Role::Restoring, 0, i64::MAX);
        s.view.nodes[2].report.as_mut().unwrap().replicas[0].lag_records = 5;
        s.view.nodes[2].report.as_mut().unwrap().replicas[0].lag_ms = i64::MAX;
    });
    assert_eq!((status.nodes[1].lag_records, status.nodes[1].lag_ms), (None, None));
    assert_eq!((status.nodes[2].lag_records, status.nodes[2].lag_ms), (Some(5), None));
    assert_eq!(status.partitions[1].standbys[0].lag_records, None);
}

#[test]
fn the_age_of_a_commit_includes_that_of_the_report() {
    let status = of(|_| {});
    assert_eq!(status.partitions[0].commit_age_ms, Some(12 + 21));
    assert_eq!(status.partitions[1].commit_age_ms, Some(12));
}

#[test]
fn tolerance_counts_voters_and_copies() {
    assert_eq!(of(|_| {}).tolerance, Some(1));
    assert_eq!(status(&snapshot(view())).tolerance, Some(0), "partition 1 has one copy");
    assert_eq!(of(|s| s.view.voters = vec![NodeId(57)]).tolerance, Some(1));
    assert_eq!(
        of(|s| s.view.nodes[0].state = Liveness::Suspect).tolerance,
        Some(0),
        "two of three voters are a quorum"
    );
    assert_eq!(of(|s| s.view.voters.clear()).tolerance, None);
}

#[test]
fn the_document_has_the_names_that_clients_read_and_can_be_read_back() {
    let document = status(&snapshot(view()));
    let json: Value = serde_json::to_value(&document).unwrap();
    assert_eq!(serde_json::from_value::<StatusDoc>(json.clone()).unwrap(), document);
    for (pointer, expected) in [
        ("/cluster", "\"plant-a\""),
        ("/cluster_id", "\"7f3c9d10\""),
        ("/self", r#"{"node_id":57,"slot":"hotspare-2"}"#),
        ("/at", "\"2026-03-01T14:00:00.000Z\""),
        ("/health", "\"degraded\""),
        ("/problems", r#"["no promotable standby for 1"]"#),
        ("/leader/slot", "\"hotspare-1\""),
        ("/term", "12"),
        ("/tolerance", "0"),
        ("/nodes/0/state", "\"live\""),
        ("/partitions/0/epoch", "42"),
        ("/partitions/0/state", "\"active\""),
        ("/partitions/0/active/slot", "\"hotspare-0\""),
        ("/partitions/0/since", "\"2026-02-26T09:53:20.000Z\""),
        ("/partitions/1/standbys/0/reason", "\"restoring\""),
        ("/partitions/1/standbys/0/lag_records", "912300"),
        ("/local/0/role", "\"standby\""),
        ("/local/0/lag_records", "2"),
        ("/local/0/lag_ms", "250"),
        ("/local/0/checkpoint_age_ms", "30000"),
        ("/local/0/progress/digest", "\"00000000000000000000000000009f3c\""),
        ("/local/0/progress/counters/consumed", "7"),
        ("/local/0/progress/counters/rejected", r#"{"bad_json":1,"future":1}"#),
        ("/local/1/input_lag_records", "3"),
    ] {
        assert_eq!(json.pointer(pointer).unwrap_or_else(|| panic!("{pointer}")).to_string(), expected, "{pointer}");
    }
}
