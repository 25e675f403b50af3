//! A real Kafka as a cluster of the scenarios.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hotspare::config::sections::Fencing;
use hotspare::log::Log;
use hotspare::log::kafka::{KafkaLog, KafkaOptions};

use super::cluster::{Cluster, Ends, Owner, Settings, WITHIN};
use super::wire::Wire;
use crate::harness::broker::Broker;
use crate::harness::records::{Isolation, Rec};
use crate::harness::{unique_name, wait_until};

/// The broker of these tests: its background work is done often.
pub fn broker() -> &'static Broker {
    static BROKER: OnceLock<Broker> = OnceLock::new();
    BROKER.get_or_init(|| {
        Broker::start(&[
            ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "50"),
            ("log.cleaner.backoff.ms", "50"),
        ])
    })
}

pub fn options(cluster: &str, fencing: Fencing) -> KafkaOptions {
    let topic = |role: &str| format!("{cluster}-{role}");
    let client = broker().client();
    KafkaOptions {
        clients: Arc::new(move |_| Ok(client.clone())),
        group_id: cluster.to_owned(),
        cluster: cluster.to_owned(),
        input: topic("readings"),
        changelog: topic("changelog"),
        output: topic("windows"),
        dead_letters: topic("dead-letters"),
        fencing,
        fence_hedge_after: Duration::from_millis(25),
        transaction_timeout: Duration::from_secs(10),
        operation_timeout: Duration::from_secs(20),
        warm_handles_max: 4,
    }
}

/// Topics and transactional ids of one scenario.
pub struct Real {
    broker: &'static Broker,
    wire: Wire,
    name: String,
}

impl Real {
    pub fn new() -> Self {
        let broker = broker();
        Self { broker, wire: Wire::open(broker.bootstrap()), name: unique_name("log") }
    }

    fn full(&self, short: &str) -> String {
        format!("{}-{short}", self.name)
    }
}

impl Cluster for Real {
    fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
        i64::try_from(now.as_millis()).expect("a date")
    }

    fn create_topic(&mut self, topic: &str, settings: Settings) {
        let mut configs = Vec::new();
        if settings.compact {
            configs.push(("cleanup.policy", "compact".to_owned()));
            configs.push(("min.cleanable.dirty.ratio", "0".to_owned()));
        }
        if settings.log_append_time {
            configs.push(("message.timestamp.type", "LogAppendTime".to_owned()));
        }
        let mut number = |name, value: i64| {
            if value != 0 {
                configs.push((name, value.to_string()));
            }
        };
        number("message.timestamp.after.max.ms", settings.timestamp_after_max_ms);
        number("max.message.bytes", i64::try_from(settings.message_bytes_max).expect("a size"));
        number("segment.ms", settings.segment_ms);
        number("delete.retention.ms", settings.delete_retention_ms);
        let configs: Vec<_> = configs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        self.broker.create_topic(&self.full(topic), 1, &configs);
        // The broker can know a leader before it serves the partition.
        wait_until("the topic is served", WITHIN, || self.ends(topic).ok());
    }

    fn delete_topic(&mut self, topic: &str) {
        self.broker.delete_topic(&self.full(topic));
        wait_until("the topic is served no more", WITHIN, || self.ends(topic).err());
    }

    fn init(&mut self, id: &str, timeout: Duration) -> Result<Owner, i16> {
        const NOT_READY: [i16; 3] = [14, 15, 16];
        let timeout_ms = i32::try_from(timeout.as_millis()).expect("a timeout");
        wait_until("the coordinator is there", WITHIN, || {
            if !self.wire.find_coordinator(&self.full(id)) {
                return None;
            }
            let answer = self.wire.init(&self.full(id), timeout_ms);
            (!answer.is_err_and(|code| NOT_READY.contains(&code))).then_some(answer)
        })
    }

    fn add(&mut self, id: &str, owner: Owner, topic: &str) -> Result<(), i16> {
        self.wire.add(&self.full(id), owner, &self.full(topic))
    }

    fn produce(&mut self, id: &str, owner: Owner, topic: &str, sequence: i32, records: &[Rec]) -> Result<i64, i16> {
        self.wire.produce(Some(&self.full(id)), owner, &self.full(topic), sequence, records)
    }

    fn append(&mut self, topic: &str, records: &[Rec]) -> Result<i64, i16> {
        let nobody = Owner { id: -1, epoch: -1 };
        self.wire.produce(None, nobody, &self.full(topic), -1, records)
    }

    fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Result<(), i16> {
        self.wire.end(&self.full(id), owner, commit)
    }

    fn go_on(&mut self) {
        std::thread::sleep(Duration::from_millis(2));
    }

    fn ends(&mut self, topic: &str) -> Result<Ends, i16> {
        self.wire.ends(&self.full(topic))
    }

    fn read(&mut self, topic: &str, isolation: Isolation) -> Vec<Rec> {
        self.broker.read(&self.full(topic), isolation)
    }

    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
    }

    fn compact(&mut self, topic: &str, left: usize) {
        let begin = Instant::now();
        loop {
            let records = self.read(topic, Isolation::Uncommitted);
            if records.len() == left {
                return;
            }
            assert!(begin.elapsed() < WITHIN, "{topic} should be compacted to {left} records: {records:?}");
            self.go_on();
        }
    }

    fn delete_before(&mut self, topic: &str, offset: i64) {
        self.broker.delete_records(&self.full(topic), offset);
    }

    fn log(&self) -> Box<dyn Log> {
        Box::new(KafkaLog::new(options(&self.name, Fencing::Direct)).expect("a log"))
    }
}
