//! [`Log`] on a real Kafka.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use hotspare_cluster::{Offset, PartitionId};
use rdkafka::{
    ClientConfig,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _},
    producer::{BaseProducer, Producer as _},
};

use crate::config::{Config, sections::Fencing};

use super::{
    Fenced, Log, LogError, LogIdentity, Reader, Topic,
    fence::Fence,
    reader::{self, Context, KafkaReader},
    wire,
    writer::{self, Deliveries, KafkaWriter, Names},
};

/// The kinds of clients, whose settings differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Reads.
    Consumer,
    /// Writes.
    Producer,
}

/// Gives the settings of a client anew at each use, so that changed secrets are picked up.
pub type Clients = Arc<dyn Fn(Kind) -> Result<ClientConfig, String> + Send + Sync>;

/// What a [`KafkaLog`] needs to know.
#[derive(Clone)]
pub struct KafkaOptions {
    /// Settings of the clients, without what exactness needs, which is added here.
    pub clients: Clients,
    /// Group under which progress is told to lag tools.
    pub group_id: String,
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
    /// How to fence.
    pub fencing: Fencing,
    /// First gap of hedged fencing.
    pub fence_hedge_after: Duration,
    /// After so long the broker ends a transaction that nobody ends.
    pub transaction_timeout: Duration,
    /// Longest time of a metadata request.
    pub operation_timeout: Duration,
    /// Most partitions for which handles are kept connected.
    pub warm_handles_max: usize,
}

/// Handles of a partition that this node may have to take over; each is taken once.
struct Warm {
    producer: Option<writer::Client>,
    input: Option<KafkaReader>,
}

type Pool = Mutex<BTreeMap<PartitionId, Warm>>;

/// The topics of one cluster on a real Kafka.
pub struct KafkaLog {
    options: Arc<KafkaOptions>,
    /// For requests that belong to no partition.
    queries: Arc<reader::Client>,
    warm: Arc<Pool>,
    /// Handles for fences that were announced: no wish for other warm ones takes them away.
    prepared: Mutex<BTreeMap<PartitionId, writer::Client>>,
    /// One thread at a time warms up; what it wants is the newest wish.
    warming: Arc<Mutex<()>>,
}

impl KafkaLog {
    /// Makes the clients; connects in the background.
    ///
    /// # Errors
    /// A property that librdkafka does not know or take.
    pub fn new(options: KafkaOptions) -> Result<Self, LogError> {
        #[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
        super::waits::install();
        let options = Arc::new(options);
        let queries = Arc::new(options.consumer("queries")?);
        Ok(Self { options, queries, warm: Arc::default(), prepared: Mutex::default(), warming: Arc::default() })
    }
}

impl KafkaOptions {
    /// The options that a configuration gives.
    #[must_use]
    pub fn from_config(config: &Config) -> Self {
        let kafka = config.kafka.clone();
        let clients = move |kind| match kind {
            Kind::Consumer => kafka.consumer_config().map_err(|error| error.to_string()),
            Kind::Producer => kafka.producer_config().map_err(|error| error.to_string()),
        };
        Self {
            clients: Arc::new(clients),
            group_id: config.kafka.group_id.clone(),
            cluster: config.cluster.name.clone(),
            input: config.semantics().topic().to_owned(),
            changelog: config.topics.changelog().to_owned(),
            output: config.topics.output().to_owned(),
            dead_letters: config.topics.dead_letters().to_owned(),
            fencing: config.failover.fencing,
            fence_hedge_after: config.failover.fence_hedge_after.get(),
            transaction_timeout: config.active.transaction_timeout.get(),
            operation_timeout: config.kafka.operation_timeout.get(),
            warm_handles_max: config.failover.warm_handles_max as usize,
        }
    }

    fn client(&self, name: &str, kind: Kind) -> Result<ClientConfig, LogError> {
        let mut config = (self.clients)(kind).map_err(LogError::Configuration)?;
        config.set("client.id", format!("{}-{name}", self.cluster));
        Ok(config)
    }

    fn consumer(&self, name: &str) -> Result<reader::Client, LogError> {
        let mut config = self.client(name, Kind::Consumer)?;
        config
            .set("group.id", &self.group_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "error")
            .set("isolation.level", "read_committed");
        // Its lines would go to stderr past our log, because the batch call serves them itself.
        config.set_log_level(RDKafkaLogLevel::Critical);
        let consumer: BaseConsumer<Context> = config.create_with_context(Context)?;
        Ok(consumer)
    }

    fn producer(&self, partition: PartitionId) -> Result<writer::Client, LogError> {
        let mut config = self.client(&format!("writer-{partition}"), Kind::Producer)?;
        config
            .set("transactional.id", self.transactional_id(partition))
            .set("transaction.timeout.ms", self.transaction_timeout.as_millis().to_string())
            .set("enable.idempotence", "true")
            .set("acks", "all");
        let producer: BaseProducer<Deliveries> = config.create_with_context(Deliveries::new(self.changelog.clone()))?;
        Ok(producer)
    }

    fn transactional_id(&self, partition: PartitionId) -> String {
        format!("{}-{partition}", self.cluster)
    }

    fn topic(&self, topic: Topic) -> &str {
        match topic {
            Topic::Input => &self.input,
            Topic::Changelog => &self.changelog,
            Topic::Output => &self.output,
            Topic::DeadLetters => &self.dead_letters,
        }
    }

    fn reader(&self, topic: Topic, name: &str) -> Result<KafkaReader, LogError> {
        Ok(KafkaReader::new(self.consumer(name)?, self.topic(topic).to_owned(), self.operation_timeout))
    }

    /// A handle that is connected and knows its topics: on one that is not, `init_transactions` may sleep for 500 ms.
    fn connected_producer(&self, partition: PartitionId) -> Result<writer::Client, LogError> {
        let producer = self.producer(partition)?;
        for topic in [&self.changelog, &self.output, &self.dead_letters] {
            producer.client().fetch_metadata(Some(topic), self.operation_timeout)?;
        }
        Ok(producer)
    }

    fn warm(&self, partition: PartitionId) -> Result<Warm, LogError> {
        let producer = self.connected_producer(partition)?;
        let mut input = self.reader(Topic::Input, &format!("input-{partition}"))?;
        input.warm_up(partition)?;
        Ok(Warm { producer: Some(producer), input: Some(input) })
    }

    fn bootstrap(&self) -> Result<String, LogError> {
        let config = self.client("bootstrap", Kind::Producer)?;
        let servers = config.get("bootstrap.servers").map(str::to_owned);
        servers.ok_or_else(|| LogError::Configuration("bootstrap.servers is not set".to_owned()))
    }

    fn speaks_plaintext(&self) -> bool {
        self.client("bootstrap", Kind::Producer).is_ok_and(|config| {
            config.get("security.protocol").is_none_or(|protocol| protocol.eq_ignore_ascii_case("plaintext"))
        })
    }
}

/// Handles that are connected at a time.
const WARM_AT_ONCE: usize = 8;
/// Between looks whether what was aborted is decided.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// So often what is open is aborted before the promotion is tried anew.
const SETTLE_TRIES: usize = 5;
/// What a partition's writer writes to.
const OURS: [Topic; 3] = [Topic::Changelog, Topic::Output, Topic::DeadLetters];

impl KafkaLog {
    fn take_warm(&self, partition: PartitionId) -> Option<writer::Client> {
        let mut pool = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        pool.get_mut(&partition).and_then(|entry| entry.producer.take())
    }

    /// Makes sure that no transaction of an earlier writer is left open, and tells where the changelog ends.
    ///
    /// A broker that stalled was seen to complete a fence without the abort marker of the open transaction: the records of
    /// the dead active stood there undecided, and the first commit of its successor, which has the same producer id,
    /// would have published them too, twice. So the ends are compared, and what is open is aborted.
    fn settle(&self, writer: &mut KafkaWriter, direct: bool) -> Result<Offset, LogError> {
        let aborted = |error: crate::log::CommitError| LogError::Unavailable(error.to_string());
        if !direct {
            // Without a way to see what is undecided, the abort is made in any case.
            let last = writer.abort_leftovers(&OURS).map_err(aborted)?;
            // The broker answers before the markers stand in the topics. Once ours is decided, so is all before it.
            let begin = Instant::now();
            loop {
                let (_, end) = self.bounds(Topic::Changelog, writer.partition)?;
                if end > last {
                    return Ok(end);
                }
                if begin.elapsed() > self.options.operation_timeout {
                    return Err(LogError::Unavailable(format!(
                        "changelog stays undecided before offset {last}, at {end}"
                    )));
                }
                std::thread::sleep(LOOK_AGAIN);
            }
        }
        let bootstrap = self.options.bootstrap()?;
        let topics = OURS.map(|topic| self.options.topic(topic));
        for _ in 0..SETTLE_TRIES {
            let ends = wire::ends(&bootstrap, &topics, reader::number(writer.partition))
                .map_err(|error| LogError::Unavailable(error.to_string()))?;
            let open: Vec<_> =
                OURS.iter().zip(&ends).filter(|(_, end)| end.stable < end.all).map(|(topic, _)| *topic).collect();
            if open.is_empty() {
                return Ok(Offset(ends[0].stable));
            }
            tracing::warn!(partition = %writer.partition, ?open, "the dead active's transaction is still open, aborting it");
            writer.abort_leftovers(&open).map_err(aborted)?;
        }
        Err(LogError::Unavailable(format!("a transaction of partition {} stays open", writer.partition)))
    }
}

impl Log for KafkaLog {
    fn reader(&self, topic: Topic, name: &str) -> Result<Box<dyn Reader>, LogError> {
        Ok(Box::new(self.options.reader(topic, name)?))
    }

    fn input_reader(&self, partition: PartitionId) -> Result<Box<dyn Reader>, LogError> {
        let mut pool = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(warm) = pool.get_mut(&partition).and_then(|entry| entry.input.take()) {
            return Ok(Box::new(warm));
        }
        drop(pool);
        self.reader(Topic::Input, &format!("input-{partition}"))
    }

    fn prepare(&self, partition: PartitionId) -> Result<(), LogError> {
        let producer = match self.take_warm(partition) {
            Some(producer) => producer,
            None => self.options.connected_producer(partition)?,
        };
        drop(self.prepared.lock().unwrap_or_else(PoisonError::into_inner).insert(partition, producer));
        Ok(())
    }

    fn fence(&self, partition: PartitionId) -> Result<Fenced, LogError> {
        let options = &self.options;
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).remove(&partition);
        let warm = prepared.or_else(|| self.take_warm(partition));
        let direct = match options.fencing {
            Fencing::Auto => options.speaks_plaintext(),
            Fencing::Direct => true,
            Fencing::Hedged => false,
        };
        let bootstrap = options.bootstrap()?;
        let fence = Fence {
            bootstrap: &bootstrap,
            transactional_id: &options.transactional_id(partition),
            transaction_timeout: options.transaction_timeout,
            partition,
            hedge_after: options.fence_hedge_after,
            within: options.operation_timeout,
            new_handle: &|| options.connected_producer(partition),
        };
        let producer = if direct { fence.direct(warm)? } else { fence.hedged(warm)? };
        let names = Names {
            changelog: options.changelog.clone(),
            output: options.output.clone(),
            dead_letters: options.dead_letters.clone(),
        };
        let transaction_timeout = options.transaction_timeout;
        let mut writer = KafkaWriter { producer, partition, names, transaction_timeout, careful: None };
        let changelog_end = self.settle(&mut writer, direct)?;
        Ok(Fenced { writer: Box::new(writer), changelog_end, method: if direct { "direct" } else { "hedged" } })
    }

    fn bounds(&self, topic: Topic, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        reader::bounds(&self.queries, self.options.topic(topic), partition, self.options.operation_timeout)
    }

    fn keep_warm(&self, partitions: &[PartitionId]) {
        let (options, pool, warming) = (Arc::clone(&self.options), Arc::clone(&self.warm), Arc::clone(&self.warming));
        let queries = Arc::clone(&self.queries);
        let wanted: Vec<_> = partitions.iter().copied().take(options.warm_handles_max).collect();
        // Connecting and closing take their time, and nobody waits for either.
        std::thread::spawn(move || {
            let _one_at_a_time = warming.lock().unwrap_or_else(PoisonError::into_inner);
            keep_warm(&options, &pool, &wanted);
            for partition in wanted {
                // So that the question after a fence finds its way at once.
                if let Err(error) = reader::bounds(&queries, &options.changelog, partition, options.operation_timeout) {
                    tracing::debug!(%partition, %error, "changelog not asked");
                }
            }
        });
    }

    fn partitions(&self, topic: Topic) -> Result<Option<u32>, LogError> {
        let name = self.options.topic(topic);
        let metadata = self.queries.fetch_metadata(Some(name), self.options.operation_timeout)?;
        let found = metadata.topics().iter().find(|found| found.name() == name && found.error().is_none());
        Ok(found.and_then(|found| u32::try_from(found.partitions().len()).ok()).filter(|count| *count > 0))
    }

    fn identity(&self) -> Result<LogIdentity, LogError> {
        let timeout = self.options.operation_timeout;
        let kafka_cluster_id = self.queries.client().fetch_cluster_id(timeout).unwrap_or_default();
        let mut changelog_topic_id = String::new();
        if self.options.speaks_plaintext() {
            changelog_topic_id = wire::topic_id(&self.options.bootstrap()?, &self.options.changelog)
                .map_err(|error| LogError::Unavailable(error.to_string()))?
                .unwrap_or_default();
        }
        Ok(LogIdentity { kafka_cluster_id, changelog_topic_id })
    }
}

fn keep_warm(options: &KafkaOptions, pool: &Pool, wanted: &[PartitionId]) {
    let mut unwanted = Vec::new();
    let mut missing = Vec::new();
    {
        let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.retain(|_, warm| warm.producer.is_some() && warm.input.is_some());
        let gone: Vec<_> = pool.keys().copied().filter(|partition| !wanted.contains(partition)).collect();
        unwanted.extend(gone.iter().filter_map(|partition| pool.remove(partition)));
        missing.extend(wanted.iter().copied().filter(|partition| !pool.contains_key(partition)));
    }
    drop(unwanted);
    // In parallel, a few at a time: each waits for answers most of its time.
    for partitions in missing.chunks(WARM_AT_ONCE) {
        std::thread::scope(|scope| {
            for partition in partitions {
                scope.spawn(move || match options.warm(*partition) {
                    Ok(warm) => drop(pool.lock().unwrap_or_else(PoisonError::into_inner).insert(*partition, warm)),
                    Err(error) => tracing::debug!(%partition, %error, "no warm handles yet"),
                });
            }
        });
    }
}
