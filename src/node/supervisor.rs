//! Makes this node's replicas what the cluster has assigned: restores, follows, promotes, deposes, lets go.

mod handing;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hotspare_cluster::{
    Assignment, Assignments, Cluster, Epoch, EventId, EventKind, NodeId, PartitionId, PromotionOutcome,
    PromotionPhases, PromotionResult,
};
use hotspare_system::thread;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    log::{Log, LogError},
    metrics::catalogue::FENCED,
    partition::{
        active::{ActiveRules, End, Tenure},
        control::{Begun, Control, Left, TenureNews},
        restore::Restore,
        standby::{Standbys, Told},
        status::Statuses,
    },
};

use handing::Leaving;

/// A node that was fenced tries again at most so often, for it may have been a successor that fenced it.
const RENEW_AFTER: Duration = Duration::from_secs(1);
/// What could not be warmed is tried again.
const WARM_EVERY: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(200);
/// Between attempts to build a replica that come to nothing: the first pause and the longest.
const REBUILD_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

enum News {
    Restored(PartitionId),
    Begun(PartitionId, Epoch, Begun),
    Left(PartitionId, Left),
    Ended(PartitionId, Epoch, End),
    Standby(Told),
}

/// What this node holds of a partition.
struct Held {
    state: State,
    wanted: Arc<AtomicBool>,
    /// The last tenure that this process was ordered to and tried: not to be tried again by itself, unless `renew_at`.
    tried: Epoch,
    /// When a tenure that was fenced, perhaps by nobody, may be tried again.
    renew_at: Option<Instant>,
    /// How long it was waited before the replica was built again.
    pause: Duration,
    /// Who asked this node's tenure to leave, for which epoch, and what it was when it had.
    leaving: Option<Leaving>,
}

enum State {
    Restoring,
    Following,
    Tenure {
        epoch: Epoch,
        control: Arc<Control>,
        since: Instant,
    },
    /// Until it is built again.
    Pausing(Instant),
    Unusable,
}

/// What it needs.
pub(super) struct Parts {
    /// The control plane.
    pub(super) cluster: Cluster,
    /// The topics.
    pub(super) log: Arc<dyn Log>,
    /// How replicas are restored.
    pub(super) restore: Restore,
    /// Bounds of actives.
    pub(super) rules: ActiveRules,
    /// Where replicas tell their status.
    pub(super) statuses: Statuses,
    /// At the end successors of this node's actives are waited for so long.
    pub(super) handover_within: Duration,
}

/// The supervisor of a node's replicas.
pub(super) struct Supervisor {
    parts: Parts,
    me: NodeId,
    standbys: Standbys,
    held: BTreeMap<PartitionId, Held>,
    news: UnboundedSender<News>,
    inbox: UnboundedReceiver<News>,
    warm: Vec<PartitionId>,
    warmed_at: Instant,
}

impl Supervisor {
    /// Starts the standby thread.
    ///
    /// # Errors
    /// The reader of the changelog cannot be made.
    pub(super) fn new(parts: Parts) -> Result<Self, LogError> {
        let (news, inbox) = unbounded_channel();
        let tell = news.clone();
        let told = move |told| drop(tell.send(News::Standby(told)));
        let standbys = Standbys::start(Arc::clone(&parts.log), parts.statuses.clone(), told)?;
        let me = parts.cluster.identity().node_id;
        Ok(Self {
            parts,
            me,
            standbys,
            held: BTreeMap::new(),
            news,
            inbox,
            warm: Vec::new(),
            warmed_at: Instant::now(),
        })
    }

    /// Runs until `stop` resolves, then ends all threads; what actives have read is committed first.
    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut assignments = self.parts.cluster.assignments();
        let mut tick = tokio::time::interval(TICK);
        // There is one supervisor, so it is the first that takes them.
        let (_spare, spare) = tokio::sync::mpsc::channel(1);
        let mut words = self.parts.cluster.take_handovers().unwrap_or(spare);
        let mut stopping: Option<Instant> = None;
        while stopping.is_none_or(|since| self.is_handing_over() && since.elapsed() < self.parts.handover_within) {
            tokio::select! {
                () = &mut stop, if stopping.is_none() => stopping = Some(Instant::now()),
                Some((from, word)) = words.recv() => self.hear_word(from, &word),
                changed = assignments.changed() => if changed.is_err() { break },
                news = self.inbox.recv() => if let Some(news) = news { self.hear(news) },
                _ = tick.tick() => {}
            }
            let now = assignments.borrow_and_update().clone();
            self.settle(&now);
        }
        self.stop().await;
    }

    async fn stop(&mut self) {
        for held in self.held.values() {
            held.wanted.store(false, Ordering::Release);
            if let State::Tenure { control, .. } = &held.state {
                control.finish();
            }
        }
        while self.held.values().any(|held| matches!(held.state, State::Tenure { .. })) {
            match self.inbox.recv().await {
                Some(news) => self.hear(news),
                None => break,
            }
        }
        self.standbys.stop();
    }

    /// Compares what is assigned with what is held, and does the next step of each partition.
    fn settle(&mut self, assignments: &Assignments) {
        self.me = self.parts.cluster.identity().node_id;
        if self.me == NodeId(0) {
            return;
        }
        let mine =
            |assignment: &Assignment| assignment.active == Some(self.me) || assignment.standbys.contains(&self.me);
        let gone: Vec<_> = self
            .held
            .iter()
            .filter(|(partition, _)| !assignments.by_partition.get(partition).is_some_and(mine))
            .map(|(partition, _)| *partition)
            .collect();
        for partition in gone {
            self.let_go(partition);
        }
        let me = self.me;
        for (partition, assignment) in &assignments.by_partition {
            if assignment.active == Some(me) || assignment.standbys.contains(&me) {
                self.advance(*partition, assignment);
            }
        }
        self.keep_warm(assignments);
    }

    fn advance(&mut self, partition: PartitionId, assignment: &Assignment) {
        if !self.held.contains_key(&partition) {
            self.restore(partition);
        }
        let ordered = assignment.active == Some(self.me);
        let alone = ordered && !self.has_live_standby(assignment);
        let Some(held) = self.held.get_mut(&partition) else { return };
        match &held.state {
            State::Tenure { epoch, control, .. } => {
                let handed = assignment
                    .order
                    .as_ref()
                    .is_some_and(|order| order.kind == EventKind::Switchover && order.from == Some(self.me));
                if ordered && assignment.epoch > *epoch {
                    control.finish();
                } else if !ordered && !handed {
                    control.stop();
                }
                control.set_checkpoint(alone);
            }
            State::Following if ordered => {
                let new = assignment.epoch > held.tried;
                let renewed = held.renew_at.is_some_and(|at| at <= Instant::now());
                if new || renewed {
                    self.promote(partition, assignment, !new);
                }
            }
            State::Pausing(until) if *until <= Instant::now() => self.restore_again(partition),
            State::Following | State::Restoring | State::Pausing(_) | State::Unusable => {}
        }
    }

    fn has_live_standby(&self, assignment: &Assignment) -> bool {
        let view = self.parts.cluster.view();
        assignment.standbys.iter().any(|standby| {
            view.nodes.iter().any(|node| node.node_id == *standby && node.state == hotspare_cluster::Liveness::Live)
        })
    }

    fn restore(&mut self, partition: PartitionId) {
        let wanted = Arc::new(AtomicBool::new(true));
        let held = Held {
            state: State::Restoring,
            wanted,
            tried: Epoch(0),
            renew_at: None,
            pause: Duration::ZERO,
            leaving: None,
        };
        self.held.insert(partition, held);
        self.restore_again(partition);
    }

    fn restore_again(&mut self, partition: PartitionId) {
        let Some(held) = self.held.get_mut(&partition) else { return };
        held.state = State::Restoring;
        let wanted = Arc::clone(&held.wanted);
        let (restore, link, news) = (self.parts.restore.clone(), self.standbys.link(), self.news.clone());
        thread::spawn(move || {
            if let Some((replica, checkpoints)) = restore.run(partition, || wanted.load(Ordering::Acquire)) {
                link.follow((Box::new(replica), checkpoints));
                drop(news.send(News::Restored(partition)));
            }
        });
    }

    fn promote(&mut self, partition: PartitionId, assignment: &Assignment, renewed: bool) {
        let epoch = assignment.epoch;
        let predecessor = self.predecessor(partition, assignment).filter(|_| !renewed);
        let Some(held) = self.held.get_mut(&partition) else { return };
        let control = Arc::new(Control::default());
        held.state = State::Tenure { epoch, control: Arc::clone(&control), since: Instant::now() };
        held.tried = epoch;
        (held.renew_at, held.leaving) = (None, None);
        tracing::info!(event_id = %EventId(partition, epoch), %partition, %epoch, renewed, "promoting");
        let tenure = Tenure {
            partition,
            epoch,
            renewed,
            log: Arc::clone(&self.parts.log),
            standbys: self.standbys.link(),
            rules: self.parts.rules,
            statuses: self.parts.statuses.clone(),
            control,
            predecessor,
        };
        let news = self.news.clone();
        let spawned = thread::Builder::new().name(format!("active-{partition}")).spawn(move || {
            let told = news.clone();
            let end = tenure.run(move |what| {
                drop(told.send(match what {
                    TenureNews::Begun(begun) => News::Begun(partition, epoch, begun),
                    TenureNews::Left(left) => News::Left(partition, left),
                }));
            });
            drop(news.send(News::Ended(partition, epoch, end)));
        });
        if let Err(error) = spawned {
            drop(self.news.send(News::Ended(partition, epoch, End::Failed(error.to_string()))));
        }
    }

    fn let_go(&mut self, partition: PartitionId) {
        let Some(held) = self.held.get_mut(&partition) else { return };
        held.wanted.store(false, Ordering::Release);
        if let State::Tenure { control, .. } = &held.state {
            // It comes back as a standby first.
            control.stop();
            return;
        }
        self.standbys.forget(partition);
        self.parts.statuses.remove(partition);
        self.held.remove(&partition);
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Restored(partition) => match self.held.get_mut(&partition) {
                Some(held) => held.state = State::Following,
                None => self.standbys.forget(partition),
            },
            News::Begun(partition, epoch, begun) => self.parts.cluster.report_promotion(PromotionOutcome {
                partition,
                epoch,
                result: PromotionResult::Ok,
                phases_ms: begun.phases,
                records_caught_up: begun.records_caught_up,
                readings_replayed: begun.readings_replayed,
                pause_ms: begun.pause.map(|pause| pause.as_secs_f64() * 1000.0),
            }),
            News::Left(partition, left) => self.left(partition, left),
            News::Ended(partition, epoch, end) => self.ended(partition, epoch, end),
            News::Standby(Told::Rebuild { partition, distrust, was_level }) => {
                self.rebuild(partition, distrust, was_level);
            }
            News::Standby(Told::Unusable(partition)) => {
                if let Some(held) = self.held.get_mut(&partition) {
                    held.state = State::Unusable;
                }
            }
        }
    }

    fn ended(&mut self, partition: PartitionId, epoch: Epoch, end: End) {
        let Some(held) = self.held.get_mut(&partition) else { return };
        // What is refused again and again must not be ordered again at once.
        let had_lasted = matches!(held.state, State::Tenure { since, .. } if since.elapsed() >= RENEW_AFTER);
        // Else the standby thread has given the replica up, and has told more.
        let has_replica = matches!(held.state, State::Tenure { .. });
        if has_replica {
            held.state = State::Following;
        }
        let cluster = &self.parts.cluster;
        let outcome = |result| PromotionOutcome {
            partition,
            epoch,
            result,
            phases_ms: PromotionPhases::default(),
            records_caught_up: 0,
            readings_replayed: 0,
            pause_ms: None,
        };
        match end {
            End::Stopped => {}
            End::Fenced { reason, timed_out } => {
                let cause = fence_cause(cluster, partition, epoch, timed_out);
                self.parts.statuses.meters().count(&FENCED, &[&partition.to_string(), cause]);
                tracing::warn!(event_id = %EventId(partition, epoch), %partition, %epoch, reason, "fenced");
                held.renew_at = Some(Instant::now() + RENEW_AFTER);
                cluster.report_fenced(partition, epoch, had_lasted);
            }
            End::Overtaken(seen) => {
                cluster.report_promotion(outcome(PromotionResult::Superseded { seen }));
                cluster.report_epoch_seen(partition, seen);
            }
            End::Failed(error) => {
                tracing::error!(event_id = %EventId(partition, epoch), %partition, %epoch, error, "tenure failed");
                if has_replica {
                    self.parts.statuses.update(partition, |status| status.problem = Some(error.clone()));
                }
                held.renew_at = Some(Instant::now() + RENEW_AFTER);
                cluster.report_promotion(outcome(PromotionResult::Failed { error }));
            }
        }
    }

    /// At once if the replica was right before, else after a pause that grows, for then it likely ends the same way.
    fn rebuild(&mut self, partition: PartitionId, distrust: bool, was_level: bool) {
        let Some(held) = self.held.get_mut(&partition) else { return };
        held.pause = next_pause(held.pause, was_level);
        held.state = State::Pausing(Instant::now() + held.pause);
        if distrust {
            self.parts.restore.distrust(partition);
        }
    }

    fn keep_warm(&mut self, assignments: &Assignments) {
        let wanted: Vec<_> = assignments
            .by_partition
            .iter()
            .filter(|(_, assignment)| assignment.standbys.contains(&self.me))
            .map(|(partition, _)| *partition)
            .collect();
        if wanted != self.warm || self.warmed_at.elapsed() > WARM_EVERY {
            self.parts.log.keep_warm(&wanted);
            self.warm = wanted;
            self.warmed_at = Instant::now();
        }
    }
}

/// Why a tenure was fenced, as far as this node knows.
fn fence_cause(cluster: &Cluster, partition: PartitionId, epoch: Epoch, timed_out: bool) -> &'static str {
    let is_superseded =
        cluster.assignments().borrow().by_partition.get(&partition).is_some_and(|now| now.epoch > epoch);
    match (is_superseded, timed_out) {
        (true, _) => "superseded",
        (false, true) => "transaction_timeout",
        (false, false) => "unknown",
    }
}

fn next_pause(last: Duration, was_level: bool) -> Duration {
    let (first, longest) = REBUILD_AFTER;
    if was_level { Duration::ZERO } else { (last * 2).clamp(first, longest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_cannot_be_built_is_tried_more_and_more_rarely() {
        let mut pause = next_pause(Duration::from_mins(1), true);
        let mut pauses = vec![pause.as_secs()];
        for _ in 0..8 {
            pause = next_pause(pause, false);
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
