//! The state machine of openraft: the replicated state in memory, snapshots of it in one file.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine, Snapshot};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::assignment::Board;
use crate::disk::{self, Framed};
use crate::ids::PartitionId;
use crate::state::{Batch, Event, State};

use super::types::{Applied, LogId, SnapshotMeta, SnapshotMetaForm, StoredMembership, Types};

/// First byte of a snapshot.
const FORMAT: u8 = 1;

type OurSnapshot = openraft::type_config::alias::SnapshotOf<Types, Vec<u8>>;

/// The replicated state as all rooms of this node share it.
#[derive(Debug)]
pub(crate) struct Replicated {
    state: RwLock<State>,
    /// The assignments told to the data plane.
    pub(crate) board: Board,
    /// Notified after each change.
    pub(crate) changed: Notify,
    history_events_max: usize,
}

impl Replicated {
    pub(crate) fn new(board: Board, history_events_max: usize) -> Self {
        Self { state: RwLock::default(), board, changed: Notify::new(), history_events_max }
    }

    /// The state; to be held shortly.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, index: u64, batch: Batch) -> Applied {
        let mut applied = Applied { index, ..Applied::default() };
        let mut assigned: Vec<PartitionId> = Vec::new();
        let news = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            for command in batch.commands {
                for event in state.apply(index, command, self.history_events_max) {
                    match event {
                        Event::Assigned(partition) => assigned.push(partition),
                        Event::Allotted(id) => applied.allotted = Some(id),
                        Event::Begun(id) => applied.begun = Some(id),
                        Event::Ignored(why) => applied.ignored.push(why.to_owned()),
                    }
                }
            }
            let of = |p| state.partitions.get(p).map(|entry| (*p, entry.assignment()));
            assigned.iter().filter_map(of).collect::<Vec<_>>()
        };
        self.board.merge(news);
        self.changed.notify_one();
        applied
    }

    fn replace(&self, new: State) {
        let news: Vec<_> = new.partitions.iter().map(|(p, entry)| (*p, entry.assignment())).collect();
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = new;
        self.board.merge(news);
        self.changed.notify_one();
    }
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Machine {
    replicated: Arc<Replicated>,
    path: PathBuf,
    last_applied: Option<LogId>,
    membership: StoredMembership,
}

#[derive(Serialize, Deserialize)]
struct SnapshotForm {
    meta: SnapshotMetaForm,
    state: State,
}

impl Machine {
    /// A state machine whose snapshot stands at `path`. Fails on a damaged one.
    pub(crate) fn open(path: &Path, replicated: Arc<Replicated>) -> io::Result<Self> {
        let machine =
            Self { replicated, path: path.to_owned(), last_applied: None, membership: StoredMembership::default() };
        machine.load()?;
        Ok(machine)
    }

    fn load(&self) -> io::Result<Option<OurSnapshot>> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let Framed::Record(payload, _) = disk::unframe(&bytes) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "the snapshot {} is damaged. Repair: give this node an empty folder, it then joins under a new id",
                    self.path.display()
                ),
            ));
        };
        let form = decode(payload)?;
        Ok(Some(Snapshot { meta: form.meta.into(), snapshot: payload.to_vec() }))
    }
}

fn decode(payload: &[u8]) -> io::Result<SnapshotForm> {
    let bad = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("a snapshot cannot be read: {why}"));
    match payload.split_first() {
        Some((&FORMAT, json)) => serde_json::from_slice(json).map_err(|e| bad(e.to_string())),
        Some((newer, _)) => Err(bad(format!("format {newer}, this program reads {FORMAT}; run the newer one"))),
        None => Err(bad("it is empty".into())),
    }
}

/// Where a snapshot that came from a peer stands.
pub(crate) fn meta_of(payload: &[u8]) -> io::Result<SnapshotMeta> {
    decode(payload).map(|form| form.meta.into())
}

fn write(path: &Path, payload: &[u8]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(payload.len() + disk::RECORD_HEADER_BYTES);
    disk::frame(payload, &mut bytes)?;
    disk::write_atomically(path, &bytes)
}

/// Runs what blocks on the disk outside the tasks.
async fn blocking<T: Send + 'static>(action: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    hotspare_system::spawn_blocking(action).await.map_err(io::Error::other)?
}

/// Builds one snapshot, of the state at the moment it was made for.
#[derive(Debug)]
pub(crate) struct Builder {
    path: PathBuf,
    meta: SnapshotMeta,
    state: Option<State>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<OurSnapshot> {
        let (meta, path) = (self.meta.clone(), self.path.clone());
        let state = self.state.take().ok_or_else(|| io::Error::other("a builder builds one snapshot"))?;
        blocking(move || {
            let mut payload = vec![FORMAT];
            let form = SnapshotForm { meta: (&meta).into(), state };
            serde_json::to_writer(&mut payload, &form).map_err(io::Error::other)?;
            write(&path, &payload)?;
            Ok(Snapshot { meta, snapshot: payload })
        })
        .await
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<LogId>, StoredMembership)> {
        Ok((self.last_applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> io::Result<()>
    where
        Strm: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let index = entry.log_id.index;
            self.last_applied = Some(entry.log_id);
            let applied = match entry.payload {
                EntryPayload::Blank => Applied { index, ..Applied::default() },
                EntryPayload::Normal(batch) => self.replicated.apply(index, batch),
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    self.replicated.changed.notify_one();
                    Applied { index, ..Applied::default() }
                }
            };
            if let Some(responder) = responder {
                responder.send(applied);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let meta = SnapshotMeta { last_log_id: self.last_applied, last_membership: self.membership.clone() };
        Builder { path: self.path.clone(), meta, state: Some(self.replicated.read().clone()) }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Vec<u8>) -> io::Result<()> {
        let path = self.path.clone();
        let form = blocking(move || {
            let form = decode(&snapshot)?;
            write(&path, &snapshot)?;
            Ok(form)
        })
        .await?;
        self.last_applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.replicated.replace(form.state);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<OurSnapshot>> {
        self.load()
    }
}
