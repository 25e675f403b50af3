//! Any requests in any order: what was committed is seen, until compaction replaces it, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use uuid::Uuid;

use super::super::{Code, Isolation, Kafka, NewRecord, Producer, TopicConfig};

const TOPICS: [&str; 2] = ["compacted", "kept"];
const TIMEOUT_MS: i64 = 1000;

#[derive(Debug, Clone)]
enum Step {
    Init { id: usize },
    Add { who: usize, topic: usize },
    Produce { who: usize, topic: usize, key: u8, tombstone: bool },
    End { who: usize, commit: bool },
    Mark { index: usize },
    Compact { topic: usize },
    Wait { ms: i64 },
    Recreate { topic: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, topic) = (0..4_usize, 0..TOPICS.len());
    let step = prop_oneof![
        1 => (0..2_usize).prop_map(|id| Step::Init { id }),
        6 => (who.clone(), topic.clone()).prop_map(|(who, topic)| Step::Add { who, topic }),
        12 => (who.clone(), topic.clone(), 0..3_u8, prop::bool::weighted(0.3))
            .prop_map(|(who, topic, key, tombstone)| Step::Produce { who, topic, key, tombstone }),
        6 => (who, prop::bool::weighted(0.7)).prop_map(|(who, commit)| Step::End { who, commit }),
        6 => (0..3_usize).prop_map(|index| Step::Mark { index }),
        3 => topic.clone().prop_map(|topic| Step::Compact { topic }),
        1 => (0..900_i64).prop_map(|ms| Step::Wait { ms }),
        1 => topic.prop_map(|topic| Step::Recreate { topic }),
    ];
    prop::collection::vec(step, 1..300)
}

/// A topic is known by its id, for one that is created anew is another one.
type Place = (Uuid, i64);
type Written = (Vec<u8>, Option<Vec<u8>>);

/// A producer that was once made, and what it knows itself.
#[derive(Debug)]
struct Client {
    id: usize,
    producer: Producer,
    is_open: bool,
    written: Vec<(Place, Written)>,
    sequences: BTreeMap<Uuid, i32>,
}

/// What a reader has applied of a topic that it follows.
#[derive(Debug, Default)]
struct Follower {
    topic: Uuid,
    next: i64,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    bounds: (i64, i64, i64),
}

#[derive(Default)]
struct Run {
    kafka: Kafka,
    clients: Vec<Client>,
    committed: BTreeMap<Place, Written>,
    followers: [Follower; 2],
    count: u32,
}

fn config(topic: usize) -> TopicConfig {
    TopicConfig {
        compact: topic == 0,
        segment_records_max: 3,
        delete_retention_ms: 500,
        timestamp_after_max_ms: i64::MAX,
        ..TopicConfig::default()
    }
}

fn name(id: usize) -> String {
    format!("id-{id}")
}

impl Run {
    fn new() -> Self {
        let mut run = Self::default();
        for (topic, name) in TOPICS.iter().enumerate() {
            run.kafka.create_topic(name, 1, config(topic)).expect("it is new");
        }
        run
    }

    fn id_of(&self, topic: usize) -> Uuid {
        self.kafka.describe(TOPICS[topic]).expect("it is there").0
    }

    /// Only the newest producer of an id gets anything done.
    fn check_owner(&self, who: usize) {
        let newest = self.clients.iter().rposition(|client| client.id == self.clients[who].id);
        assert_eq!(newest, Some(who), "a fenced producer got something done");
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Init { id } => {
                if let Ok(producer) = self.kafka.init_producer_id(&name(id), TIMEOUT_MS) {
                    let (written, sequences) = (Vec::new(), BTreeMap::new());
                    self.clients.push(Client { id, producer, is_open: false, written, sequences });
                }
            }
            Step::Mark { index } => self.kafka.write_marker(index % self.kafka.markers().max(1)),
            Step::Compact { topic } => self.kafka.compact(TOPICS[topic], 0).expect("it is there"),
            Step::Wait { ms } => self.kafka.advance_to(self.kafka.now_ms() + ms),
            Step::Recreate { topic } => {
                self.kafka.delete_topic(TOPICS[topic]).expect("it is there");
                self.kafka.create_topic(TOPICS[topic], 1, config(topic)).expect("it was deleted");
            }
            Step::Add { who, .. } | Step::Produce { who, .. } | Step::End { who, .. } => {
                // Of the last few: most of them are owners, and some are fenced.
                if let Some(last) = self.clients.len().checked_sub(1) {
                    self.ask(last.saturating_sub(who), step);
                }
            }
        }
    }

    fn ask(&mut self, who: usize, step: &Step) {
        let (id, producer) = (name(self.clients[who].id), self.clients[who].producer);
        match *step {
            Step::Add { topic, .. } if self.kafka.add_partition(&id, producer, TOPICS[topic], 0).is_ok() => {
                self.check_owner(who);
                self.clients[who].is_open = true;
            }
            Step::Produce { topic, key, tombstone, .. } if self.clients[who].is_open => {
                self.produce(who, topic, key, tombstone);
            }
            Step::End { commit, .. } if self.clients[who].is_open => {
                let answer = self.kafka.end_transaction(&id, producer, commit);
                let written = std::mem::take(&mut self.clients[who].written);
                self.clients[who].is_open = false;
                match answer {
                    Ok(()) => {
                        self.check_owner(who);
                        if commit {
                            self.committed.extend(written);
                        }
                    }
                    Err(code) => assert_eq!(code, Code::InvalidProducerEpoch, "nobody else can have ended it"),
                }
            }
            _ => {}
        }
    }

    fn produce(&mut self, who: usize, topic: usize, key: u8, tombstone: bool) {
        self.count += 1;
        let value = (!tombstone).then(|| self.count.to_string().into_bytes());
        let record = NewRecord {
            key: Some(Bytes::from(vec![key])),
            value: value.clone().map(Bytes::from),
            ..NewRecord::default()
        };
        let topic_id = self.id_of(topic);
        let client = &mut self.clients[who];
        let sequence = client.sequences.entry(topic_id).or_default();
        let batch = (*sequence, [record]);
        let id = name(client.id);
        let first = self.kafka.produce(&id, client.producer, TOPICS[topic], 0, (batch.0, &batch.1));
        if let Ok(offset) = first {
            *sequence += 1;
            client.written.push(((topic_id, offset), (vec![key], value)));
            let again = self.kafka.produce(&id, client.producer, TOPICS[topic], 0, (batch.0, &batch.1));
            assert_eq!(again, Ok(offset), "a batch that is sent again is not written again");
        }
    }

    fn seen(&self, topic: usize, from: i64) -> (BTreeMap<i64, Written>, i64) {
        let (found, next) =
            self.kafka.fetch(TOPICS[topic], 0, from, Isolation::Committed, usize::MAX).expect("it is in range");
        let written = |record: &NewRecord| {
            (record.key.as_deref().unwrap_or_default().to_vec(), record.value.as_deref().map(<[u8]>::to_vec))
        };
        (found.iter().map(|entry| (entry.offset, written(entry.data().expect("no marker")))).collect(), next)
    }

    fn check(&mut self, topic: usize) {
        let id = self.id_of(topic);
        let bounds = self.kafka.bounds(TOPICS[topic], 0).expect("it is there");
        assert!(bounds.start <= bounds.stable && bounds.stable <= bounds.end, "{bounds:?}");
        if self.followers[topic].topic != id {
            self.followers[topic] = Follower { topic: id, ..Follower::default() };
        }
        let before = std::mem::replace(&mut self.followers[topic].bounds, (bounds.start, bounds.stable, bounds.end));
        assert!(
            before.0 <= bounds.start && before.1 <= bounds.stable && before.2 <= bounds.end,
            "{before:?} {bounds:?}"
        );

        let (seen, next) = self.seen(topic, 0);
        assert_eq!(next, bounds.stable);
        let committed: BTreeMap<i64, Written> = self
            .committed
            .range((id, 0)..(id, bounds.stable))
            .map(|((_, offset), written)| (*offset, written.clone()))
            .collect();
        for (offset, written) in &seen {
            assert_eq!(committed.get(offset), Some(written), "only what was committed is seen");
        }
        for (offset, (key, value)) in &committed {
            let is_replaced = || committed.range(offset + 1..).any(|(_, (later, _))| later == key);
            assert!(
                seen.contains_key(offset) || topic == 0 && (value.is_none() || is_replaced()),
                "{offset} is gone from {seen:?}"
            );
        }
        self.follow(topic, &committed);
    }

    /// Who follows has the same values as who reads from the beginning, whatever was compacted.
    fn follow(&mut self, topic: usize, committed: &BTreeMap<i64, Written>) {
        let apply = |values: &mut BTreeMap<Vec<u8>, Vec<u8>>, (key, value): &Written| match value {
            Some(value) => drop(values.insert(key.clone(), value.clone())),
            None => drop(values.remove(key)),
        };
        let (news, next) = self.seen(topic, self.followers[topic].next);
        let follower = &mut self.followers[topic];
        news.values().for_each(|written| apply(&mut follower.values, written));
        follower.next = next;
        let (mut afresh, mut expected) = (BTreeMap::new(), BTreeMap::new());
        self.seen(topic, 0).0.values().for_each(|written| apply(&mut afresh, written));
        committed.values().for_each(|written| apply(&mut expected, written));
        assert_eq!(self.followers[topic].values, expected);
        assert_eq!(afresh, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_committed_is_seen_and_nothing_else(steps in steps()) {
        let mut run = Run::new();
        for step in &steps {
            run.step(step);
            (0..TOPICS.len()).for_each(|topic| run.check(topic));
        }
        // Nothing stays undecided once every transaction is over and its markers are written.
        run.kafka.advance_to(run.kafka.now_ms() + TIMEOUT_MS + 1);
        run.kafka.write_markers();
        for (topic, name) in TOPICS.iter().enumerate() {
            let bounds = run.kafka.bounds(name, 0).expect("it is there");
            prop_assert_eq!(bounds.stable, bounds.end);
            run.check(topic);
        }
        let offsets: BTreeSet<_> = run.committed.keys().collect();
        prop_assert_eq!(offsets.len(), run.committed.len());
    }
}

#[test]
fn a_producer_whose_epochs_are_used_up_gets_another_id() {
    let mut kafka = Kafka::default();
    let mut last = kafka.init_producer_id("a", TIMEOUT_MS).expect("nothing is open");
    let first = last.id;
    for _ in 0..i16::MAX - 1 {
        last = kafka.init_producer_id("a", TIMEOUT_MS).expect("nothing is open");
    }
    assert_eq!(last, Producer { id: first, epoch: i16::MAX - 1 });
    let next = kafka.init_producer_id("a", TIMEOUT_MS).expect("nothing is open");
    assert_eq!((next.id == first, next.epoch), (false, 0));
    kafka.create_topic("t", 1, TopicConfig::default()).expect("it is new");
    assert_eq!(kafka.add_partition("a", last, "t", 0), Err(Code::InvalidProducerIdMapping));
    assert_eq!(kafka.add_partition("a", next, "t", 0), Ok(()));
}
