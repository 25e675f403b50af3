//! The way between simulated nodes and the modelled Kafka, with its weather.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hotspare::config::Config;
use hotspare::log::model::{Choice, Code, Kafka, ModelLog, ModelOptions, NewRecord, TopicConfig, World};
use hotspare::log::{Fenced, Log, LogError, LogIdentity, Reader, Topic};
use hotspare::{Offset, PartitionId};
use hotspare_system::{
    simulation::{HostId, faults::Dice},
    thread,
};

/// 2026-01-01, where the simulated clocks begin.
pub const BEGIN_MS: i64 = 1_767_225_600_000;
pub const PARTITIONS: u32 = 2;
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(1);
const OPERATION_TIMEOUT: Duration = Duration::from_millis(400);

/// What Kafka leaves to chance now.
pub struct Weather {
    pub dice: Dice,
    /// Hosts that do not reach it.
    pub cut_off: BTreeSet<HostId>,
    /// Hosts whose connection for standbys stalls.
    pub stalled: BTreeSet<HostId>,
    /// Of 1000 requests, so many get lost, or their answers.
    pub trouble_permille: u32,
}

/// How a node reaches Kafka.
pub struct Way {
    pub host: HostId,
    /// Whether standbys follow by it.
    pub follows: bool,
    pub begin: Instant,
    pub weather: Arc<Mutex<Weather>>,
}

impl World for Way {
    fn now_ms(&self) -> i64 {
        BEGIN_MS + i64::try_from(self.begin.elapsed().as_millis()).expect("a short simulation")
    }

    fn wait(&self, at_most: Duration) {
        let most_ms = u64::try_from(at_most.as_millis()).expect("a short wait").max(1);
        let wait_ms = 1 + self.weather.lock().expect("nobody panics with it").dice.below(most_ms);
        thread::sleep(Duration::from_millis(wait_ms));
    }

    fn travel(&self) {
        let wait_ms = {
            let dice = &mut self.weather.lock().expect("nobody panics with it").dice;
            if dice.chance(300) { 1 + dice.below(3) } else { 0 }
        };
        if wait_ms > 0 {
            thread::sleep(Duration::from_millis(wait_ms));
        }
    }

    fn choose(&self, choice: Choice, options: usize) -> usize {
        let weather = &mut *self.weather.lock().expect("nobody panics with it");
        let permille = match choice {
            Choice::Request if weather.cut_off.contains(&self.host) => return 1,
            Choice::Request if self.follows && weather.stalled.contains(&self.host) => return 1,
            Choice::Request => u64::from(weather.trouble_permille),
            Choice::Marker => 100 + u64::from(weather.trouble_permille),
            Choice::Compaction => 10,
            Choice::Partition => 500,
        };
        let other = u64::try_from(options).expect("few") - 1;
        if weather.dice.chance(permille) && other > 0 {
            1 + usize::try_from(weather.dice.below(other)).expect("few")
        } else {
            0
        }
    }
}

/// A way on which nothing goes wrong, for who looks from outside.
struct Outside(i64);

impl World for Outside {
    fn now_ms(&self) -> i64 {
        self.0
    }

    fn wait(&self, _: Duration) {}

    fn choose(&self, _: Choice, _: usize) -> usize {
        0
    }
}

fn options(owner: &str, config: &Config) -> ModelOptions {
    ModelOptions {
        cluster: owner.to_owned(),
        input: config.input.topic.clone(),
        changelog: config.topics.changelog().to_owned(),
        output: config.topics.output().to_owned(),
        dead_letters: config.topics.dead_letters().to_owned(),
        transaction_timeout: TRANSACTION_TIMEOUT,
        operation_timeout: OPERATION_TIMEOUT,
    }
}

/// The topics as a node sees them: it follows by a connection of its own.
pub struct NodeLog {
    log: ModelLog,
    following: ModelLog,
}

impl NodeLog {
    pub fn new(owner: &str, way: impl Fn(bool) -> Way, kafka: &Arc<Mutex<Kafka>>, config: &Config) -> Self {
        let log = |follows| ModelLog::new(Arc::clone(kafka), Arc::new(way(follows)), options(owner, config));
        Self { log: log(false), following: log(true) }
    }
}

impl Log for NodeLog {
    fn reader(&self, topic: Topic, name: &str) -> Result<Box<dyn Reader>, LogError> {
        self.following.reader(topic, name)
    }

    fn input_reader(&self, partition: PartitionId) -> Result<Box<dyn Reader>, LogError> {
        self.log.input_reader(partition)
    }

    fn prepare(&self, partition: PartitionId) -> Result<(), LogError> {
        self.log.prepare(partition)
    }

    fn fence(&self, partition: PartitionId) -> Result<Fenced, LogError> {
        self.log.fence(partition)
    }

    fn bounds(&self, topic: Topic, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        self.log.bounds(topic, partition)
    }

    fn keep_warm(&self, partitions: &[PartitionId]) {
        self.log.keep_warm(partitions);
    }

    fn partitions(&self, topic: Topic) -> Result<Option<u32>, LogError> {
        self.log.partitions(topic)
    }

    fn identity(&self) -> Result<LogIdentity, LogError> {
        self.log.identity()
    }
}

/// The topics as they are.
pub fn log_outside(kafka: &Arc<Mutex<Kafka>>, config: &Config) -> ModelLog {
    let now_ms = kafka.lock().expect("nobody panics with it").now_ms();
    ModelLog::new(Arc::clone(kafka), Arc::new(Outside(now_ms)), options("plant", config))
}

/// A Kafka with the topics of this configuration.
pub fn broker(config: &Config) -> Kafka {
    let mut kafka = Kafka::default();
    kafka.advance_to(BEGIN_MS);
    let options = options("plant", config);
    for topic in [&options.input, &options.changelog, &options.output, &options.dead_letters] {
        let settings = TopicConfig {
            compact: *topic == options.changelog,
            log_append_time: *topic != options.input,
            segment_records_max: 30,
            segment_ms: 2_000,
            delete_retention_ms: 600_000,
            ..TopicConfig::default()
        };
        kafka.create_topic(topic, PARTITIONS, settings).expect("it is new");
    }
    kafka
}

/// Writes a record as a gateway does that uses transactions, and sometimes aborts them: control records take offsets too.
pub fn append_in_transaction(
    kafka: &mut Kafka,
    topic: &str,
    partition: u32,
    record: NewRecord,
    commit: bool,
) -> Result<(), Code> {
    const GATEWAY: &str = "gateway";
    let producer = kafka.init_producer_id(GATEWAY, 1_000)?;
    kafka.add_partition(GATEWAY, producer, topic, partition)?;
    let written = kafka.produce(GATEWAY, producer, topic, partition, (0, &[record]));
    kafka.end_transaction(GATEWAY, producer, commit && written.is_ok())?;
    kafka.write_markers();
    written.map(drop)
}
