//! The Raft group. The only place that names openraft.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError};
use openraft::raft::{AppendEntriesResponse, TransferLeaderRequest, VoteRequest};
use openraft::storage::Snapshot;
use openraft::{ChangeMembers, Instant, Raft, ServerState, SnapshotPolicy};

use crate::ids::NodeId;
use crate::options::Settings;
use crate::state::Batch;

mod log;
mod log_file;
mod machine;
mod network;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use machine::Replicated;
pub(crate) use network::{Carrier, CarryError};
pub(crate) use types::{Applied, Member};

use log::Log;
use log_file::Fsyncs;
use machine::Machine;
use network::{Answer, Ask, Network, SNAPSHOT_BYTES_MAX};
use types::{LogId, Types, Vote, VoteForm, log_id_form};

/// Why a proposal did not get through.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ProposeError {
    /// Another node leads, or nobody.
    #[error("this node is not the raft leader")]
    NotLeader(Option<NodeId>),
    /// Raft itself failed, or lost its leadership: the proposal may or may not be committed.
    #[error("raft: {0}")]
    Failed(String),
}

/// How the group looks from here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RaftStatus {
    pub(crate) leader: Option<NodeId>,
    pub(crate) is_leader: bool,
    pub(crate) term: u64,
    /// Whether this node's vote in this term is for itself.
    pub(crate) voted_for_me: bool,
    pub(crate) last_log_index: Option<u64>,
    pub(crate) applied_index: Option<u64>,
    pub(crate) committed_index: Option<u64>,
    /// Of a leader that has committed in its own term, so that it knows of all that ever was: its committed index.
    pub(crate) led_index: Option<u64>,
    pub(crate) voters: BTreeSet<NodeId>,
    pub(crate) members: BTreeSet<NodeId>,
    /// Of the leader: milliseconds since a quorum answered.
    pub(crate) quorum_age_ms: Option<u64>,
    /// Why it does not run any more.
    pub(crate) failed: Option<String>,
}

/// This node's part in the Raft group; cheap to clone.
#[derive(Clone)]
pub(crate) struct Group {
    raft: Raft<Types, Machine>,
    me: NodeId,
    pieces: Arc<Mutex<Vec<u8>>>,
    fsyncs: Arc<Fsyncs>,
    /// Asked to take the leadership over, and not yet stood for it.
    transferred: Arc<AtomicBool>,
}

/// Whether the Raft log of a data folder was ever made.
pub(crate) fn log_exists(data_dir: &Path) -> bool {
    log_file::exists(&data_dir.join("raft").join("log"))
}

/// Makes the empty Raft log of a data folder, before the node gets its id.
pub(crate) fn create_log(data_dir: &Path) -> io::Result<()> {
    let folder = data_dir.join("raft");
    std::fs::create_dir_all(&folder)?;
    crate::disk::sync_folder(data_dir)?;
    log_file::open(&folder.join("log"), Duration::MAX).map(drop)
}

impl Group {
    /// Opens log and snapshot in `data_dir` and starts to take part.
    pub(crate) async fn start(
        me: NodeId,
        cluster_name: &str,
        data_dir: &Path,
        settings: &Settings,
        carrier: Arc<dyn Carrier>,
        replicated: Arc<Replicated>,
    ) -> Result<Self, String> {
        let folder = data_dir.join("raft");
        let log = Log::open(&folder.join("log"), settings.fsync_warn).map_err(|e| e.to_string())?;
        let machine = Machine::open(&folder.join("snapshot"), replicated).map_err(|e| e.to_string())?;
        let fsyncs = log.fsyncs();
        let config = config(cluster_name, settings).validate().map_err(|e| e.to_string())?;
        let network = Network { carrier, rpc_timeout: settings.rpc_timeout };
        let raft = Raft::new(me.0, Arc::new(config), network, log, machine).await.map_err(|e| e.to_string())?;
        Ok(Self { raft, me, pieces: Arc::default(), fsyncs, transferred: Arc::default() })
    }

    /// How long fsyncs of the log took.
    pub(crate) fn fsyncs(&self) -> &Fsyncs {
        &self.fsyncs
    }

    /// Whether this node was asked to take the leadership over since this was asked last.
    pub(crate) fn take_transferred(&self) -> bool {
        self.transferred.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn status(&self) -> RaftStatus {
        let watched = self.raft.metrics();
        let m = watched.borrow_watched();
        let membership = m.membership_config.membership();
        let is_leader = m.state == ServerState::Leader && m.current_leader == Some(self.me.0);
        let has_committed = m.last_applied.as_ref().is_some_and(|id| id.leader_id.term == m.current_term);
        let committed_index = m.local_committed.as_ref().map(|id| id.index);
        RaftStatus {
            leader: m.current_leader.map(NodeId),
            is_leader,
            term: m.current_term,
            voted_for_me: m.vote.leader_id.node_id == self.me.0,
            last_log_index: m.last_log_index,
            applied_index: m.last_applied.as_ref().map(|id| id.index),
            committed_index,
            led_index: committed_index.filter(|_| is_leader && has_committed),
            voters: membership.voter_ids().map(NodeId).collect(),
            members: membership.nodes().map(|(id, _)| NodeId(*id)).collect(),
            quorum_age_ms: m
                .last_quorum_acked
                .as_ref()
                .map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
            failed: m.running_state.as_ref().err().map(ToString::to_string),
        }
    }

    /// Waits until anything of the status may have changed.
    pub(crate) async fn changed(watched: &mut Watched) {
        if watched.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn watch(&self) -> Watched {
        Watched(self.raft.metrics())
    }

    /// Writes the first membership into an empty log; this node then votes for itself.
    pub(crate) async fn initialize(&self, members: BTreeMap<NodeId, Member>) -> Result<(), String> {
        let members: BTreeMap<u64, Member> = members.into_iter().map(|(id, m)| (id.0, m)).collect();
        self.raft.initialize(members).await.map_err(|e| e.to_string())
    }

    /// Commits a batch; this node must lead.
    pub(crate) async fn propose(&self, batch: Batch) -> Result<Applied, ProposeError> {
        match self.raft.client_write(batch).await {
            Ok(done) => Ok(done.data),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(to))) => {
                Err(ProposeError::NotLeader(to.leader_id.map(NodeId)))
            }
            Err(e) => Err(ProposeError::Failed(e.to_string())),
        }
    }

    /// Votes at once, in spite of the dead leader's lease. Only for a leader whose death is proved and confirmed.
    pub(crate) async fn vote_now(&self) -> Result<(), String> {
        let vote = self.raft.metrics().borrow_watched().vote;
        let request = TransferLeaderRequest::new(vote, self.me.0, None);
        match self.raft.handle_transfer_leader(request).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(e)) => Err(e.to_string()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Gives leadership away.
    pub(crate) async fn give_leadership_to(&self, to: NodeId) -> Result<(), String> {
        self.raft.trigger().transfer_leader(to.0).await.map_err(|e| e.to_string())
    }

    /// Adds a node that holds the log and does not vote.
    pub(crate) async fn add_learner(&self, id: NodeId, member: Member) -> Result<(), String> {
        self.raft.add_learner(id.0, member, false).await.map(drop).map_err(|e| e.to_string())
    }

    /// Puts a learner into the place of a voter, in one joint change.
    pub(crate) async fn swap_voter(&self, old: NodeId, new: NodeId) -> Result<(), String> {
        let change = ChangeMembers::Batch(vec![
            ChangeMembers::RemoveVoters(BTreeSet::from([old.0])),
            ChangeMembers::AddVoterIds(BTreeSet::from([new.0])),
        ]);
        self.raft.change_membership(change, false).await.map(drop).map_err(|e| e.to_string())
    }

    /// Removes a learner.
    pub(crate) async fn remove_learner(&self, id: NodeId) -> Result<(), String> {
        let change = ChangeMembers::RemoveNodes(BTreeSet::from([id.0]));
        self.raft.change_membership(change, false).await.map(drop).map_err(|e| e.to_string())
    }

    /// Of the leader: how many log entries a member lacks.
    pub(crate) fn missing_entries(&self, id: NodeId) -> Option<u64> {
        let watched = self.raft.metrics();
        let m = watched.borrow_watched();
        let matched = m.replication.as_ref()?.get(&id.0)?.as_ref()?.index;
        Some(m.last_log_index.unwrap_or(0).saturating_sub(matched))
    }

    /// Answers a peer's request.
    pub(crate) async fn serve(&self, body: &[u8]) -> Vec<u8> {
        let answer = match network::decode::<Ask>(body) {
            Ok(ask) => self.answer(ask).await.unwrap_or_else(Answer::Failed),
            Err(why) => Answer::Failed(why),
        };
        network::encode(&answer).unwrap_or_default()
    }

    async fn answer(&self, ask: Ask) -> Result<Answer, String> {
        match ask {
            Ask::Append { vote, prev, entries, commit } => {
                let request = network::append_request(vote, prev, entries, commit);
                let response = self.raft.append_entries(request).await.map_err(|e| e.to_string())?;
                Ok(match response {
                    AppendEntriesResponse::Success => Answer::Appended,
                    AppendEntriesResponse::PartialSuccess(id) => Answer::AppendedUpTo(log_id_form(id.as_ref())),
                    AppendEntriesResponse::Conflict => Answer::Conflict,
                    AppendEntriesResponse::HigherVote(vote) => Answer::HigherVote((&vote).into()),
                })
            }
            Ask::Vote { vote, last, transfer } => {
                let request = vote_request(vote, last.map(LogId::from), transfer);
                let r = self.raft.vote(request).await.map_err(|e| e.to_string())?;
                Ok(voted(&r.vote, r.vote_granted, r.last_log_id.as_ref()))
            }
            Ask::PreVote { vote, last, transfer } => {
                let request = vote_request(vote, last.map(LogId::from), transfer);
                let r = self.raft.pre_vote(request).await.map_err(|e| e.to_string())?;
                Ok(voted(&r.vote, r.vote_granted, r.last_log_id.as_ref()))
            }
            Ask::Piece { vote, total, at, bytes } => self.take_piece(vote, total, at, bytes).await,
            Ask::Transfer { vote, to, last } => {
                self.transferred.store(to == self.me.0, Ordering::Release);
                let request = TransferLeaderRequest::new(vote.into(), to, last.map(LogId::from));
                match self.raft.handle_transfer_leader(request).await.map_err(|e| e.to_string())? {
                    Ok(()) => Ok(Answer::Transferred),
                    Err(e) => Err(e.to_string()),
                }
            }
        }
    }

    async fn take_piece(&self, vote: VoteForm, total: u64, at: u64, bytes: Vec<u8>) -> Result<Answer, String> {
        if total > SNAPSHOT_BYTES_MAX {
            return Err(format!("a snapshot of {total} bytes is too long"));
        }
        let whole = {
            let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
            if at == 0 {
                pieces.clear();
            }
            if pieces.len() as u64 != at || at + bytes.len() as u64 > total {
                return Err(format!("a piece at {at} does not follow {} bytes of {total}", pieces.len()));
            }
            pieces.extend_from_slice(&bytes);
            if (pieces.len() as u64) < total {
                return Ok(Answer::PieceTaken);
            }
            std::mem::take(&mut *pieces)
        };
        let meta = machine::meta_of(&whole).map_err(|e| e.to_string())?;
        let snapshot = Snapshot { meta, snapshot: whole };
        let done = self.raft.install_full_snapshot(vote.into(), snapshot).await.map_err(|e| e.to_string())?;
        Ok(Answer::SnapshotInstalled((&done.vote).into()))
    }

    /// Stops taking part.
    pub(crate) async fn shutdown(&self) {
        if let Err(e) = self.raft.shutdown().await {
            tracing::warn!(error = %e, "raft_shutdown_failed");
        }
    }
}

/// What to wait on for a change of the status.
pub(crate) struct Watched(openraft::type_config::alias::WatchReceiverOf<Types, openraft::RaftMetrics<Types>>);

fn vote_request(vote: VoteForm, last: Option<LogId>, transfer: bool) -> VoteRequest<Types> {
    let mut request = VoteRequest::new(vote.into(), last);
    request.leadership_transfer = transfer;
    request
}

fn voted(vote: &Vote, granted: bool, last: Option<&LogId>) -> Answer {
    Answer::Voted { vote: vote.into(), granted, last: log_id_form(last) }
}

fn config(cluster_name: &str, settings: &Settings) -> openraft::Config {
    let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
    openraft::Config {
        cluster_name: cluster_name.to_owned(),
        heartbeat_interval: ms(settings.raft_heartbeat_interval),
        election_timeout_min: ms(settings.raft_election_timeout_min),
        election_timeout_max: ms(settings.raft_election_timeout_max),
        quorum_loss_probe_interval: Some(ms(settings.quorum_loss_probe_interval)),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(settings.snapshot_entries.max(1)),
        replication_lag_threshold: settings.snapshot_entries.max(1) * 2,
        max_in_snapshot_log_to_keep: settings.snapshot_entries.clamp(1, 1000),
        install_snapshot_timeout: 10_000,
        enable_leader_restore: Some(false),
        enable_pre_vote: Some(true),
        ..openraft::Config::default()
    }
}
