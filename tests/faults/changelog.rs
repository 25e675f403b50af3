//! Records in the changelog that nobody can read, or that no active wrote: a replica that is harmed by them says so and is
//! never promoted; what is not harmed goes on, and the next record of the same key repairs the rest.

use std::time::{Duration, Instant};

use hotspare::changelog::Progress;
use serde_json::Value;

use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::records::Rec;
use crate::harness::verdict;
use crate::harness::workload::{MESSY, Workload};
use crate::{WITHIN, commit, local, wait_other_active};

fn started() -> TestCluster<'static> {
    TestCluster::of(Broker::shared(), 3, 1).config(MESSY).config("[replication]\nstandbys = 2").start()
}

fn standbys(cluster: &TestCluster<'_>, active: usize) -> Vec<usize> {
    (0..cluster.nodes.len()).filter(|node| *node != active).collect()
}

/// The newest record of each key of the changelog, the oldest first.
fn newest(cluster: &TestCluster<'_>) -> Vec<Rec> {
    let mut newest = Vec::new();
    for record in cluster.broker.read_committed(&cluster.changelog_topic()) {
        newest.retain(|other: &Rec| other.key != record.key);
        newest.push(record);
    }
    newest
}

/// Waits until each of these nodes has this role and tells (or does not tell) these parts of a problem.
fn wait_role(cluster: &mut TestCluster<'_>, nodes: &[usize], role: &str, parts: &[&str]) {
    cluster.wait_until(&format!("{nodes:?} are {role}, with {parts:?}"), WITHIN, |cluster| {
        let is_so = |node: &usize| {
            let Some(replica) = local(cluster, *node, 0) else { return false };
            let problem = replica["problem"].as_str().unwrap_or_default();
            let tells = parts.iter().all(|part| problem.contains(part)) && problem.is_empty() == parts.is_empty();
            replica["role"] == role && tells
        };
        nodes.iter().all(is_so).then_some(())
    });
}

fn unreadable(cluster: &TestCluster<'_>, node: usize) -> Option<String> {
    let page = cluster.nodes[node].http_get("/metrics").ok()?.body;
    let line = page.lines().find(|line| line.starts_with("hotspare_changelog_unreadable_records{"))?;
    line.rsplit(' ').next().map(str::to_owned)
}

fn produce(cluster: &TestCluster<'_>, workload: &mut Workload) {
    cluster.broker.produce(&cluster.topic, &workload.chunk(50));
}

/// Puts readings in until this node has committed some.
fn wait_commit(cluster: &mut TestCluster<'_>, workload: &mut Workload, active: usize) {
    let before = commit(cluster, active, 0);
    produce(cluster, workload);
    cluster.wait_until("the active commits", WITHIN, |cluster| (commit(cluster, active, 0) > before).then_some(()));
}

fn check(cluster: &mut TestCluster<'_>) {
    let report = cluster.wait_consumed();
    assert!(report.is_clean(), "{}", verdict::text(&report));
}

#[test]
fn unreadable_entries_are_told_and_written_anew_by_the_next_active() {
    let mut cluster = started();
    let mut workload = Workload::new(91, 1);
    let active = cluster.wait_active(0, WITHIN);
    wait_commit(&mut cluster, &mut workload, active);
    let others = standbys(&cluster, active);
    wait_role(&mut cluster, &others, "standby", &[]);
    let key = cluster.wait_until("an open window", WITHIN, |cluster| {
        let keys =
            newest(cluster).into_iter().rev().filter(|record| record.value.is_some()).filter_map(|record| record.key);
        keys.into_iter().find(|key| key[0] == 1)
    });
    let garbage = [
        Rec::new(0, key, b"\x01\xff\xff".to_vec()),
        Rec::new(0, b"\x01no window".to_vec(), b"what?".to_vec()),
        Rec::new(0, b"\x02newer".to_vec(), b"\x63new".to_vec()),
    ];
    cluster.broker.produce(&cluster.changelog_topic(), &garbage[..2]);
    wait_role(&mut cluster, &others, "standby", &["cannot be read", "changelog offset", "(window from ", "Repair: "]);
    for node in others.clone() {
        let (said, log) = (cluster.nodes[node].status().expect("it answers"), cluster.nodes[node].log_text());
        assert!(said["problems"].to_string().contains("cannot be read"), "{}", said["problems"]);
        assert!(log.contains("changelog record cannot be read"), "{log}");
        assert_eq!(unreadable(&cluster, node).as_deref(), Some("2"));
    }
    wait_commit(&mut cluster, &mut workload, active);
    cluster.nodes[active].kill9();
    let next = wait_other_active(&mut cluster, active);
    wait_commit(&mut cluster, &mut workload, next);
    cluster.nodes[active].start();
    cluster.wait_ready();
    let others = standbys(&cluster, next);
    wait_role(&mut cluster, &others, "standby", &[]);
    check(&mut cluster);
    assert_eq!(unreadable(&cluster, others[0]).as_deref(), Some("0"));
}

#[test]
fn an_unreadable_progress_record_keeps_every_standby_from_being_promoted() {
    let mut cluster = started();
    let mut workload = Workload::new(92, 1);
    let active = cluster.wait_active(0, WITHIN);
    wait_commit(&mut cluster, &mut workload, active);
    cluster.wait_clean();
    let others = standbys(&cluster, active);
    let garbage = [Rec::new(0, Progress::key().to_vec(), b"\x63progress of tomorrow".to_vec())];
    let parts = ["not promoted", "progress record", "version 99", "Repair: "];
    // The next commit makes it good.
    cluster.broker.produce(&cluster.changelog_topic(), &garbage);
    wait_role(&mut cluster, &others, "divergent", &parts);
    wait_commit(&mut cluster, &mut workload, active);
    wait_role(&mut cluster, &others, "standby", &[]);
    check(&mut cluster);
    // Where no commit comes any more, nobody takes over, also not one that comes back, until the record is replaced.
    let good = newest(&cluster).into_iter().find(|record| record.key.as_deref() == Some(Progress::key()));
    cluster.broker.produce(&cluster.changelog_topic(), &garbage);
    wait_role(&mut cluster, &others, "divergent", &parts);
    cluster.nodes[active].kill9();
    cluster.nodes[active].start();
    produce(&cluster, &mut workload);
    cluster.wait_until("it is said why there is no active", WITHIN, |cluster| {
        let status = cluster.nodes[others[0]].status()?;
        status["problems"].to_string().contains("divergent").then_some(())
    });
    wait_role(&mut cluster, &[0, 1, 2], "divergent", &parts);
    let before = newest(&cluster);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        assert_eq!(cluster.active_of(0), None);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(newest(&cluster), before, "nobody wrote");
    cluster.broker.produce(&cluster.changelog_topic(), &[good.expect("a progress record")]);
    cluster.wait_active(0, WITHIN);
    check(&mut cluster);
}

#[test]
fn a_replica_that_cannot_be_built_is_not_built_without_pause() {
    let mut cluster = started();
    let mut workload = Workload::new(93, 1);
    let active = cluster.wait_active(0, WITHIN);
    // A window that is open at one commit is closed at another.
    for _ in 0..4 {
        wait_commit(&mut cluster, &mut workload, active);
    }
    cluster.wait_clean();
    let others = standbys(&cluster, active);
    // An entry of a window that is closed: whoever reads it has one entry more than the active.
    let all = cluster.broker.read_committed(&cluster.changelog_topic());
    let closed = newest(&cluster).into_iter().find(|record| record.value.is_none()).expect("a closed window");
    let forged = all.into_iter().find(|record| record.key == closed.key && record.value.is_some()).expect("its entry");
    cluster.broker.produce(&cluster.changelog_topic(), &[forged]);
    wait_role(&mut cluster, &others, "divergent", &["digest differs", "rebuilding"]);
    std::thread::sleep(Duration::from_secs(8));
    wait_commit(&mut cluster, &mut workload, active);
    for node in others.clone() {
        let log = cluster.nodes[node].log_text();
        let times = log.lines().filter(|line| line.contains("rebuilding from the changelog")).count();
        assert!((2..=6).contains(&times), "rebuilt {times} times; after 0, 1, 2 and 4 s it is expected");
        let role = local(&cluster, node, 0).map(|replica| replica["role"].clone());
        assert!(role != Some(Value::from("standby")), "{role:?}");
    }
    cluster.broker.produce(&cluster.changelog_topic(), &[closed]);
    wait_role(&mut cluster, &others, "standby", &[]);
    check(&mut cluster);
}
