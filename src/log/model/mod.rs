//! A Kafka in memory, for simulations and tests: deterministic, without threads and without a clock of its own.
//!
//! [`Kafka`] is the broker: requests change it, and what a real broker does in the background (writing markers, timing out
//! transactions, compacting) happens when it is told to. [`ModelLog`] is [`Log`](super::Log) on it, as
//! [`KafkaLog`](super::kafka::KafkaLog) is on a real one; the [`World`] around it gives the time and takes every
//! choice that a real cluster leaves to chance. `tests/log.rs` runs the same scenarios on the model and on a real Kafka, and
//! demands the same trace.
//!
//! # What is modelled, as of Kafka 4.3 and as librdkafka asks (no transactions of version 2, KIP-890 part 2)
//!
//! - topics with ids, partitions, offsets, headers, both kinds of timestamps and their check (`LogValidator`);
//! - transactions (KIP-98; `TransactionCoordinator`): producer ids and epochs, fencing by `InitProducerId`,
//!   `CONCURRENT_TRANSACTIONS` until the markers are written, one marker a partition, which occupies an offset even where nothing was
//!   produced; answers to a commit that is asked again; timeouts with a new epoch; verification of partitions (KIP-890 part 1);
//! - sequence numbers: the last batch is acknowledged again, a gap is refused (`ProducerStateManager`);
//! - the last stable offset, readers of either isolation, positions that pass over control records and aborted ones;
//! - segments, rolled by `segment.ms` as `LogSegment.shouldRoll` does; compaction of whole ones, which spares the active one and
//!   what follows the first that is not stable, and tombstones that expire at the first pass after their horizon (KIP-534; `Cleaner`);
//! - topics that are created anew under a transaction or a reader, and records deleted from the front (a reader that asks for
//!   nothing until the new topic is as long goes on at its offset; librdkafka fetches all the time, so it rarely does);
//! - requests and answers that get lost, and spells without any answer.
//!
//! # What is not
//!
//! More than one broker (leaders, replication, the high watermark), consumer groups, quotas, authorization, idempotent producers
//! without transactions, compression and sizes of envelopes, removal of markers and of empty batches by the cleaner (no reader can
//! tell), expiry of transactional ids and of producers, deletion by retention time.

mod broker;
mod compaction;
mod coordinator;
mod link;
mod log;
mod partition;
mod reader;
#[cfg(test)]
mod tests;
mod world;
mod writer;

pub use self::{
    broker::{Bounds, Kafka},
    log::{ModelLog, ModelOptions},
    partition::{Content, Entry, Isolation, NewRecord, Producer, TopicConfig},
    world::{Choice, Seeded, World},
};

/// Kafka's error codes, as far as the model gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{self:?}")]
#[expect(missing_docs, reason = "Kafka's names, which its protocol page explains")]
pub enum Code {
    OffsetOutOfRange = 1,
    UnknownTopicOrPartition = 3,
    MessageTooLarge = 10,
    InvalidTimestamp = 32,
    TopicAlreadyExists = 36,
    OutOfOrderSequence = 45,
    InvalidProducerEpoch = 47,
    InvalidTxnState = 48,
    InvalidProducerIdMapping = 49,
    ConcurrentTransactions = 51,
    InvalidRecord = 87,
}

impl Code {
    /// The producer is not the newest of its transactional id.
    fn is_fenced(self) -> bool {
        matches!(self, Self::InvalidProducerEpoch | Self::InvalidProducerIdMapping)
    }
}
