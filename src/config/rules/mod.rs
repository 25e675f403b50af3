//! Rules between settings. Each broken one tells the numbers and what to set.

mod network;

use std::collections::BTreeSet;

use rdkafka::ClientConfig;

use super::kafka::{Property, REFUSED};
use super::sections::Sections;
use super::units::Timespan;

/// Longest transaction that brokers permit by default (`transaction.max.timeout.ms`).
const TRANSACTION_TIMEOUT_MAX: Timespan = Timespan::from_secs(15 * 60);

/// A broken rule.
#[derive(Debug)]
pub(super) struct BrokenRule {
    pub(super) key: String,
    /// The other key that it is about: where the reader looks if `key` itself was not set.
    pub(super) other_key: Option<String>,
    pub(super) message: String,
}

/// All broken rules.
pub(super) fn check(sections: &Sections) -> Vec<BrokenRule> {
    let mut broken = Broken(Vec::new());
    cluster(sections, &mut broken);
    network::addresses(sections, &mut broken);
    kafka(sections, &mut broken);
    topics(sections, &mut broken);
    timers(sections, &mut broken);
    counts(sections, &mut broken);
    counts_of_http(sections, &mut broken);
    network::access(sections, &mut broken);
    broken.0
}

struct Broken(Vec<BrokenRule>);

impl Broken {
    fn add(&mut self, key: &str, message: impl Into<String>) {
        self.0.push(BrokenRule { key: key.to_owned(), other_key: None, message: message.into() });
    }

    fn add_between(&mut self, key: &str, other_key: &str, message: impl Into<String>) {
        let other_key = Some(other_key.to_owned());
        self.0.push(BrokenRule { key: key.to_owned(), other_key, message: message.into() });
    }

    /// `value` of `key` must be at least `factor` times that of `other`.
    fn at_least(&mut self, (key, value): (&str, Timespan), factor: u64, (other_key, other): (&str, Timespan)) {
        let least = other.times(factor);
        if value >= least {
            return;
        }
        let most = Timespan::from_ms(value.as_ms() / factor);
        let bound =
            if factor == 1 { format!("{other_key} = {other}") } else { format!("{factor} × {other_key} = {least}") };
        let other_way = if most.as_ms() == 0 { String::new() } else { format!(", or {other_key} to at most {most}") };
        self.add_between(key, other_key, format!("{value} is below {bound}; set it to at least {least}{other_way}"));
    }

    fn positive(&mut self, key: &str, value: Timespan) {
        if value.as_ms() == 0 {
            self.add(key, "it is 0; set a time above 0");
        }
    }

    fn between(&mut self, key: &str, value: u64, least: u64, most: u64) {
        if !(least..=most).contains(&value) {
            self.add(key, format!("it is {value}; it must be {least} to {most}"));
        }
    }
}

fn cluster(sections: &Sections, broken: &mut Broken) {
    let cluster = &sections.cluster;
    let is_name_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if cluster.name.is_empty() {
        broken.add("cluster.name", "it is required; name the cluster with 1 to 40 of a-z, 0-9 and -");
    } else if cluster.name.len() > 40 || !cluster.name.bytes().all(is_name_byte) {
        let length = cluster.name.chars().count();
        broken.add(
            "cluster.name",
            format!("\"{}\" ({length} characters) is no name; it must be 1 to 40 of a-z, 0-9 and -", cluster.name),
        );
    }
    let slots = &cluster.expected_slots;
    let different: BTreeSet<&String> = slots.iter().collect();
    if !matches!(cluster.voters, 1 | 3 | 5) {
        broken
            .add("cluster.voters", format!("it is {}; it must be 1 (trial without failover), 3 or 5", cluster.voters));
    } else if slots.is_empty() {
        broken.add(
            "cluster.expected_slots",
            format!("it is required; name the slots of the first {} voters", cluster.voters),
        );
    } else if different.len() != slots.len() || slots.iter().any(String::is_empty) {
        broken.add("cluster.expected_slots", "a slot is empty or named twice; name each voter once");
    } else if slots.len() < cluster.voters as usize {
        broken.add_between(
            "cluster.expected_slots",
            "cluster.voters",
            format!(
                "{} slots are too few for cluster.voters = {}; name at least {} slots, or set voters to 1",
                slots.len(),
                cluster.voters,
                cluster.voters
            ),
        );
    }
    let slot = &sections.node.slot;
    if slot.is_empty() || slot.len() > 253 || slot.contains(|c: char| c.is_whitespace() || c == '/') {
        broken.add("node.slot", format!("\"{slot}\" is no slot; set 1 to 253 characters without blanks and slashes"));
    }
    if sections.node.data_dir.as_os_str().is_empty() {
        broken.add("node.data_dir", "it is empty; name the folder for identity, Raft log and checkpoints");
    }
}

fn kafka(sections: &Sections, broken: &mut Broken) {
    let kafka = &sections.kafka;
    if kafka.properties.get("bootstrap.servers").is_none() {
        broken.add(
            "kafka.properties.bootstrap.servers",
            "it is required; write [kafka.properties] \"bootstrap.servers\" = \"HOST:PORT,HOST:PORT\"",
        );
    }
    for (table, properties) in kafka.tables() {
        for (name, property) in properties.iter() {
            let key = format!("{table}.{name}");
            if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
                broken.add(&key, format!("this property is not yours to set: {reason}"));
            } else if let Property::Text(text) = property
                && let Err(error) = ClientConfig::new().set(name, text).create_native_config()
            {
                broken.add(&key, client_error(&error));
            }
        }
    }
}

/// The client library's words, which name property and value but not secrets: those it takes as they are.
fn client_error(error: &rdkafka::error::KafkaError) -> String {
    match error {
        rdkafka::error::KafkaError::ClientConfig(_, description, _, _) => {
            format!("the Kafka client library refuses it: {description}")
        }
        other => format!("the Kafka client library refuses it: {other}"),
    }
}

fn topics(sections: &Sections, broken: &mut Broken) {
    let topics = &sections.topics;
    let ours = [
        ("topics.changelog", &topics.changelog),
        ("topics.output", &topics.output),
        ("topics.dead_letters", &topics.dead_letters),
    ];
    let mut taken = vec![("input.topic", &sections.input.topic)];
    for (key, name) in ours {
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.len() > 249 || name == "." || name == ".." || !name.bytes().all(is_legal) {
            broken.add(key, format!("\"{name}\" is no topic name; use 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'"));
        }
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == name) {
            broken.add_between(key, other, format!("\"{name}\" is {other} too; each needs a topic of its own"));
        }
        taken.push((key, name));
    }
    broken.between("topics.replication_factor", topics.replication_factor.into(), 1, i16::MAX as u64);
    if topics.min_insync_replicas == 0 || topics.min_insync_replicas > topics.replication_factor {
        broken.add_between(
            "topics.min_insync_replicas",
            "topics.replication_factor",
            format!(
                "it is {}; it must be 1 to topics.replication_factor = {}, or nothing could be written",
                topics.min_insync_replicas, topics.replication_factor
            ),
        );
    }
    let ratio = topics.changelog_min_cleanable_dirty_ratio;
    if !(0.0..=1.0).contains(&ratio) {
        broken.add("topics.changelog_min_cleanable_dirty_ratio", format!("it is {ratio}; it must be 0 to 1"));
    }
    broken.between(
        "topics.changelog_segment_bytes",
        topics.changelog_segment_bytes.get(),
        1024 * 1024,
        i32::MAX as u64,
    );
    broken.at_least(
        ("topics.changelog_delete_retention", topics.changelog_delete_retention),
        10,
        ("checkpoint.interval", sections.checkpoint.interval),
    );
}

/// Times of which 0 would mean a loop without rest or a wait that never succeeds.
fn positive_times(sections: &Sections, broken: &mut Broken) {
    let Sections { active, failover, raft, replication, kafka, peers, cluster, checkpoint, topics, http, .. } =
        sections;
    for (key, value) in [
        ("active.commit_interval", active.commit_interval),
        ("checkpoint.interval", checkpoint.interval),
        ("cluster.slot_takeover_after", cluster.slot_takeover_after),
        ("failover.heartbeat_interval", failover.heartbeat_interval),
        ("failover.probe_timeout", failover.probe_timeout),
        ("failover.confirm_timeout", failover.confirm_timeout),
        ("failover.stuck_after", failover.stuck_after),
        ("failover.stalled_after", failover.stalled_after),
        ("failover.fence_hedge_after", failover.fence_hedge_after),
        ("failover.promote_timeout", failover.promote_timeout),
        ("http.request_timeout", http.request_timeout),
        ("http.header_timeout", http.header_timeout),
        ("kafka.operation_timeout", kafka.operation_timeout),
        ("kafka.statistics_interval", kafka.statistics_interval),
        ("peers.rpc_timeout", peers.rpc_timeout),
        ("raft.heartbeat_interval", raft.heartbeat_interval),
        ("replication.ready_lag", replication.ready_lag),
        ("topics.check_interval", topics.check_interval),
        ("topics.changelog_segment", topics.changelog_segment),
        ("topics.changelog_max_compaction_lag", topics.changelog_max_compaction_lag),
    ] {
        broken.positive(key, value);
    }
}

fn timers(sections: &Sections, broken: &mut Broken) {
    let Sections { active, failover, raft, .. } = sections;
    positive_times(sections, broken);
    let election_min = ("raft.election_timeout_min", raft.election_timeout_min);
    let election_max = ("raft.election_timeout_max", raft.election_timeout_max);
    let suspect_after = ("failover.suspect_after", failover.suspect_after);
    broken.at_least(suspect_after, 4, ("failover.heartbeat_interval", failover.heartbeat_interval));
    broken.at_least(election_min, 3, ("raft.heartbeat_interval", raft.heartbeat_interval));
    broken.at_least(election_min, 10, ("raft.fsync_warn", raft.fsync_warn));
    broken.at_least(election_max, 1, election_min);
    broken.at_least(("raft.quorum_loss_probe_interval", raft.quorum_loss_probe_interval), 2, election_max);
    broken.at_least(
        ("active.transaction_timeout", active.transaction_timeout),
        20,
        ("active.commit_interval", active.commit_interval),
    );
    if active.transaction_timeout > TRANSACTION_TIMEOUT_MAX {
        broken.add(
            "active.transaction_timeout",
            format!(
                "{} is above {TRANSACTION_TIMEOUT_MAX}, which brokers permit by default (transaction.max.timeout.ms); set it \
                 lower",
                active.transaction_timeout
            ),
        );
    }
    broken.at_least(
        ("failover.antiflap_max", failover.antiflap_max),
        1,
        ("failover.antiflap_base", failover.antiflap_base),
    );
    broken.at_least(
        ("failover.objective_silent", failover.objective_silent),
        1,
        ("failover.objective", failover.objective),
    );
}

fn counts(sections: &Sections, broken: &mut Broken) {
    let Sections { active, failover, replication, checkpoint, planner, raft, peers, .. } = sections;
    let u32_max = u64::from(u32::MAX);
    for (key, value, most) in [
        ("active.commit_entries_max", active.commit_entries_max, u64::MAX),
        ("active.commit_bytes_max", active.commit_bytes_max.get(), u64::MAX),
        ("active.input_bytes_max", active.input_bytes_max.get(), u64::MAX),
        ("replication.buffer_bytes_max", replication.buffer_bytes_max.get(), u64::MAX),
        ("failover.fence_handles", failover.fence_handles.into(), 10),
        ("checkpoint.keep", checkpoint.keep.into(), 100),
        ("checkpoint.changelog_bytes", checkpoint.changelog_bytes.get(), u64::MAX),
        ("planner.moves_max", planner.moves_max.into(), u32_max),
        ("raft.snapshot_entries", raft.snapshot_entries, u64::MAX),
        ("peers.snapshot_bytes_per_s_max", peers.snapshot_bytes_per_s_max.get(), u64::MAX),
    ] {
        broken.between(key, value, 1, most);
    }
    broken.between("replication.standbys", replication.standbys.into(), 0, 10);
    broken.between("peers.frame_bytes_max", peers.frame_bytes_max.get(), 64 * 1024, i32::MAX as u64);
}

fn counts_of_http(sections: &Sections, broken: &mut Broken) {
    let (http, u32_max) = (&sections.http, u64::from(u32::MAX));
    for (key, value, most) in [
        ("http.body_bytes_max", http.body_bytes_max.get(), u64::MAX),
        ("http.header_bytes_max", http.header_bytes_max.get(), u64::MAX),
        ("http.connections_max", http.connections_max.into(), u32_max),
        ("http.requests_max", http.requests_max.into(), u32_max),
        ("http.query_windows_max", http.query_windows_max.into(), u32_max),
    ] {
        broken.between(key, value, 1, most);
    }
}

#[cfg(test)]
mod tests;
