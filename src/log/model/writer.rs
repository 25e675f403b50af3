//! [`Writer`] on the model.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hotspare_cluster::{Offset, PartitionId};

use super::{
    Code, ModelOptions, NewRecord, Producer,
    link::{Failure, Link},
};
use crate::log::{CommitError, Committed, Message, Topic, Writer};

pub(super) struct ModelWriter {
    link: Link,
    options: Arc<ModelOptions>,
    partition: PartitionId,
    transactional_id: String,
    producer: Producer,
    /// Next sequence number by topic.
    sequences: BTreeMap<String, i32>,
    /// The transaction is known to the broker.
    is_open: bool,
    broken: Option<CommitError>,
}

impl ModelWriter {
    pub(super) fn new(link: Link, options: Arc<ModelOptions>, partition: PartitionId, producer: Producer) -> Self {
        let transactional_id = options.transactional_id(partition);
        let sequences = BTreeMap::new();
        Self { link, options, partition, transactional_id, producer, sequences, is_open: false, broken: None }
    }

    /// Writes the messages of one topic, given with their places in the transaction. What is too large together goes in
    /// halves, so that a message is blamed only for its own size. Gives the offset of the last one.
    fn produce(&mut self, topic: Topic, batch: &[(usize, &Message)]) -> Result<i64, CommitError> {
        let name = self.options.topic(topic);
        let timestamp_ms = self.link.world.now_ms();
        let record = |(_, message): &(usize, &Message)| NewRecord {
            timestamp_ms,
            key: message.key.clone(),
            value: message.value.clone(),
            headers: message.headers.clone(),
        };
        let records: Vec<_> = batch.iter().map(record).collect();
        let sequence = self.sequences.get(name).copied().unwrap_or(0);
        let answer = self.link.persist(self.options.transaction_timeout, |kafka| {
            kafka.produce(&self.transactional_id, self.producer, name, self.partition.0, (sequence, &records))
        });
        match answer {
            Ok(first) => {
                let count = i32::try_from(records.len()).unwrap_or(i32::MAX);
                self.sequences.insert(name.to_owned(), sequence.saturating_add(count));
                Ok(first + i64::from(count) - 1)
            }
            Err(Failure::Refused(Code::MessageTooLarge)) => match batch {
                [] => Err(CommitError::Fatal("an empty batch is too large".to_owned())),
                [(index, message)] => Err(CommitError::TooLarge { index: *index, bytes: message.bytes() }),
                _ => {
                    let (one, other) = batch.split_at(batch.len() / 2);
                    self.produce(topic, one)?;
                    self.produce(topic, other)
                }
            },
            // A client would have to find out which sequence number is next.
            Err(Failure::NoAnswer) => Err(CommitError::Fatal("messages not acknowledged".to_owned())),
            Err(failure) => Err(class(failure)),
        }
    }

    /// The changelog offset of the last message; -1 for none.
    fn write(&mut self, messages: &[Message]) -> Result<i64, CommitError> {
        let mut changelog_last = -1;
        for topic in [Topic::Changelog, Topic::Output, Topic::DeadLetters, Topic::Input] {
            let batch: Vec<_> = messages.iter().enumerate().filter(|(_, message)| message.topic == topic).collect();
            if batch.is_empty() {
                continue;
            }
            let name = self.options.topic(topic);
            self.is_open = true;
            let add = |kafka: &mut super::Kafka| {
                kafka.add_partition(&self.transactional_id, self.producer, name, self.partition.0)
            };
            self.link.persist(self.options.transaction_timeout, add).map_err(class)?;
            let last = self.produce(topic, &batch)?;
            if topic == Topic::Changelog {
                changelog_last = last;
            }
        }
        Ok(changelog_last)
    }

    fn end(&mut self, commit: bool, within: Duration) -> Result<(), Failure> {
        let answer =
            self.link.persist(within, |kafka| kafka.end_transaction(&self.transactional_id, self.producer, commit));
        self.is_open = false;
        match answer {
            // Decided; its markers are missing.
            Err(Failure::Refused(Code::ConcurrentTransactions)) => Ok(()),
            answer => answer,
        }
    }

    fn attempt(&mut self, messages: &[Message]) -> Result<Committed, CommitError> {
        let timeout = self.options.transaction_timeout;
        match self.write(messages) {
            Ok(last) => {
                if self.is_open {
                    self.end(true, 2 * timeout).map_err(|failure| match class(failure) {
                        CommitError::Aborted(text) => CommitError::Fatal(text),
                        error => error,
                    })?;
                }
                Ok(Committed { changelog_next: Offset(last + 1) })
            }
            Err(error @ (CommitError::Fenced(_) | CommitError::Fatal(_))) => Err(error),
            Err(error) => {
                if self.is_open {
                    self.abort()?;
                }
                Err(error)
            }
        }
    }

    fn abort(&mut self) -> Result<(), CommitError> {
        match self.end(false, 2 * self.options.transaction_timeout) {
            // None of the partitions was added.
            Ok(()) | Err(Failure::Refused(Code::InvalidTxnState)) => Ok(()),
            Err(failure) => Err(match class(failure) {
                CommitError::Aborted(text) => CommitError::Fatal(text),
                error => error,
            }),
        }
    }
}

fn class(failure: Failure) -> CommitError {
    match failure {
        Failure::Refused(code) if code.is_fenced() => CommitError::Fenced(failure.to_string()),
        Failure::Refused(Code::OutOfOrderSequence | Code::InvalidTxnState) => CommitError::Fatal(failure.to_string()),
        failure => CommitError::Aborted(failure.to_string()),
    }
}

impl Writer for ModelWriter {
    fn transact(&mut self, messages: &[Message]) -> Result<Committed, CommitError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        let result = self.attempt(messages);
        if let Err(error @ (CommitError::Fenced(_) | CommitError::Fatal(_))) = &result {
            self.broken = Some(error.clone());
        }
        result
    }
}
