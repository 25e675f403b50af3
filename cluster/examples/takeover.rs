//! Measures how long it takes from the SIGKILL of a node until its partitions are ordered elsewhere.
//!
//! `cargo run -p hotspare-cluster --example takeover -- [ROUNDS] [PARTITIONS]`. Three processes on loopback; each
//! round kills one, waits until all its partitions are ordered to survivors, and starts it again. Half of the rounds
//! kill the Raft leader.
#![allow(missing_docs)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::Write;
use std::time::Duration;

use common::{Place, Process, Told, wait};
use hotspare_cluster::{EventKind, EventResult, HistoryEvent};

fn say(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

async fn settled(nodes: &[Process], live: usize) {
    wait("all have settled", || {
        let ready = |n: &Process| n.last().is_some_and(|t| t.settled && t.leader.is_some() && t.live == live);
        nodes.iter().all(ready).then_some(())
    })
    .await;
}

/// When the last of the dead node's partitions was ordered to a survivor.
fn taken_over(nodes: &[Process], before: &Told, killed_us: u64) -> Option<u64> {
    let mut last = 0;
    for (partition, epoch) in &before.actives {
        let first = nodes.iter().filter_map(|n| {
            let told = n.told.lock().unwrap();
            let has = |t: &&Told| t.at_us > killed_us && t.actives.iter().any(|(p, e)| p == partition && e > epoch);
            told.iter().find(has).map(|t| t.at_us)
        });
        last = last.max(first.min()?);
    }
    Some(last - killed_us)
}

fn show(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |q: f64| values.get(((values.len() as f64 - 1.0) * q).round() as usize).copied().unwrap_or(f64::NAN);
    let (n, p50, p95, max) = (values.len(), at(0.5), at(0.95), at(1.0));
    say(&format!("{name:<44} n {n:>4}   p50 {p50:>7.2}   p95 {p95:>7.2}   max {max:>7.2} ms"));
}

fn phases(role: &str, events: &[HistoryEvent]) {
    type Phase = fn(&HistoryEvent) -> f64;
    let all: [(&str, Phase); 3] =
        [("detect", |e| e.phases_ms.detect), ("elect", |e| e.phases_ms.elect), ("decide", |e| e.phases_ms.decide)];
    for (name, of) in all {
        show(&format!("  {role}: phase {name}"), events.iter().map(of).collect());
    }
}

async fn measure(rounds: usize, partitions: u32) {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::new(folder.path(), &["a", "b", "c"], partitions);
    place.antiflap_base_ms = 0; // the same partitions are hit again and again
    let mut nodes: Vec<_> = place.addresses.keys().map(|slot| Process::start(&place, slot, &[])).collect();
    let mut took: [Vec<f64>; 2] = Default::default();
    let mut events: [Vec<HistoryEvent>; 2] = Default::default();
    for round in 0..rounds {
        settled(&nodes, 3).await;
        tokio::time::sleep(Duration::from_millis(1_100)).await; // raft.proof_election_gap
        let leader = round % 2 == 0;
        let busy = |n: &Process| n.last().is_some_and(|t| t.is_leader == leader && !t.actives.is_empty());
        let Some(at) = nodes.iter().position(busy) else {
            // Nothing is rebalanced in so short a time: give the idle node something to lose.
            let most = nodes.iter().enumerate().max_by_key(|(_, n)| n.last().map_or(0, |t| t.actives.len()));
            let at = most.map_or(0, |(at, _)| at);
            nodes[at].kill();
            let slot = nodes[at].slot.clone();
            settled(&nodes[..at], 2).await;
            nodes[at] = Process::start(&place, &slot, &[]);
            continue;
        };
        let mut victim = nodes.remove(at);
        let before = victim.last().unwrap();
        let killed_us = victim.kill();
        let us = wait("its partitions are taken over", || taken_over(&nodes, &before, killed_us)).await;
        took[usize::from(leader)].push(us as f64 / 1000.0);
        settled(&nodes, 2).await;
        let newest = wait("the history tells it", || {
            let ended = |e: &HistoryEvent| e.kind == EventKind::Failover && e.result == EventResult::Success;
            let of = |e: &HistoryEvent| e.from.as_ref().is_some_and(|f| f.node_id == before.node_id);
            let fresh = |e: &HistoryEvent| e.at.0 >= i64::try_from(killed_us / 1000).unwrap_or(0) - 5;
            let found: Vec<_> = nodes[0].history().into_iter().filter(|e| ended(e) && of(e) && fresh(e)).collect();
            (found.len() == before.actives.len()).then_some(found)
        })
        .await;
        events[usize::from(leader)].extend(newest);
        nodes.push(Process::start(&place, &victim.slot, &[]));
    }
    let fsync = nodes.iter().filter_map(Process::last).map(|t| t.fsync_us_max).max().unwrap_or(0);
    for (leader, role) in [(0, "a follower"), (1, "the raft leader")] {
        show(&format!("{role} killed, all orders arrived"), took[leader].clone());
        phases(role, &events[leader]);
    }
    say(&format!("longest fsync of the raft log: {:.1} ms", fsync as f64 / 1000.0));
}

fn main() {
    common::be_child_if_asked();
    let args: Vec<u32> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let (rounds, partitions) = (args.first().copied().unwrap_or(20), args.get(1).copied().unwrap_or(12));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(rounds as usize, partitions));
}
