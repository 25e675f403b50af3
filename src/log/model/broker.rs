//! The requests of the modelled broker.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    Code,
    coordinator::{Coordinator, Marker},
    partition::{Entry, Isolation, NewRecord, Partition, Producer, TopicConfig},
};

#[derive(Debug, Clone)]
struct Topic {
    id: Uuid,
    config: TopicConfig,
    partitions: Vec<Partition>,
}

/// Where a partition begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// First offset.
    pub start: i64,
    /// Last stable offset.
    pub stable: i64,
    /// The offset that the next record gets.
    pub end: i64,
}

/// A Kafka cluster of one broker. It does nothing by itself: markers are written, transactions time out and logs are
/// compacted when the caller says so.
#[derive(Debug, Clone, Default)]
pub struct Kafka {
    now_ms: i64,
    unavailable: bool,
    topics: BTreeMap<String, Topic>,
    topics_created: u128,
    coordinator: Coordinator,
}

impl Kafka {
    /// The broker's clock, ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// Lets the broker's clock go on to this time, never back, and ends the transactions whose time is over.
    pub fn advance_to(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
        if !self.unavailable {
            self.coordinator.time_out(self.now_ms);
        }
    }

    /// Begins or ends a spell in which nobody gets an answer.
    pub fn set_available(&mut self, available: bool) {
        self.unavailable = !available;
    }

    /// False in a spell in which nobody gets an answer; the requests below are then not to be made.
    #[must_use]
    pub fn is_available(&self) -> bool {
        !self.unavailable
    }

    /// Creates a topic with a new id.
    ///
    /// # Errors
    /// [`Code::TopicAlreadyExists`].
    pub fn create_topic(&mut self, name: &str, partitions: u32, config: TopicConfig) -> Result<(), Code> {
        if self.topics.contains_key(name) {
            return Err(Code::TopicAlreadyExists);
        }
        self.topics_created += 1;
        let partitions = (0..partitions).map(|_| Partition::new()).collect();
        self.topics.insert(name.to_owned(), Topic { id: Uuid::from_u128(self.topics_created), config, partitions });
        Ok(())
    }

    /// Removes a topic with all its records.
    ///
    /// # Errors
    /// [`Code::UnknownTopicOrPartition`].
    pub fn delete_topic(&mut self, name: &str) -> Result<(), Code> {
        self.topics.remove(name).map(drop).ok_or(Code::UnknownTopicOrPartition)
    }

    /// Id of a topic and number of its partitions, if it exists.
    #[must_use]
    pub fn describe(&self, name: &str) -> Option<(Uuid, u32)> {
        let topic = self.topics.get(name)?;
        Some((topic.id, u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX)))
    }

    /// The partitions of compacted topics, by name of the topic and number.
    #[must_use]
    pub fn compacted(&self) -> Vec<(String, u32)> {
        let compacted = self.topics.iter().filter(|(_, topic)| topic.config.compact);
        compacted
            .flat_map(|(name, topic)| (0..).zip(&topic.partitions).map(|(number, _)| (name.clone(), number)))
            .collect()
    }

    fn partition(&self, topic: &str, partition: u32) -> Result<&Partition, Code> {
        let topic = self.topics.get(topic).ok_or(Code::UnknownTopicOrPartition)?;
        topic.partitions.get(partition as usize).ok_or(Code::UnknownTopicOrPartition)
    }

    fn partition_mut(&mut self, topic: &str, partition: u32) -> Result<(&mut Partition, &TopicConfig), Code> {
        let topic = self.topics.get_mut(topic).ok_or(Code::UnknownTopicOrPartition)?;
        let partition = topic.partitions.get_mut(partition as usize).ok_or(Code::UnknownTopicOrPartition)?;
        Ok((partition, &topic.config))
    }

    /// `InitProducerId` of a client that has no producer yet.
    ///
    /// # Errors
    /// [`Code::ConcurrentTransactions`] as long as the transaction of whoever had the id is being ended; ask again.
    pub fn init_producer_id(&mut self, transactional_id: &str, timeout_ms: i64) -> Result<Producer, Code> {
        self.coordinator.init(transactional_id, timeout_ms)
    }

    /// `AddPartitionsToTxn` with one partition.
    ///
    /// # Errors
    /// No such partition, the producer is fenced, or its last transaction is still being ended.
    pub fn add_partition(
        &mut self,
        transactional_id: &str,
        producer: Producer,
        topic: &str,
        partition: u32,
    ) -> Result<(), Code> {
        self.partition(topic, partition)?;
        self.coordinator.add(transactional_id, producer, (topic.to_owned(), partition), self.now_ms)
    }

    /// `Produce` with one batch of a transaction, whose first record has this sequence number (0 for the first batch of
    /// a producer in a partition). Gives the offset of that record.
    ///
    /// # Errors
    /// No such partition, a record that is refused (the batch then is, as a whole), no transaction, or a fenced producer.
    pub fn produce(
        &mut self,
        transactional_id: &str,
        producer: Producer,
        topic: &str,
        partition: u32,
        (sequence, records): (i32, &[NewRecord]),
    ) -> Result<i64, Code> {
        let is_open = self.partition(topic, partition)?.is_open(producer.id);
        if !is_open {
            self.coordinator.verify(transactional_id, producer, &(topic.to_owned(), partition))?;
        }
        let now_ms = self.now_ms;
        let (log, config) = self.partition_mut(topic, partition)?;
        log.append(producer, sequence, records, config, now_ms)
    }

    /// `Produce` with one batch of no transaction and no sequence, as a sensor's gateway may do. Gives its first offset.
    ///
    /// # Errors
    /// No such partition, or a record that is refused.
    pub fn append(&mut self, topic: &str, partition: u32, records: &[NewRecord]) -> Result<i64, Code> {
        let now_ms = self.now_ms;
        let (log, config) = self.partition_mut(topic, partition)?;
        log.append_plain(records, config, now_ms)
    }

    /// `EndTxn`. It is decided when this answers; readers see it when the markers are written.
    ///
    /// # Errors
    /// No transaction, or a fenced producer.
    pub fn end_transaction(&mut self, transactional_id: &str, producer: Producer, commit: bool) -> Result<(), Code> {
        self.coordinator.end(transactional_id, producer, commit)
    }

    /// How many markers are decided and not yet written.
    #[must_use]
    pub fn markers(&self) -> usize {
        self.coordinator.markers().len()
    }

    /// Writes one of the markers that are missing, counted from 0.
    pub fn write_marker(&mut self, index: usize) {
        if let Some(marker) = self.coordinator.markers().get(index) {
            self.mark(marker);
        }
    }

    /// Writes all markers that are missing.
    pub fn write_markers(&mut self) {
        for marker in self.coordinator.markers() {
            self.mark(&marker);
        }
    }

    fn mark(&mut self, marker: &Marker) {
        let now_ms = self.now_ms;
        let (topic, partition) = &marker.place;
        if let Ok((log, config)) = self.partition_mut(topic, *partition) {
            log.mark(marker.producer, marker.commit, config, now_ms);
        }
        self.coordinator.marked(marker);
    }

    /// Where a partition begins and ends.
    ///
    /// # Errors
    /// [`Code::UnknownTopicOrPartition`].
    pub fn bounds(&self, topic: &str, partition: u32) -> Result<Bounds, Code> {
        let log = self.partition(topic, partition)?;
        Ok(Bounds { start: log.start, stable: log.stable(), end: log.end })
    }

    /// The next records from an offset, at most so many, and the position after them, which passes over all that this
    /// isolation does not see.
    ///
    /// # Errors
    /// No such partition or offset.
    pub fn fetch(
        &self,
        topic: &str,
        partition: u32,
        from: i64,
        isolation: Isolation,
        most: usize,
    ) -> Result<(Vec<&Entry>, i64), Code> {
        self.partition(topic, partition)?.fetch(from, isolation, most)
    }

    /// Everything that stands in a partition, control records too.
    ///
    /// # Errors
    /// [`Code::UnknownTopicOrPartition`].
    pub fn entries(&self, topic: &str, partition: u32) -> Result<Vec<&Entry>, Code> {
        Ok(self.partition(topic, partition)?.entries().collect())
    }

    /// One pass of the log cleaner, if the topic is compacted.
    ///
    /// # Errors
    /// [`Code::UnknownTopicOrPartition`].
    pub fn compact(&mut self, topic: &str, partition: u32) -> Result<(), Code> {
        let now_ms = self.now_ms;
        let (log, config) = self.partition_mut(topic, partition)?;
        if config.compact {
            log.compact(config.delete_retention_ms, now_ms);
        }
        Ok(())
    }

    /// Removes the records before an offset, as retention or `DeleteRecords` does.
    ///
    /// # Errors
    /// No such partition or offset.
    pub fn delete_before(&mut self, topic: &str, partition: u32, offset: i64) -> Result<(), Code> {
        self.partition_mut(topic, partition)?.0.delete_before(offset)
    }
}
