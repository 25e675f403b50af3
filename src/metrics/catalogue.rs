//! The list of all metrics, from which registration, `docs/METRICS.md` and the tests come.

use Kind::{Counter, Gauge, GaugeSum, Histogram};
use Source::{History, Leader, Node, Progress};
use hotspare_cluster::{PHASE_BOUNDS_S, SHORT_BOUNDS_S, TOTAL_BOUNDS_S};

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// May go up and down; of a node's partitions the maximum, where they are not shown one by one.
    Gauge,
    /// The same, but the sum.
    GaugeSum,
    /// Only goes up.
    Counter,
    /// Counts by these upper bounds.
    Histogram(&'static [f64]),
}

/// Where the values come from, so how they are to be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the replicated history: every survivor exports the same, and a restart does not reset it. Absent until the
    /// node has applied the log up to the commit index that it learnt first.
    History,
    /// From progress records: active and standbys export the same. Absent while the replica restores.
    Progress,
    /// Exported by the Raft leader alone, while its last quorum answer is under 1 s old.
    Leader,
    /// The node's own.
    Node,
}

/// A label; `values` are all that there can be, none where that is not known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// All values.
    pub values: &'static [&'static str],
}

/// A metric, without the prefix `hotspare_` and the labels `cluster` and `slot` that stand on every series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Where its values come from.
    pub source: Source,
    /// Its labels in the order in which values are given.
    pub labels: &'static [Label],
    /// What it means.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($($id:ident = $name:literal, $kind:expr, $source:ident, [$($label:literal: $values:expr),*], $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric {
                name: $name,
                kind: $kind,
                source: $source,
                labels: &[$(Label { name: $label, values: &$values }),*],
                help: $help,
            };
        )*
        /// All of them, in the order of the page.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

const KINDS: [&str; 2] = ["failover", "switchover"];
/// Reasons of failovers.
pub const FAILOVER_REASONS: [&str; 7] =
    ["process_dead", "silent", "stuck", "stalled", "operator", "promotion_failed", "epoch_jump"];
/// Reasons of switchovers.
pub const SWITCHOVER_REASONS: [&str; 4] = ["operator", "drain", "shutdown", "rebalance"];
const REASONS: [&str; 10] = [
    "process_dead",
    "silent",
    "stuck",
    "stalled",
    "operator",
    "promotion_failed",
    "epoch_jump",
    "drain",
    "shutdown",
    "rebalance",
];
const RESULTS: [&str; 3] = ["success", "failed", "superseded"];
const PHASES: [&str; 9] =
    ["prepare", "last_commit", "detect", "held", "elect", "decide", "fence", "catch_up", "first_output"];
const OUTCOMES: [&str; 6] = ["counted", "late", "missing", "duplicate", "rejected", "null_record"];
const ANY: [&str; 0] = [];
const COMMIT_BOUNDS_S: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];
const ENTRY_BOUNDS: &[f64] = &[1.0, 10.0, 100.0, 1000.0, 10_000.0, 100_000.0];
const DELAY_BOUNDS_S: &[f64] = &[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0];
const LONG_BOUNDS_S: &[f64] = &[0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
const HTTP_BOUNDS_S: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];

catalogue! {
    BUILD_INFO = "build_info", Gauge, Node, ["version": ANY, "commit": ANY], "Constant 1; version and commit of the program.";
    NODE_INFO = "node_info", Gauge, Node, ["node_id": ANY, "store_uuid": ANY, "zone": ANY], "Constant 1; who the node is.";
    CONFIG_INFO = "config_info", Gauge, Node, ["hash": ANY, "semantics_hash": ANY], "Constant 1; hashes of the settings that must be the same on all nodes, and of the rules of aggregation.";
    CONFIG_MISMATCH = "config_mismatch", Gauge, Node, [], "1 when a live node has other settings of those that must be the same on all nodes.";

    FAILOVERS = "failovers_total", Counter, History, ["kind": KINDS, "reason": REASONS, "result": RESULTS], "Failovers and switchovers that have ended.";
    FAILOVER_DURATION = "failover_duration_seconds", Histogram(TOTAL_BOUNDS_S), History, ["kind": KINDS, "reason": REASONS], "From the last sign of life to the report of the first commit, of those that succeeded.";
    FAILOVER_PHASE = "failover_phase_seconds", Histogram(PHASE_BOUNDS_S), History, ["kind": KINDS, "phase": PHASES], "Where the time of those that succeeded went.";
    FAILOVER_LAST_DURATION = "failover_last_duration_seconds", Gauge, History, ["kind": KINDS], "Duration of the newest that succeeded.";
    FAILOVER_LAST_TIMESTAMP = "failover_last_timestamp_seconds", Gauge, History, ["kind": KINDS], "When it was decided.";
    UNAVAILABLE = "unavailable_seconds_total", Counter, History, ["kind": KINDS], "Partition-seconds without a working active: the durations added up.";
    FALSE_FAILOVERS = "false_failovers_total", Counter, History, ["reason": FAILOVER_REASONS], "Failovers after which the deposed process was heard again.";
    FAILOVERS_WITHHELD = "failovers_withheld_total", Counter, History, ["reason": ["no_candidate", "paused", "antiflap", "same_offset"]], "Failovers decided and not done, each reason once while it lasts.";
    FAILOVERS_BLOCKED_NO_QUORUM = "failovers_blocked_no_quorum_total", Counter, Node, [], "Actives seen to die while no quorum lived that could replace them.";
    SUSPICIONS = "suspicions_total", Counter, Node, ["outcome": ["confirmed", "refuted", "cleared"]], "Suspicions of other nodes that have ended.";

    NODES = "nodes", GaugeSum, Leader, ["state": ["live", "suspect", "dead", "draining", "removed"]], "Nodes; one that never came counts as dead.";
    PARTITIONS = "partitions", GaugeSum, Leader, ["state": ["active", "promoting", "no_active"]], "Partitions.";
    PROMOTABLE_STANDBYS = "promotable_standbys", Gauge, Leader, ["partition": ANY], "Standbys that could take over now, warm.";
    UNDER_REPLICATED = "under_replicated_partitions", Gauge, Leader, [], "Partitions with fewer promotable standbys than configured.";
    FAILURE_TOLERANCE = "failure_tolerance", Gauge, Leader, [], "How many nodes, whichever they are, may die so that a quorum and every partition are left.";

    NODE_DRAINING = "node_draining", Gauge, Node, [], "1 while this node is being drained.";
    NODE_NOFAILOVER = "node_nofailover", Gauge, Node, [], "1 where this node is configured never to take over.";
    REPLICA_ROLE = "replica_role", GaugeSum, Node, ["partition": ANY, "role": ["active", "standby", "restoring", "promoting", "fenced", "divergent"]], "1 for the role that the replica has.";
    ACTIVE_CLAIMS = "active_claims", GaugeSum, Node, ["partition": ANY], "1 where the replica takes itself for the active.";
    REPLICA_EPOCH = "replica_epoch", Gauge, Progress, ["partition": ANY], "Own epoch, or the highest seen.";
    COMMIT_NUMBER = "commit_number", Gauge, Progress, ["partition": ANY], "Commit last applied or written.";
    CHANGELOG_APPLIED = "changelog_applied_offset", Gauge, Node, ["partition": ANY], "Next changelog offset to apply.";
    CHANGELOG_LSO = "changelog_lso_offset", Gauge, Node, ["partition": ANY], "Last stable offset of the changelog as last seen.";
    CHANGELOG_UNREADABLE = "changelog_unreadable_records", GaugeSum, Node, ["partition": ANY], "Changelog records that cannot be read and were not replaced yet; must be 0.";
    INVARIANT_VIOLATIONS = "invariant_violations_total", Counter, Node, ["invariant": ANY], "Violations of what must always hold; must be 0.";
    DIGEST_CHECKS = "digest_checks_total", Counter, Node, ["partition": ANY, "result": ["equal", "different"]], "Comparisons of the state's digest with the active's.";
    FENCED = "fenced_total", Counter, Node, ["partition": ANY, "cause": ["superseded", "transaction_timeout", "unknown"]], "Tenures of this node that the broker ended.";
    STANDBY_LAG_RECORDS = "standby_lag_records", Gauge, Node, ["partition": ANY], "Changelog records that a standby has not applied.";
    STANDBY_LAG_SECONDS = "standby_lag_seconds", Gauge, Node, ["partition": ANY], "Age of the oldest of them; 0 when there is none.";
    LAST_APPLIED = "last_applied_timestamp_seconds", Gauge, Node, ["partition": ANY], "When the replica last applied or wrote a commit.";
    LAST_COMMIT = "last_commit_timestamp_seconds", Gauge, Node, ["partition": ANY], "When the active last committed.";
    STATE_ENTRIES = "state_entries", GaugeSum, Node, ["partition": ANY], "Entries of the state at the last commit.";
    STATE_SERIES = "state_series", GaugeSum, Node, ["partition": ANY], "Series of the state.";
    DEVICES_ON_TWO_PARTITIONS = "devices_on_two_partitions", Gauge, Node, [], "Devices on more than one partition of this node's replicas: their windows are split.";
    RESTORE_REMAINING = "restore_remaining_records", GaugeSum, Node, ["partition": ANY], "Changelog records that a restoring replica has still to apply.";
    CHECKPOINT_LAST = "checkpoint_last_timestamp_seconds", Gauge, Node, ["partition": ANY], "When this process last wrote a checkpoint.";
    CHECKPOINT_BYTES = "checkpoint_bytes", GaugeSum, Node, ["partition": ANY], "Size of that checkpoint.";
    RESTORE_SECONDS = "restore_seconds", Histogram(LONG_BOUNDS_S), Node, ["source": ["checkpoint", "changelog"]], "From the begin of a restore to the end of the changelog.";
    CHECKPOINT_SECONDS = "checkpoint_seconds", Histogram(LONG_BOUNDS_S), Node, [], "Writing and verifying a checkpoint.";
    CHECKPOINT_FAILURES = "checkpoint_failures_total", Counter, Node, ["stage": ["write", "verify", "load"]], "Checkpoints not written, or folders of them not read.";
    CHECKPOINTS_DISCARDED = "checkpoints_discarded_total", Counter, Node, ["reason": ["checksum", "age", "topic_id", "kafka_cluster_id", "format", "cluster", "partition", "semantics", "offset", "io"]], "Checkpoints passed over when a replica was restored.";

    INPUT_RECORDS = "input_records_total", Counter, Progress, ["partition": ANY], "Records of the input topic.";
    WINDOWS_FINAL = "windows_final_total", Counter, Progress, ["partition": ANY], "Final windows.";
    DEAD_LETTERS = "dead_letters_total", Counter, Progress, ["partition": ANY], "Dead letters.";
    CONSUMED = "consumed_total", Counter, Progress, ["partition": ANY], "Candidates for readings, and null records: the left side of the conservation law.";
    READINGS = "readings_total", Counter, Progress, ["partition": ANY, "outcome": OUTCOMES], "What became of them, one outcome each: the right side.";
    READINGS_REJECTED = "readings_rejected_total", Counter, Progress, ["partition": ANY, "reason": ANY], "Rejections by the reasons of docs/SEMANTICS.md.";
    READINGS_UNACCOUNTED = "readings_unaccounted", GaugeSum, Progress, ["partition": ANY], "Left side minus right side; must be 0.";
    INPUT_LAG_RECORDS = "input_lag_records", GaugeSum, Node, ["partition": ANY], "Input records that the active has not read.";
    INPUT_LAG_SECONDS = "input_lag_seconds", Gauge, Node, ["partition": ANY], "Age of the newest committed input record while others wait; 0 when none waits.";
    COMMITS = "commits_total", Counter, Node, ["result": ["committed", "aborted", "fenced"]], "Transactions of this node's actives.";
    COMMIT_SECONDS = "commit_seconds", Histogram(COMMIT_BOUNDS_S), Node, [], "Writing and committing a transaction.";
    COMMIT_ENTRIES = "commit_entries", Histogram(ENTRY_BOUNDS), Node, [], "Changed entries of a committed transaction.";
    END_TO_END = "end_to_end_seconds", Histogram(DELAY_BOUNDS_S), Node, [], "From the timestamp of the oldest record of a commit to the commit.";

    KAFKA_ERRORS = "kafka_errors_total", Counter, Node, ["client": ["standby", "input", "writer", "queries"], "class": ["retriable", "abort", "fatal"]], "Errors of Kafka clients.";
    KAFKA_LAST_CONTACT = "kafka_last_contact_timestamp_seconds", Gauge, Node, [], "When a broker last answered; begins with the process start.";
    TOPIC_SETTING_WRONG = "topic_setting_wrong", Gauge, Node, ["topic": ANY, "setting": ANY], "1 where a topic is not as wanted.";

    RAFT_IS_LEADER = "raft_is_leader", Gauge, Node, [], "1 where this node is the Raft leader.";
    RAFT_HAS_LEADER = "raft_has_leader", Gauge, Node, [], "1 where a Raft leader with a quorum is known.";
    RAFT_TERM = "raft_term", Gauge, Node, [], "Raft term.";
    RAFT_COMMITTED_INDEX = "raft_committed_index", Gauge, Node, [], "Newest log entry known to be committed.";
    RAFT_APPLIED_INDEX = "raft_applied_index", Gauge, Node, [], "Newest log entry applied here.";
    RAFT_VOTERS = "raft_voters", Gauge, Node, [], "Voters.";
    RAFT_QUORUM_ACK = "raft_quorum_ack_timestamp_seconds", Gauge, Node, [], "When a quorum last answered this Raft leader.";
    RAFT_ELECTIONS = "raft_elections_total", Counter, Node, ["cause": ["timeout", "proof", "transfer"], "result": ["won", "lost"]], "Candidacies of this node.";
    RAFT_LEADER_CHANGES = "raft_leader_changes_total", Counter, Node, [], "How often another node became the Raft leader.";
    RAFT_FSYNC = "raft_fsync_seconds", Histogram(SHORT_BOUNDS_S), Node, [], "Writing the Raft log to the disk.";
    RAFT_COMMIT = "raft_commit_seconds", Histogram(SHORT_BOUNDS_S), Node, [], "From a plan of this Raft leader until it is committed.";
    PEER_RTT = "peer_rtt_seconds", Histogram(SHORT_BOUNDS_S), Node, ["peer": ANY], "From a request to a peer to its answer, the peer's work included.";
    PEER_LAST_HEARD = "peer_last_heard_timestamp_seconds", Gauge, Node, ["peer": ANY], "When the peer was last heard of.";
    PEER_REJECTED = "peer_rejected_total", Counter, Node, ["reason": ["cluster_id", "cluster_name", "store_uuid", "tombstoned", "slot", "myself", "protocol", "magic"]], "Refused connections of peers, on either side.";
    RUNTIME_TICK_AGE = "runtime_tick_age_seconds", Gauge, Node, [], "Since the async runtime last turned.";
    HTTP_REQUESTS = "http_requests_total", Counter, Node, ["route": ANY, "code": ANY], "Answered HTTP requests.";
    HTTP_REQUEST_SECONDS = "http_request_seconds", Histogram(HTTP_BOUNDS_S), Node, ["route": ANY, "code": ANY], "How long they took.";
}
