//! Newtypes for the numbers and names that must never be mixed up.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number!(
    /// Number of an input partition and of its changelog partition, from 0.
    PartitionId(u32)
);
number!(
    /// Number that Raft gives to each tenure of an active; grows, per partition, for ever. 0 means none yet.
    Epoch(u64)
);
number!(
    /// Number of a node, never used again after its disk is lost. 0 means none yet.
    NodeId(u64)
);
number!(
    /// Position in a Kafka partition: that of a record, or of the next record to read.
    Offset(i64)
);

/// Names one change of an active, such as `3-43`, in the logs and traces of all nodes: partition and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId(pub PartitionId, pub Epoch);

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// Stable name of a node, such as `hotspare-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slot(pub String);

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
