//! The modelled Kafka as a cluster of the scenarios.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use hotspare::log::Log;
use hotspare::log::model::{
    Code, Isolation as Seen, Kafka, ModelLog, ModelOptions, NewRecord, Producer, Seeded, TopicConfig, World,
};

use super::cluster::{Cluster, Ends, Owner, Settings};
use crate::harness::records::{Isolation, Rec};

/// Without any trouble; every marker is written when something is asked again.
pub struct Model {
    kafka: Arc<Mutex<Kafka>>,
    world: Arc<Seeded>,
}

impl Model {
    pub fn new() -> Self {
        let world = Arc::new(Seeded::new(0, 0, 1_800_000_000_000));
        Self { kafka: Arc::default(), world }
    }

    fn ask<T>(&self, request: impl FnOnce(&mut Kafka) -> Result<T, Code>) -> Result<T, i16> {
        let mut kafka = self.kafka.lock().expect("nobody panics with it");
        kafka.advance_to(self.world.now_ms());
        request(&mut kafka).map_err(|code| code as i16)
    }
}

fn producer(owner: Owner) -> Producer {
    Producer { id: owner.id, epoch: owner.epoch }
}

fn new_records(records: &[Rec]) -> Vec<NewRecord> {
    let record = |record: &Rec| NewRecord {
        timestamp_ms: record.timestamp,
        key: record.key.clone().map(Bytes::from),
        value: record.value.clone().map(Bytes::from),
        headers: record.headers.clone(),
    };
    records.iter().map(record).collect()
}

fn set<T: Default + PartialEq>(place: &mut T, value: T) {
    if value != T::default() {
        *place = value;
    }
}

impl Cluster for Model {
    fn now_ms(&self) -> i64 {
        self.world.now_ms()
    }

    fn create_topic(&mut self, topic: &str, settings: Settings) {
        let mut config = TopicConfig {
            compact: settings.compact,
            log_append_time: settings.log_append_time,
            ..TopicConfig::default()
        };
        set(&mut config.timestamp_after_max_ms, settings.timestamp_after_max_ms);
        set(&mut config.message_bytes_max, settings.message_bytes_max);
        set(&mut config.segment_ms, settings.segment_ms);
        set(&mut config.delete_retention_ms, settings.delete_retention_ms);
        self.ask(|kafka| kafka.create_topic(topic, 1, config)).expect("a topic is created");
    }

    fn delete_topic(&mut self, topic: &str) {
        self.ask(|kafka| kafka.delete_topic(topic)).expect("a topic is deleted");
    }

    fn init(&mut self, id: &str, timeout: Duration) -> Result<Owner, i16> {
        let timeout_ms = i64::try_from(timeout.as_millis()).expect("a timeout");
        let producer = self.ask(|kafka| kafka.init_producer_id(&transactional_id(id), timeout_ms))?;
        Ok(Owner { id: producer.id, epoch: producer.epoch })
    }

    fn add(&mut self, id: &str, owner: Owner, topic: &str) -> Result<(), i16> {
        self.ask(|kafka| kafka.add_partition(&transactional_id(id), producer(owner), topic, 0))
    }

    fn produce(&mut self, id: &str, owner: Owner, topic: &str, sequence: i32, records: &[Rec]) -> Result<i64, i16> {
        let records = new_records(records);
        self.ask(|kafka| kafka.produce(&transactional_id(id), producer(owner), topic, 0, (sequence, &records)))
    }

    fn append(&mut self, topic: &str, records: &[Rec]) -> Result<i64, i16> {
        self.ask(|kafka| kafka.append(topic, 0, &new_records(records)))
    }

    fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Result<(), i16> {
        self.ask(|kafka| kafka.end_transaction(&transactional_id(id), producer(owner), commit))
    }

    fn go_on(&mut self) {
        self.ask(|kafka| {
            kafka.write_markers();
            Ok(())
        })
        .expect("markers are written");
    }

    fn ends(&mut self, topic: &str) -> Result<Ends, i16> {
        self.ask(|kafka| kafka.bounds(topic, 0)).map(|bounds| (bounds.start, bounds.stable, bounds.end))
    }

    fn read(&mut self, topic: &str, isolation: Isolation) -> Vec<Rec> {
        let isolation = match isolation {
            Isolation::Committed => Seen::Committed,
            Isolation::Uncommitted => Seen::Uncommitted,
        };
        let read = |kafka: &mut Kafka| {
            let from = kafka.bounds(topic, 0)?.start;
            let (found, _) = kafka.fetch(topic, 0, from, isolation, usize::MAX)?;
            Ok(found
                .into_iter()
                .filter_map(|entry| {
                    let data = entry.data()?;
                    Some(Rec {
                        partition: 0,
                        offset: entry.offset,
                        timestamp: data.timestamp_ms,
                        key: data.key.as_deref().map(<[u8]>::to_vec),
                        value: data.value.as_deref().map(<[u8]>::to_vec),
                        headers: data.headers.clone(),
                    })
                })
                .collect())
        };
        self.ask(read).expect("a topic is read")
    }

    fn pass(&mut self, time: Duration) {
        self.world.wait(time);
    }

    fn compact(&mut self, topic: &str, _left: usize) {
        self.ask(|kafka| kafka.compact(topic, 0)).expect("a topic is compacted");
    }

    fn delete_before(&mut self, topic: &str, offset: i64) {
        self.ask(|kafka| kafka.delete_before(topic, 0, offset)).expect("records are deleted");
    }

    fn log(&self) -> Box<dyn Log> {
        let options = ModelOptions {
            cluster: "log".to_owned(),
            input: "readings".to_owned(),
            changelog: "changelog".to_owned(),
            output: "windows".to_owned(),
            dead_letters: "dead-letters".to_owned(),
            transaction_timeout: Duration::from_secs(10),
            operation_timeout: Duration::from_secs(20),
        };
        Box::new(ModelLog::new(Arc::clone(&self.kafka), self.world.clone(), options))
    }
}

fn transactional_id(id: &str) -> String {
    format!("log-{id}")
}
