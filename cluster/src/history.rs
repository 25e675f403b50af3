//! The record of every first assignment, failover and switchover.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, NodeId, PartitionId, Slot};
use crate::invariants;
use crate::operation::OperationId;
use crate::totals::Totals;

/// A moment of wall-clock time, in milliseconds since 1970 (UTC); shown in RFC 3339 with milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(pub i64);

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        write!(f, "{shown:.3}")
    }
}

impl Serialize for WallTime {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
        Ok(Self(time.as_millisecond()))
    }
}

/// What kind of change an event records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// The first active of a partition.
    Initial,
    /// The active failed.
    Failover,
    /// Somebody asked.
    Switchover,
}

impl EventKind {
    /// The name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Failover => "failover",
            Self::Switchover => "switchover",
        }
    }
}

/// Why an active was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The partition had no active before.
    Initial,
    /// Proof that the process is gone.
    ProcessDead,
    /// No sign of life, confirmed by another node.
    Silent,
    /// The active's loop did not turn.
    Stuck,
    /// Kafka did not answer its node, though it answered a standby's.
    Stalled,
    /// An operator asked.
    Operator,
    /// The node is being drained.
    Drain,
    /// The node is shutting down.
    Shutdown,
    /// To spread actives.
    Rebalance,
    /// The promotion before had no outcome in time, or failed.
    PromotionFailed,
    /// The newest tenure cannot go on under its epoch: a higher one stands in the changelog, or the broker refused its
    /// writer though no other was ordered.
    EpochJump,
}

impl Reason {
    /// The name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::ProcessDead => "process_dead",
            Self::Silent => "silent",
            Self::Stuck => "stuck",
            Self::Stalled => "stalled",
            Self::Operator => "operator",
            Self::Drain => "drain",
            Self::Shutdown => "shutdown",
            Self::Rebalance => "rebalance",
            Self::PromotionFailed => "promotion_failed",
            Self::EpochJump => "epoch_jump",
        }
    }
}

/// How an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventResult {
    /// Not yet known.
    Pending,
    /// The new active has committed.
    Success,
    /// It did not.
    Failed,
    /// A later epoch came first.
    Superseded,
    /// It was decided, and not done; [`HistoryEvent::withheld`] says why.
    Withheld,
}

impl EventResult {
    /// The name in JSON and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Superseded => "superseded",
            Self::Withheld => "withheld",
        }
    }
}

/// A node as it was at the event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRef {
    /// Its name.
    pub slot: Slot,
    /// Its id.
    pub node_id: NodeId,
}

/// One thing that somebody saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Who saw it.
    pub seen_by: Slot,
    /// What: `connection_reset`, `reconnect_refused`, `new_incarnation`, `heartbeats_missed`, `goodbye`, …
    pub what: String,
    /// When, in milliseconds after the last sign of life.
    pub at_ms: f64,
}

/// Where the time went, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Of a switchover: from the order until the successor was ready and the old active had stopped reading.
    #[serde(default)]
    pub prepare: f64,
    /// Of a switchover: the old active's last commit.
    #[serde(default)]
    pub last_commit: f64,
    /// From the last sign of life to the verdict.
    pub detect: f64,
    /// Held back: anti-flap, no candidate.
    pub held: f64,
    /// Waiting for a Raft leader.
    pub elect: f64,
    /// From there until the order was committed.
    pub decide: f64,
    /// See [`crate::PromotionPhases`].
    pub fence: f64,
    /// See [`crate::PromotionPhases`].
    pub catch_up: f64,
    /// See [`crate::PromotionPhases`].
    pub first_output: f64,
}

/// Why a node was not chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PassedOver {
    /// The node.
    pub slot: Slot,
    /// Its id.
    pub node_id: NodeId,
    /// The reason, with its numbers.
    #[serde(flatten)]
    pub reason: CandidateReason,
}

/// Reasons for which a node is not promoted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum CandidateReason {
    /// It does not answer, proven or confirmed.
    Dead,
    /// It does not answer; not yet confirmed.
    Suspect,
    /// Its replica is still being restored.
    Restoring,
    /// Its state differs from the active's.
    Divergent,
    /// It is being drained.
    Draining,
    /// It is shutting down.
    Stopping,
    /// It is configured so.
    Nofailover,
    /// It aggregates by other rules.
    SemanticsDiffer,
    /// Its version is too old to read what the active's writes.
    VersionTooOld,
    /// It is too far behind for a planned change.
    Cold,
    /// Its promotion met a higher epoch.
    Overtaken,
    /// It holds no replica of the partition.
    NoReplica,
    /// Its promotion failed just now.
    PromotionFailed,
    /// Kafka does not answer it.
    KafkaUnreachable,
    /// Another is further.
    Behind {
        /// Next changelog offset it would apply.
        applied: i64,
        /// That of the one chosen.
        best: i64,
    },
}

impl CandidateReason {
    /// The name used in tables and metrics.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Suspect => "suspect",
            Self::Restoring => "restoring",
            Self::Divergent => "divergent",
            Self::Draining => "draining",
            Self::Stopping => "stopping",
            Self::Nofailover => "nofailover",
            Self::SemanticsDiffer => "semantics_differ",
            Self::VersionTooOld => "version_too_old",
            Self::Cold => "cold",
            Self::Overtaken => "overtaken",
            Self::NoReplica => "no_replica",
            Self::PromotionFailed => "promotion_failed",
            Self::KafkaUnreachable => "kafka_unreachable",
            Self::Behind { .. } => "behind",
        }
    }
}

/// One event of the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryEvent {
    /// Number of the event, growing by one.
    pub seq: u64,
    /// What kind of change.
    pub kind: EventKind,
    /// Why.
    pub reason: Reason,
    /// The partition.
    pub partition: PartitionId,
    /// The epoch ordered.
    pub epoch: Epoch,
    /// How it ended.
    pub result: EventResult,
    /// Who asked; none if automatic.
    pub by: Option<String>,
    /// When it was decided, by the leader's wall clock.
    pub at: WallTime,
    /// The active before.
    pub from: Option<NodeRef>,
    /// Incarnation of the process that was deposed; 0 if none.
    pub from_incarnation: u64,
    /// The active after.
    pub to: NodeRef,
    /// What was seen.
    pub evidence: Vec<Evidence>,
    /// Where the time went.
    pub phases_ms: Phases,
    /// From the last sign of life to the arrival of the report of the first commit, by the leader's clock.
    pub total_ms: Option<f64>,
    /// Of a switchover: from the end of the old active's reading to the successor's first commit, in milliseconds.
    #[serde(default)]
    pub pause_ms: Option<f64>,
    /// See [`crate::PromotionOutcome`].
    pub records_caught_up: u64,
    /// See [`crate::PromotionOutcome`].
    pub readings_replayed: u64,
    /// Candidates that were not chosen.
    pub passed_over: Vec<PassedOver>,
    /// Whether the deposed process, same incarnation, was heard again.
    pub false_positive: bool,
    /// Why it was not done: `no_candidate`, `antiflap`, `same_offset` or `paused`; only with result `withheld`.
    #[serde(default)]
    pub withheld: Option<String>,
    /// The operation of which it is a part.
    #[serde(default)]
    pub operation: Option<OperationId>,
    /// Error of a failed promotion.
    pub error: Option<String>,
    /// An operator's note.
    pub note: Option<String>,
}

/// The events kept, and counters of all that ever were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    /// Number of the next event.
    pub next_seq: u64,
    /// Events, newest last.
    pub events: VecDeque<HistoryEvent>,
    /// Ended events by `kind/reason/result`; live on when events are trimmed.
    pub ended: BTreeMap<String, u64>,
    /// Events found to be false positives; lives on too.
    pub false_positives: u64,
    /// More that lives on.
    #[serde(default)]
    pub totals: Totals,
}

impl History {
    /// Adds an event, gives it its number and drops the oldest beyond `events_max`.
    pub(crate) fn push(&mut self, mut event: HistoryEvent, events_max: usize) -> u64 {
        self.next_seq += 1;
        event.seq = self.next_seq;
        self.events.push_back(event);
        while self.events.len() > events_max.max(1) {
            self.events.pop_front();
        }
        let first = self.events.front().map_or(0, |event| event.seq);
        invariants::uphold(invariants::history_without_holes(first, self.next_seq, self.events.len()), None);
        self.next_seq
    }

    /// The event of a partition's epoch, if it is still kept.
    pub(crate) fn of_epoch_mut(&mut self, partition: PartitionId, epoch: Epoch) -> Option<&mut HistoryEvent> {
        let done = |e: &&mut HistoryEvent| e.result != EventResult::Withheld;
        self.events.iter_mut().rev().filter(done).find(|e| e.partition == partition && e.epoch == epoch)
    }

    /// Events by which the detector deposed this process, and that are not known to be false positives.
    pub(crate) fn falsely_deposed(&self, node: NodeId, incarnation: u64) -> impl Iterator<Item = &HistoryEvent> {
        self.events.iter().filter(move |event| {
            let by_detector = matches!(event.reason, Reason::ProcessDead | Reason::Silent);
            let same = event.from.as_ref().is_some_and(|f| f.node_id == node) && event.from_incarnation == incarnation;
            by_detector && same && event.result != EventResult::Withheld && !event.false_positive
        })
    }

    /// Counts the event of a partition's epoch, which has just ended.
    pub(crate) fn count_end(&mut self, partition: PartitionId, epoch: Epoch) {
        if let Some(event) = self.of_epoch_mut(partition, epoch).cloned() {
            let key = format!("{}/{}/{}", event.kind.name(), event.reason.name(), event.result.name());
            *self.ended.entry(key).or_default() += 1;
            self.totals.ended(&event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_rfc_3339_with_milliseconds() {
        assert_eq!(WallTime(1_772_373_731_532).to_string(), "2026-03-01T14:02:11.532Z");
        let text = serde_json::to_string(&WallTime(1_000)).unwrap();
        assert_eq!(text, "\"1970-01-01T00:00:01.000Z\"");
        assert_eq!(serde_json::from_str::<WallTime>(&text).unwrap(), WallTime(1_000));
    }

    #[test]
    fn names_are_those_of_the_json() {
        let json = |value| serde_json::to_string(&value).unwrap();
        for reason in [Reason::ProcessDead, Reason::PromotionFailed, Reason::EpochJump, Reason::Rebalance] {
            assert_eq!(json(serde_json::to_value(reason).unwrap()), format!("\"{}\"", reason.name()));
        }
        for kind in [EventKind::Initial, EventKind::Failover, EventKind::Switchover] {
            assert_eq!(json(serde_json::to_value(kind).unwrap()), format!("\"{}\"", kind.name()));
        }
        for result in [EventResult::Pending, EventResult::Success, EventResult::Failed, EventResult::Withheld] {
            assert_eq!(json(serde_json::to_value(result).unwrap()), format!("\"{}\"", result.name()));
        }
    }

    #[test]
    fn a_candidates_reason_is_flat_beside_its_slot() {
        let passed = PassedOver {
            slot: Slot("a".into()),
            node_id: NodeId(2),
            reason: CandidateReason::Behind { applied: 3, best: 9 },
        };
        let json = serde_json::to_value(&passed).unwrap();
        assert_eq!(json["reason"], "behind");
        assert_eq!(json["best"], 9);
        assert_eq!(serde_json::from_value::<PassedOver>(json).unwrap(), passed);
    }
}
