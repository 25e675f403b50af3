//! The handshake: who both sides are, and why one is refused.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, Slot};

/// So that nothing else is taken for a peer.
pub(crate) const MAGIC: &str = "hotspare-peer";

/// The oldest and the newest peer protocol spoken here.
pub(crate) const PROTOCOLS: (u16, u16) = (1, 1);

/// Who somebody is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: String,
    pub(crate) protocol_lowest: u16,
    pub(crate) protocol_highest: u16,
    pub(crate) cluster_name: String,
    /// Empty until the Raft log has its first entry.
    pub(crate) cluster_id: String,
    pub(crate) slot: Slot,
    /// 0 until the node has joined.
    pub(crate) node_id: NodeId,
    pub(crate) store_uuid: String,
    /// Drawn at the start of the process.
    pub(crate) incarnation: u64,
}

/// The answer of the listening side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Welcome {
    Welcome { protocol: u16, hello: Hello },
    Refused(Refusal),
}

/// Why a peer is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// `magic`, `protocol`, `cluster_name`, `cluster_id`, `slot`, `store_uuid`, `tombstoned` or `myself`.
    pub(crate) reason: String,
    /// With names and numbers.
    pub(crate) detail: String,
}

impl Refusal {
    fn new(reason: &str, detail: String) -> Self {
        Self { reason: reason.to_owned(), detail }
    }
}

/// What the replicated state knows of the ids a peer names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The store of its node id.
    pub(crate) store_uuid: Option<String>,
    /// Its node id is never used again.
    pub(crate) tombstoned: bool,
}

/// Checks a peer; gives the protocol to speak.
pub(crate) fn check(ours: &Hello, theirs: &Hello, known: &Known) -> Result<u16, Refusal> {
    if theirs.magic != MAGIC {
        return Err(Refusal::new("magic", "not a hotspare peer".into()));
    }
    let protocol = ours.protocol_highest.min(theirs.protocol_highest);
    if protocol < ours.protocol_lowest.max(theirs.protocol_lowest) {
        return Err(Refusal::new(
            "protocol",
            format!(
                "{} speaks protocols {} to {}, {} speaks {} to {}; upgrade the older one first to a version between",
                theirs.slot,
                theirs.protocol_lowest,
                theirs.protocol_highest,
                ours.slot,
                ours.protocol_lowest,
                ours.protocol_highest
            ),
        ));
    }
    if theirs.cluster_name != ours.cluster_name {
        let detail = format!(
            "{} belongs to cluster \"{}\", {} to \"{}\"; correct seeds or cluster.name of one of them",
            theirs.slot, theirs.cluster_name, ours.slot, ours.cluster_name
        );
        return Err(Refusal::new("cluster_name", detail));
    }
    if theirs.slot == ours.slot {
        let reason = if theirs.incarnation == ours.incarnation { "myself" } else { "slot" };
        let detail = format!("two processes call themselves {}; give one of them another node.slot", ours.slot);
        return Err(Refusal::new(reason, detail));
    }
    let both = !theirs.cluster_id.is_empty() && !ours.cluster_id.is_empty();
    if both && theirs.cluster_id != ours.cluster_id {
        let detail = format!(
            "{} has cluster id {}, {} has {}: two clusters of one name; empty the data folder of the wrong one",
            theirs.slot, theirs.cluster_id, ours.slot, ours.cluster_id
        );
        return Err(Refusal::new("cluster_id", detail));
    }
    if known.tombstoned {
        let detail = format!(
            "node id {} of {} was removed and never returns; let it join anew with an empty data folder",
            theirs.node_id, theirs.slot
        );
        return Err(Refusal::new("tombstoned", detail));
    }
    if known.store_uuid.as_ref().is_some_and(|uuid| *uuid != theirs.store_uuid) {
        let detail = format!(
            "node id {} of {} belongs to another disk than {}; a data folder was copied? empty it",
            theirs.node_id, theirs.slot, theirs.store_uuid
        );
        return Err(Refusal::new("store_uuid", detail));
    }
    Ok(protocol)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(slot: &str, incarnation: u64) -> Hello {
        Hello {
            magic: MAGIC.into(),
            protocol_lowest: 1,
            protocol_highest: 1,
            cluster_name: "plant".into(),
            cluster_id: "x".into(),
            slot: Slot(slot.into()),
            node_id: NodeId(2),
            store_uuid: "disk".into(),
            incarnation,
        }
    }

    fn refused(theirs: Hello, known: &Known) -> String {
        check(&hello("a", 1), &theirs, known).unwrap_err().reason
    }

    #[test]
    fn a_peer_of_the_same_cluster_is_welcome_also_before_it_has_joined() {
        assert_eq!(check(&hello("a", 1), &hello("b", 2), &Known::default()), Ok(1));
        let empty = Hello { cluster_id: String::new(), node_id: NodeId(0), ..hello("b", 2) };
        assert_eq!(check(&hello("a", 1), &empty, &Known::default()), Ok(1));
    }

    #[test]
    fn each_wrong_identity_is_refused_with_its_own_reason() {
        let none = Known::default();
        assert_eq!(refused(Hello { magic: "x".into(), ..hello("b", 2) }, &none), "magic");
        assert_eq!(refused(Hello { protocol_lowest: 2, protocol_highest: 3, ..hello("b", 2) }, &none), "protocol");
        assert_eq!(refused(Hello { cluster_name: "mill".into(), ..hello("b", 2) }, &none), "cluster_name");
        assert_eq!(refused(Hello { cluster_id: "y".into(), ..hello("b", 2) }, &none), "cluster_id");
        assert_eq!(refused(hello("a", 1), &none), "myself");
        assert_eq!(refused(hello("a", 2), &none), "slot");
        assert_eq!(refused(hello("b", 2), &Known { tombstoned: true, store_uuid: None }), "tombstoned");
        let other = Known { tombstoned: false, store_uuid: Some("other".into()) };
        assert_eq!(refused(hello("b", 2), &other), "store_uuid");
    }
}
