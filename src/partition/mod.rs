//! A replica's life: Standby → Promoting → Active → Fenced.
//!
//! [`machine`] decides, without clock or Kafka; the threads around it read, write and wait:
//! one for all standbys of a node ([`standby`]), one for each active ([`active`]), one for each restore ([`restore`]).
//! A [`machine::Replica`] is owned by exactly one of them and handed on whole, so that no state is ever shared.

pub mod active;
pub mod control;
pub mod devices;
pub mod handover;
pub mod machine;
mod quiet;
pub mod restore;
pub mod snapshot;
pub mod standby;
pub mod status;
#[cfg(test)]
mod tests;
