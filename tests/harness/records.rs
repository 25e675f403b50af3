//! Topics of a test's broker: creating, writing, and reading them whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

use super::broker::Broker;
use super::{unique_name, wait_until};

/// The longest time for one request, and for reading or writing a topic.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A record as it is in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rec {
    /// The partition.
    pub partition: i32,
    /// The offset; ignored when written.
    pub offset: i64,
    /// The record's own time in ms since 1970. When written, -1 means now.
    pub timestamp: i64,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; none is a tombstone.
    pub value: Option<Vec<u8>>,
    /// The headers in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Rec {
    /// A record to write, without time and headers.
    pub fn new(partition: i32, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Rec {
        Rec {
            partition,
            offset: -1,
            timestamp: -1,
            key: Some(key.into()),
            value: Some(value.into()),
            headers: Vec::new(),
        }
    }

    /// The value as text, `""` for a tombstone.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.value.as_deref().unwrap_or_default()).into_owned()
    }
}

/// What a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Committed transactions only, up to the last stable offset.
    Committed,
    /// Open and aborted transactions too.
    Uncommitted,
}

impl Broker {
    /// librdkafka's settings for clients of this broker; quiet about what a test does to the broker on purpose.
    pub fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set("log_level", "2").set("reconnect.backoff.max.ms", "200");
        config
    }

    /// Creates a topic (`configs` such as `("cleanup.policy", "compact")`) and waits until each partition has a leader.
    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(self.site.replication));
        for (key, value) in configs {
            topic = topic.set(key, value);
        }
        let results = block_on(self.admin().create_topics([&topic], &admin_options())).expect("the broker answers");
        results[0].as_ref().unwrap_or_else(|(name, error)| panic!("topic {name} was not created: {error}"));
        let probe: BaseConsumer = self.client().create().expect("a client");
        wait_until(&format!("topic {name} has leaders"), TIMEOUT, || {
            let metadata = probe.fetch_metadata(Some(name), TIMEOUT).ok()?;
            let found = metadata.topics().first()?.partitions();
            (found.len() == usize::try_from(partitions).ok()? && found.iter().all(|partition| partition.leader() >= 0))
                .then_some(())
        });
    }

    /// Creates a topic under a name of its own and returns the name.
    pub fn new_topic(&self, prefix: &str, partitions: i32) -> String {
        let name = unique_name(prefix);
        self.create_topic(&name, partitions, &[]);
        name
    }

    /// Deletes a topic and waits until the broker does not know it any more.
    pub fn delete_topic(&self, name: &str) {
        let results = block_on(self.admin().delete_topics(&[name], &admin_options())).expect("the broker answers");
        results[0].as_ref().unwrap_or_else(|(name, error)| panic!("topic {name} was not deleted: {error}"));
        wait_until(&format!("topic {name} is gone"), TIMEOUT, || (!self.topics().contains_key(name)).then_some(()));
    }

    /// Deletes the records of partition 0 before an offset.
    pub fn delete_records(&self, name: &str, before: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(name, 0, Offset::Offset(before)).expect("an offset");
        let done = block_on(self.admin().delete_records(&list, &admin_options())).expect("the broker answers");
        let element = done.elements().into_iter().next().expect("the partition is answered for");
        element.error().unwrap_or_else(|error| panic!("records of {name} were not deleted: {error}"));
    }

    /// The topics that there are, with their number of partitions.
    pub fn topics(&self) -> BTreeMap<String, usize> {
        let probe: BaseConsumer = self.client().create().expect("a client");
        let metadata = probe.fetch_metadata(None, TIMEOUT).expect("the broker answers");
        metadata.topics().iter().map(|topic| (topic.name().to_owned(), topic.partitions().len())).collect()
    }

    /// The settings of a topic, defaults included.
    pub fn topic_config(&self, name: &str) -> BTreeMap<String, String> {
        let answer = block_on(self.admin().describe_configs([&ResourceSpecifier::Topic(name)], &admin_options()))
            .expect("the broker answers");
        let found = answer[0].as_ref().unwrap_or_else(|error| panic!("topic {name} has no settings: {error}"));
        found.entries.iter().map(|entry| (entry.name.clone(), entry.value.clone().unwrap_or_default())).collect()
    }

    /// Writes records, each to its partition and in order, exactly once, and waits until the broker has them all.
    pub fn produce(&self, topic: &str, records: &[Rec]) {
        // One for all calls, for a new idempotent producer needs half a second to get its id.
        let producer = self.producer.get_or_init(|| {
            self.client()
                .set("linger.ms", "1")
                .set("enable.idempotence", "true")
                .create_with_context(Failures::default())
                .expect("a producer")
        });
        for record in records {
            send(producer, topic, record);
        }
        // Not `flush`, which sleeps for 100 ms.
        let begin = Instant::now();
        while producer.in_flight_count() > 0 {
            assert!(begin.elapsed() < TIMEOUT, "records for {topic} are not all written after {TIMEOUT:?}");
            producer.poll(Duration::from_millis(1));
        }
        let failures = producer.context().of(topic);
        assert!(failures.is_empty(), "{} records for {topic} were refused, the first: {}", failures.len(), failures[0]);
    }

    /// A producer with transactions, initialised: whoever had this `transactional.id` before is fenced.
    pub fn transactional_producer(&self, transactional_id: &str) -> BaseProducer<Failures> {
        let producer: BaseProducer<Failures> = self
            .client()
            .set("transactional.id", transactional_id)
            .create_with_context(Failures::default())
            .expect("a producer");
        producer
            .init_transactions(TIMEOUT)
            .unwrap_or_else(|error| panic!("init_transactions of {transactional_id}: {error}"));
        producer
    }

    /// The end of each partition as the reader sees it; for [`Isolation::Committed`] the last stable offset.
    pub fn end_offsets(&self, topic: &str, isolation: Isolation) -> Vec<i64> {
        ends(&self.consumer(isolation), topic)
    }

    /// All committed records up to the last stable offset of now, by partition and offset.
    pub fn read_committed(&self, topic: &str) -> Vec<Rec> {
        self.read(topic, Isolation::Committed)
    }

    /// All records of a topic, by partition and offset.
    pub fn read(&self, topic: &str, isolation: Isolation) -> Vec<Rec> {
        let begin = Instant::now();
        let consumer = self.consumer(isolation);
        // Asked through the same client, which then knows the leaders; else it takes a second to find them.
        let ends = ends(&consumer, topic);
        let mut assignment = TopicPartitionList::new();
        let mut open = Vec::new();
        for (partition, &end) in (0..).zip(&ends) {
            if end > 0 {
                assignment.add_partition_offset(topic, partition, Offset::Beginning).expect("an offset");
                open.push(partition);
            }
        }
        consumer.assign(&assignment).expect("partitions can be assigned");
        let mut records = Vec::new();
        while !open.is_empty() {
            assert!(
                begin.elapsed() < TIMEOUT,
                "reading {topic} takes more than {TIMEOUT:?}; not at the end: {open:?} of {ends:?}"
            );
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => records.push(owned(&message)),
                // What is after the last record may be control records only, so a position tells nothing; this does.
                Some(Err(KafkaError::PartitionEOF(partition))) => open.retain(|&other| other != partition),
                // The client reconnects by itself; the deadline above is the judge.
                Some(Err(_)) | None => {}
            }
        }
        consumer.unassign().expect("partitions can be given back");
        // Committed after `ends` was taken: a later call has them.
        records
            .retain(|record| usize::try_from(record.partition).is_ok_and(|partition| record.offset < ends[partition]));
        records.sort_by_key(|record| (record.partition, record.offset));
        records
    }

    /// A consumer without group for [`Consumer::assign`]; it tells the end of partitions.
    pub fn consumer(&self, isolation: Isolation) -> BaseConsumer {
        let level = match isolation {
            Isolation::Committed => "read_committed",
            Isolation::Uncommitted => "read_uncommitted",
        };
        self.client()
            .set("group.id", "harness")
            .set("isolation.level", level)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("fetch.wait.max.ms", "10")
            .create()
            .expect("a consumer")
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.client().create().expect("an admin client")
    }
}

/// Puts a record into a producer's queue, waiting where it is full.
pub fn send(producer: &BaseProducer<Failures>, topic: &str, record: &Rec) {
    let headers = record
        .headers
        .iter()
        .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: value.as_ref() }));
    let mut message: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(record.partition).headers(headers);
    message.key = record.key.as_deref();
    message.payload = record.value.as_deref();
    message.timestamp = (record.timestamp >= 0).then_some(record.timestamp);
    while let Err((error, back)) = producer.send(message) {
        assert_eq!(
            error.rdkafka_error_code(),
            Some(RDKafkaErrorCode::QueueFull),
            "a record for {topic} was refused: {error}"
        );
        producer.poll(Duration::from_millis(10));
        message = back;
    }
}

/// What the broker refused to write: topic and error.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Vec<(String, String)>>);

impl Failures {
    /// Takes out the errors of one topic.
    pub fn of(&self, topic: &str) -> Vec<String> {
        let mut all = self.0.lock().expect("nothing panics while it holds this");
        all.extract_if(.., |(other, _)| other == topic).map(|(_, error)| error).collect()
    }
}

impl ClientContext for Failures {
    fn error(&self, _error: KafkaError, _reason: &str) {}
}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();
    fn delivery(&self, result: &DeliveryResult<'_>, _opaque: ()) {
        if let Err((error, message)) = result
            && let Ok(mut failures) = self.0.lock()
        {
            failures.push((message.topic().to_owned(), error.to_string()));
        }
    }
}

fn ends(consumer: &BaseConsumer, topic: &str) -> Vec<i64> {
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).expect("the broker answers");
    // A topic that was just created may not be known everywhere yet.
    let end = |partition| {
        wait_until(&format!("{topic}/{partition} has an end"), TIMEOUT, || {
            let watermarks = consumer.fetch_watermarks(topic, partition, TIMEOUT);
            if watermarks.is_err() {
                // Else the client goes on remembering that there was no leader.
                let _ = consumer.fetch_metadata(Some(topic), TIMEOUT);
            }
            watermarks.ok().map(|(_, end)| end)
        })
    };
    metadata.topics()[0]
        .partitions()
        .iter()
        .map(|partition| partition.id())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(end)
        .collect()
}

fn owned(message: &impl Message) -> Rec {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect()
    });
    Rec {
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers,
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(TIMEOUT)).operation_timeout(Some(TIMEOUT))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}
