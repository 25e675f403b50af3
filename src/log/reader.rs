//! Reading partitions from Kafka.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hotspare_cluster::{Offset, PartitionId};
use rdkafka::{
    ClientContext, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::RDKafkaErrorCode,
};

use super::{Event, LogError, Reader, batch::Queue};

/// Hands librdkafka's log lines to `tracing`, below the level of our own.
#[derive(Clone)]
pub(super) struct Context;

impl ClientContext for Context {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: rdkafka::error::KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka error");
    }
}

impl ConsumerContext for Context {}

pub(super) type Client = BaseConsumer<Context>;

pub(super) struct KafkaReader {
    // Dropped before the consumer that it belongs to.
    queue: Queue,
    consumer: Arc<Client>,
    topic: String,
    assigned: BTreeSet<PartitionId>,
    operation_timeout: Duration,
}

impl KafkaReader {
    pub(super) fn new(consumer: Client, topic: String, operation_timeout: Duration) -> Self {
        let consumer = Arc::new(consumer);
        Self { queue: Queue::of(&consumer), consumer, topic, assigned: BTreeSet::new(), operation_timeout }
    }

    /// Connects to the leader of the partition, without fetching anything.
    pub(super) fn warm_up(&mut self, partition: PartitionId) -> Result<(), LogError> {
        // Else the client waits for its own metadata in steps of 100 ms.
        self.consumer.fetch_metadata(Some(&self.topic), self.operation_timeout)?;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, number(partition), rdkafka::Offset::End)?;
        self.consumer.assign(&list)?;
        self.bounds(partition)?;
        self.consumer.assign(&TopicPartitionList::new())?;
        Ok(())
    }

    fn list(&self, partition: PartitionId, offset: Option<Offset>) -> Result<TopicPartitionList, LogError> {
        let mut list = TopicPartitionList::new();
        match offset {
            Some(offset) => {
                list.add_partition_offset(&self.topic, number(partition), rdkafka::Offset::Offset(offset.0))?;
            }
            None => drop(list.add_partition(&self.topic, number(partition))),
        }
        Ok(list)
    }
}

impl Reader for KafkaReader {
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), LogError> {
        self.unassign(partition)?;
        self.consumer.incremental_assign(&self.list(partition, Some(offset))?)?;
        self.assigned.insert(partition);
        Ok(())
    }

    fn unassign(&mut self, partition: PartitionId) -> Result<(), LogError> {
        if self.assigned.remove(&partition) {
            self.consumer.incremental_unassign(&self.list(partition, None)?)?;
        }
        Ok(())
    }

    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event<'_>)) {
        self.queue.poll(&self.consumer, timeout, sink);
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        bounds(&self.consumer, &self.topic, partition, self.operation_timeout)
    }

    fn note_progress(&mut self, partition: PartitionId, next: Offset) {
        // Best effort: nothing rests on it.
        if let Ok(list) = self.list(partition, Some(next))
            && let Err(error) = self.consumer.commit(&list, CommitMode::Async)
        {
            tracing::debug!(%error, %partition, "group offset not committed");
        }
    }
}

/// First offset and last stable offset.
pub(super) fn bounds(
    consumer: &Client,
    topic: &str,
    partition: PartitionId,
    timeout: Duration,
) -> Result<(Offset, Offset), LogError> {
    let ask = || consumer.fetch_watermarks(topic, number(partition), timeout);
    // Where a partition had no leader, the client remembers that for minutes and asks nobody: until it is told anew.
    let (low, high) = ask().or_else(|error| match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::UnknownPartition) => {
            consumer.fetch_metadata(Some(topic), timeout)?;
            ask()
        }
        _ => Err(error),
    })?;
    Ok((Offset(low), Offset(high)))
}

pub(super) fn number(partition: PartitionId) -> i32 {
    i32::try_from(partition.0).unwrap_or(i32::MAX)
}
