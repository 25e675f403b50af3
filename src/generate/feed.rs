//! Produces records to Kafka when they are due: idempotent, acknowledged by all, in batches.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rdkafka::{
    ClientConfig, ClientContext, Message,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};
use serde::Serialize;

use super::{Kind, Record, Source};

/// Between two looks at what is due: enough for batches, and little CPU.
const TICK: Duration = Duration::from_millis(2);
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
const FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
/// So many records are sent between two looks at the clock.
const BURST: usize = 1000;

/// What a feed needs.
#[derive(Clone, Debug, Default)]
pub struct FeedOptions {
    /// Properties of the client, `bootstrap.servers` among them.
    pub properties: Vec<(String, String)>,
    /// The topic.
    pub topic: String,
    /// For so long; none: until the source ends or it is stopped.
    pub duration: Option<Duration>,
    /// Where every acknowledged record is noted, a line each, in the form that `hotspare try` reads.
    pub ledger: Option<PathBuf>,
    /// Ends the feed when it is set.
    pub stop: Arc<AtomicBool>,
    /// Counts while the feed runs.
    pub counts: Arc<Counts>,
}

/// What was done so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Records handed to the client.
    pub sent: AtomicU64,
    /// Records that the broker has.
    pub acknowledged: AtomicU64,
    /// Records that it has not.
    pub failed: AtomicU64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Fed {
    /// Records handed to the client.
    pub sent: u64,
    /// Records that the broker has.
    pub acknowledged: u64,
    /// Records that it has not, or of which that is not known.
    pub failed: u64,
    /// Why the first one failed.
    pub error: Option<String>,
    /// How long it sent, in seconds; the wait for the last acknowledgements is not in it.
    pub elapsed_s: f64,
    /// How far it was behind its plan at worst.
    pub behind_ms_max: u64,
    /// Records by kind.
    pub kinds: BTreeMap<&'static str, u64>,
}

/// Why nothing more can be sent.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// A property that the client does not take.
    #[error("kafka client: {0}")]
    Client(String),
    /// No broker answers.
    #[error("no Kafka broker answers at {servers}: {reason}")]
    Unreachable {
        /// Addresses.
        servers: String,
        /// What the client says.
        reason: String,
    },
    /// The topic does not exist.
    #[error("topic \"{0}\" does not exist; create it first, it is yours")]
    NoTopic(String),
    /// The ledger cannot be written.
    #[error("cannot write the ledger {}: {source}", path.display())]
    Ledger {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The producer is of no use any more.
    #[error("cannot send: {0}")]
    Broken(String),
}

/// Sends the records of a source, each when it is due. Blocks until the end, and until all are acknowledged.
///
/// # Errors
/// See [`FeedError`]. Records that were not acknowledged are counted, and no error.
pub fn feed(source: &mut dyn Source, options: &FeedOptions) -> Result<Fed, FeedError> {
    let producer = connect(options)?;
    let begin = Instant::now();
    let mut fed = Fed::default();
    let mut record = Record::default();
    let mut has_more = source.next(&mut record);
    let is_over = |begin: Instant| options.duration.is_some_and(|duration| begin.elapsed() >= duration);
    let behind = |due: Duration| begin.elapsed().checked_sub(due);
    while has_more && !options.stop.load(Ordering::Relaxed) && !is_over(begin) {
        let now_ms = wall_clock_ms();
        let mut burst = 0;
        while has_more && burst < BURST {
            let Some(late) = behind(record.due) else { break };
            if options.duration.is_some_and(|duration| record.due >= duration) {
                has_more = false;
                break;
            }
            fed.behind_ms_max = fed.behind_ms_max.max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX));
            send(&producer, options, &record, now_ms)?;
            options.counts.sent.fetch_add(1, Ordering::Relaxed);
            *fed.kinds.entry(record.kind.name()).or_default() += 1;
            has_more = source.next(&mut record);
            burst += 1;
        }
        producer.poll(Duration::ZERO);
        if burst < BURST {
            std::thread::sleep(TICK);
        }
    }
    fed.elapsed_s = begin.elapsed().as_secs_f64();
    // What cannot be delivered within that time stays unknown and is counted as failed.
    let _ = producer.flush(FLUSH_TIMEOUT);
    finish(&producer, options, fed)
}

fn finish(producer: &BaseProducer<Deliveries>, options: &FeedOptions, mut fed: Fed) -> Result<Fed, FeedError> {
    let counts = &options.counts;
    fed.sent = counts.sent.load(Ordering::Relaxed);
    fed.acknowledged = counts.acknowledged.load(Ordering::Relaxed);
    fed.failed = fed.sent.saturating_sub(fed.acknowledged);
    let mut notes = producer.context().notes.lock().unwrap_or_else(PoisonError::into_inner);
    fed.error = notes.error.take();
    if let (Some(ledger), Some(path)) = (notes.ledger.as_mut(), &options.ledger) {
        ledger.flush().map_err(|source| FeedError::Ledger { path: path.clone(), source })?;
    }
    if let (Some(source), Some(path)) = (notes.ledger_error.take(), &options.ledger) {
        return Err(FeedError::Ledger { path: path.clone(), source });
    }
    Ok(fed)
}

fn connect(options: &FeedOptions) -> Result<BaseProducer<Deliveries>, FeedError> {
    let mut config = ClientConfig::new();
    for (key, value) in [
        ("linger.ms", "5"),
        ("batch.size", "1000000"),
        ("compression.type", "lz4"),
        ("queue.buffering.max.messages", "1000000"),
        ("queue.buffering.max.kbytes", "262144"),
        // The partitioner of the Java client: the same device on the same partition, whoever sends.
        ("partitioner", "murmur2_random"),
    ] {
        config.set(key, value);
    }
    for (key, value) in &options.properties {
        config.set(key, value);
    }
    config.set("enable.idempotence", "true").set("acks", "all");
    let servers = config.get("bootstrap.servers").unwrap_or_default().to_owned();
    let context = Deliveries::new(options)?;
    let producer: BaseProducer<Deliveries> =
        config.create_with_context(context).map_err(|error| FeedError::Client(error.to_string()))?;
    let metadata = producer
        .client()
        .fetch_metadata(Some(&options.topic), METADATA_TIMEOUT)
        .map_err(|error| FeedError::Unreachable { servers, reason: error.to_string() })?;
    let exists = metadata
        .topics()
        .iter()
        .any(|topic| topic.name() == options.topic && topic.error().is_none() && !topic.partitions().is_empty());
    if exists { Ok(producer) } else { Err(FeedError::NoTopic(options.topic.clone())) }
}

fn send(
    producer: &BaseProducer<Deliveries>,
    options: &FeedOptions,
    record: &Record,
    now_ms: i64,
) -> Result<(), FeedError> {
    let line = options.ledger.is_some().then(|| Line {
        timestamp: now_ms,
        key: record.device.clone(),
        value: String::from_utf8_lossy(&record.value).into_owned(),
    });
    let mut message = BaseRecord::with_opaque_to(&options.topic, Box::new(Note { kind: record.kind, line }))
        .key(record.device.as_bytes())
        .payload(&record.value[..])
        .timestamp(now_ms);
    loop {
        match producer.send(message) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                producer.poll(Duration::from_millis(10));
                if options.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                message = refused;
            }
            Err((error, _)) => return Err(FeedError::Broken(error.to_string())),
        }
    }
}

/// Travels with a record until its delivery is known.
struct Note {
    kind: Kind,
    line: Option<Line>,
}

struct Line {
    timestamp: i64,
    key: String,
    value: String,
}

/// A line of the ledger.
#[derive(Serialize)]
struct LedgerLine<'a> {
    partition: i32,
    offset: i64,
    timestamp: i64,
    key: &'a str,
    value: &'a str,
    kind: &'static str,
}

#[derive(Default)]
struct Notes {
    ledger: Option<BufWriter<File>>,
    ledger_error: Option<io::Error>,
    error: Option<String>,
}

struct Deliveries {
    counts: Arc<Counts>,
    notes: Mutex<Notes>,
}

impl Deliveries {
    fn new(options: &FeedOptions) -> Result<Self, FeedError> {
        let create =
            |path: &Path| File::create(path).map_err(|source| FeedError::Ledger { path: path.to_owned(), source });
        let ledger = options.ledger.as_deref().map(create).transpose()?.map(BufWriter::new);
        let notes = Mutex::new(Notes { ledger, ..Notes::default() });
        Ok(Self { counts: Arc::clone(&options.counts), notes })
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
    type DeliveryOpaque = Box<Note>;

    fn delivery(&self, result: &DeliveryResult<'_>, note: Self::DeliveryOpaque) {
        let message = match result {
            Ok(message) => message,
            Err((error, _)) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
                notes.error.get_or_insert_with(|| error.to_string());
                return;
            }
        };
        self.counts.acknowledged.fetch_add(1, Ordering::Relaxed);
        let Some(line) = &note.line else { return };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let Notes { ledger: Some(ledger), ledger_error, .. } = &mut *notes else { return };
        let line = LedgerLine {
            partition: message.partition(),
            offset: message.offset(),
            timestamp: line.timestamp,
            key: &line.key,
            value: &line.value,
            kind: note.kind.name(),
        };
        let written = serde_json::to_writer(&mut *ledger, &line).map_err(io::Error::from);
        if let Err(error) = written.and_then(|()| ledger.write_all(b"\n")) {
            ledger_error.get_or_insert(error);
        }
    }
}

/// Milliseconds since 1970 by this machine's clock.
#[must_use]
pub fn wall_clock_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}
