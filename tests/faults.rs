//! Faults other than a plain kill: what is said, what goes on, and that nothing is lost by them.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

#[path = "faults/brokers.rs"]
mod brokers;
#[path = "faults/changelog.rs"]
mod changelog;
#[path = "faults/checkpoints.rs"]
mod checkpoints;
#[path = "faults/clocks.rs"]
mod clocks;
#[path = "faults/disks.rs"]
mod disks;
#[path = "faults/records.rs"]
mod records;
#[path = "faults/start.rs"]
mod start;

use std::time::{Duration, Instant};

use harness::broker::Broker;
use harness::cluster::TestCluster;
use harness::workload::{MESSY, Workload};
use serde_json::Value;

/// Far more than anything here takes, for a machine that is busy with other things.
const WITHIN: Duration = Duration::from_secs(90);

/// What a node says of its own replica of a partition.
fn local(cluster: &TestCluster<'_>, node: usize, partition: u32) -> Option<Value> {
    let status = cluster.nodes[node].status()?;
    let replicas = status["local"].as_array()?;
    replicas.iter().find(|replica| replica["partition"] == partition).cloned()
}

fn commit(cluster: &TestCluster<'_>, node: usize, partition: u32) -> Option<u64> {
    local(cluster, node, partition)?["progress"]["commit"].as_u64()
}

/// Waits for an active of partition 0 that is another node.
fn wait_other_active(cluster: &mut TestCluster<'_>, old: usize) -> usize {
    cluster.wait_until("another node is active", WITHIN, |cluster| {
        let others = (0..cluster.nodes.len()).filter(|node| *node != old);
        others.into_iter().find(|node| cluster.nodes[*node].is_active(0))
    })
}

fn wait_standby(cluster: &mut TestCluster<'_>, node: usize) {
    cluster.wait_until("the zombie is a standby", WITHIN, |cluster| {
        let is_standby = local(cluster, node, 0).is_some_and(|replica| replica["role"] == "standby");
        (is_standby && !cluster.nodes[node].is_active(0)).then_some(())
    });
}

/// Puts in a chunk every now and then.
fn feed(cluster: &TestCluster<'_>, workload: &mut Workload, time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_active_that_was_frozen_becomes_a_standby_and_never_writes() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true\n[replication]\nstandbys = 2")
        .node_config(2, "[node]\nnofailover = true")
        .start();
    let mut workload = Workload::new(11, 1);
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    let frozen = cluster.wait_active(0, WITHIN);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.nodes[frozen].sigstop();
    wait_other_active(&mut cluster, frozen);
    feed(&cluster, &mut workload, Duration::from_secs(10));
    cluster.nodes[frozen].sigcont();
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    wait_standby(&mut cluster, frozen);
    let event = cluster.wait_until("the history tells that it was heard again", WITHIN, |cluster| {
        cluster.history().into_iter().find(|event| event["false_positive"] == true)
    });
    assert_eq!(event["from"]["slot"], cluster.nodes[frozen].slot, "{event}");
    assert_eq!(event["reason"], "silent", "{event}");
    cluster.wait_clean();

    // Once more, frozen in the middle of a transaction: the node that comes next is armed.
    cluster.nodes[frozen].kill9();
    cluster.nodes[frozen].start_with_env(&[("HOTSPARE_FAILPOINTS", "before_commit=stop@3")]);
    cluster.wait_ready();
    let active = wait_other_active(&mut cluster, frozen);
    cluster.nodes[active].kill9();
    cluster.nodes[active].start();
    cluster.wait_until("the armed node has taken over and is frozen", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(5));
        cluster.nodes[frozen].is_stopped().then_some(())
    });
    wait_other_active(&mut cluster, frozen);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.nodes[frozen].sigcont();
    wait_standby(&mut cluster, frozen);
    cluster.wait_clean();
    assert!(cluster.nodes[frozen].log_text().contains("fenced"), "its transaction was refused");
}

#[test]
fn nodes_live_through_restarts_and_absence_of_the_broker() {
    let broker = Broker::start(&[]);
    let mut cluster = TestCluster::of(&broker, 3, 2).config(MESSY).config("[node]\nshutdown_timeout = \"2s\"").start();
    let mut workload = Workload::new(12, 2);
    let topic = cluster.topic.clone();
    // Under load.
    std::thread::scope(|scope| {
        let (broker, topic, workload) = (&broker, &topic, &mut workload);
        let load = scope.spawn(move || {
            for _ in 0..30 {
                broker.produce(topic, &workload.chunk(40));
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        std::thread::sleep(Duration::from_millis(200));
        broker.restart();
        load.join().expect("all written");
    });
    cluster.wait_clean();
    // Killed in the middle, and away for a while.
    broker.produce(&topic, &workload.chunk(200));
    broker.kill9();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(6) {
        for node in &mut cluster.nodes {
            assert!(node.is_running(), "{} ended: {}", node.slot, node.log_tail(20));
            let alive = node.http_get("/livez").expect("it answers");
            assert_eq!(alive.status, 200, "{}", alive.body);
            node.http_get("/readyz").expect("it answers");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    broker.start_again();
    broker.produce(&topic, &workload.chunk(100));
    cluster.wait_clean();
    // A broker that does not answer keeps no node from ending, even in the middle of a commit.
    broker.produce(&topic, &workload.chunk(200));
    broker.pause();
    cluster.nodes.iter_mut().for_each(harness::node::Node::sigterm);
    for node in &mut cluster.nodes {
        node.wait_exit_code(0, WITHIN);
    }
    broker.resume();
    cluster.nodes.iter_mut().for_each(harness::node::Node::start);
    cluster.wait_ready();
    cluster.wait_clean();
}

#[test]
fn a_node_that_is_asked_to_end_hands_over_and_exits_0() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2).config(MESSY).start();
    let mut workload = Workload::new(13, 2);
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    let active = cluster.wait_active(0, WITHIN);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.nodes[active].sigterm();
    cluster.nodes[active].wait_exit_code(0, WITHIN);
    let slot = cluster.nodes[active].slot.clone();
    let event = cluster.wait_until("the history tells of the switchover", WITHIN, |cluster| {
        cluster
            .history()
            .into_iter()
            .find(|event| event["kind"] == "switchover" && event["partition"] == 0 && event["result"] == "success")
    });
    assert_eq!((&event["reason"], &event["from"]["slot"]), (&"shutdown".into(), &slot.into()), "{event}");
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    wait_other_active(&mut cluster, active);
    cluster.wait_clean();
    cluster.nodes[active].start();
    cluster.wait_ready();
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.nodes.iter_mut().for_each(harness::node::Node::sigterm);
    for node in &mut cluster.nodes {
        node.wait_exit_code(0, WITHIN);
    }
    cluster.nodes.iter_mut().for_each(harness::node::Node::start);
    cluster.wait_ready();
    cluster.wait_clean();
}

#[test]
fn an_active_goes_on_without_a_control_plane() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2).config(MESSY).start();
    let mut workload = Workload::new(14, 2);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    let left = cluster.wait_active(0, WITHIN);
    let mine: Vec<u32> = (0..2).filter(|partition| cluster.nodes[left].is_active(*partition)).collect();
    for node in (0..3).filter(|node| *node != left) {
        cluster.nodes[node].kill9();
    }
    for _ in 0..3 {
        let before: Vec<_> = mine.iter().map(|partition| commit(&cluster, left, *partition)).collect();
        cluster.broker.produce(&cluster.topic, &workload.chunk(100));
        for (&partition, before) in mine.iter().zip(before) {
            cluster.wait_until("the active commits without a quorum", WITHIN, |cluster| {
                (commit(cluster, left, partition) > before).then_some(())
            });
        }
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(cluster.nodes[left].http_get("/livez").expect("it answers").status, 200);
    }
    let status = cluster.nodes[left].status().expect("it answers");
    assert!(status["problems"].to_string().contains("quorum"), "{}", status["problems"]);
    for node in (0..3).filter(|node| *node != left) {
        cluster.nodes[node].start();
    }
    cluster.wait_ready();
    cluster.wait_clean();
}
