//! Why topics could not be looked at or changed.

use rdkafka::error::KafkaError;

use crate::config::SecretError;

/// Why topics could not be looked at or changed.
#[derive(Debug, thiserror::Error)]
pub enum TopicsError {
    /// A secret could not be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// No broker answered.
    #[error(
        "Kafka at {servers} does not answer within {timeout_ms} ms: {reason}. Check kafka.properties \"bootstrap.servers\", the network and the brokers"
    )]
    Unreachable {
        /// The addresses tried.
        servers: String,
        /// How long.
        timeout_ms: u128,
        /// The client's words.
        reason: String,
    },
    /// The broker refused to tell or change something.
    #[error("the broker refused to {action} {topic}: {reason}. Repair: {repair}")]
    Refused {
        /// What was tried.
        action: String,
        /// Role and name of the topic.
        topic: String,
        /// The broker's words.
        reason: String,
        /// What to do.
        repair: String,
    },
    /// The client library could not do it.
    #[error("Kafka client: {0}")]
    Client(#[from] KafkaError),
    /// The blocking call was broken off.
    #[error("looking at topics was broken off: {0}")]
    BrokenOff(String),
}

impl TopicsError {
    /// Whether trying again later may help without anybody changing anything.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, TopicsError::Unreachable { .. })
    }
}
