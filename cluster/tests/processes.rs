//! Nodes as processes of their own, killed with SIGKILL.
#![allow(missing_docs)]

mod common;

use common::{Place, Process, wait};
use hotspare_cluster::{EventKind, EventResult, HistoryEvent, Reason};

const AS_CHILD: [&str; 3] = ["--exact", "child", "--nocapture"];

/// Not a test: what a child process runs.
#[test]
fn child() {
    common::be_child_if_asked();
}

async fn settled(nodes: &[Process], live: usize) {
    wait("all have settled", || {
        let ready = |n: &Process| n.last().is_some_and(|t| t.settled && t.leader.is_some() && t.live == live);
        nodes.iter().all(ready).then_some(())
    })
    .await;
}

async fn killed(leader: bool) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &["a", "b", "c"], 6);
    let mut nodes: Vec<_> = place.addresses.keys().map(|slot| Process::start(&place, slot, &AS_CHILD)).collect();
    settled(&nodes, 3).await;
    let at = nodes.iter().position(|n| n.last().unwrap().is_leader == leader).unwrap();
    let mut victim = nodes.remove(at);
    let before = victim.last().unwrap();
    assert_eq!(before.actives.len(), 2);
    victim.kill();
    wait("its partitions are active elsewhere, with higher epochs", || {
        let told: Vec<_> = nodes.iter().filter_map(Process::last).collect();
        let taken = |(p, epoch): &(_, _)| told.iter().any(|t| t.actives.iter().any(|(q, e)| q == p && e > epoch));
        before.actives.iter().all(taken).then_some(())
    })
    .await;
    settled(&nodes, 2).await;
    let events = wait("the history tells it", || {
        let events: Vec<_> = nodes[0].history().into_iter().filter(|e| e.kind == EventKind::Failover).collect();
        (events.len() == 2 && events.iter().all(|e| e.result == EventResult::Success)).then_some(events)
    })
    .await;
    for event in events {
        assert_eq!(event.reason, Reason::ProcessDead);
        assert_eq!(event.from.as_ref().map(|f| f.node_id), Some(before.node_id));
        let seen: Vec<_> = event.evidence.iter().map(|e| e.what.as_str()).collect();
        assert_eq!(seen, ["connection_reset", "reconnect_refused"]);
        assert!(event.total_ms.is_some_and(|t| t > 0.0 && t < 10_000.0), "{event:?}");
    }

    nodes.push(Process::start(&place, &victim.slot, &AS_CHILD));
    settled(&nodes, 3).await;
    let back = nodes[2].last().unwrap();
    assert_eq!(back.node_id, before.node_id);
    assert!(back.actives.is_empty(), "a new process never resumes as active: {back:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_active_is_replaced_on_proof() {
    killed(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_raft_leader_is_replaced_together_with_its_partitions() {
    killed(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_restarts_faster_than_the_failover_does_not_resume() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &["a", "b", "c"], 3);
    let mut nodes: Vec<_> = place.addresses.keys().map(|slot| Process::start(&place, slot, &AS_CHILD)).collect();
    settled(&nodes, 3).await;
    let at = nodes.iter().position(|n| !n.last().unwrap().is_leader).unwrap();
    let mut victim = nodes.remove(at);
    let before = victim.last().unwrap();
    victim.kill();
    nodes.push(Process::start(&place, &victim.slot, &AS_CHILD));
    settled(&nodes, 3).await;
    wait("all its partitions have a higher epoch", || {
        let told = nodes[0].last()?;
        let newer = |(p, epoch): &(_, _)| told.epochs.iter().any(|(q, e, _)| q == p && e > epoch);
        before.actives.iter().all(newer).then_some(())
    })
    .await;
}

async fn frozen(leader: bool) {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &["a", "b", "c"], 3);
    let start = |slot| Process::start(&place, slot, &AS_CHILD);
    let mut nodes: Vec<_> = place.addresses.keys().map(|slot| start(slot)).collect();
    settled(&nodes, 3).await;
    let is = |n: &Process| n.last().unwrap().is_leader == leader;
    let at = nodes.iter().position(is).unwrap();
    let victim = nodes.remove(at);
    let before = victim.last().unwrap();
    victim.signal(rustix::process::Signal::STOP);
    settled(&nodes, 2).await;
    let event = wait("the history tells it", || {
        let of = |e: &HistoryEvent| e.kind == EventKind::Failover && e.result == EventResult::Success;
        nodes[0].history().into_iter().rev().find(of)
    })
    .await;
    assert_eq!(event.reason, Reason::Silent, "{event:?}");
    let node_id = event.from.as_ref().map(|f| f.node_id);
    assert_eq!((node_id, event.false_positive), (Some(before.node_id), false));
    assert_eq!(event.evidence.len(), 2);
    assert_ne!(event.evidence[0].seen_by, event.evidence[1].seen_by, "another node confirmed");

    victim.signal(rustix::process::Signal::CONT);
    nodes.push(victim);
    settled(&nodes, 3).await;
    wait("it knows that it was deposed", || nodes[2].last()?.actives.is_empty().then_some(())).await;
    wait("the failover is known to have been false", || {
        let history = nodes[0].history();
        history.iter().any(|e| e.seq == event.seq && e.false_positive).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_active_is_replaced_on_confirmed_silence_and_learns_of_it() {
    frozen(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_raft_leader_is_replaced_too() {
    frozen(true).await;
}
