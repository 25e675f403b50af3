//! Topics, as the replicas use them: ordered partitions that are read up to the last stable offset, and written in
//! transactions of which the broker lets only the newest owner commit.
//!
//! [`Log`] is the seam: [`kafka::KafkaLog`] is the real one, `model` (feature `simulation`) has one in memory. All calls
//! block, on purpose: they run on the threads of the partitions, never on the async runtime.

mod batch;
mod error;
mod fence;
pub mod kafka;
#[cfg(any(test, feature = "simulation"))]
pub mod model;
mod reader;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod waits;
mod wire;
mod writer;

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use hotspare_cluster::{Offset, PartitionId};

pub use error::{CommitError, LogError};

/// One record of a topic, borrowed from the client that fetched it.
#[derive(Debug)]
pub struct Record<'a> {
    /// Where it stands.
    pub offset: Offset,
    /// Milliseconds since 1970; below 0 for none.
    pub timestamp_ms: i64,
    /// Key, if it has one.
    pub key: Option<&'a [u8]>,
    /// Value; none is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

/// What headers are read from.
#[derive(Debug)]
enum Headers<'a> {
    Client(batch::Headers<'a>),
    #[cfg(any(test, feature = "simulation"))]
    Model(&'a [(String, Option<Vec<u8>>)]),
}

impl<'a> Record<'a> {
    /// Names and values of the headers, in their order. Costs a walk over them, so ask only where they are needed.
    #[must_use]
    pub fn headers(&self) -> Vec<(Cow<'a, str>, Option<&'a [u8]>)> {
        match &self.headers {
            Headers::Client(message) => message.to_vec(),
            #[cfg(any(test, feature = "simulation"))]
            Headers::Model(all) => {
                all.iter().map(|(name, value)| (Cow::Borrowed(name.as_str()), value.as_deref())).collect()
            }
        }
    }
}

/// What a [`Reader`] found.
#[derive(Debug)]
pub enum Event<'a> {
    /// The next record of a partition.
    Record(PartitionId, Record<'a>),
    /// The reader stands at the last stable offset, which is this one. Control records and aborted ones lie behind it.
    End(PartitionId, Offset),
    /// A partition cannot be read; the client goes on trying.
    Error(PartitionId, LogError),
}

/// Reads partitions of one topic at offsets that the caller gives (no consumer group membership), committed records only.
pub trait Reader: Send {
    /// Begins to read a partition at an offset, which stays until [`Reader::unassign`].
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), LogError>;

    /// Stops reading a partition.
    fn unassign(&mut self, partition: PartitionId) -> Result<(), LogError>;

    /// Hands up to a bounded number of events to the sink, waiting for the first one at most so long.
    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event<'_>));

    /// First offset that the log still has, and the last stable offset.
    fn bounds(&mut self, partition: PartitionId) -> Result<(Offset, Offset), LogError>;

    /// Tells the broker how far the input was read, for lag tools only: nothing is ever resumed from it.
    fn note_progress(&mut self, partition: PartitionId, next: Offset);
}

/// One message to write.
#[derive(Debug, Clone)]
pub struct Message {
    /// Which of our topics.
    pub topic: Topic,
    /// Key, if any.
    pub key: Option<Bytes>,
    /// Value; none is a tombstone.
    pub value: Option<Bytes>,
    /// Headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Message {
    /// Bytes that it takes, without the envelope.
    fn bytes(&self) -> usize {
        let length = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + length(value.as_deref())).sum();
        length(self.key.as_deref()) + length(self.value.as_deref()) + headers
    }
}

/// The topics of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Where readings come from.
    Input,
    /// State changes, compacted.
    Changelog,
    /// Windows.
    Output,
    /// Records that did not count.
    DeadLetters,
}

/// A committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The changelog offset after the last record of the transaction.
    pub changelog_next: Offset,
}

/// Writes transactions of one partition; only the newest writer of a partition can commit.
pub trait Writer: Send {
    /// Writes all messages in one transaction. `Ok` means that every `read_committed` reader sees them all.
    fn transact(&mut self, messages: &[Message]) -> Result<Committed, CommitError>;
}

/// A fence: from here on nobody else commits for the partition.
pub struct Fenced {
    /// The only writer that can commit.
    pub writer: Box<dyn Writer>,
    /// Last stable offset of the changelog partition; nobody but the writer can move it.
    pub changelog_end: Offset,
    /// `direct` or `hedged`.
    pub method: &'static str,
}

/// Which cluster and topic a log is, so that checkpoints of another one are refused.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogIdentity {
    /// Id of the Kafka cluster; empty if the broker does not tell.
    pub kafka_cluster_id: String,
    /// Id of the changelog topic, which changes when it is created anew; empty if it is not known.
    pub changelog_topic_id: String,
}

/// The topics of one cluster on one broker cluster.
pub trait Log: Send + Sync {
    /// A reader of one topic.
    fn reader(&self, topic: Topic, name: &str) -> Result<Box<dyn Reader>, LogError>;

    /// A reader of the input for one partition, already connected where [`Log::keep_warm`] asked for it.
    fn input_reader(&self, partition: PartitionId) -> Result<Box<dyn Reader>, LogError>;

    /// Connects what [`Log::fence`] will use, so that it is fast; the fence itself comes later.
    fn prepare(&self, partition: PartitionId) -> Result<(), LogError>;

    /// Fences every earlier writer of the partition.
    fn fence(&self, partition: PartitionId) -> Result<Fenced, LogError>;

    /// First offset and last stable offset of a partition of a topic.
    fn bounds(&self, topic: Topic, partition: PartitionId) -> Result<(Offset, Offset), LogError>;

    /// Keeps a connected handle ready for a partition that this node may have to take over, and drops those of others.
    fn keep_warm(&self, partitions: &[PartitionId]);

    /// Number of partitions of a topic; none if it does not exist.
    fn partitions(&self, topic: Topic) -> Result<Option<u32>, LogError>;

    /// Which cluster and changelog this is.
    fn identity(&self) -> Result<LogIdentity, LogError>;
}
