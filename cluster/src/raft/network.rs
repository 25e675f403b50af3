//! Raft's requests between peers: from openraft's types to our own forms and back.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse,
    VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, Slot};

use super::types::{Entry, EntryForm, LogId, LogIdForm, Member, Types, Vote, VoteForm, log_id_form};

/// First byte of each body.
const FORMAT: u8 = 1;

/// Snapshots are sent in pieces, so that heartbeats on the same connection are not held up.
const PIECE_BYTES: usize = 256 * 1024;

/// Entries of one append request are cut off beyond this, so that no request outgrows a frame.
const APPEND_BYTES: usize = 1024 * 1024;

/// Longest snapshot that is taken in.
pub(crate) const SNAPSHOT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Carries a request to a peer and its answer back.
pub(crate) trait Carrier: Send + Sync + 'static {
    /// Sends `body` to the node `to` in `slot`, and waits for the answer for `timeout` at most.
    fn carry<'a>(
        &'a self,
        to: NodeId,
        slot: &'a Slot,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, CarryError>> + Send + 'a>>;
}

/// Why a request got no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CarryError {
    /// There is no connection.
    #[error("no connection to {0}")]
    Unreachable(Slot),
    /// The connection broke, or the answer took too long.
    #[error("no answer from {slot}: {why}")]
    Failed {
        /// The peer.
        slot: Slot,
        /// What went wrong.
        why: String,
    },
}

/// A request of one Raft node to another.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ask {
    Append {
        vote: VoteForm,
        prev: Option<LogIdForm>,
        entries: Vec<EntryForm>,
        commit: Option<LogIdForm>,
    },
    Vote {
        vote: VoteForm,
        last: Option<LogIdForm>,
        transfer: bool,
    },
    PreVote {
        vote: VoteForm,
        last: Option<LogIdForm>,
        transfer: bool,
    },
    /// A piece of a snapshot; `vote` and `total` tell to which it belongs.
    Piece {
        vote: VoteForm,
        total: u64,
        at: u64,
        #[serde(with = "text")]
        bytes: Vec<u8>,
    },
    Transfer {
        vote: VoteForm,
        to: u64,
        last: Option<LogIdForm>,
    },
}

/// Snapshots are JSON, so a piece is text but for cut characters; those go as numbers.
mod text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Form::Text(text.to_owned()).serialize(serializer),
            Err(_) => Form::Bytes(bytes.to_vec()).serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Ok(match Form::deserialize(deserializer)? {
            Form::Text(text) => text.into_bytes(),
            Form::Bytes(bytes) => bytes,
        })
    }
}

/// The answer to it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Appended,
    AppendedUpTo(Option<LogIdForm>),
    Conflict,
    HigherVote(VoteForm),
    Voted { vote: VoteForm, granted: bool, last: Option<LogIdForm> },
    PieceTaken,
    SnapshotInstalled(VoteForm),
    Transferred,
    Failed(String),
}

/// Puts a message into a versioned body.
pub(crate) fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, String> {
    let mut body = vec![FORMAT];
    serde_json::to_writer(&mut body, message).map_err(|e| e.to_string())?;
    Ok(body)
}

/// Reads a versioned body.
pub(crate) fn decode<T: for<'de> Deserialize<'de>>(body: &[u8]) -> Result<T, String> {
    match body.split_first() {
        Some((&FORMAT, json)) => serde_json::from_slice(json).map_err(|e| e.to_string()),
        Some((other, _)) => Err(format!("raft message of format {other}, this program reads {FORMAT}")),
        None => Err("empty raft message".into()),
    }
}

/// Makes the clients of openraft.
pub(crate) struct Network {
    pub(crate) carrier: Arc<dyn Carrier>,
    pub(crate) rpc_timeout: Duration,
}

/// One client of openraft, to one peer.
pub(crate) struct Client {
    carrier: Arc<dyn Carrier>,
    rpc_timeout: Duration,
    target: NodeId,
    slot: Slot,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Client;

    async fn new_client(&mut self, target: u64, node: &Member) -> Client {
        Client {
            carrier: self.carrier.clone(),
            rpc_timeout: self.rpc_timeout,
            target: NodeId(target),
            slot: Slot(node.slot.clone()),
        }
    }
}

impl Client {
    async fn ask(&self, ask: &Ask, option: &RPCOption) -> Result<Answer, RPCError<Types>> {
        let network = |why: String| RPCError::Network(NetworkError::from_string(why));
        let timeout = option.hard_ttl().max(self.rpc_timeout);
        let body = encode(ask).map_err(network)?;
        let answer = self.carrier.carry(self.target, &self.slot, body, timeout).await.map_err(|e| match e {
            CarryError::Unreachable(_) => RPCError::Unreachable(Unreachable::new(&e)),
            CarryError::Failed { .. } => RPCError::Network(NetworkError::new(&e)),
        })?;
        match decode(&answer).map_err(network)? {
            Answer::Failed(why) => Err(network(format!("{}: {why}", self.slot))),
            answer => Ok(answer),
        }
    }

    fn odd(&self, answer: &Answer) -> RPCError<Types> {
        RPCError::Network(NetworkError::from_string(format!(
            "{} gave an answer that does not fit: {answer:?}",
            self.slot
        )))
    }

    async fn ask_vote(&self, ask: Ask, option: &RPCOption) -> Result<VoteResponse<Types>, RPCError<Types>> {
        match self.ask(&ask, option).await? {
            Answer::Voted { vote, granted, last } => {
                Ok(VoteResponse::new(Vote::from(vote), last.map(LogId::from), granted))
            }
            other => Err(self.odd(&other)),
        }
    }

    async fn send_pieces(&self, vote: &Vote, bytes: &[u8], option: &RPCOption) -> Result<Answer, RPCError<Types>> {
        let mut last = Answer::PieceTaken;
        for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let ask = Ask::Piece {
                vote: vote.into(),
                total: bytes.len() as u64,
                at: (number * PIECE_BYTES) as u64,
                bytes: piece.to_vec(),
            };
            last = self.ask(&ask, option).await?;
            if matches!(last, Answer::HigherVote(_)) {
                break;
            }
        }
        Ok(last)
    }
}

impl RaftNetworkV2<Types> for Client {
    type SnapshotData = Vec<u8>;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let fitting = fitting(&rpc.entries);
        let cut = (fitting < rpc.entries.len()).then(|| rpc.entries.get(fitting.saturating_sub(1)).map(|e| e.log_id));
        let ask = Ask::Append {
            vote: (&rpc.vote).into(),
            prev: log_id_form(rpc.prev_log_id.as_ref()),
            entries: rpc.entries.iter().take(fitting).map(EntryForm::from).collect(),
            commit: log_id_form(rpc.leader_commit.as_ref()),
        };
        match self.ask(&ask, &option).await? {
            Answer::Appended => Ok(cut.map_or(AppendEntriesResponse::Success, AppendEntriesResponse::PartialSuccess)),
            Answer::AppendedUpTo(id) => Ok(AppendEntriesResponse::PartialSuccess(id.map(LogId::from))),
            Answer::Conflict => Ok(AppendEntriesResponse::Conflict),
            Answer::HigherVote(vote) => Ok(AppendEntriesResponse::HigherVote(vote.into())),
            other => Err(self.odd(&other)),
        }
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let last = log_id_form(rpc.last_log_id.as_ref());
        let ask = Ask::Vote { vote: (&rpc.vote).into(), last, transfer: rpc.leadership_transfer };
        self.ask_vote(ask, &option).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let last = log_id_form(rpc.last_log_id.as_ref());
        let ask = Ask::PreVote { vote: (&rpc.vote).into(), last, transfer: rpc.leadership_transfer };
        self.ask_vote(ask, &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::type_config::alias::SnapshotOf<Types, Vec<u8>>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let answer = tokio::select! {
            closed = cancel => return Err(StreamingError::Closed(closed)),
            answer = self.send_pieces(&vote, &snapshot.snapshot, &option) => answer,
        };
        match answer.map_err(|e| StreamingError::Network(NetworkError::new(&e)))? {
            Answer::SnapshotInstalled(vote) | Answer::HigherVote(vote) => Ok(SnapshotResponse::new(vote.into())),
            other => Err(StreamingError::Network(NetworkError::new(&self.odd(&other)))),
        }
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let ask = Ask::Transfer {
            vote: req.from_leader().into(),
            to: *req.to_node_id(),
            last: log_id_form(req.last_log_id()),
        };
        match self.ask(&ask, &option).await? {
            Answer::Transferred => Ok(Ok(())),
            other => Err(self.odd(&other)),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        // A peer that restarts is to be served again soon; asking costs next to nothing while it has no connection.
        Some(Backoff::new(std::iter::repeat(Duration::from_millis(20))))
    }
}

/// How many of the entries fit into one request; one does always.
fn fitting(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    for (number, entry) in entries.iter().enumerate() {
        if let openraft::EntryPayload::Normal(batch) = &entry.payload {
            bytes += batch.bytes_estimated();
        }
        if bytes > APPEND_BYTES {
            return number.max(1);
        }
    }
    entries.len()
}

/// The openraft form of an append request.
pub(crate) fn append_request(
    vote: VoteForm,
    prev: Option<LogIdForm>,
    entries: Vec<EntryForm>,
    commit: Option<LogIdForm>,
) -> AppendEntriesRequest<Types> {
    AppendEntriesRequest {
        vote: vote.into(),
        prev_log_id: prev.map(LogId::from),
        entries: entries.into_iter().map(Entry::from).collect(),
        leader_commit: commit.map(LogId::from),
    }
}
