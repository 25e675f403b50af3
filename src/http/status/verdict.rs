//! What the status amounts to: health, problems, how many failures it survives, one sentence.

use std::time::Duration;

use hotspare_cluster::{Liveness, PartitionId, Pause, View};

use super::Snapshot;
use crate::http::document::{HealthState, NodeDoc, PartitionDoc, PartitionState, StatusDoc};

/// A leader without an answer of a quorum for so long has perhaps lost it.
const QUORUM_AGE_MS_MAX: u64 = 1000;
/// Kafka is taken for unreachable after so long without an answer.
const KAFKA_AGE_MAX: Duration = Duration::from_secs(10);

/// Whether a quorum is known to be there: a leader is known and, where it is this node, was answered lately; where it is
/// another, that one lives. (A follower that cannot win an election goes on naming the last leader.)
pub(in crate::http) fn has_quorum(view: &View) -> bool {
    let is_gone = |leader| {
        let node = view.nodes.iter().find(|node| node.node_id == leader);
        node.is_some_and(|node| matches!(node.state, Liveness::Dead | Liveness::Stopped))
    };
    match view.leader {
        None => false,
        Some(_) if view.is_leader => view.quorum_age_ms.is_some_and(|age| age < QUORUM_AGE_MS_MAX),
        Some(leader) => !is_gone(leader),
    }
}

/// How many nodes, whichever they are, may die so that a quorum is left and every partition still has a live active or
/// a promotable standby; none while there is nothing to judge by.
pub(super) fn tolerance(view: &View, partitions: &[PartitionDoc]) -> Option<u32> {
    if view.voters.is_empty() || partitions.is_empty() {
        return None;
    }
    let live = |node: &&hotspare_cluster::NodeView| node.voter && node.state == Liveness::Live;
    let live = view.nodes.iter().filter(live).count();
    let quorum = view.voters.len() / 2 + 1;
    let copies = |partition: &PartitionDoc| {
        u32::from(partition.state == PartitionState::Active).saturating_add(partition.promotable).saturating_sub(1)
    };
    let voters = u32::try_from(live.saturating_sub(quorum)).unwrap_or(u32::MAX);
    partitions.iter().map(copies).chain([voters]).min()
}

/// Fills in health, problems and summary.
pub(super) fn judge(document: &mut StatusDoc, snapshot: &Snapshot) {
    let mut found: Vec<(HealthState, String)> = Vec::new();
    partitions(document, &mut found);
    control_plane(document, snapshot, &mut found);
    nodes(document, &mut found);
    replicas(document, snapshot, &mut found);
    found.extend(snapshot.view.problems.iter().map(|text| (HealthState::Degraded, text.clone())));
    found.sort_by_key(|(state, _)| std::cmp::Reverse(*state));

    document.health = found.first().map_or(HealthState::Ok, |(state, _)| *state);
    let what = match found.first() {
        Some((_, worst)) => worst.clone(),
        None => format!("{}, all active", counted(document.partitions.len(), "partition")),
    };
    let survives = match document.tolerance {
        Some(1) => "survives 1 failure".to_owned(),
        Some(count) => format!("survives {count} failures"),
        None => "survives ? failures".to_owned(),
    };
    document.summary = format!("{what}; {survives}");
    document.problems = found.into_iter().map(|(_, text)| text).collect();
    let mut seen = std::collections::BTreeSet::new();
    document.problems.retain(|text| seen.insert(text.clone()));
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn list(partitions: &[PartitionDoc], which: impl Fn(&PartitionDoc) -> bool) -> Option<String> {
    let names: Vec<String> =
        partitions.iter().filter(|p| which(p)).map(|partition| partition.partition.to_string()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn partitions(document: &StatusDoc, found: &mut Vec<(HealthState, String)>) {
    let partitions = &document.partitions;
    if partitions.is_empty() {
        let text = "no partition is known here: the cluster is not formed yet, or the input topic was not read";
        found.push((HealthState::Outage, text.to_owned()));
    }
    if let Some(names) = list(partitions, |p| p.state == PartitionState::NoActive) {
        found.push((HealthState::Outage, format!("no active for {names}")));
    }
    if let Some(names) = list(partitions, |p| p.state == PartitionState::Promoting) {
        found.push((HealthState::Outage, format!("being promoted for {names}")));
    }
    if let Some(names) = list(partitions, |p| p.state == PartitionState::Unknown) {
        let text = format!("the active of {names} was not heard of yet");
        found.push((HealthState::Degraded, text));
    }
    if let Some(names) = list(partitions, |p| p.promotable == 0) {
        found.push((HealthState::Degraded, format!("no promotable standby for {names}")));
    }
}

fn control_plane(document: &StatusDoc, snapshot: &Snapshot, found: &mut Vec<(HealthState, String)>) {
    let is_said =
        snapshot.view.leader.is_none() && snapshot.view.problems.iter().any(|text| text.contains("raft leader"));
    if !has_quorum(&snapshot.view) && !is_said {
        let text = match (snapshot.view.is_leader, document.quorum_age_ms) {
            (true, Some(age)) => format!("no quorum answered the Raft leader for {age} ms"),
            (true, None) => "no quorum answered the Raft leader yet".to_owned(),
            (false, _) => "no quorum is known here; actives go on working, but no failover is possible".to_owned(),
        };
        found.push((HealthState::Degraded, text));
    }
    for (what, pause) in pauses(document) {
        let text = format!(
            "{what} paused by {} until {}: \"{}\"; hotspare resume ends that",
            pause.by, pause.until, pause.reason
        );
        found.push((HealthState::Degraded, text));
    }
    for withheld in &document.withheld {
        let until = withheld.remaining_ms.map(|ms| format!(", {ms} ms to go")).unwrap_or_default();
        let candidates: Vec<String> =
            withheld.candidates.iter().map(|c| format!("{} {}", c.slot, c.reason.name())).collect();
        let at = withheld.input_offset.map(|at| format!(" (input offset {at})")).unwrap_or_default();
        let candidates = if candidates.is_empty() { String::new() } else { format!(" ({})", candidates.join(", ")) };
        found.push((
            HealthState::Degraded,
            format!(
                "failover of {} withheld for {} ms: {}{at}{until}{candidates}",
                withheld.partition, withheld.for_ms, withheld.reason
            ),
        ));
    }
}

fn pauses(document: &StatusDoc) -> impl Iterator<Item = (String, &Pause)> {
    let whole = document.pause.iter().map(|pause| ("automatic failover is".to_owned(), pause));
    let of = |p: &PartitionDoc| format!("automatic failover of {} is", p.partition);
    whole.chain(document.partitions.iter().filter_map(move |p| Some((of(p), p.pause.as_ref()?))))
}

fn nodes(document: &StatusDoc, found: &mut Vec<(HealthState, String)>) {
    let peers: Vec<&NodeDoc> = document.nodes.iter().filter(|node| node.node_id != document.this.node_id).collect();
    if !peers.is_empty() && peers.iter().all(|node| node.state != Liveness::Live) {
        let text = "cut off: this node hears no other node, so this is only its own view";
        found.push((HealthState::Degraded, text.to_owned()));
    }
    for (node, drain) in document.nodes.iter().filter_map(|node| Some((node, node.drain.as_ref()?))) {
        let text = format!("{} is drained by {} since {}: \"{}\"", node.slot, drain.by, drain.at, drain.reason);
        found.push((HealthState::Degraded, text));
    }
    for partition in document.partitions.iter().filter(|p| p.next_failover_held_ms > 0) {
        let text = format!(
            "partition {} failed over {} times of late: anti-flap would hold the next one back for {} ms",
            partition.partition, partition.failovers_recent, partition.next_failover_held_ms
        );
        found.push((HealthState::Degraded, text));
    }
    for node in &document.nodes {
        let state = match node.state {
            Liveness::Live => continue,
            Liveness::Unknown => "not heard of yet",
            Liveness::Suspect => "suspect",
            Liveness::Dead => "dead",
            Liveness::Stopped => "stopped",
        };
        let since = node.last_heard_ms.map(|ms| format!(", last heard {ms} ms ago")).unwrap_or_default();
        found.push((HealthState::Degraded, format!("node {} is {state}{since}", node.slot)));
    }
    for node in document.nodes.iter().filter(|node| node.kafka_ok == Some(false) && node.state == Liveness::Live) {
        let age = node.kafka_age_ms.map_or_else(|| "?".to_owned(), |ms| ms.to_string());
        found.push((HealthState::Degraded, format!("Kafka does not answer {} (for {age} ms)", node.slot)));
    }
}

fn replicas(document: &StatusDoc, snapshot: &Snapshot, found: &mut Vec<(HealthState, String)>) {
    let standbys = document.partitions.iter().flat_map(|p| p.standbys.iter().map(move |s| (p.partition, s)));
    let divergent = |(partition, standby): (PartitionId, &crate::http::document::StandbyDoc)| {
        (standby.reason.as_deref() == Some("divergent")).then(|| format!("{partition} on {}", standby.slot))
    };
    let divergent: Vec<String> = standbys.filter_map(divergent).collect();
    if !divergent.is_empty() {
        found.push((HealthState::Degraded, format!("state divergence: partition {}", divergent.join(", "))));
    }
    if let Some(problem) = &snapshot.topics {
        found.push((HealthState::Degraded, problem.clone()));
    }
    // Where this node is known to the cluster, its own report tells the same.
    let is_known = document.nodes.iter().any(|node| node.node_id == document.this.node_id);
    if !is_known && snapshot.kafka_age.is_none_or(|age| age >= KAFKA_AGE_MAX) {
        let age = snapshot.kafka_age.map_or_else(|| "not yet".to_owned(), |age| format!("not for {} s", age.as_secs()));
        found.push((HealthState::Degraded, format!("Kafka answered this node {age}")));
    }
    let (count, devices) = &snapshot.devices_split;
    if let Some(device) = devices.first() {
        let partitions: Vec<String> = device.partitions.iter().map(ToString::to_string).collect();
        let text = format!(
            "{} on more than one partition, so their windows are split, such as \"{}\" on {}: produce records with the \
             device as the key",
            counted(*count, "device"),
            device.device,
            partitions.join(", ")
        );
        found.push((HealthState::Degraded, text));
    }
    for replica in &document.local {
        if let Some(problem) = &replica.problem {
            found.push((HealthState::Degraded, format!("partition {}: {problem}", replica.partition)));
        }
    }
}
