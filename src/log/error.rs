//! The one place that classifies Kafka errors.

use rdkafka::{
    error::{KafkaError, RDKafkaErrorCode},
    types::RDKafkaErrorCode as Code,
};

/// What went wrong on a topic.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The client could not be made or a property is wrong: trying again does not help.
    #[error("kafka client: {0}")]
    Configuration(String),
    /// No answer, or an answer that time may change.
    #[error("kafka: {0}")]
    Unavailable(String),
    /// The offset to read from is not in the log any more.
    #[error("offset {offset} is not in the log any more")]
    OffsetOutOfRange {
        /// The offset asked for, -1 if it is not known.
        offset: i64,
    },
    /// Another writer has fenced this one.
    #[error("fenced: another writer of this partition has begun")]
    Fenced,
}

impl LogError {
    /// `retriable` or `fatal`: the label `class` of the metric.
    #[must_use]
    pub fn class(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "retriable",
            Self::Configuration(_) | Self::OffsetOutOfRange { .. } | Self::Fenced => "fatal",
        }
    }
}

/// Why a transaction is not committed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it is visible; the same messages may be written again.
    #[error("transaction aborted: {0}")]
    Aborted(String),
    /// One message is larger than the broker takes; nothing is visible.
    #[error("message {index} of the transaction is larger than the broker takes ({bytes} bytes)")]
    TooLarge {
        /// Its place in the transaction.
        index: usize,
        /// Bytes of key, value and headers.
        bytes: usize,
    },
    /// The writer is of no use any more. Whether the last transaction was committed is not known.
    #[error("writer is fenced: {0}")]
    Fenced(String),
    /// The writer is broken in another way; a new one is needed. Whether the last transaction was committed is not known.
    #[error("writer is broken: {0}")]
    Fatal(String),
}

/// Class of an error of a transactional call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// The same call may be made again.
    Retriable,
    /// The transaction must be aborted.
    Abort,
    /// Another producer took over.
    Fenced,
    /// The producer is of no use any more.
    Fatal,
}

pub(super) fn classify(error: &KafkaError) -> Class {
    let code = error.rdkafka_error_code();
    if is_fenced(code) {
        return Class::Fenced;
    }
    match error {
        KafkaError::Transaction(inner) if inner.is_fatal() => Class::Fatal,
        KafkaError::Transaction(inner) if inner.txn_requires_abort() => Class::Abort,
        KafkaError::Transaction(inner) if inner.is_retriable() => Class::Retriable,
        _ if code == Some(Code::Fatal) => Class::Fatal,
        KafkaError::Transaction(_) => Class::Fatal,
        _ => Class::Abort,
    }
}

fn is_fenced(code: Option<RDKafkaErrorCode>) -> bool {
    matches!(
        code,
        Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch | Code::InvalidProducerIdMapping)
    )
}

impl From<KafkaError> for LogError {
    fn from(error: KafkaError) -> Self {
        match &error {
            KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_) => Self::Configuration(error.to_string()),
            _ if is_fenced(error.rdkafka_error_code()) => Self::Fenced,
            _ => Self::Unavailable(error.to_string()),
        }
    }
}
