//! The standbys of a node: one thread and one reader that tails the changelog of all of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use fail::fail_point;
use hotspare_cluster::{Offset, PartitionId, Role, invariants};
use hotspare_system::{
    mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel},
    thread::{self, JoinHandle},
};

use super::{
    machine::{Divergence, OtherSemantics, Replica, Worth},
    snapshot::Checkpoints,
    status::Statuses,
};
use crate::log::{Event, Log, LogError, Reader, Topic};
use crate::metrics::catalogue::{KAFKA_ERRORS, RESTORE_SECONDS};

/// Between commands a standby waits so long for records.
const POLL: Duration = Duration::from_millis(5);
/// While a promotion waits for it.
const POLL_URGENT: Duration = Duration::from_millis(1);
const IDLE: Duration = Duration::from_millis(100);
const LSO_EVERY: Duration = Duration::from_secs(1);

/// A replica with what belongs to it.
pub type Owned = (Box<Replica>, Checkpoints);

enum Command {
    Follow(Owned),
    HandOver { partition: PartitionId, until: Arc<OnceLock<Offset>>, reply: SyncSender<Owned> },
    Keep(PartitionId),
    Drop(PartitionId),
    Stop,
}

/// What the thread tells the node.
#[derive(Debug)]
pub enum Told {
    /// The replica cannot be used any more and is to be built again. `distrust`: its checkpoints too.
    Rebuild {
        /// The partition.
        partition: PartitionId,
        /// Whether its checkpoints are not to be trusted.
        distrust: bool,
        /// Whether it had the active's state before, so that building it again may well help.
        was_level: bool,
    },
    /// The replica cannot be used, and building it again would end in the same.
    Unusable(PartitionId),
}

/// The thread's handle.
pub struct Standbys {
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
}

impl Standbys {
    /// Starts the thread.
    ///
    /// # Errors
    /// The reader cannot be made.
    pub fn start(
        log: Arc<dyn Log>,
        statuses: Statuses,
        told: impl Fn(Told) + Send + 'static,
    ) -> Result<Self, LogError> {
        let (commands, inbox) = channel();
        let reader = log.reader(Topic::Changelog, "standby")?;
        let worker = Worker {
            reader,
            log,
            inbox,
            statuses,
            told: Box::new(told),
            replicas: BTreeMap::new(),
            leaving: BTreeMap::new(),
            lso_asked_at: Instant::now(),
        };
        let thread = thread::Builder::new()
            .name("standby".to_owned())
            .spawn(move || worker.run())
            .map_err(|error| LogError::Unavailable(error.to_string()))?;
        Ok(Self { commands, thread: Some(thread) })
    }

    fn send(&self, command: Command) {
        // The thread ends only after `stop`, so there is nobody to miss the command.
        let _ = self.commands.send(command);
    }

    /// A handle for the threads of actives.
    #[must_use]
    pub fn link(&self) -> Link {
        Link(self.commands.clone())
    }

    /// Forgets a replica.
    pub fn forget(&self, partition: PartitionId) {
        self.send(Command::Drop(partition));
    }

    /// Ends the thread.
    pub fn stop(&mut self) {
        self.send(Command::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the standby thread had panicked");
        }
    }
}

/// A way to hand replicas to the thread and to get them from it.
#[derive(Clone)]
pub struct Link(Sender<Command>);

impl Link {
    /// Gives a replica to the thread, which follows the changelog from its place.
    pub fn follow(&self, owned: Owned) {
        let _ = self.0.send(Command::Follow(owned));
    }

    /// Asks for a replica, to be given once it has applied everything up to an offset that may be set later.
    #[must_use]
    pub fn ask(&self, partition: PartitionId, until: &Arc<OnceLock<Offset>>) -> Receiver<Owned> {
        // Without room: a replica leaves the thread only into the hands of somebody who waits for it.
        let (reply, answer) = sync_channel(0);
        let _ = self.0.send(Command::HandOver { partition, until: Arc::clone(until), reply });
        answer
    }

    /// Takes the wish back.
    pub fn keep(&self, partition: PartitionId) {
        let _ = self.0.send(Command::Keep(partition));
    }
}

struct Worker {
    reader: Box<dyn Reader>,
    log: Arc<dyn Log>,
    inbox: Receiver<Command>,
    statuses: Statuses,
    told: Box<dyn Fn(Told) + Send>,
    replicas: BTreeMap<PartitionId, Owned>,
    leaving: BTreeMap<PartitionId, (Arc<OnceLock<Offset>>, SyncSender<Owned>)>,
    lso_asked_at: Instant,
}

enum Trouble {
    Diverged(Divergence),
    OtherSemantics(OtherSemantics),
    Unreadable(String),
    Gone(LogError),
}

/// What a replica at the end of the changelog is worth, for its status; or why it is to be given up.
fn judge(worth: Worth, replica: &Replica) -> Result<(Role, Option<String>), Trouble> {
    match worth {
        Worth::Level => Ok((Role::Standby, replica.warning())),
        Worth::Lacking(problem) => Ok((Role::Divergent, Some(problem))),
        Worth::Unreadable(problem) => Err(Trouble::Unreadable(problem)),
        Worth::Diverged(found) => Err(Trouble::Diverged(found)),
    }
}

impl Worker {
    fn run(mut self) {
        loop {
            let wait = if self.replicas.is_empty() { IDLE } else { Duration::ZERO };
            match self.inbox.recv_timeout(wait) {
                Ok(Command::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(command) => {
                    self.obey(command);
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !self.replicas.is_empty() {
                self.read();
                fail_point!("standby_read");
                self.hand_over();
                self.ask_lso();
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Follow(owned) => {
                let partition = owned.0.partition();
                if let Err(error) = self.reader.assign(partition, owned.0.next()) {
                    tracing::error!(%partition, %error, "changelog cannot be read");
                }
                self.statuses.update(partition, |status| {
                    status.role = Role::Restoring;
                    status.input_lag_records = None;
                    status.observe(&owned.0);
                });
                self.replicas.insert(partition, owned);
            }
            Command::HandOver { partition, until, reply } => {
                self.leaving.insert(partition, (until, reply));
            }
            Command::Keep(partition) => drop(self.leaving.remove(&partition)),
            Command::Drop(partition) => self.remove(partition),
            Command::Stop => {}
        }
    }

    fn remove(&mut self, partition: PartitionId) {
        self.leaving.remove(&partition);
        if self.replicas.remove(&partition).is_some()
            && let Err(error) = self.reader.unassign(partition)
        {
            tracing::warn!(%partition, %error, "changelog cannot be let go");
        }
        self.statuses.remove(partition);
    }

    fn read(&mut self) {
        let timeout = if self.leaving.is_empty() { POLL } else { POLL_URGENT };
        let (replicas, statuses) = (&mut self.replicas, &self.statuses);
        let mut troubles: Vec<(PartitionId, Trouble)> = Vec::new();
        let mut touched = Vec::new();
        self.reader.poll(timeout, &mut |event| {
            let partition = match &event {
                Event::Record(partition, _) | Event::End(partition, _) | Event::Error(partition, _) => *partition,
            };
            let Some((replica, checkpoints)) = replicas.get_mut(&partition) else { return };
            if troubles.iter().any(|(troubled, _)| *troubled == partition) {
                return;
            }
            if touched.last() != Some(&partition) {
                touched.push(partition);
            }
            match event {
                Event::Record(_, record) => match replica.follow(record.offset, record.key, record.value) {
                    Ok(true) => {
                        if replica.is_following() && replica.digest_equal() == Some(true) {
                            checkpoints.take_if_due(replica);
                        }
                    }
                    Ok(false) => {}
                    Err(other) => troubles.push((partition, Trouble::OtherSemantics(other))),
                },
                Event::End(_, end) => match judge(replica.reached_end(end), replica) {
                    Ok((role, problem)) => statuses.update(partition, |status| {
                        status.role = role;
                        if let Some((begin, source)) = status.restoring.take() {
                            statuses.meters().time(&RESTORE_SECONDS, &[source], begin.elapsed());
                        }
                        status.lso = end;
                        status.level_at = Some(Instant::now());
                        status.problem = problem;
                    }),
                    Err(trouble) => troubles.push((partition, trouble)),
                },
                Event::Error(_, error @ LogError::OffsetOutOfRange { .. }) => {
                    troubles.push((partition, Trouble::Gone(error)));
                }
                Event::Error(_, error) => {
                    statuses.meters().count(&KAFKA_ERRORS, &["standby", error.class()]);
                    statuses.update(partition, |status| status.problem = Some(error.to_string()));
                }
            }
        });
        touched.sort_unstable();
        touched.dedup();
        for partition in touched {
            if let Some((replica, _)) = self.replicas.get(&partition) {
                self.statuses.update(partition, |status| status.observe(replica));
            }
        }
        for (partition, trouble) in troubles {
            self.give_up(partition, trouble);
        }
    }

    fn give_up(&mut self, partition: PartitionId, trouble: Trouble) {
        let was_level = self.replicas.get(&partition).is_some_and(|(replica, _)| replica.is_following());
        let rebuild = |distrust| Told::Rebuild { partition, distrust, was_level };
        let (role, problem, told) = match trouble {
            Trouble::Diverged(found) => {
                if let Err(violation) = invariants::digest_equal(found.commit, found.active, found.here) {
                    // Not upheld: it is repaired here, and a replica may differ because its disk lied.
                    invariants::report(&violation, Some(partition));
                }
                let which = if found.sound { "" } else { "; its entries do not give its own digest" };
                let reason = format!(
                    "digest differs from the active's at commit {}: here {:032x}, active {:032x}{which}; rebuilding",
                    found.commit, found.here, found.active
                );
                tracing::error!(%partition, reason, "state divergence, rebuilding from the changelog");
                (Role::Divergent, reason, rebuild(true))
            }
            Trouble::Gone(error) => {
                tracing::warn!(%partition, %error, "replica is too old for the changelog, rebuilding");
                (Role::Restoring, error.to_string(), rebuild(true))
            }
            Trouble::Unreadable(reason) => {
                tracing::error!(%partition, reason, "changelog cannot be followed");
                (Role::Divergent, reason, rebuild(false))
            }
            Trouble::OtherSemantics(error) => {
                tracing::error!(%partition, %error, "changelog cannot be followed");
                (Role::Divergent, error.to_string(), Told::Unusable(partition))
            }
        };
        self.remove(partition);
        self.statuses.update(partition, |status| {
            status.role = role;
            status.problem = Some(problem);
        });
        (self.told)(told);
    }

    fn hand_over(&mut self) {
        let ready = |(partition, (until, _)): (&PartitionId, &(Arc<OnceLock<Offset>>, SyncSender<Owned>))| {
            let (replica, _) = self.replicas.get(partition)?;
            replica.has_applied(*until.get()?).then_some(*partition)
        };
        let ready: Vec<_> = self.leaving.iter().filter_map(ready).collect();
        for partition in ready {
            let Some((_, reply)) = self.leaving.remove(&partition) else { continue };
            let Some((replica, _)) = self.replicas.get_mut(&partition) else { continue };
            match judge(replica.worth(), replica) {
                Ok((Role::Standby, _)) => {}
                // Who waits for it hears that there is no answer.
                Ok(_) => continue,
                Err(trouble) => {
                    self.give_up(partition, trouble);
                    continue;
                }
            }
            let Some(owned) = self.replicas.remove(&partition) else { continue };
            if let Err(error) = self.reader.unassign(partition) {
                tracing::warn!(%partition, %error, "changelog cannot be let go");
            }
            if let Err(returned) = reply.send(owned) {
                // The promotion was given up meanwhile.
                self.obey(Command::Follow(returned.0));
            }
        }
    }

    /// Reaching the end tells the last stable offset, but a standby that lags does not reach it.
    fn ask_lso(&mut self) {
        if self.lso_asked_at.elapsed() < LSO_EVERY {
            return;
        }
        self.lso_asked_at = Instant::now();
        let lagging: Vec<_> = self.replicas.iter().filter(|(_, (r, _))| !r.is_following()).map(|(p, _)| *p).collect();
        if lagging.is_empty() {
            return;
        }
        let (log, statuses) = (Arc::clone(&self.log), self.statuses.clone());
        thread::spawn(move || {
            for partition in lagging {
                if let Ok((_, end)) = log.bounds(Topic::Changelog, partition) {
                    statuses.update(partition, |status| status.lso = status.lso.max(end));
                }
            }
        });
    }
}
