//! The log room on a real broker: what a writer may, and what a reader sees.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use harness::broker::Broker;
use harness::records::{Isolation, Rec, send};
use harness::unique_name;
use hotspare::config::sections::Fencing;
use hotspare::log::kafka::{KafkaLog, KafkaOptions};
use hotspare::log::{CommitError, Committed, Event, Log, Message, Topic, Writer};
use hotspare::{Offset, PartitionId};
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::Producer;

const P0: PartitionId = PartitionId(0);
const WITHIN: Duration = Duration::from_secs(30);

/// A log with topics of its own.
struct Room {
    log: KafkaLog,
    options: KafkaOptions,
    cluster: String,
    changelog: String,
}

fn room(fencing: Fencing) -> Room {
    room_on(Broker::shared(), fencing)
}

fn room_on(broker: &Broker, fencing: Fencing) -> Room {
    let cluster = unique_name("log");
    let topic = |role: &str| format!("{cluster}-{role}");
    for role in ["changelog", "windows", "dead-letters"] {
        broker.create_topic(&topic(role), 1, &[]);
    }
    let client = broker.client();
    let options = KafkaOptions {
        clients: Arc::new(move |_| Ok(client.clone())),
        group_id: cluster.clone(),
        cluster: cluster.clone(),
        input: topic("readings"),
        changelog: topic("changelog"),
        output: topic("windows"),
        dead_letters: topic("dead-letters"),
        fencing,
        fence_hedge_after: Duration::from_millis(25),
        transaction_timeout: Duration::from_secs(10),
        operation_timeout: Duration::from_secs(20),
        warm_handles_max: 4,
    };
    let log = KafkaLog::new(options.clone()).expect("a log");
    let changelog = topic("changelog");
    Room { log, options, cluster, changelog }
}

impl Room {
    fn writer(&self) -> Box<dyn Writer> {
        self.log.fence(P0).unwrap_or_else(|error| panic!("fencing: {error}")).writer
    }

    /// All values that a reader of the changelog sees, and the end that it is told.
    fn read(&self) -> (Vec<String>, Offset) {
        let mut reader = self.log.reader(Topic::Changelog, "test").expect("a reader");
        reader.assign(P0, Offset(0)).expect("a partition");
        let (mut values, mut end, begin) = (Vec::new(), None, Instant::now());
        while end.is_none() {
            assert!(begin.elapsed() < WITHIN, "the end of the partition is not told; read: {values:?}");
            reader.poll(Duration::from_millis(100), &mut |event| match event {
                Event::Record(_, record) => {
                    values.push(String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned());
                }
                Event::End(_, at) => end = Some(at),
                Event::Error(_, error) => panic!("{error}"),
            });
        }
        (values, end.expect("the loop ended"))
    }

    fn lso(&self) -> Offset {
        self.log.bounds(Topic::Changelog, P0).expect("bounds").1
    }
}

fn message(topic: Topic, value: &str) -> Message {
    Message {
        topic,
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Vec::new(),
    }
}

/// Like an active: what was aborted for a passing reason is written again.
fn persist(writer: &mut dyn Writer, messages: &[Message]) -> Result<Committed, CommitError> {
    let begin = Instant::now();
    loop {
        match writer.transact(messages) {
            Err(CommitError::Aborted(_)) if begin.elapsed() < WITHIN => {}
            done => return done,
        }
    }
}

fn a_deposed_writer_cannot_commit(fencing: Fencing, method: &str) {
    let room = room(fencing);
    let mut old = room.writer();
    old.transact(&[message(Topic::Changelog, "old")]).expect("committed");
    let fenced = room.log.fence(P0).expect("fenced");
    assert_eq!(fenced.method, method);
    let mut new = fenced.writer;
    let refused = old.transact(&[message(Topic::Changelog, "zombie")]);
    assert!(matches!(refused, Err(CommitError::Fenced(_))), "{refused:?}");
    new.transact(&[message(Topic::Changelog, "new")]).expect("committed");
    let again = old.transact(&[message(Topic::Changelog, "zombie again")]);
    assert!(matches!(again, Err(CommitError::Fenced(_) | CommitError::Fatal(_))), "{again:?}");
    assert_eq!(room.read().0, ["old", "new"]);
}

#[test]
fn a_writer_deposed_by_the_direct_request_cannot_commit() {
    a_deposed_writer_cannot_commit(Fencing::Direct, "direct");
}

#[test]
fn a_writer_deposed_by_client_handles_cannot_commit() {
    a_deposed_writer_cannot_commit(Fencing::Hedged, "hedged");
}

/// A dead or frozen active usually leaves a transaction open.
fn an_open_transaction_is_ended_by_fencing(fencing: Fencing, aborted: i64) {
    let room = room(fencing);
    let broker = Broker::shared();
    let old = broker.transactional_producer(&format!("{}-0", room.cluster));
    old.begin_transaction().expect("a transaction begins");
    send(&old, &room.changelog, &Rec::new(0, "k", "never committed"));
    old.flush(WITHIN).expect("the record is written");
    assert_eq!(room.read(), (vec![], Offset(0)), "a transaction that is open is not read");
    assert_eq!(broker.end_offsets(&room.changelog, Isolation::Uncommitted), [1]);
    let fenced = room.log.fence(P0).unwrap_or_else(|error| panic!("fencing: {error}"));
    let (mut new, told) = (fenced.writer, fenced.changelog_end);
    // The records and the control records of their aborts: nothing is open any more.
    assert_eq!(told, Offset(aborted));
    assert_eq!(room.lso(), Offset(aborted));
    assert!(old.commit_transaction(WITHIN).is_err(), "a fenced producer cannot commit");
    let committed = new.transact(&[message(Topic::Changelog, "new")]).expect("committed");
    assert_eq!(committed.changelog_next, Offset(aborted + 1));
    assert_eq!(room.read(), (vec!["new".to_owned()], Offset(aborted + 2)));
}

#[test]
fn a_transaction_left_open_is_aborted_by_the_direct_request_and_never_read() {
    an_open_transaction_is_ended_by_fencing(Fencing::Direct, 2);
}

#[test]
fn a_transaction_left_open_is_aborted_by_client_handles_and_never_read() {
    // With client handles the successor makes an abort of its own in any case.
    an_open_transaction_is_ended_by_fencing(Fencing::Hedged, 4);
}

#[test]
fn the_end_of_a_partition_lies_behind_control_records() {
    let room = room(Fencing::Auto);
    let mut writer = room.writer();
    assert_eq!(room.read(), (vec![], room.lso()));
    let batch: Vec<_> = (0..100).map(|number| message(Topic::Changelog, &number.to_string())).collect();
    let committed = writer.transact(&batch).expect("committed");
    assert_eq!(committed.changelog_next, Offset(100));
    let (values, end) = room.read();
    assert_eq!((values.len(), end, room.lso()), (100, Offset(101), Offset(101)));
    // An aborted transaction is behind the last record that can be read.
    drop(writer);
    let broker = Broker::shared();
    let aborting = broker.transactional_producer(&format!("{}-0", room.cluster));
    aborting.begin_transaction().expect("a transaction begins");
    for value in ["a", "b"] {
        send(&aborting, &room.changelog, &Rec::new(0, "k", value));
    }
    aborting.flush(WITHIN).expect("the records are written");
    aborting.abort_transaction(WITHIN).expect("aborted");
    let (values, end) = room.read();
    assert_eq!((values.len(), end, room.lso()), (100, Offset(104), Offset(104)));
}

#[test]
fn a_transaction_is_seen_whole_in_all_topics_or_not_at_all() {
    let room = room(Fencing::Auto);
    let mut writer = room.writer();
    let all = [Topic::Changelog, Topic::Output, Topic::DeadLetters];
    writer.transact(&all.map(|topic| message(topic, "one"))).expect("committed");
    // The dead letter is larger than the broker takes, so nothing of the transaction may be seen.
    let mut large = all.map(|topic| message(topic, "two"));
    large[2].value = Some(Bytes::from(vec![b'x'; 2_000_000]));
    match writer.transact(&large) {
        Err(CommitError::TooLarge { index: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
    writer.transact(&all.map(|topic| message(topic, "three"))).expect("the writer goes on");
    for role in ["changelog", "windows", "dead-letters"] {
        let records = Broker::shared().read_committed(&format!("{}-{role}", room.cluster));
        assert_eq!(records.iter().map(Rec::text).collect::<Vec<_>>(), ["one", "three"], "{role}");
    }
}

#[test]
fn a_message_is_not_blamed_for_the_size_of_its_neighbours() {
    let room = room(Fencing::Auto);
    let broker = Broker::shared();
    let name = format!("{}-dead-letters", room.cluster);
    broker.delete_topic(&name);
    broker.create_topic(&name, 1, &[("max.message.bytes", "1000")]);
    let mut writer = room.writer();
    let small: Vec<_> = (0..50).map(|number| message(Topic::DeadLetters, &format!("{number:0100}"))).collect();
    persist(&mut *writer, &small).expect("each message is small enough");
    assert_eq!(broker.read_committed(&name).len(), 50);
    let mut mixed = small;
    mixed[30].value = Some(Bytes::from(vec![b'x'; 1100]));
    match persist(&mut *writer, &mixed) {
        Err(CommitError::TooLarge { index: 30, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(broker.read_committed(&name).len(), 50, "nothing of that transaction is seen");
}

#[test]
fn a_partition_that_had_no_leader_is_found_as_soon_as_it_has_one() {
    // A real broker is without leaders for too short a time to be met on purpose.
    let brokers = MockCluster::new(1).expect("a mock cluster");
    let bootstrap = brokers.bootstrap_servers();
    let options = KafkaOptions {
        clients: Arc::new(move |_| Ok(ClientConfig::new().set("bootstrap.servers", &bootstrap).clone())),
        ..room(Fencing::Auto).options
    };
    brokers.create_topic(&options.changelog, 1, 1).expect("a topic");
    brokers.partition_leader(&options.changelog, 0, None).expect("no leader");
    let log = KafkaLog::new(options.clone()).expect("a log");
    assert!(log.bounds(Topic::Changelog, P0).is_err());
    brokers.partition_leader(&options.changelog, 0, Some(1)).expect("a leader");
    // The client remembers that there was none, and must not go on saying so.
    let bounds = log.bounds(Topic::Changelog, P0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(bounds, (Offset(0), Offset(0)));
}

#[test]
fn a_missing_topic_has_no_partitions() {
    let room = room(Fencing::Auto);
    assert_eq!(room.log.partitions(Topic::Input).expect("the broker answers"), None);
    assert_eq!(room.log.partitions(Topic::Changelog).expect("the broker answers"), Some(1));
    let topics = Broker::shared().topics();
    assert!(!topics.contains_key(&format!("{}-readings", room.cluster)), "asking creates nothing");
}
