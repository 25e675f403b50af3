//! Two nodes on one broker, whose requests and answers get lost.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use hotspare_cluster::{Offset, PartitionId};
use proptest::prelude::*;

use super::super::{Kafka, ModelLog, ModelOptions, Seeded, TopicConfig};
use crate::log::{CommitError, Event, Log, Message, Reader, Topic, Writer};

const P0: PartitionId = PartitionId(0);
const BEGIN_MS: i64 = 1_800_000_000_000;
const OURS: [Topic; 3] = [Topic::Changelog, Topic::Output, Topic::DeadLetters];
/// So short that a client sometimes gives up and the broker sometimes ends a transaction.
const TIMEOUT: Duration = Duration::from_millis(50);

fn node(kafka: &Arc<Mutex<Kafka>>, seed: u64, trouble_permille: u32) -> ModelLog {
    let options = ModelOptions {
        cluster: "plant".to_owned(),
        input: "readings".to_owned(),
        changelog: "changelog".to_owned(),
        output: "windows".to_owned(),
        dead_letters: "dead-letters".to_owned(),
        transaction_timeout: TIMEOUT,
        operation_timeout: TIMEOUT,
    };
    ModelLog::new(Arc::clone(kafka), Arc::new(Seeded::new(seed, trouble_permille, BEGIN_MS)), options)
}

fn broker() -> Arc<Mutex<Kafka>> {
    let mut kafka = Kafka::default();
    for topic in ["readings", "changelog", "windows", "dead-letters"] {
        let config = TopicConfig { log_append_time: true, message_bytes_max: 1000, ..TopicConfig::default() };
        kafka.create_topic(topic, 1, config).expect("it is new");
    }
    Arc::new(Mutex::new(kafka))
}

fn message(topic: Topic, value: &str) -> Message {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    Message { topic, key: Some(Bytes::from_static(b"k")), value, headers: Vec::new() }
}

/// Reads to the end that it is told.
fn read(reader: &mut dyn Reader) -> (Vec<String>, Offset) {
    let (mut values, mut end) = (Vec::new(), None);
    for _ in 0..10_000 {
        reader.poll(Duration::from_millis(1), &mut |event| match event {
            Event::Record(_, record) => {
                values.push(String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned());
            }
            Event::End(_, offset) => end = Some(offset),
            Event::Error(_, error) => panic!("{error}"),
        });
        if let Some(end) = end {
            return (values, end);
        }
    }
    panic!("no end is told after {values:?}");
}

fn read_all(log: &ModelLog, topic: Topic) -> Vec<String> {
    let mut reader = log.reader(topic, "test").expect("a reader");
    reader.assign(P0, Offset(0)).expect("a partition");
    read(&mut *reader).0
}

/// How the attempts to write something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Committed,
    NotCommitted,
    Unknown,
}

/// Nodes fence and write by turns, never trusting a writer that failed; gives how often each way a transaction ended, and what
/// is in the changelog.
fn run(seed: u64, trouble_permille: u32, turns: &[(usize, bool)]) -> ([usize; 3], Vec<String>) {
    let kafka = broker();
    let nodes = [node(&kafka, seed, trouble_permille), node(&kafka, seed + 1, trouble_permille)];
    let mut writers: [Option<Box<dyn Writer>>; 2] = [None, None];
    let (mut owner, mut outcomes) = (None, BTreeMap::new());
    for (number, (who, fences)) in turns.iter().enumerate() {
        if *fences || writers[*who].is_none() {
            // A fence that failed may have taken effect or not, so who had it before may still commit.
            writers[*who] = None;
            if let Ok(fenced) = nodes[*who].fence(P0) {
                writers[*who] = Some(fenced.writer);
                owner = Some(*who);
            }
        }
        let Some(writer) = &mut writers[*who] else { continue };
        let name = number.to_string();
        let outcome = match writer.transact(&OURS.map(|topic| message(topic, &name))) {
            Ok(_) => {
                assert_eq!(owner, Some(*who), "a fenced writer has committed");
                Outcome::Committed
            }
            Err(CommitError::Aborted(_) | CommitError::TooLarge { .. }) => Outcome::NotCommitted,
            Err(CommitError::Fenced(_) | CommitError::Fatal(_)) => {
                writers[*who] = None;
                Outcome::Unknown
            }
        };
        outcomes.insert(name, outcome);
    }
    let calm = node(&kafka, 0, 0);
    calm.fence(P0).expect("nothing is lost any more");
    let topics = OURS.map(|topic| read_all(&calm, topic));
    assert!(topics.iter().all(|topic| *topic == topics[0]), "a transaction is in all topics or in none: {topics:?}");
    let mut ended = [0; 3];
    for (name, outcome) in &outcomes {
        let times = topics[0].iter().filter(|seen| *seen == name).count();
        let (place, is_right) = match outcome {
            Outcome::Committed => (0, times == 1),
            Outcome::NotCommitted => (1, times == 0),
            Outcome::Unknown => (2, times <= 1),
        };
        assert!(is_right, "transaction {name} is {outcome:?} and there {times} times");
        ended[place] += 1;
    }
    let [changelog, ..] = topics;
    assert!(changelog.iter().map(|name| name.parse().unwrap_or(0)).is_sorted_by(|one: &usize, other| one < other));
    (ended, changelog)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_transaction_is_whole_and_there_once_whatever_gets_lost(
        seed in any::<u64>().prop_map(|seed| seed >> 1),
        trouble_permille in 0..600_u32,
        turns in prop::collection::vec((0..2_usize, prop::bool::weighted(0.1)), 1..60),
    ) {
        run(seed, trouble_permille, &turns);
    }
}

#[test]
fn the_same_seed_gives_the_same_course() {
    let turns: Vec<_> = (0..200).map(|turn| (turn / 7 % 2, turn % 13 == 0)).collect();
    let (ended, changelog) = run(7, 500, &turns);
    assert!(ended.iter().all(|count| *count > 0), "every way to end is met: {ended:?}");
    assert_eq!((ended, &changelog), (run(7, 500, &turns).0, &run(7, 500, &turns).1));
    assert_ne!(changelog, run(8, 500, &turns).1);
}

#[test]
fn a_broker_that_answers_nobody_is_waited_for_and_then_told() {
    let kafka = broker();
    let log = node(&kafka, 0, 0);
    let mut writer = log.fence(P0).expect("fenced").writer;
    let mut reader = log.reader(Topic::Changelog, "test").expect("a reader");
    reader.assign(P0, Offset(0)).expect("a partition");
    assert_eq!(read(&mut *reader), (vec![], Offset(0)));
    kafka.lock().expect("nobody panics with it").set_available(false);
    assert!(log.fence(P0).is_err() && log.bounds(Topic::Changelog, P0).is_err() && log.identity().is_err());
    assert!(matches!(
        writer.transact(&[message(Topic::Changelog, "1")]),
        Err(CommitError::Aborted(_) | CommitError::Fatal(_))
    ));
    reader.poll(Duration::from_millis(1), &mut |event| panic!("{event:?}"));
    kafka.lock().expect("nobody panics with it").set_available(true);
    let mut writer = log.fence(P0).expect("fenced").writer;
    writer.transact(&[message(Topic::Changelog, "2")]).expect("committed");
    assert_eq!(read(&mut *reader), (vec!["2".to_owned()], Offset(2)));
}

#[test]
fn a_message_is_not_blamed_for_the_size_of_its_neighbours() {
    let log = node(&broker(), 0, 0);
    let mut writer = log.fence(P0).expect("fenced").writer;
    let mut messages: Vec<_> = (0..50).map(|number| message(Topic::DeadLetters, &format!("{number:0100}"))).collect();
    writer.transact(&messages).expect("each message is small enough");
    messages[30].value = Some(Bytes::from(vec![b'x'; 1100]));
    let refused = writer.transact(&messages);
    assert!(matches!(refused, Err(CommitError::TooLarge { index: 30, bytes: 1101 })), "{refused:?}");
    assert_eq!(read_all(&log, Topic::DeadLetters).len(), 50, "nothing of that transaction is seen");
}
