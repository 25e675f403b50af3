//! Looking at topics, creating and repairing them, through the Kafka admin client. No decisions here.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigResource, ConfigSource, NewPartitions, NewTopic,
    OwnedResourceSpecifier, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::metadata::Metadata;
use rdkafka::types::RDKafkaErrorCode;

use super::error::TopicsError;
use super::{Found, FoundTopic, Role, Severity, TopicProblem, Wanted, problems, wanted};
use crate::config::Config;

/// How long to wait before looking again for a topic just created.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

type Admin = Arc<AdminClient<DefaultClientContext>>;

/// An admin connection with its limits.
struct Connection {
    admin: Admin,
    servers: String,
    timeout: Duration,
}

impl Connection {
    fn open(client: &ClientConfig, timeout: Duration) -> Result<Connection, TopicsError> {
        let servers = client.get("bootstrap.servers").unwrap_or_default().to_owned();
        Ok(Connection { admin: Arc::new(client.create()?), servers, timeout })
    }

    fn options(&self) -> AdminOptions {
        AdminOptions::new().request_timeout(Some(self.timeout)).operation_timeout(Some(self.timeout))
    }

    /// Metadata of all topics: asked for one by one, those that are missing might be created by the broker.
    async fn metadata(&self) -> Result<(Metadata, Option<String>), TopicsError> {
        let (admin, timeout) = (Arc::clone(&self.admin), self.timeout);
        let fetch = move || {
            let metadata = admin.inner().fetch_metadata(None, timeout)?;
            Ok((metadata, admin.inner().fetch_cluster_id(timeout)))
        };
        let result: Result<_, KafkaError> =
            tokio::task::spawn_blocking(fetch).await.map_err(|error| TopicsError::BrokenOff(error.to_string()))?;
        result.map_err(|error| self.classify(error, "list", "the topics"))
    }

    fn unreachable(&self, reason: String) -> TopicsError {
        TopicsError::Unreachable { servers: self.servers.clone(), timeout_ms: self.timeout.as_millis(), reason }
    }

    fn classify(&self, error: KafkaError, action: &str, topic: &str) -> TopicsError {
        match error.rdkafka_error_code() {
            Some(code) => self.classify_code(code, action, topic, "look at the broker's log"),
            None => TopicsError::Client(error),
        }
    }

    fn classify_code(&self, code: RDKafkaErrorCode, action: &str, topic: &str, repair: &str) -> TopicsError {
        use RDKafkaErrorCode::{
            AllBrokersDown, BrokerTransportFailure, OperationTimedOut, RequestTimedOut, Resolve,
            TopicAuthorizationFailed,
        };
        match code {
            AllBrokersDown | BrokerTransportFailure | OperationTimedOut | RequestTimedOut | Resolve => {
                self.unreachable(code.to_string())
            }
            TopicAuthorizationFailed => TopicsError::Refused {
                action: action.to_owned(),
                topic: topic.to_owned(),
                reason: code.to_string(),
                repair: "kafka-acls.sh --add with Describe and DescribeConfigs on the topic, Create, AlterConfigs and Alter \
                         where they are to be created or repaired"
                    .to_owned(),
            },
            _ => TopicsError::Refused {
                action: action.to_owned(),
                topic: topic.to_owned(),
                reason: code.to_string(),
                repair: repair.to_owned(),
            },
        }
    }
}

/// Looks at topics; those that do not exist are not in the answer.
///
/// # Errors
/// No broker answers within `timeout`, or it refuses to tell.
pub async fn inspect(client: &ClientConfig, names: &[String], timeout: Duration) -> Result<Found, TopicsError> {
    inspect_with(&Connection::open(client, timeout)?, names).await
}

async fn inspect_with(connection: &Connection, names: &[String]) -> Result<Found, TopicsError> {
    let (metadata, kafka_cluster_id) = connection.metadata().await?;
    let mut topics = BTreeMap::new();
    for topic in metadata.topics().iter().filter(|topic| names.iter().any(|name| name == topic.name())) {
        if let Some(error) = topic.error() {
            let code = RDKafkaErrorCode::from(error);
            return Err(connection.classify_code(code, "describe", &format!("\"{}\"", topic.name()), "try again"));
        }
        let replicas = topic.partitions().iter().map(|partition| partition.replicas().len()).min().unwrap_or(0);
        let found = FoundTopic {
            partitions: u32::try_from(topic.partitions().len()).unwrap_or(u32::MAX),
            replication_factor: u32::try_from(replicas).unwrap_or(u32::MAX),
            ..FoundTopic::default()
        };
        topics.insert(topic.name().to_owned(), found);
    }
    let resources: Vec<ResourceSpecifier<'_>> = topics.keys().map(|name| ResourceSpecifier::Topic(name)).collect();
    if !resources.is_empty() {
        let described = connection
            .admin
            .describe_configs(&resources, &connection.options())
            .await
            .map_err(|error| connection.classify(error, "describe", "the topics"))?;
        for resource in described {
            let resource = resource.map_err(|code| {
                connection.classify_code(code, "describe the settings of", "a topic", "look at the broker's log")
            })?;
            take_settings(&mut topics, resource);
        }
    }
    let brokers = u32::try_from(metadata.brokers().len()).unwrap_or(u32::MAX);
    Ok(Found { kafka_cluster_id, brokers, topics })
}

fn take_settings(topics: &mut BTreeMap<String, FoundTopic>, resource: ConfigResource) {
    let OwnedResourceSpecifier::Topic(name) = resource.specifier else {
        return;
    };
    let Some(topic) = topics.get_mut(&name) else {
        return;
    };
    for entry in resource.entries {
        let Some(value) = entry.value else { continue };
        if entry.source == ConfigSource::DynamicTopic {
            topic.own_settings.push(entry.name.clone());
        }
        topic.settings.insert(entry.name, value);
    }
}

/// A topic that was created, or would be in a dry run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// What it is for.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Number of partitions.
    pub partitions: u32,
}

/// Creates those of our topics that are missing; never the input. With `dry_run` the broker only checks.
///
/// One that somebody else created meanwhile is no error. All are tried, also after one failed.
///
/// # Errors
/// No broker answers, or it refuses one; those before it are created.
pub async fn create(
    client: &ClientConfig,
    wanted: &[Wanted],
    found: &Found,
    dry_run: bool,
    timeout: Duration,
) -> Result<Vec<Created>, TopicsError> {
    let missing: Vec<(&Wanted, u32)> = wanted
        .iter()
        .filter(|wanted| wanted.role != Role::Input && !found.topics.contains_key(&wanted.name))
        .filter_map(|wanted| Some((wanted, wanted.partitions?)))
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let connection = Connection::open(client, timeout)?;
    let topics: Vec<NewTopic<'_>> = missing.iter().map(|(wanted, partitions)| new_topic(wanted, *partitions)).collect();
    let results = connection
        .admin
        .create_topics(&topics, &connection.options().validate_only(dry_run))
        .await
        .map_err(|error| connection.classify(error, "create", "topics"))?;
    let mut created = Vec::new();
    let mut first_error = None;
    for ((wanted, partitions), result) in missing.into_iter().zip(results) {
        match result {
            Ok(name) => created.push(Created { role: wanted.role, name, partitions }),
            Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((_, code)) => {
                first_error.get_or_insert_with(|| refusal(&connection, wanted, found.brokers, code));
            }
        }
    }
    first_error.map_or(Ok(created), Err)
}

fn new_topic(wanted: &Wanted, partitions: u32) -> NewTopic<'_> {
    let factor = wanted.replication_factor.and_then(|factor| i32::try_from(factor).ok()).unwrap_or(-1);
    let partitions = i32::try_from(partitions).unwrap_or(i32::MAX);
    let new = NewTopic::new(&wanted.name, partitions, TopicReplication::Fixed(factor));
    wanted.settings.iter().fold(new, |new, setting| new.set(setting.name, &setting.value))
}

fn refusal(connection: &Connection, wanted: &Wanted, brokers: u32, code: RDKafkaErrorCode) -> TopicsError {
    let topic = format!("{} \"{}\"", wanted.role, wanted.name);
    let factor = wanted.replication_factor.unwrap_or(0);
    if code == RDKafkaErrorCode::InvalidReplicationFactor {
        let possible = brokers.clamp(1, factor.max(1));
        return connection.classify_code(
            code,
            "create",
            &format!(
                "{topic} with replication factor {factor} on {brokers} broker{}",
                if brokers == 1 { "" } else { "s" }
            ),
            &format!(
                "start more brokers, or set topics.replication_factor = {possible} and topics.min_insync_replicas = {}",
                possible.saturating_sub(1).max(1)
            ),
        );
    }
    connection.classify_code(
        code,
        "create",
        &topic,
        "look at the broker's log, or create it by hand with these settings",
    )
}

/// What a repair of one topic would change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairPlan {
    /// The topic.
    pub topic: String,
    /// Settings to set, with the value before.
    pub settings: Vec<(String, String, String)>,
    /// New number of partitions, if it grows, with the number before.
    pub partitions: Option<(u32, u32)>,
}

/// What to change so that these problems of a topic of ours are gone. What cannot be repaired so is left out.
#[must_use]
pub fn plan_repair(topic: &str, problems: &[TopicProblem]) -> RepairPlan {
    let mut plan = RepairPlan { topic: topic.to_owned(), settings: Vec::new(), partitions: None };
    for problem in problems.iter().filter(|problem| problem.topic == topic && problem.role != Role::Input) {
        match problem.setting {
            "exists" | "replication.factor" => {}
            "partitions" => {
                let numbers = (problem.value.parse().unwrap_or(0), problem.wanted.parse().unwrap_or(0));
                plan.partitions = Some(numbers).filter(|(before, after)| after > before);
            }
            setting => plan.settings.push((setting.to_owned(), problem.value.clone(), problem.wanted.clone())),
        }
    }
    plan
}

/// Carries a repair out. Settings of the topic's own that are right are kept.
///
/// # Errors
/// No broker answers, or it refuses; the settings are changed before the number of partitions.
pub async fn repair(
    client: &ClientConfig,
    plan: &RepairPlan,
    found: &FoundTopic,
    timeout: Duration,
) -> Result<(), TopicsError> {
    let connection = Connection::open(client, timeout)?;
    let topic = format!("\"{}\"", plan.topic);
    let look = "look at the broker's log";
    if !plan.settings.is_empty() {
        // This request replaces all settings of a topic, so what it has of its own is sent along.
        let mut all: BTreeMap<&str, &str> = found
            .own_settings
            .iter()
            .filter_map(|name| Some((name.as_str(), found.settings.get(name)?.as_str())))
            .collect();
        all.extend(plan.settings.iter().map(|(name, _, wanted)| (name.as_str(), wanted.as_str())));
        let alter = AlterConfig::new(ResourceSpecifier::Topic(&plan.topic));
        let alter = all.into_iter().fold(alter, |alter, (name, value)| alter.set(name, value));
        let results = connection
            .admin
            .alter_configs([&alter], &connection.options())
            .await
            .map_err(|error| connection.classify(error, "alter", &topic))?;
        for result in results {
            result.map_err(|(_, code)| connection.classify_code(code, "alter", &topic, look))?;
        }
    }
    if let Some((_, partitions)) = plan.partitions {
        let more = NewPartitions::new(&plan.topic, partitions as usize);
        let results = connection
            .admin
            .create_partitions([&more], &connection.options())
            .await
            .map_err(|error| connection.classify(error, "add partitions to", &topic))?;
        for result in results {
            result.map_err(|(_, code)| connection.classify_code(code, "add partitions to", &topic, look))?;
        }
    }
    Ok(())
}

/// The topics of a node that may start, or what keeps it from starting.
#[derive(Clone, Debug)]
pub struct Ready {
    /// What is there.
    pub found: Found,
    /// Created just now.
    pub created: Vec<Created>,
    /// What is wrong.
    pub problems: Vec<TopicProblem>,
}

impl Ready {
    /// Whether nothing fatal is wrong.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.problems.iter().all(|problem| problem.severity != Severity::Fatal)
    }

    /// Number of partitions of the input; `None` if it does not exist.
    #[must_use]
    pub fn input_partitions(&self, config: &Config) -> Option<u32> {
        self.found.topics.get(&config.input.topic).map(|topic| topic.partitions)
    }
}

/// Looks at the four topics of a configuration and, with `create`, creates those of ours that are missing.
///
/// # Errors
/// As [`inspect`] and [`create`]. What is wrong with topics that exist is no error but in the answer.
pub async fn ensure(config: &Config, create_missing: bool) -> Result<Ready, TopicsError> {
    let client = config.kafka.client_config()?;
    let timeout = config.kafka.operation_timeout.get();
    let connection = Connection::open(&client, timeout)?;
    let names: Vec<String> = wanted(config, None).into_iter().map(|wanted| wanted.name).collect();
    let mut found = inspect_with(&connection, &names).await?;
    let input_partitions = |found: &Found| found.topics.get(&config.input.topic).map(|topic| topic.partitions);
    let mut all_wanted = wanted(config, input_partitions(&found));
    let mut created = Vec::new();
    if create_missing {
        created = create(&client, &all_wanted, &found, false, timeout).await?;
        // Brokers learn of a new topic one after the other.
        let begun = tokio::time::Instant::now();
        let is_visible = |found: &Found| created.iter().all(|created| found.topics.contains_key(&created.name));
        while !is_visible(&found) && begun.elapsed() < timeout {
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            found = inspect_with(&connection, &names).await?;
        }
        all_wanted = wanted(config, input_partitions(&found));
    }
    let problems = problems(&all_wanted, &found);
    Ok(Ready { found, created, problems })
}
