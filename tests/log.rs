//! The log room: what a writer may, and what a reader sees. Most of it is asked of a real broker and of the model.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

#[path = "log/cluster.rs"]
mod cluster;
#[path = "log/model.rs"]
mod model;
#[path = "log/real.rs"]
mod real;
#[path = "log/scenarios.rs"]
mod scenarios;
#[path = "log/wire.rs"]
mod wire;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{Trace, WITHIN, message};
use harness::records::{Isolation, Rec, send};
use harness::unique_name;
use hotspare::config::sections::Fencing;
use hotspare::log::kafka::{KafkaLog, KafkaOptions};
use hotspare::log::{CommitError, Committed, Event, Log, Message, Topic, Writer};
use hotspare::{Offset, PartitionId};
use model::Model;
use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::Producer;
use real::{Real, broker};

/// Runs a scenario on both and compares what they answered.
fn agree(scenario: fn(&mut Trace<'_>)) {
    let (mut model, mut real) = (Model::new(), Real::new());
    let mut expected = Trace::new(&mut real);
    scenario(&mut expected);
    let expected = expected.lines;
    let mut modelled = Trace::new(&mut model);
    scenario(&mut modelled);
    let modelled = modelled.lines;
    let differs = expected.iter().zip(&modelled).position(|(one, other)| one != other);
    if let Some(line) = differs {
        panic!(
            "line {line} differs:\n  real  {}\n  model {}\nbefore it:\n{}",
            expected[line],
            modelled[line],
            expected[..line].join("\n")
        );
    }
    assert_eq!(expected, modelled);
}

macro_rules! agree {
    ($($scenario:ident),* $(,)?) => {
        $(#[test]
        fn $scenario() {
            agree(scenarios::$scenario);
        })*
    };
}

agree!(
    markers_take_offsets,
    the_first_open_transaction_holds_the_last_stable_offset,
    what_is_in_no_transaction_waits_behind_an_open_one,
    a_fence_aborts_what_is_open,
    of_two_successive_fences_the_last_one_stands,
    a_transaction_ends_once,
    a_batch_counts_once,
    a_transaction_times_out,
    timestamps_are_checked,
    what_cannot_be_kept_is_refused,
    compaction_keeps_the_last_committed_record,
    compaction_spares_the_segment_of_what_is_open,
    a_marker_can_begin_a_segment,
    tombstones_stay_for_a_while,
    a_topic_is_created_anew,
    a_topic_is_created_anew_under_a_transaction,
    a_reader_of_a_topic_that_is_created_anew_is_out_of_range,
    records_are_deleted_from_the_front,
    a_deposed_writer_cannot_commit,
    fencing_ends_what_a_dead_active_left_open,
    the_end_of_a_partition_lies_behind_control_records,
    ahead_of_the_last_stable_offset_no_end_is_told,
    a_transaction_is_seen_whole_in_all_topics_or_not_at_all,
    a_missing_topic_has_no_partitions,
);

const P0: PartitionId = PartitionId(0);

/// A log with topics of its own.
struct Room {
    log: KafkaLog,
    options: KafkaOptions,
    cluster: String,
    changelog: String,
}

fn room(fencing: Fencing) -> Room {
    let cluster = unique_name("log");
    let options = real::options(&cluster, fencing);
    for topic in [&options.changelog, &options.output, &options.dead_letters] {
        broker().create_topic(topic, 1, &[]);
    }
    let log = KafkaLog::new(options.clone()).expect("a log");
    let changelog = options.changelog.clone();
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

/// With client handles instead of our own request.
#[test]
fn a_writer_deposed_by_client_handles_cannot_commit() {
    let room = room(Fencing::Hedged);
    let mut old = room.writer();
    old.transact(&[message(Topic::Changelog, "old")]).expect("committed");
    let fenced = room.log.fence(P0).expect("fenced");
    assert_eq!(fenced.method, "hedged");
    let mut new = fenced.writer;
    let refused = old.transact(&[message(Topic::Changelog, "zombie")]);
    assert!(matches!(refused, Err(CommitError::Fenced(_))), "{refused:?}");
    new.transact(&[message(Topic::Changelog, "new")]).expect("committed");
    let again = old.transact(&[message(Topic::Changelog, "zombie again")]);
    assert!(matches!(again, Err(CommitError::Fenced(_) | CommitError::Fatal(_))), "{again:?}");
    assert_eq!(room.read().0, ["old", "new"]);
}

/// A dead or frozen active usually leaves a transaction open.
#[test]
fn a_transaction_left_open_is_aborted_by_client_handles_and_never_read() {
    // The record and the marker of its abort, and the same of the abort that the successor makes in any case.
    let aborted = 4;
    let room = room(Fencing::Hedged);
    let broker = broker();
    let old = broker.transactional_producer(&format!("{}-0", room.cluster));
    old.begin_transaction().expect("a transaction begins");
    send(&old, &room.changelog, &Rec::new(0, "k", "never committed"));
    old.flush(WITHIN).expect("the record is written");
    assert_eq!(room.read(), (vec![], Offset(0)), "a transaction that is open is not read");
    assert_eq!(broker.end_offsets(&room.changelog, Isolation::Uncommitted), [1]);
    let fenced = room.log.fence(P0).unwrap_or_else(|error| panic!("fencing: {error}"));
    let (mut new, told) = (fenced.writer, fenced.changelog_end);
    assert_eq!(told, Offset(aborted));
    assert_eq!(room.lso(), Offset(aborted));
    assert!(old.commit_transaction(WITHIN).is_err(), "a fenced producer cannot commit");
    let committed = new.transact(&[message(Topic::Changelog, "new")]).expect("committed");
    assert_eq!(committed.changelog_next, Offset(aborted + 1));
    assert_eq!(room.read(), (vec!["new".to_owned()], Offset(aborted + 2)));
}

#[test]
fn a_message_is_not_blamed_for_the_size_of_its_neighbours() {
    let room = room(Fencing::Auto);
    let broker = broker();
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
