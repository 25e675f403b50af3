//! Writing transactions to Kafka.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fail::fail_point;
use hotspare_cluster::{Offset, PartitionId};
use rdkafka::{
    ClientContext, Message as _,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext, PurgeConfig},
};

use super::{
    CommitError, Committed, Message, Topic, Writer,
    error::{Class, classify},
    reader::number,
};

/// Between looks for acknowledgements. Sleeping, because rdkafka's own wait spins for what is left below a millisecond.
const LOOK_AGAIN: Duration = Duration::from_micros(300);
const RETRY_GAP: Duration = Duration::from_millis(5);
const ABORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Collects what the broker said of the messages of one transaction.
pub(super) struct Deliveries {
    changelog: String,
    failed: Mutex<Option<(usize, KafkaError)>>,
    changelog_last: AtomicI64,
}

impl Deliveries {
    pub(super) fn new(changelog: String) -> Self {
        Self { changelog, failed: Mutex::new(None), changelog_last: AtomicI64::new(-1) }
    }

    fn reset(&self) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changelog_last.store(-1, Ordering::Relaxed);
    }

    fn failure(&self) -> Option<(usize, KafkaError)> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: rdkafka::config::RDKafkaLogLevel, facility: &str, message: &str) {
        tracing::debug!(?level, facility, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka error");
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, index: usize) {
        match result {
            Ok(message) if message.topic() == self.changelog => {
                self.changelog_last.fetch_max(message.offset(), Ordering::Relaxed);
            }
            Ok(_) => {}
            Err((error, _)) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert_with(|| (index, error.clone()));
            }
        }
    }
}

pub(super) type Client = BaseProducer<Deliveries>;

/// Names of the topics that a writer writes to.
#[derive(Debug, Clone)]
pub(super) struct Names {
    pub(super) changelog: String,
    pub(super) output: String,
    pub(super) dead_letters: String,
}

pub(super) struct KafkaWriter {
    pub(super) producer: Client,
    pub(super) partition: PartitionId,
    pub(super) names: Names,
    pub(super) transaction_timeout: Duration,
    /// A topic that refused a batch for its size, and how many messages go to it at a time since.
    pub(super) careful: Option<(Topic, usize)>,
}

impl KafkaWriter {
    fn topic(&self, topic: Topic) -> &str {
        match topic {
            Topic::Output => &self.names.output,
            Topic::DeadLetters => &self.names.dead_letters,
            Topic::Changelog | Topic::Input => &self.names.changelog,
        }
    }

    fn send(&self, index: usize, message: &Message, deadline: Instant) -> Result<(), CommitError> {
        let mut record = BaseRecord::<[u8], [u8], usize>::with_opaque_to(self.topic(message.topic), index)
            .partition(number(self.partition));
        record.key = message.key.as_deref();
        record.payload = message.value.as_deref();
        if !message.headers.is_empty() {
            let mut headers = OwnedHeaders::new_with_capacity(message.headers.len());
            for (name, value) in &message.headers {
                headers = headers.insert(Header { key: name, value: value.as_ref() });
            }
            record = record.headers(headers);
        }
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back))
                    if Instant::now() < deadline =>
                {
                    record = back;
                    self.look();
                }
                Err((error, _)) => return Err(self.refused(index, message, &error)),
            }
        }
    }

    fn refused(&self, index: usize, message: &Message, error: &KafkaError) -> CommitError {
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge) {
            return CommitError::TooLarge { index, bytes: message.bytes() };
        }
        self.broken(error)
    }

    /// The class of an error decides, but a fatal error that the client met in the background overrides it.
    fn broken(&self, error: &KafkaError) -> CommitError {
        let fatal = self.producer.client().fatal_error();
        let text = fatal.as_ref().map_or_else(|| error.to_string(), |(_, text)| text.clone());
        let fatal_class = fatal.map(|(code, _)| classify(&KafkaError::Global(code)));
        match fatal_class
            .map_or_else(|| classify(error), |class| if class == Class::Fenced { class } else { Class::Fatal })
        {
            Class::Fenced => CommitError::Fenced(text),
            Class::Fatal => CommitError::Fatal(text),
            Class::Abort | Class::Retriable => CommitError::Aborted(text),
        }
    }

    fn look(&self) {
        self.producer.poll(Duration::ZERO);
        if self.producer.in_flight_count() > 0 {
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Waits for the broker's word on each message, because committing with messages in flight costs 100 ms.
    fn drain(&self, messages: &[Message], deadline: Instant) -> Result<(), CommitError> {
        while self.producer.in_flight_count() > 0 {
            self.look();
            if let Some((index, error)) = self.producer.context().failure() {
                return Err(self.refused(index, &messages[index.min(messages.len() - 1)], &error));
            }
            if Instant::now() > deadline {
                let waiting = self.producer.in_flight_count();
                return Err(CommitError::Aborted(format!(
                    "{waiting} of {} messages not acknowledged within {} ms",
                    messages.len(),
                    self.transaction_timeout.as_millis()
                )));
            }
        }
        match self.producer.context().failure() {
            Some((index, error)) => Err(self.refused(index, &messages[index.min(messages.len() - 1)], &error)),
            None => Ok(()),
        }
    }

    /// Commits, and asks again as long as the answer is that it may be asked again: only so does it become certain. After
    /// twice the transaction timeout the broker has ended the transaction itself, and the log tells how.
    fn commit(&self) -> Result<(), CommitError> {
        let begin = Instant::now();
        loop {
            match self.producer.commit_transaction(self.transaction_timeout) {
                Ok(()) => return Ok(()),
                Err(error) if classify(&error) == Class::Retriable => {
                    if begin.elapsed() > 2 * self.transaction_timeout {
                        return Err(CommitError::Fatal(format!("commit not answered: {error}")));
                    }
                    tracing::warn!(partition = %self.partition, %error, "commit not answered, asking again");
                    std::thread::sleep(RETRY_GAP);
                }
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn abort(&self) -> Result<(), CommitError> {
        self.producer.purge(PurgeConfig::default().queue().inflight());
        // The client aborts only when it has told of each message what became of it.
        self.settle();
        let begin = Instant::now();
        loop {
            match self.producer.abort_transaction(ABORT_TIMEOUT) {
                Ok(()) => return Ok(()),
                Err(error)
                    if classify(&error) == Class::Retriable && begin.elapsed() < 2 * self.transaction_timeout =>
                {
                    std::thread::sleep(RETRY_GAP);
                    self.settle();
                }
                Err(error) => {
                    return match self.broken(&error) {
                        CommitError::Aborted(text) => Err(CommitError::Fatal(text)),
                        other => Err(other),
                    };
                }
            }
        }
    }

    /// Ends what an earlier writer left open in these topics although the broker has fenced it: begins a transaction in
    /// each and aborts it, for the abort counts for all of this writer's identity. Nothing of it is ever visible.
    /// Returns the last changelog offset that it took; -1 for none.
    pub(super) fn abort_leftovers(&mut self, topics: &[Topic]) -> Result<Offset, CommitError> {
        self.producer.context().reset();
        self.producer.begin_transaction().map_err(|error| self.broken(&error))?;
        let deadline = Instant::now() + self.transaction_timeout;
        let message = |topic: &Topic| Message {
            topic: *topic,
            key: Some(Bytes::from_static(b"\xffaborted")),
            value: Some(Bytes::new()),
            headers: Vec::new(),
        };
        let messages: Vec<_> = topics.iter().map(message).collect();
        let sent = messages.iter().enumerate().try_for_each(|(index, message)| self.send(index, message, deadline));
        let drained = sent.and_then(|()| self.drain(&messages, deadline));
        self.abort()?;
        drained?;
        Ok(Offset(self.producer.context().changelog_last.load(Ordering::Relaxed)))
    }

    fn write(&self, messages: &[Message]) -> Result<(), CommitError> {
        let deadline = Instant::now() + self.transaction_timeout;
        let mut together = 0;
        for (index, message) in messages.iter().enumerate() {
            if index == messages.len() / 2 {
                fail_point!("mid_produce");
            }
            self.send(index, message, deadline)?;
            if let Some((topic, most)) = self.careful
                && topic == message.topic
            {
                together += 1;
                if together == most {
                    self.drain(messages, deadline)?;
                    together = 0;
                }
            }
        }
        self.drain(messages, deadline)?;
        fail_point!("before_commit");
        self.commit()?;
        fail_point!("after_commit");
        Ok(())
    }

    /// The client puts messages into batches, and the broker refuses a batch as a whole: whose size it is shows only
    /// where each goes alone. True if the transaction is to be written again, with half as many at a time.
    fn doubts(&mut self, error: &CommitError, messages: &[Message]) -> bool {
        let CommitError::TooLarge { index, .. } = error else { return false };
        let topic = messages[*index].topic;
        let most = match self.careful {
            Some((before, most)) if before == topic => most,
            _ => messages.iter().filter(|message| message.topic == topic).count(),
        };
        // What the client refuses itself never got into a batch.
        let is_alone = most <= 1 || self.producer.context().failure().is_none();
        if !is_alone {
            self.careful = Some((topic, most / 2));
        }
        !is_alone
    }

    /// Waits until nothing is in flight.
    fn settle(&self) {
        let deadline = Instant::now() + ABORT_TIMEOUT;
        while self.producer.in_flight_count() > 0 && Instant::now() < deadline {
            self.look();
        }
    }

    fn attempt(&mut self, messages: &[Message]) -> Result<Committed, CommitError> {
        self.producer.context().reset();
        self.producer.begin_transaction().map_err(|error| match self.broken(&error) {
            CommitError::Aborted(text) => CommitError::Fatal(text),
            other => other,
        })?;
        match self.write(messages) {
            Ok(()) => {
                // One more than the last record: the control record behind it is skipped by every reader.
                let last = self.producer.context().changelog_last.load(Ordering::Relaxed);
                Ok(Committed { changelog_next: Offset(last + 1) })
            }
            Err(error @ (CommitError::Fenced(_) | CommitError::Fatal(_))) => Err(error),
            Err(error) => {
                if matches!(error, CommitError::TooLarge { .. }) && self.producer.context().failure().is_none() {
                    // An abort before the broker was told of the transaction breaks the producer.
                    self.settle();
                }
                self.abort()?;
                // What is reported of the purged messages must not be taken for the next transaction's.
                self.settle();
                Err(error)
            }
        }
    }
}

impl Writer for KafkaWriter {
    fn transact(&mut self, messages: &[Message]) -> Result<Committed, CommitError> {
        loop {
            match self.attempt(messages) {
                Ok(committed) => {
                    self.careful = self.careful.map(|(topic, most)| (topic, most.saturating_mul(2)));
                    return Ok(committed);
                }
                Err(error) if self.doubts(&error, messages) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
