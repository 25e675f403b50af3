//! The types openraft works with, and our own forms of them for disk and wire.
//!
//! No openraft type reaches disk or wire: its encoding may change with the library. These forms only ever grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use openraft::entry::RaftEntry;
use openraft::type_config::alias::{EntryOf, LeaderIdOf, LogIdOf, SnapshotMetaOf, StoredMembershipOf, VoteOf};
use openraft::{EntryPayload, Membership};
use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::operation::OperationId;
use crate::state::Batch;

/// A member of the Raft group: its name and where peers reach it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub(crate) slot: String,
    pub(crate) address: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.slot, self.address)
    }
}

/// What applying a log entry gave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// Index of the entry.
    pub(crate) index: u64,
    /// The id of the node that was admitted, if one was.
    pub(crate) allotted: Option<NodeId>,
    /// The operation that a request is.
    pub(crate) begun: Option<OperationId>,
    /// Why commands were ignored.
    pub(crate) ignored: Vec<String>,
}

openraft::declare_raft_types!(
    /// The types of our Raft group.
    pub(crate) Types:
        D = Batch,
        R = Applied,
        NodeId = u64,
        Node = Member,
);

pub(crate) type Entry = EntryOf<Types>;
pub(crate) type LogId = LogIdOf<Types>;
pub(crate) type Vote = VoteOf<Types>;
pub(crate) type SnapshotMeta = SnapshotMetaOf<Types>;
pub(crate) type StoredMembership = StoredMembershipOf<Types>;

/// A vote, on disk and wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct VoteForm {
    term: u64,
    node: u64,
    committed: bool,
}

impl From<&Vote> for VoteForm {
    fn from(vote: &Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<VoteForm> for Vote {
    fn from(form: VoteForm) -> Self {
        if form.committed { Vote::new_committed(form.term, form.node) } else { Vote::new(form.term, form.node) }
    }
}

/// The id of a log entry, on disk and wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogIdForm {
    term: u64,
    node: u64,
    index: u64,
}

impl From<&LogId> for LogIdForm {
    fn from(id: &LogId) -> Self {
        Self { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<LogIdForm> for LogId {
    fn from(form: LogIdForm) -> Self {
        LogId { leader_id: LeaderIdOf::<Types> { term: form.term, node_id: form.node }, index: form.index }
    }
}

/// An optional log id for disk and wire.
pub(crate) fn log_id_form(id: Option<&LogId>) -> Option<LogIdForm> {
    id.map(LogIdForm::from)
}

/// Members and voters, on disk and wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MembershipForm {
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, Member>,
}

impl From<&Membership<u64, Member>> for MembershipForm {
    fn from(membership: &Membership<u64, Member>) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, node)| (*id, node.clone())).collect(),
        }
    }
}

impl From<MembershipForm> for Membership<u64, Member> {
    fn from(form: MembershipForm) -> Self {
        Membership::new_with_defaults_from(form.configs, form.nodes)
    }
}

/// Builds a membership without refusing odd ones: what was stored was valid when it was stored.
trait Lenient {
    fn new_with_defaults_from(configs: Vec<BTreeSet<u64>>, nodes: BTreeMap<u64, Member>) -> Self;
}

impl Lenient for Membership<u64, Member> {
    fn new_with_defaults_from(configs: Vec<BTreeSet<u64>>, nodes: BTreeMap<u64, Member>) -> Self {
        if configs.is_empty() && nodes.is_empty() {
            return Membership::default();
        }
        let ids: Vec<u64> = nodes.keys().copied().collect();
        Membership::new(configs.clone(), nodes).unwrap_or_else(|_| Membership::new_with_defaults(configs, ids))
    }
}

/// A membership and where in the log it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredMembershipForm {
    log_id: Option<LogIdForm>,
    membership: MembershipForm,
}

impl From<&StoredMembership> for StoredMembershipForm {
    fn from(stored: &StoredMembership) -> Self {
        Self { log_id: log_id_form(stored.log_id().as_ref()), membership: stored.membership().into() }
    }
}

impl From<StoredMembershipForm> for StoredMembership {
    fn from(form: StoredMembershipForm) -> Self {
        StoredMembership::new(form.log_id.map(LogId::from), form.membership.into())
    }
}

/// A log entry, on disk and wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EntryForm {
    id: LogIdForm,
    what: PayloadForm,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PayloadForm {
    Blank,
    Commands(Batch),
    Membership(MembershipForm),
}

impl From<&Entry> for EntryForm {
    fn from(entry: &Entry) -> Self {
        let what = match &entry.payload {
            EntryPayload::Blank => PayloadForm::Blank,
            EntryPayload::Normal(batch) => PayloadForm::Commands(batch.clone()),
            EntryPayload::Membership(membership) => PayloadForm::Membership(membership.into()),
        };
        Self { id: LogIdForm::from(&entry.log_id), what }
    }
}

impl From<EntryForm> for Entry {
    fn from(form: EntryForm) -> Self {
        let payload = match form.what {
            PayloadForm::Blank => EntryPayload::Blank,
            PayloadForm::Commands(batch) => EntryPayload::Normal(batch),
            PayloadForm::Membership(membership) => EntryPayload::Membership(membership.into()),
        };
        Entry::new(form.id.into(), payload)
    }
}

/// Where a snapshot stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotMetaForm {
    last: Option<LogIdForm>,
    membership: StoredMembershipForm,
}

impl From<&SnapshotMeta> for SnapshotMetaForm {
    fn from(meta: &SnapshotMeta) -> Self {
        Self { last: log_id_form(meta.last_log_id.as_ref()), membership: (&meta.last_membership).into() }
    }
}

impl From<SnapshotMetaForm> for SnapshotMeta {
    fn from(form: SnapshotMetaForm) -> Self {
        SnapshotMeta { last_log_id: form.last.map(LogId::from), last_membership: form.membership.into() }
    }
}
