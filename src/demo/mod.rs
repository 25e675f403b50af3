//! The demonstration: nodes as child processes on a real Kafka, real readings, and a SIGKILL every few seconds; measured
//! is what a `read_committed` reader of the output sees, and in the end everything is verified.

mod load;
mod nodes;
mod outage;
mod prometheus;
mod reader;
mod report;
mod run;
mod screen;
mod status;

use std::{
    io,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rdkafka::{
    ClientConfig,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
};

pub use load::find_data;
pub use outage::Summary;
pub use report::{Kill, Report};
pub use run::run;

use crate::{generate::replay::ReplayError, verify::VerifyError};

/// Nodes end with the demonstration when this is in their environment; also when that is killed.
pub const DIE_WITH_PARENT: &str = "HOTSPARE_DIE_WITH_PARENT";

const KAFKA_TIMEOUT: Duration = Duration::from_secs(5);

/// What to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of a broker.
    pub kafka: String,
    /// Number of nodes.
    pub nodes: u32,
    /// Partitions of the input topic.
    pub partitions: u32,
    /// Standbys of each partition.
    pub standbys: u32,
    /// Shortest time between two kills.
    pub kill_every: Duration,
    /// Number of kills.
    pub kills: u32,
    /// Records a second.
    pub rate: f64,
    /// From which the choice of victims comes.
    pub seed: u64,
    /// File with the readings to replay.
    pub data: PathBuf,
    /// Whether a Prometheus runs beside it.
    pub prometheus: bool,
    /// Whether folder and topics are kept.
    pub keep: bool,
    /// Name of the cluster; see [`unique_name`].
    pub name: String,
    /// Set by whoever wants it to end.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// The input topic.
    #[must_use]
    pub fn input(&self) -> String {
        format!("{}-readings", self.name)
    }

    /// All topics of the demonstration.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let ours = ["changelog", "windows", "dead-letters"].map(|topic| format!("{}-{topic}", self.name));
        std::iter::once(self.input()).chain(ours).collect()
    }
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// Somebody asked for the end.
    #[error("interrupted; there is no verdict")]
    Interrupted,
    /// No broker.
    #[error(
        "no Kafka broker answers at {servers} ({reason}).\nStart one with: deploy/kafka/kafka start\nor run everything with: \
         deploy/demo"
    )]
    Unreachable {
        /// Its address.
        servers: String,
        /// What the client says.
        reason: String,
    },
    /// The broker refuses something.
    #[error("kafka: {0}")]
    Kafka(String),
    /// The readings cannot be replayed.
    #[error(transparent)]
    Data(#[from] ReplayError),
    /// A file or process.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// The cluster does not do what it should.
    #[error("waited {waited_s} s in vain until {what}\n{facts}")]
    Stuck {
        /// What was waited for.
        what: String,
        /// For how long.
        waited_s: u64,
        /// Status and ends of logs.
        facts: String,
    },
    /// No verdict.
    #[error("cannot verify: {0}")]
    Verify(#[from] VerifyError),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl DemoError {
    /// An error of the system, with what was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what: what.into(), source }
    }
}

/// A cluster name that no other demonstration has.
#[must_use]
pub fn unique_name() -> String {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    format!("demo-{:06x}{:x}", now_s & 0xff_ffff, std::process::id())
}

fn admin(kafka: &str) -> Result<AdminClient<DefaultClientContext>, DemoError> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka).set_log_level(rdkafka::config::RDKafkaLogLevel::Emerg);
    config.create().map_err(|error| DemoError::Kafka(error.to_string()))
}

/// Creates the input topic; the nodes create theirs.
///
/// # Errors
/// No broker answers, or it refuses.
pub async fn create_input(options: &Options) -> Result<(), DemoError> {
    let (admin, kafka) = (admin(&options.kafka)?, options.kafka.clone());
    let look = move || admin.inner().fetch_metadata(None, KAFKA_TIMEOUT).map(|_| admin);
    let admin = tokio::task::spawn_blocking(look)
        .await
        .map_err(|error| DemoError::Other(error.to_string()))?
        .map_err(|error| DemoError::Unreachable { servers: kafka, reason: error.to_string() })?;
    let name = options.input();
    let partitions = i32::try_from(options.partitions).unwrap_or(i32::MAX);
    let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
    let refused = |why: String| DemoError::Kafka(format!("cannot create topic \"{name}\": {why}"));
    let results = admin
        .create_topics([&topic], &AdminOptions::new().operation_timeout(Some(KAFKA_TIMEOUT)))
        .await
        .map_err(|error| refused(error.to_string()))?;
    match results.into_iter().next() {
        Some(Err((_, code))) => Err(refused(code.to_string())),
        _ => Ok(()),
    }
}

/// Deletes all topics of the demonstration; those that cannot be deleted stay.
pub async fn delete_topics(options: &Options) {
    let Ok(admin) = admin(&options.kafka) else { return };
    let topics = options.topics();
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    if let Err(error) = admin.delete_topics(&topics, &AdminOptions::new().request_timeout(Some(KAFKA_TIMEOUT))).await {
        tracing::warn!(%error, "topics of the demonstration not deleted");
    }
}
