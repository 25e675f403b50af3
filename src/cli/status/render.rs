//! The status as text.

use std::fmt::Write as _;

use hotspare_cluster::{Liveness, NodeId, Role, WallTime};

use super::show::{Align, UNKNOWN, age, count, or_unknown, table};
use crate::http::document::{HealthState, NodeDoc, PartitionDoc, PartitionState, StandbyDoc, StatusDoc};

/// Characters of the cluster's id that are shown.
const ID_CHARS: usize = 4;

/// The whole status: one line about it, nodes, partitions, leader, further problems.
#[must_use]
pub fn render(status: &StatusDoc) -> String {
    let mut text = headline(status);
    if !status.nodes.is_empty() {
        text.push_str(&nodes(status));
    }
    if !status.partitions.is_empty() {
        text.push_str(&partitions(status));
    }
    text.push_str(&footer(status));
    // The first stands in the headline.
    for problem in status.problems.iter().skip(1) {
        writeln!(text, "! {problem}").ok();
    }
    text
}

/// `plant-a 7f3c  DEGRADED: no promotable standby for 1; survives 0 failures`.
#[must_use]
pub fn headline(status: &StatusDoc) -> String {
    let id: String = status.cluster_id.chars().take(ID_CHARS).collect();
    let id = if id.is_empty() { UNKNOWN.to_owned() } else { id };
    let health = match status.health {
        HealthState::Ok => "OK",
        HealthState::Degraded => "DEGRADED",
        HealthState::Outage => "OUTAGE",
    };
    format!("{} {id}  {health}: {}\n", status.cluster, status.summary)
}

fn nodes(status: &StatusDoc) -> String {
    use Align::{Left, Right};
    let columns = [
        ("NODE", Left),
        ("ID", Right),
        ("STATE", Left),
        ("ACTIVE", Right),
        ("STANDBY", Right),
        ("LAG REC", Right),
        ("LAG S", Right),
        ("SEEN", Right),
    ];
    let leader = status.leader.as_ref().map(|leader| leader.node_id);
    let row = |node: &NodeDoc| {
        let mark = if leader == Some(node.node_id) { " *" } else { "" };
        let seen = match node.node_id == status.this.node_id {
            true => "-".to_owned(),
            false => or_unknown(node.last_heard_ms, age),
        };
        vec![
            format!("{}{mark}", node.slot),
            node.node_id.to_string(),
            node_state(node).to_owned(),
            node.actives.to_string(),
            node.standbys.to_string(),
            or_unknown(node.lag_records, count),
            or_unknown(node.lag_ms, seconds),
            seen,
        ]
    };
    table(&columns, &status.nodes.iter().map(row).collect::<Vec<_>>())
}

fn seconds(ms: u64) -> String {
    format!("{}.{:02}", ms / 1000, ms % 1000 / 10)
}

fn node_state(node: &NodeDoc) -> &'static str {
    match node.state {
        Liveness::Live if node.stopping => "stopping",
        Liveness::Live if node.draining => "draining",
        Liveness::Live => "live",
        Liveness::Suspect => "suspect",
        Liveness::Dead => "dead",
        Liveness::Stopped => "stopped",
        Liveness::Unknown => UNKNOWN,
    }
}

fn partitions(status: &StatusDoc) -> String {
    use Align::{Left, Right};
    let columns = [
        ("P", Right),
        ("EPOCH", Right),
        ("ACTIVE", Left),
        ("SINCE", Left),
        ("STANDBYS (lag)", Left),
        ("PROMOTABLE", Right),
        ("COMMIT AGE", Right),
    ];
    let row = |partition: &PartitionDoc| {
        let standbys: Vec<String> = partition.standbys.iter().map(standby).collect();
        let standbys = if standbys.is_empty() { "none".to_owned() } else { standbys.join(", ") };
        vec![
            partition.partition.to_string(),
            partition.epoch.to_string(),
            active(partition, status),
            since(partition, status.at),
            standbys,
            format!("{} of {}", partition.promotable, partition.standbys.len()),
            or_unknown(partition.commit_age_ms, age),
        ]
    };
    table(&columns, &status.partitions.iter().map(row).collect::<Vec<_>>())
}

fn active(partition: &PartitionDoc, status: &StatusDoc) -> String {
    let Some(active) = &partition.active else {
        return "none".to_owned();
    };
    let what = match partition.state {
        PartitionState::Active => return active.slot.to_string(),
        PartitionState::Promoting => "promoting",
        PartitionState::Unknown => UNKNOWN,
        PartitionState::NoActive => why_not(status, active.node_id),
    };
    format!("{} ({what})", active.slot)
}

fn why_not(status: &StatusDoc, id: NodeId) -> &'static str {
    let node = status.nodes.iter().find(|node| node.node_id == id);
    match node.map(|node| node.state) {
        Some(Liveness::Dead) => "dead",
        Some(Liveness::Stopped) => "stopped",
        Some(_) => "not working",
        None => UNKNOWN,
    }
}

fn since(partition: &PartitionDoc, at: WallTime) -> String {
    match (partition.active.is_some(), partition.since.0) {
        (true, 1..) => age(u64::try_from(at.0.saturating_sub(partition.since.0)).unwrap_or(0)),
        _ => UNKNOWN.to_owned(),
    }
}

fn standby(standby: &StandbyDoc) -> String {
    let lag = or_unknown(standby.lag_records, count);
    let note = match (&standby.reason, standby.role) {
        (Some(reason), _) => format!(", {reason}"),
        (None, Some(Role::Standby) | None) => String::new(),
        (None, Some(role)) => format!(", {}", role_name(role)),
    };
    format!("{} ({lag}{note})", standby.slot)
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Restoring => "restoring",
        Role::Standby => "standby",
        Role::Promoting => "promoting",
        Role::Active => "active",
        Role::Fenced => "fenced",
        Role::Divergent => "divergent",
    }
}

fn footer(status: &StatusDoc) -> String {
    let term = status.term;
    match &status.leader {
        Some(leader) if status.nodes.iter().any(|node| node.node_id == leader.node_id) => {
            format!("* Raft leader, term {term}.  Values are as old as SEEN says.\n")
        }
        Some(leader) => format!("Raft leader: {} (id {}), term {term}.\n", leader.slot, leader.node_id),
        None => format!("Raft leader: {UNKNOWN}, term {term}.\n"),
    }
}
