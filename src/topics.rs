//! The topics: how they must be set, what is found, and what is wrong with it.
//!
//! Exactness rests on the changelog's settings, so they are checked at the start and every minute. A topic that exists is
//! never altered by a running node; what is missing of ours is created.

mod admin;
mod error;

use std::collections::BTreeMap;
use std::fmt;

pub use admin::{Created, Ready, RepairPlan, create, ensure, inspect, plan_repair, repair};
pub use error::TopicsError;

use crate::config::Config;
use crate::config::sections::TopicsSection;

/// Most that an input topic may let record timestamps be ahead, where windows are closed by log time: one day.
const TIMESTAMP_AHEAD_MAX_MS: u64 = 86_400_000;

/// What a topic is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The user's topic with the readings; never created or altered.
    Input,
    /// State changes.
    Changelog,
    /// Windows.
    Output,
    /// Refused records.
    DeadLetters,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Input => "input topic",
            Role::Changelog => "changelog topic",
            Role::Output => "output topic",
            Role::DeadLetters => "dead-letter topic",
        })
    }
}

/// How bad a wrong setting is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// State or output would be wrong: a node refuses to work with it.
    Fatal,
    /// Less safe or slower than wanted: reported.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Fatal => "fatal",
            Severity::Warning => "warning",
        })
    }
}

/// What values of a setting are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The wanted one only.
    Equal,
    /// The wanted number or more.
    AtLeast,
    /// The wanted number or less.
    AtMost,
}

impl Rule {
    /// Whether a value found satisfies the wanted one. What is no number satisfies no bound.
    #[must_use]
    pub fn holds(self, found: &str, wanted: &str) -> bool {
        let numbers = || Some((found.parse::<f64>().ok()?, wanted.parse::<f64>().ok()?));
        match self {
            Rule::Equal => found == wanted,
            Rule::AtLeast => numbers().is_some_and(|(found, wanted)| found >= wanted),
            Rule::AtMost => numbers().is_some_and(|(found, wanted)| found <= wanted),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Rule::Equal => "it must be ",
            Rule::AtLeast => "it must be at least ",
            Rule::AtMost => "it must be at most ",
        }
    }
}

/// A setting as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSetting {
    /// Kafka's name of it.
    pub name: &'static str,
    /// The value with which the topic is created.
    pub value: String,
    /// Which other values are right too.
    pub rule: Rule,
    /// How bad it is if it is not.
    pub severity: Severity,
}

/// A topic as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it is for.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Number of partitions with which it is created; `None`: not known, because the input was not found, or not ours to
    /// decide.
    pub partitions: Option<u32>,
    /// Replicas; `None`: not ours to decide.
    pub replication_factor: Option<u32>,
    /// Its settings.
    pub settings: Vec<WantedSetting>,
    /// The input only: record timestamps must be given or bounded by the broker.
    pub timestamps_bounded: bool,
}

/// A topic as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTopic {
    /// Number of partitions.
    pub partitions: u32,
    /// Replicas of the partition that has fewest.
    pub replication_factor: u32,
    /// All settings with their values, defaults too.
    pub settings: BTreeMap<String, String>,
    /// Names of those settings that are the topic's own, not defaults.
    pub own_settings: Vec<String>,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Id of the Kafka cluster, if it tells.
    pub kafka_cluster_id: Option<String>,
    /// Brokers of the cluster that are up.
    pub brokers: u32,
    /// The topics asked for that exist.
    pub topics: BTreeMap<String, FoundTopic>,
}

impl Found {
    /// `delete.retention.ms` of a topic: replicas and checkpoints that are older must not be used.
    #[must_use]
    pub fn delete_retention_ms(&self, topic: &str) -> Option<u64> {
        self.topics.get(topic)?.settings.get("delete.retention.ms")?.parse().ok()
    }
}

/// One thing that is wrong with a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicProblem {
    /// What the topic is for.
    pub role: Role,
    /// Its name.
    pub topic: String,
    /// Kafka's name of the setting, or `exists`, `partitions`, `replication.factor`.
    pub setting: &'static str,
    /// The value found.
    pub value: String,
    /// The value wanted.
    pub wanted: String,
    /// How the two must compare.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// The command or setting that repairs it.
    pub repair: String,
}

impl fmt::Display for TopicProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopicProblem { role, topic, setting, value, wanted, rule, repair, .. } = self;
        match *setting {
            "exists" => write!(f, "{role} \"{topic}\" does not exist. Repair: {repair}"),
            "partitions" => {
                write!(f, "{role} \"{topic}\" has {value} partitions; it must have {wanted}. Repair: {repair}")
            }
            _ => write!(f, "{role} \"{topic}\" has {setting}={value}; {}{wanted}. Repair: {repair}", rule.words()),
        }
    }
}

/// The four topics of a configuration, input first. `input_partitions`: of the input, if it exists.
#[must_use]
pub fn wanted(config: &Config, input_partitions: Option<u32>) -> Vec<Wanted> {
    let topics = &config.topics;
    let ours = |role, name: &str, settings| Wanted {
        role,
        name: name.to_owned(),
        partitions: input_partitions,
        replication_factor: Some(topics.replication_factor),
        settings,
        timestamps_bounded: false,
    };
    let input = Wanted {
        role: Role::Input,
        name: config.input.topic.clone(),
        partitions: None,
        replication_factor: None,
        settings: Vec::new(),
        // Silence is judged by log time, which one record far ahead would push forward for all.
        timestamps_bounded: config.window.idle_close != "off" || config.window.retention != "off",
    };
    vec![
        input,
        ours(Role::Changelog, topics.changelog(), changelog_settings(topics)),
        ours(Role::Output, topics.output(), plain_settings(topics)),
        ours(Role::DeadLetters, topics.dead_letters(), plain_settings(topics)),
    ]
}

fn setting(name: &'static str, value: impl ToString, rule: Rule, severity: Severity) -> WantedSetting {
    WantedSetting { name, value: value.to_string(), rule, severity }
}

/// What keeps committed records from being lost, and records of a node whose clock is wrong from being refused: the broker
/// takes none that is an hour ahead of its own clock, unless it gives them their time itself.
fn safety_settings(topics: &TopicsSection) -> Vec<WantedSetting> {
    vec![
        setting("message.timestamp.type", "LogAppendTime", Rule::Equal, Severity::Warning),
        setting("min.insync.replicas", topics.min_insync_replicas, Rule::AtLeast, Severity::Warning),
        setting("unclean.leader.election.enable", false, Rule::Equal, Severity::Warning),
    ]
}

fn changelog_settings(topics: &TopicsSection) -> Vec<WantedSetting> {
    let (most, least, warning) = (Rule::AtMost, Rule::AtLeast, Severity::Warning);
    // "compact,delete" is wrong too: it deletes entries by age.
    let mut settings = vec![setting("cleanup.policy", "compact", Rule::Equal, Severity::Fatal)];
    settings.extend(safety_settings(topics));
    settings.extend([
        setting("segment.bytes", topics.changelog_segment_bytes.get(), most, warning),
        setting("segment.ms", topics.changelog_segment.as_ms(), most, warning),
        setting("min.cleanable.dirty.ratio", topics.changelog_min_cleanable_dirty_ratio, most, warning),
        setting("max.compaction.lag.ms", topics.changelog_max_compaction_lag.as_ms(), most, warning),
        setting("delete.retention.ms", topics.changelog_delete_retention.as_ms(), least, warning),
    ]);
    settings
}

fn plain_settings(topics: &TopicsSection) -> Vec<WantedSetting> {
    // Keys are devices, so compaction would keep only the last window of each.
    let mut settings = vec![setting("cleanup.policy", "delete", Rule::Equal, Severity::Warning)];
    settings.extend(safety_settings(topics));
    settings
}

/// What is wrong, in the order of the topics wanted. Settings that the broker does not tell are passed over.
#[must_use]
pub fn problems(wanted: &[Wanted], found: &Found) -> Vec<TopicProblem> {
    let mut problems = Vec::new();
    for wanted in wanted {
        match found.topics.get(&wanted.name) {
            None => problems.push(missing(wanted)),
            Some(topic) => check(wanted, topic, &mut problems),
        }
    }
    problems
}

fn missing(wanted: &Wanted) -> TopicProblem {
    let repair = match wanted.role {
        Role::Input => {
            format!("correct input.topic, or kafka-topics.sh --create --topic {} --partitions COUNT", wanted.name)
        }
        _ => "hotspare topics create".to_owned(),
    };
    TopicProblem {
        role: wanted.role,
        topic: wanted.name.clone(),
        setting: "exists",
        value: "no".to_owned(),
        wanted: "yes".to_owned(),
        rule: Rule::Equal,
        severity: Severity::Fatal,
        repair,
    }
}

fn check(wanted: &Wanted, topic: &FoundTopic, problems: &mut Vec<TopicProblem>) {
    let repair = format!("hotspare topics repair {}", wanted.name);
    problems.extend(check_partitions(wanted, topic, &repair));
    let problem = |setting, rule, severity, value: &str, wanted_value: &str, repair: String| TopicProblem {
        role: wanted.role,
        topic: wanted.name.clone(),
        setting,
        value: value.to_owned(),
        wanted: wanted_value.to_owned(),
        rule,
        severity,
        repair,
    };
    if let Some(factor) = wanted.replication_factor.filter(|factor| topic.replication_factor < *factor) {
        let found = topic.replication_factor.to_string();
        let how = format!("kafka-reassign-partitions.sh, or set topics.replication_factor = {found} if that is meant");
        let setting = "replication.factor";
        problems.push(problem(setting, Rule::AtLeast, Severity::Warning, &found, &factor.to_string(), how));
    }
    for WantedSetting { name, value, rule, severity } in &wanted.settings {
        if let Some(found) = topic.settings.get(*name).filter(|found| !rule.holds(found, value)) {
            problems.push(problem(name, *rule, *severity, found, value, repair.clone()));
        }
    }
    problems.extend(check_timestamps(wanted, topic));
}

/// Where windows are closed by log time, one record far ahead would close them all.
fn check_timestamps(wanted: &Wanted, topic: &FoundTopic) -> Option<TopicProblem> {
    if !wanted.timestamps_bounded || has_bounded_timestamps(topic) {
        return None;
    }
    let setting = "message.timestamp.type";
    Some(TopicProblem {
        role: wanted.role,
        topic: wanted.name.clone(),
        setting,
        value: topic.settings.get(setting).map_or("?", String::as_str).to_owned(),
        wanted: "LogAppendTime for window.idle_close and window.retention".to_owned(),
        rule: Rule::Equal,
        severity: Severity::Fatal,
        repair: format!(
            "kafka-configs.sh --alter --topic {} --add-config message.timestamp.type=LogAppendTime, or \
             message.timestamp.after.max.ms={TIMESTAMP_AHEAD_MAX_MS}, or set window.idle_close and window.retention to \"off\"",
            wanted.name
        ),
    })
}

/// A reading's state is in the changelog partition of the same number; output and dead letters need no such thing.
fn check_partitions(wanted: &Wanted, topic: &FoundTopic, repair: &str) -> Option<TopicProblem> {
    let partitions = wanted.partitions.filter(|_| wanted.role == Role::Changelog)?;
    if partitions == topic.partitions {
        return None;
    }
    let too_many =
        "choose another topic with topics.changelog; its state is built anew from the input's retained records";
    Some(TopicProblem {
        role: wanted.role,
        topic: wanted.name.clone(),
        setting: "partitions",
        value: topic.partitions.to_string(),
        wanted: partitions.to_string(),
        rule: Rule::Equal,
        severity: Severity::Fatal,
        repair: if topic.partitions < partitions { repair } else { too_many }.to_owned(),
    })
}

fn has_bounded_timestamps(topic: &FoundTopic) -> bool {
    let get = |name: &str| topic.settings.get(name).map(String::as_str);
    get("message.timestamp.type") == Some("LogAppendTime")
        || get("message.timestamp.after.max.ms")
            .and_then(|ms| ms.parse::<u64>().ok())
            .is_some_and(|ms| ms <= TIMESTAMP_AHEAD_MAX_MS)
}

#[cfg(test)]
mod tests;
