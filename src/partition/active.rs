//! One tenure of an active: fence, catch up, aggregate and commit until it is over. A thread of its own; its calls block.

use std::{
    sync::{Arc, OnceLock, mpsc::RecvTimeoutError},
    time::{Duration, Instant},
};

use fail::fail_point;
use hotspare_cluster::{Epoch, EventId, Offset, PartitionId, PromotionPhases, Role, invariants};
use hotspare_system::{mpsc::Receiver, thread};

use super::{
    control::{Begun, Control, Left, TenureNews},
    handover::{Handed, Predecessor},
    machine::{Eligible, Panicked, Replica, Transaction},
    quiet::Quiet,
    snapshot::wall_clock_ms,
    standby::{Link, Owned},
    status::Statuses,
};
use crate::{
    log::{CommitError, Event, Fenced, Log, LogError, Reader, Topic, Writer},
    metrics::catalogue::{COMMIT_ENTRIES, COMMIT_SECONDS, COMMITS, END_TO_END, KAFKA_ERRORS},
    reading::InputRecord,
};

const POLL: Duration = Duration::from_millis(20);
/// The first transaction of a tenure waits at most so long for a first reading.
const FIRST_POLL: Duration = Duration::from_millis(25);
const NOTE_EVERY: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_millis(20);

/// Bounds of the loop.
#[derive(Debug, Clone, Copy)]
pub struct ActiveRules {
    /// Longest time between commits while there is something to commit.
    pub commit_interval: Duration,
    /// Changed entries of one transaction.
    pub commit_entries_max: usize,
    /// Bytes of one transaction.
    pub commit_bytes_max: usize,
    /// Longest time of a promotion.
    pub promote_timeout: Duration,
    /// After so long the broker ends a transaction that nobody ends.
    pub transaction_timeout: Duration,
}

/// How a tenure ended.
#[derive(Debug, Clone)]
pub enum End {
    /// Somebody asked for it.
    Stopped,
    /// The broker refused the writer, or the writer broke; that does not prove that there is a successor.
    Fenced {
        /// What the client says.
        reason: String,
        /// Whether the transaction had been open for longer than the broker allows.
        timed_out: bool,
    },
    /// The changelog holds this epoch, at or above the one ordered.
    Overtaken(Epoch),
    /// It did not begin.
    Failed(String),
}

/// An order to be the active.
pub struct Tenure {
    /// The partition.
    pub partition: PartitionId,
    /// Its number.
    pub epoch: Epoch,
    /// Whether this process had it before and was fenced.
    pub renewed: bool,
    /// The topics.
    pub log: Arc<dyn Log>,
    /// Where the replica comes from and goes to.
    pub standbys: Link,
    /// Bounds.
    pub rules: ActiveRules,
    /// Where the status is told.
    pub statuses: Statuses,
    /// What others ask.
    pub control: Arc<Control>,
    /// Of a switchover: the active before, which works until this one is ready.
    pub predecessor: Option<Predecessor>,
}

struct Running {
    tenure: Tenure,
    owned: Owned,
    writer: Box<dyn Writer>,
    input: Box<dyn Reader>,
    next_input: Offset,
    /// Next input offset at the last commit.
    batch_begin: Offset,
    committed_at: Instant,
    noted_at: Instant,
    quiet: Quiet,
    /// Timestamp of the oldest record since the last commit.
    oldest_ms: Option<i64>,
}

enum Read {
    More,
    /// So much is to be closed before the next record that it takes a transaction of its own.
    Full,
    Again(Panicked),
    Lost(String),
}

impl Tenure {
    /// Runs it to its end.
    pub fn run(self, tell: impl Fn(TenureNews)) -> End {
        let (partition, epoch) = (self.partition, self.epoch);
        let role_before = self.statuses.all().get(&partition).map_or(Role::Standby, |status| status.role);
        let standbys = self.standbys.clone();
        let statuses = self.statuses.clone();
        let end = match self.promote() {
            Err(end) => {
                standbys.keep(partition);
                statuses.update(partition, |status| {
                    if status.role == Role::Promoting {
                        // One that is divergent stays so: it must not look like a candidate again.
                        status.role = if role_before == Role::Divergent { role_before } else { Role::Standby };
                    }
                });
                end
            }
            Ok((mut running, promoted)) => {
                let end = running.aggregate(&promoted, &tell);
                running.hand_back(&end);
                end
            }
        };
        tracing::info!(event_id = %EventId(partition, epoch), %partition, %epoch, ?end, "tenure over");
        end
    }

    fn promote(self) -> Result<(Running, Promoted), End> {
        let until = Arc::new(OnceLock::new());
        let answer = self.standbys.ask(self.partition, &until);
        let ordered_at = Instant::now();
        let mut input = self.persist(ordered_at, || self.log.input_reader(self.partition))?;
        let handed = match &self.predecessor {
            Some(predecessor) => self.take_over(predecessor, &mut *input, ordered_at)?,
            None => Handed::default(),
        };
        let begin = Instant::now();
        self.statuses.update(self.partition, |status| status.role = Role::Promoting);
        let before = self.statuses.all().remove(&self.partition);
        let applied_before = before.as_ref().map_or(Offset(0), |status| status.applied);
        // The input arrives while the fence is built. What turns out to be consumed already is passed over.
        let progress = before.and_then(|status| status.progress).map(|progress| progress.next_input_offset);
        let ahead = handed.ahead.or(progress);
        if let Some(ahead) = ahead.filter(|_| handed.ahead.is_none()) {
            input.assign(self.partition, ahead).map_err(|error| End::Failed(error.to_string()))?;
        }
        let Fenced { writer, changelog_end: lso, method } = self.persist(begin, || self.log.fence(self.partition))?;
        fail_point!("after_fence");
        let fenced_at = Instant::now();
        // Only this sets it.
        let _ = until.set(lso);
        fail_point!("between_fence_and_catch_up");
        let owned = self.wait_for_replica(&answer, begin, lso)?;
        let caught_up_at = Instant::now();
        invariants::uphold(invariants::promoted_at_log_end(owned.0.next(), lso), Some(self.partition));
        if let Eligible::Overtaken(seen) = owned.0.may_begin(self.epoch, self.renewed) {
            self.standbys.follow(owned);
            return Err(End::Overtaken(seen));
        }
        let begin_input = || match owned.0.next_input() {
            Some(next) => Ok(next),
            None => self.log.bounds(Topic::Input, self.partition).map(|(first, _)| first),
        };
        let started = self.persist(begin, begin_input).and_then(|next| {
            if ahead.is_none_or(|ahead| ahead > next) {
                input.assign(self.partition, next).map_err(|error| End::Failed(error.to_string()))?;
            }
            Ok(next)
        });
        let next_input = match started {
            Ok(next) => {
                handed.compare(self.partition, next);
                next
            }
            Err(end) => {
                self.standbys.follow(owned);
                return Err(end);
            }
        };
        self.statuses.update(self.partition, |status| {
            status.role = Role::Active;
            status.epoch = self.epoch;
            status.observe(&owned.0);
        });
        let promoted = Promoted {
            fence: fenced_at - begin,
            catch_up: caught_up_at - fenced_at,
            caught_up_at,
            handed,
            records: u64::try_from(owned.0.next().0 - applied_before.0).unwrap_or(0),
            method,
        };
        let log_time_ms = owned.0.store().log_time_ms();
        let running = Running {
            owned,
            writer,
            input,
            next_input,
            batch_begin: next_input,
            committed_at: Instant::now(),
            noted_at: Instant::now(),
            quiet: Quiet::new(log_time_ms, Instant::now()),
            oldest_ms: None,
            tenure: self,
        };
        Ok((running, promoted))
    }

    /// Tries again while the broker does not answer and the promotion may still succeed.
    fn persist<T>(&self, begin: Instant, mut attempt: impl FnMut() -> Result<T, LogError>) -> Result<T, End> {
        let mut said = String::new();
        loop {
            match attempt() {
                Ok(done) => return Ok(done),
                Err(_) if self.control.ending() => return Err(End::Stopped),
                Err(LogError::Unavailable(error)) if begin.elapsed() < self.rules.promote_timeout => {
                    self.statuses.meters().count(&KAFKA_ERRORS, &["writer", "retriable"]);
                    // It is tried many times a second.
                    if said != error {
                        tracing::warn!(partition = %self.partition, epoch = %self.epoch, error, "promotion waits for kafka");
                        said = error;
                    }
                    thread::sleep(RETRY_AFTER);
                }
                Err(error) => return Err(End::Failed(error.to_string())),
            }
        }
    }

    /// What the replica's status says of it.
    fn problem(&self) -> String {
        let status = self.statuses.all().remove(&self.partition);
        status.and_then(|status| status.problem).unwrap_or_else(|| "it is not there any more".to_owned())
    }

    fn wait_for_replica(&self, answer: &Receiver<Owned>, begin: Instant, lso: Offset) -> Result<Owned, End> {
        loop {
            match answer.recv_timeout(POLL) {
                Ok(owned) => return Ok(owned),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    const WHAT: &str = "the replica cannot be used: ";
                    let problem = self.problem();
                    return Err(End::Failed(format!("{WHAT}{}", problem.trim_start_matches(WHAT))));
                }
            }
            if self.control.ending() {
                return Err(End::Stopped);
            }
            if begin.elapsed() > self.rules.promote_timeout {
                return Err(End::Failed(format!(
                    "the changelog was not applied to its end ({lso}) within {} ms",
                    self.rules.promote_timeout.as_millis()
                )));
            }
        }
    }
}

struct Promoted {
    fence: Duration,
    catch_up: Duration,
    caught_up_at: Instant,
    handed: Handed,
    records: u64,
    method: &'static str,
}

impl Running {
    fn replica(&mut self) -> &mut Replica {
        &mut self.owned.0
    }

    fn aggregate(&mut self, promoted: &Promoted, tell: &impl Fn(TenureNews)) -> End {
        let readings = match self.first(promoted, tell) {
            Ok(readings) => readings,
            Err(end) => return end,
        };
        let (partition, epoch, method) = (self.tenure.partition, self.tenure.epoch, promoted.method);
        tracing::info!(event_id = %EventId(partition, epoch), %partition, %epoch, method, readings, "active");
        loop {
            if self.tenure.control.stopped() {
                return End::Stopped;
            }
            if self.tenure.control.finishing() {
                return self.finish(tell);
            }
            if let Err(end) = self.turn(POLL, false) {
                return end;
            }
        }
    }

    /// Commits what was read, and tells where the input goes on.
    fn finish(&mut self, tell: &impl Fn(TenureNews)) -> End {
        let stopped_at = Instant::now();
        fail_point!("handover_before_last_commit");
        let pending = !self.replica().pending().is_empty();
        let end = if pending { self.commit().err().unwrap_or(End::Stopped) } else { End::Stopped };
        fail_point!("handover_after_last_commit");
        let next_input = Some(self.batch_begin).filter(|_| matches!(end, End::Stopped));
        tell(TenureNews::Left(Left { next_input, stopped_at, last_commit: stopped_at.elapsed() }));
        end
    }

    fn first(&mut self, promoted: &Promoted, tell: &impl Fn(TenureNews)) -> Result<u64, End> {
        let readings = self.turn(FIRST_POLL, true)?;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let Handed { prepare, last_commit, stopped_at, .. } = promoted.handed;
        tell(TenureNews::Begun(Begun {
            phases: PromotionPhases {
                prepare: ms(prepare),
                last_commit: ms(last_commit),
                fence: ms(promoted.fence),
                catch_up: ms(promoted.catch_up),
                first_output: ms(promoted.caught_up_at.elapsed()),
            },
            records_caught_up: promoted.records,
            readings_replayed: readings,
            pause: stopped_at.map(|at| at.elapsed()),
        }));
        Ok(readings)
    }

    /// Reads what there is, and commits if it is time. Returns the records of the transaction.
    fn turn(&mut self, wait: Duration, at_once: bool) -> Result<u64, End> {
        let interval = self.tenure.rules.commit_interval;
        let pending = !self.replica().pending().is_empty();
        let wait = if pending { wait.min(interval.saturating_sub(self.committed_at.elapsed())) } else { wait };
        match self.read(wait) {
            Read::More => {}
            Read::Full => {
                let records = self.replica().pending().records;
                self.commit()?;
                self.seek(self.next_input)?;
                return Ok(records);
            }
            Read::Again(panicked) => {
                tracing::error!(partition = %self.tenure.partition, offset = %panicked.offset,
                    "internal error on an input record; it goes to the dead letters");
                self.seek(panicked.again_from)?;
                return Ok(0);
            }
            Read::Lost(error) => return Err(End::Failed(error)),
        }
        fail_point!("after_decode");
        self.tell_log_time();
        let pending = self.replica().pending();
        let full = pending.entries >= self.tenure.rules.commit_entries_max
            || pending.bytes >= self.tenure.rules.commit_bytes_max;
        if at_once || full || (!pending.is_empty() && self.committed_at.elapsed() >= interval) {
            self.commit()?;
            return Ok(pending.records);
        }
        self.note();
        Ok(0)
    }

    fn read(&mut self, wait: Duration) -> Read {
        let (replica, next_input) = (&mut self.owned.0, &mut self.next_input);
        let (statuses, partition) = (&self.tenure.statuses, self.tenure.partition);
        let (batch_begin, acts_max) = (self.batch_begin, self.tenure.rules.commit_entries_max);
        let (quiet, oldest_ms) = (&mut self.quiet, &mut self.oldest_ms);
        let mut outcome = Read::More;
        self.input.poll(wait, &mut |event| {
            if !matches!(outcome, Read::More) {
                return;
            }
            match event {
                Event::Record(_, record) if record.offset < *next_input => {}
                Event::Record(_, record) if !replica.raise_log_time(record.timestamp_ms, acts_max) => {
                    outcome = Read::Full;
                }
                Event::Record(_, record) => {
                    quiet.has_unread();
                    *oldest_ms = Some(oldest_ms.map_or(record.timestamp_ms, |oldest| oldest.min(record.timestamp_ms)));
                    let next = Offset(record.offset.0 + 1);
                    let record = InputRecord {
                        offset: record.offset,
                        timestamp_ms: record.timestamp_ms,
                        key: record.key,
                        value: record.value,
                        headers: record.headers(),
                    };
                    match replica.read(&record, batch_begin) {
                        Ok(()) => *next_input = next,
                        Err(panicked) => outcome = Read::Again(panicked),
                    }
                }
                Event::End(_, end) => {
                    *next_input = (*next_input).max(end);
                    quiet.reached_end();
                    statuses.update(partition, |status| status.input_lag_records = Some(0));
                }
                Event::Error(_, LogError::OffsetOutOfRange { .. }) => {
                    outcome = Read::Lost(format!(
                        "input offset {next_input} is not in the topic any more: its retention deleted records before they \
                         were read, or the topic was created anew. Repair: raise retention.ms of the input topic; to go \
                         on without the lost records, start under a new cluster name"
                    ));
                }
                Event::Error(_, error) => {
                    statuses.meters().count(&KAFKA_ERRORS, &["input", error.class()]);
                    statuses.update(partition, |status| status.problem = Some(error.to_string()));
                }
            }
        });
        self.tenure.statuses.update(partition, |status| status.turned_at = Instant::now());
        outcome
    }

    /// Where nothing is unread and silence closes something by now, says so in the changelog (SEMANTICS 7).
    fn tell_log_time(&mut self) {
        let (next, acts_max) = (self.next_input, self.tenure.rules.commit_entries_max);
        let log_time_ms = self.replica().store().log_time_ms();
        let now_ms = self.quiet.log_time_to_tell(log_time_ms, Instant::now(), wall_clock_ms());
        if let Some(now_ms) = now_ms {
            self.replica().log_time_fact(next, now_ms, acts_max);
        }
    }

    fn seek(&mut self, to: Offset) -> Result<(), End> {
        self.next_input = to;
        self.quiet.has_unread();
        self.input.assign(self.tenure.partition, to).map_err(|error| End::Failed(error.to_string()))
    }

    fn commit(&mut self) -> Result<(), End> {
        let (epoch, next_input) = (self.tenure.epoch, self.next_input);
        let meters = self.tenure.statuses.meters().clone();
        let entries = self.replica().pending().entries;
        let mut transaction = self.replica().transaction(epoch, next_input);
        self.committed_at = Instant::now();
        let committed = loop {
            match self.writer.transact(&transaction.messages) {
                Ok(committed) => break committed,
                Err(CommitError::TooLarge { index, bytes }) if transaction.shorten(index) => {
                    tracing::warn!(partition = %self.tenure.partition, bytes, "dead letter is too large, its value is left out");
                }
                Err(error @ (CommitError::TooLarge { .. } | CommitError::Aborted(_))) => {
                    tracing::warn!(partition = %self.tenure.partition, %error, "transaction not committed, trying again");
                    meters.count(&COMMITS, &["aborted"]);
                    meters.count(&KAFKA_ERRORS, &["writer", "abort"]);
                    self.tenure
                        .statuses
                        .update(self.tenure.partition, |status| status.problem = Some(error.to_string()));
                    if self.tenure.control.ending() {
                        return Err(End::Stopped);
                    }
                    thread::sleep(RETRY_AFTER);
                }
                Err(error @ (CommitError::Fenced(_) | CommitError::Fatal(_))) => {
                    meters.count(&COMMITS, &["fenced"]);
                    meters.count(&KAFKA_ERRORS, &["writer", "fatal"]);
                    let timed_out = self.committed_at.elapsed() >= self.tenure.rules.transaction_timeout;
                    return Err(End::Fenced { reason: error.to_string(), timed_out });
                }
            }
        };
        meters.count(&COMMITS, &["committed"]);
        meters.time(&COMMIT_SECONDS, &[], self.committed_at.elapsed());
        meters.observe(&COMMIT_ENTRIES, &[], f64::from(u32::try_from(entries).unwrap_or(u32::MAX)));
        if let Some(oldest_ms) = self.oldest_ms.take() {
            let age_ms = u64::try_from(wall_clock_ms().saturating_sub(oldest_ms)).unwrap_or(0);
            meters.time(&END_TO_END, &[], Duration::from_millis(age_ms));
        }
        self.after_commit(&transaction, committed);
        Ok(())
    }

    fn after_commit(&mut self, transaction: &Transaction, committed: crate::log::Committed) {
        self.owned.0.committed(transaction, committed);
        self.batch_begin = self.next_input;
        let (replica, checkpoints) = &self.owned;
        self.tenure.statuses.update(self.tenure.partition, |status| {
            status.observe(replica);
            status.lso = status.applied;
            status.level_at = Some(Instant::now());
            status.problem = None;
        });
        if self.tenure.control.takes_checkpoints() {
            checkpoints.take_if_due(replica);
        }
    }

    /// Tells lag tools and the status how far the input is read.
    fn note(&mut self) {
        if self.noted_at.elapsed() < NOTE_EVERY {
            return;
        }
        self.noted_at = Instant::now();
        let partition = self.tenure.partition;
        self.input.note_progress(partition, self.batch_begin);
        let (log, statuses, next) = (Arc::clone(&self.tenure.log), self.tenure.statuses.clone(), self.next_input);
        thread::spawn(move || {
            if let Ok((_, end)) = log.bounds(Topic::Input, partition) {
                statuses.update(partition, |status| status.input_lag_records = Some((end.0 - next.0).max(0)));
            }
        });
    }

    fn hand_back(mut self, end: &End) {
        self.replica().stand_by();
        let role = if matches!(end, End::Fenced { .. }) { Role::Fenced } else { Role::Restoring };
        self.tenure.statuses.update(self.tenure.partition, |status| status.role = role);
        let standbys = self.tenure.standbys.clone();
        // The writer first: while it lives, a transaction of it may still be open.
        drop(self.writer);
        standbys.follow(self.owned);
    }
}
