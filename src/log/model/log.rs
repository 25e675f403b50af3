//! [`Log`] on the model.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use hotspare_cluster::{Offset, PartitionId};

use super::{
    Kafka, World,
    link::Link,
    reader::{self, ModelReader},
    writer::ModelWriter,
};
use crate::log::{Fenced, Log, LogError, LogIdentity, Reader, Topic};

/// What a [`ModelLog`] needs to know; the names mean the same as in [`KafkaOptions`](crate::log::kafka::KafkaOptions).
#[derive(Debug, Clone)]
pub struct ModelOptions {
    /// Prefix of the transactional ids: `<cluster>-<partition>`.
    pub cluster: String,
    /// Topic of the readings.
    pub input: String,
    /// Topic of the state changes.
    pub changelog: String,
    /// Topic of the windows.
    pub output: String,
    /// Topic of the records that did not count.
    pub dead_letters: String,
    /// After so long the broker ends a transaction that nobody ends.
    pub transaction_timeout: Duration,
    /// Longest time of a request.
    pub operation_timeout: Duration,
}

impl ModelOptions {
    pub(super) fn topic(&self, topic: Topic) -> &str {
        match topic {
            Topic::Input => &self.input,
            Topic::Changelog => &self.changelog,
            Topic::Output => &self.output,
            Topic::DeadLetters => &self.dead_letters,
        }
    }

    pub(super) fn transactional_id(&self, partition: PartitionId) -> String {
        format!("{}-{partition}", self.cluster)
    }
}

/// The topics of one cluster on a modelled Kafka, as one node uses them.
pub struct ModelLog {
    link: Link,
    options: Arc<ModelOptions>,
}

impl ModelLog {
    /// A client of this broker in this world.
    #[must_use]
    pub fn new(kafka: Arc<Mutex<Kafka>>, world: Arc<dyn World>, options: ModelOptions) -> Self {
        Self { link: Link { kafka, world }, options: Arc::new(options) }
    }
}

impl Log for ModelLog {
    fn reader(&self, topic: Topic, _name: &str) -> Result<Box<dyn Reader>, LogError> {
        let name = self.options.topic(topic).to_owned();
        Ok(Box::new(ModelReader::new(self.link.clone(), name, self.options.operation_timeout)))
    }

    fn input_reader(&self, _partition: PartitionId) -> Result<Box<dyn Reader>, LogError> {
        self.reader(Topic::Input, "input")
    }

    /// There is nothing to connect.
    fn prepare(&self, _partition: PartitionId) -> Result<(), LogError> {
        Ok(())
    }

    /// Like the real one: the id is taken once to end what is open, once more for the handle, and then the ends must agree.
    fn fence(&self, partition: PartitionId) -> Result<Fenced, LogError> {
        let options = &self.options;
        let id = options.transactional_id(partition);
        let timeout_ms = i64::try_from(options.transaction_timeout.as_millis()).unwrap_or(i64::MAX);
        let init = || self.link.persist(options.operation_timeout, |kafka| kafka.init_producer_id(&id, timeout_ms));
        init()?;
        let producer = init()?;
        let mut changelog_end = Offset(0);
        for topic in [Topic::Changelog, Topic::Output, Topic::DeadLetters] {
            let ask = |kafka: &mut Kafka| kafka.bounds(options.topic(topic), partition.0);
            let bounds = self.link.persist(options.operation_timeout, ask)?;
            if bounds.stable < bounds.end {
                return Err(LogError::Unavailable(format!("a transaction of partition {partition} stays open")));
            }
            if topic == Topic::Changelog {
                changelog_end = Offset(bounds.stable);
            }
        }
        let writer = ModelWriter::new(self.link.clone(), Arc::clone(options), partition, producer);
        Ok(Fenced { writer: Box::new(writer), changelog_end, method: "direct" })
    }

    fn bounds(&self, topic: Topic, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        reader::bounds(&self.link, self.options.topic(topic), partition, self.options.operation_timeout)
    }

    fn keep_warm(&self, _partitions: &[PartitionId]) {}

    fn partitions(&self, topic: Topic) -> Result<Option<u32>, LogError> {
        let describe = |kafka: &mut Kafka| Ok(kafka.describe(self.options.topic(topic)));
        let found = self.link.persist(self.options.operation_timeout, describe)?;
        Ok(found.map(|(_, partitions)| partitions))
    }

    fn identity(&self) -> Result<LogIdentity, LogError> {
        let describe = |kafka: &mut Kafka| Ok(kafka.describe(&self.options.changelog));
        let found = self.link.persist(self.options.operation_timeout, describe)?;
        Ok(LogIdentity {
            kafka_cluster_id: "model".to_owned(),
            changelog_topic_id: found.map(|(id, _)| id.to_string()).unwrap_or_default(),
        })
    }
}
