//! hotspare: a hot-standby replication cluster for stateful stream processing on Kafka.
//!
//! The order of the rooms is the way of the data; see `ARCHITECTURE.md`.

pub use hotspare_cluster::{Epoch, NodeId, Offset, PartitionId, Slot, invariants};

pub mod atomic_file;
pub mod changelog;
pub mod checkpoint;
pub mod cli;
pub mod config;
pub mod demo;
pub mod failpoints;
pub mod generate;
pub mod http;
pub mod log;
pub mod metrics;
pub mod node;
pub mod partition;
pub mod propose;
pub mod reading;
mod record_file;
pub mod semantics;
pub mod store;
pub mod topics;
pub mod verify;
pub mod window;
