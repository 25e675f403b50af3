//! The protocol of promotion as a model: nodes, one partition, the broker's transactions and fencing, and Raft as a log that
//! cannot fork. What it leaves out and what it found is in `docs/MODEL.md`.
#![allow(missing_docs, reason = "it has one reader, its own tests")]

pub mod properties;
mod recovery;
pub mod steps;
pub mod world;
