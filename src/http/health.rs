//! Facts about this process that decide whether it is alive, started and ready, and the rules for that.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use hotspare_cluster::{NodeId, PartitionId, View};

use super::readiness::{Readiness, ReadyLimits, lags};
use crate::partition::status::ReplicaStatus;

/// The async runtime is taken for stuck after so long without a tick.
const TICK_AGE_MAX: Duration = Duration::from_secs(10);
/// Kafka is taken for unreachable after so long without an answer, and an error for lasting.
const KAFKA_AGE_MAX: Duration = Duration::from_secs(10);

/// Facts that the node tells, and what was seen of the cluster since the start. Methods never wait.
#[derive(Debug)]
pub struct Health(Mutex<Known>);

#[derive(Debug)]
struct Known {
    started_at: Instant,
    ticked_at: Instant,
    started: bool,
    stopping: bool,
    kafka_at: Option<Instant>,
    kafka_fatal: Option<(Instant, String)>,
    topics: Option<String>,
    leader_seen: bool,
    first_committed: Option<u64>,
    history_known: bool,
    readiness: Readiness,
}

impl Default for Health {
    fn default() -> Self {
        Self(Mutex::new(Known {
            started_at: Instant::now(),
            ticked_at: Instant::now(),
            started: false,
            stopping: false,
            kafka_at: None,
            kafka_fatal: None,
            topics: None,
            leader_seen: false,
            first_committed: None,
            history_known: false,
            readiness: Readiness::default(),
        }))
    }
}

impl Health {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The async runtime turned. To be called about once a second by a task.
    pub fn beat(&self) {
        self.lock().ticked_at = Instant::now();
    }

    /// Identity is checked, the Raft log is open, the servers are up.
    pub fn set_started(&self) {
        self.lock().started = true;
    }

    /// The node is shutting down.
    pub fn set_stopping(&self) {
        self.lock().stopping = true;
    }

    /// Whether the node is shutting down.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// A broker answered just now; this heals a fatal error.
    pub fn kafka_answered(&self) {
        let mut known = self.lock();
        known.kafka_at = Some(Instant::now());
        known.kafka_fatal = None;
    }

    /// A Kafka client met an error that does not heal by trying again, such as a refused login.
    pub fn kafka_failed(&self, error: String) {
        let mut known = self.lock();
        let since = known.kafka_fatal.take().map_or_else(Instant::now, |(since, _)| since);
        known.kafka_fatal = Some((since, error));
    }

    /// Milliseconds since a broker answered; none if never.
    #[must_use]
    pub fn kafka_age(&self) -> Option<Duration> {
        self.lock().kafka_at.map(|at| at.elapsed())
    }

    /// Since a broker answered, or since the start if none has.
    #[must_use]
    pub fn kafka_contact_age(&self) -> Duration {
        let known = self.lock();
        known.kafka_at.unwrap_or(known.started_at).elapsed()
    }

    /// Since the async runtime turned last.
    #[must_use]
    pub fn tick_age(&self) -> Duration {
        self.lock().ticked_at.elapsed()
    }

    /// What is wrong with a topic so that hotspare must not write; None: nothing.
    pub fn set_topics(&self, problem: Option<String>) {
        self.lock().topics = problem;
    }

    /// What is wrong with a topic.
    #[must_use]
    pub fn topics(&self) -> Option<String> {
        self.lock().topics.clone()
    }

    /// Whether the replicated log was applied here up to the committed index that a leader told first: before that, counters
    /// derived from the history would look reset. (What this node knew of it before its restart may be less than what it
    /// had applied.)
    #[must_use]
    pub fn is_history_known(&self) -> bool {
        self.lock().history_known
    }

    /// Takes in what is seen of cluster and replicas now.
    pub fn observe(
        &self,
        view: &View,
        replicas: &BTreeMap<PartitionId, ReplicaStatus>,
        limits: &ReadyLimits,
        now: Instant,
    ) {
        let lags = lags(view, replicas, now);
        let mut known = self.lock();
        known.leader_seen |= view.leader.is_some();
        known.first_committed = known.first_committed.or(view.led_index);
        known.history_known |= known.first_committed.is_some_and(|first| view.applied_index >= Some(first));
        known.readiness.observe(&lags, limits, now);
    }

    /// All that the rules need.
    #[must_use]
    pub fn facts(&self, view: &View, now: Instant) -> Facts {
        let known = self.lock();
        let age = |at: Instant| now.saturating_duration_since(at);
        Facts {
            tick_age: age(known.ticked_at),
            started: known.started,
            stopping: known.stopping,
            node_id: view.node_id,
            removed: view.tombstones.contains(&view.node_id),
            leader_seen: known.leader_seen,
            raft_failed: view.raft_failed.clone(),
            kafka_age: known.kafka_at.map(age),
            kafka_fatal: known.kafka_fatal.as_ref().map(|(since, error)| (age(*since), error.clone())),
            topics: known.topics.clone(),
            replicas: known.readiness.result(),
        }
    }
}

/// Facts at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Since the async runtime turned last.
    pub tick_age: Duration,
    /// Identity checked, Raft log open, servers up.
    pub started: bool,
    /// Shutting down.
    pub stopping: bool,
    /// This node's id; 0 until it has joined.
    pub node_id: NodeId,
    /// Whether that id is tombstoned.
    pub removed: bool,
    /// Whether a Raft leader was seen since the start.
    pub leader_seen: bool,
    /// Why Raft has stopped on this node, if it has.
    pub raft_failed: Option<String>,
    /// Since a broker answered last; none if never.
    pub kafka_age: Option<Duration>,
    /// A fatal error of a Kafka client, and for how long it has stood.
    pub kafka_fatal: Option<(Duration, String)>,
    /// What is wrong with a topic.
    pub topics: Option<String>,
    /// Whether the replicas are near enough, else why not.
    pub replicas: Result<(), String>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Whether to restart the process.
    Live,
    /// Whether the process has started.
    Startup,
    /// Whether the node can do its part.
    Ready,
}

/// One rule and how it went.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Name of the rule, as `?exclude=` takes it.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// Numbers and reason; empty where there is nothing to say.
    pub detail: String,
}

impl Check {
    fn new(name: &'static str, ok: bool, detail_if_not: impl Into<String>) -> Self {
        let detail = if ok { String::new() } else { detail_if_not.into() };
        Self { name, ok, detail }
    }
}

/// The rules of a probe.
#[must_use]
pub fn checks(probe: Probe, facts: &Facts) -> Vec<Check> {
    match probe {
        Probe::Live => {
            let age = facts.tick_age.as_secs_f64();
            vec![Check::new(
                "runtime",
                facts.tick_age <= TICK_AGE_MAX,
                format!("the async runtime last turned {age:.1} s ago"),
            )]
        }
        Probe::Startup => vec![Check::new(
            "started",
            facts.started,
            "identity, Raft log or servers are not ready yet; the log names the step",
        )],
        Probe::Ready => vec![
            Check::new("identity", facts.node_id != NodeId(0), "this node has not joined the cluster yet"),
            Check::new("leader_seen", facts.leader_seen, "no Raft leader was seen since the start"),
            Check::new(
                "raft",
                facts.raft_failed.is_none(),
                format!("Raft has stopped on this node: {}; restart it", facts.raft_failed.clone().unwrap_or_default()),
            ),
            Check::new("not_stopping", !facts.stopping, "this node is shutting down"),
            Check::new(
                "not_removed",
                !facts.removed,
                format!("id {} was removed from the cluster; hotspare join --discard-state", facts.node_id),
            ),
            kafka(facts),
            Check::new("topics", facts.topics.is_none(), facts.topics.clone().unwrap_or_default()),
            Check::new("replicas", facts.replicas.is_ok(), facts.replicas.clone().err().unwrap_or_default()),
        ],
    }
}

fn kafka(facts: &Facts) -> Check {
    let lasting = facts.kafka_fatal.as_ref().filter(|(age, _)| *age >= KAFKA_AGE_MAX);
    let problem = match (lasting, facts.kafka_age) {
        (Some((age, error)), _) => Some(format!("for {} s: {error}", age.as_secs())),
        (None, None) => Some("no broker has answered yet".to_owned()),
        (None, Some(age)) if age >= KAFKA_AGE_MAX => Some(format!("no broker has answered for {} s", age.as_secs())),
        (None, Some(_)) => None,
    };
    Check::new("kafka_client", problem.is_none(), problem.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Facts {
        Facts {
            tick_age: Duration::ZERO,
            started: true,
            stopping: false,
            node_id: NodeId(3),
            removed: false,
            leader_seen: true,
            raft_failed: None,
            kafka_age: Some(Duration::from_millis(9_999)),
            kafka_fatal: None,
            topics: None,
            replicas: Ok(()),
        }
    }

    fn failing(probe: Probe, facts: &Facts) -> Vec<&'static str> {
        checks(probe, facts).iter().filter(|check| !check.ok).map(|check| check.name).collect()
    }

    #[test]
    fn each_rule_of_readiness_fails_for_its_own_reason() {
        type Change = fn(&mut Facts);
        let cases: [(Change, &[&str]); 13] = [
            (|_| {}, &[]),
            (|f| f.node_id = NodeId(0), &["identity"]),
            (|f| f.leader_seen = false, &["leader_seen"]),
            (|f| f.raft_failed = Some("full".into()), &["raft"]),
            (|f| f.stopping = true, &["not_stopping"]),
            (|f| f.removed = true, &["not_removed"]),
            (|f| f.kafka_age = None, &["kafka_client"]),
            (|f| f.kafka_age = Some(KAFKA_AGE_MAX), &["kafka_client"]),
            (|f| f.kafka_fatal = refused(9), &[]),
            (|f| f.kafka_fatal = refused(10), &["kafka_client"]),
            (|f| f.topics = Some("delete".into()), &["topics"]),
            (|f| f.replicas = Err("far".into()), &["replicas"]),
            (|f| f.started = false, &[]),
        ];
        for (change, expected) in cases {
            let mut facts = good();
            change(&mut facts);
            assert_eq!(failing(Probe::Ready, &facts), expected, "{facts:?}");
        }
    }

    fn refused(seconds: u64) -> Option<(Duration, String)> {
        Some((Duration::from_secs(seconds), "login refused".to_owned()))
    }

    #[test]
    fn a_live_process_is_never_restarted_for_what_a_restart_does_not_cure() {
        let sick = Facts {
            started: false,
            stopping: true,
            node_id: NodeId(0),
            removed: true,
            leader_seen: false,
            kafka_age: None,
            replicas: Err(String::new()),
            ..good()
        };
        assert_eq!(failing(Probe::Live, &sick), Vec::<&str>::new());
        assert_eq!(failing(Probe::Startup, &sick), ["started"]);
        let stuck = Facts { tick_age: Duration::from_millis(10_001), ..good() };
        assert_eq!(failing(Probe::Live, &stuck), ["runtime"]);
    }

    #[test]
    fn losing_the_leader_later_does_not_flip_readiness() {
        let health = Health::default();
        let limits = ReadyLimits { lag: Duration::ZERO, lag_records: 0, unready_after: Duration::ZERO };
        let (none, now) = (BTreeMap::new(), Instant::now());
        let led = View { leader: Some(NodeId(1)), node_id: NodeId(3), ..View::default() };
        let alone = View { leader: None, ..led.clone() };
        health.observe(&alone, &none, &limits, now);
        assert!(!health.facts(&alone, now).leader_seen);
        health.observe(&led, &none, &limits, now);
        health.observe(&alone, &none, &limits, now);
        assert!(health.facts(&alone, now).leader_seen);
    }

    #[test]
    fn an_answer_of_kafka_heals_a_fatal_error() {
        let health = Health::default();
        health.kafka_failed("login refused".to_owned());
        let facts = |h: &Health| h.facts(&View::default(), Instant::now());
        assert!(facts(&health).kafka_fatal.is_some());
        health.kafka_answered();
        assert!(facts(&health).kafka_fatal.is_none() && facts(&health).kafka_age.is_some());
    }

    #[test]
    fn the_history_is_known_once_the_committed_index_that_a_leader_told_first_is_applied() {
        let health = Health::default();
        let limits = ReadyLimits { lag: Duration::ZERO, lag_records: 0, unready_after: Duration::ZERO };
        let at =
            |applied_index, led_index| View { applied_index, led_index, committed_index: Some(1), ..View::default() };
        for (view, known) in [
            (at(None, None), false),
            (at(Some(3), Some(7)), false),
            (at(Some(7), Some(20)), true),
            (at(Some(8), Some(30)), true),
        ] {
            health.observe(&view, &BTreeMap::new(), &limits, Instant::now());
            assert_eq!(health.is_history_known(), known, "{:?}", view.applied_index);
        }
    }
}
