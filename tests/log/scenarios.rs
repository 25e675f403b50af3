//! What a Kafka is asked, step by step. Each scenario runs on the model and on a real broker, whose traces must agree.

use std::time::Duration;

use hotspare::log::Topic;
use hotspare::{Offset, PartitionId};

use super::cluster::{HOUR_MS, OURS, Owner, Pair, Settings, Trace, WITHIN, message};
use crate::harness::records::Rec;

const COMMIT: bool = true;
const ABORT: bool = false;

pub fn markers_take_offsets(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    let a = t.init("a");
    t.look("t");
    t.add("a", a, "t");
    t.produce("a", a, "t", 0, &[("k", Some("1")), ("k", Some("2")), ("l", None)]);
    t.look("t");
    t.end("a", a, COMMIT);
    t.look("t");
    t.transaction("a", a, "t", 3, &[("k", Some("3")), ("k", Some("4"))], ABORT);
    t.look("t");
    // A partition that was added and not written to gets a marker all the same.
    t.add("a", a, "t");
    t.end("a", a, COMMIT);
    t.look("t");
    t.transaction("a", a, "t", 5, &[("k", Some("5"))], COMMIT);
    t.look("t");
}

pub fn the_first_open_transaction_holds_the_last_stable_offset(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    t.topic("u", Settings::default());
    let (a, b, c) = (t.init("a"), t.init("b"), t.init("c"));
    t.add("a", a, "t");
    t.produce("a", a, "t", 0, &[("a", Some("1"))]);
    t.add("a", a, "u");
    t.produce("a", a, "u", 0, &[("a", Some("1"))]);
    t.transaction("b", b, "t", 0, &[("b", Some("1")), ("b", Some("2"))], COMMIT);
    t.look("t");
    t.add("c", c, "t");
    t.produce("c", c, "t", 0, &[("c", Some("1"))]);
    t.produce("a", a, "t", 1, &[("a", Some("2"))]);
    t.look("t");
    t.end("a", a, ABORT);
    t.look("t");
    t.look("u");
    t.produce("c", c, "t", 1, &[("c", Some("2"))]);
    t.end("c", c, COMMIT);
    t.look("t");
}

pub fn what_is_in_no_transaction_waits_behind_an_open_one(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    t.append("missing", &[("k", Some("0"))]);
    t.append("t", &[("k", Some("1")), ("k", Some("2"))]);
    t.look("t");
    let a = t.init("a");
    t.add("a", a, "t");
    t.produce("a", a, "t", 0, &[("a", Some("1"))]);
    t.append("t", &[("k", Some("3"))]);
    t.look("t");
    t.end("a", a, ABORT);
    t.append("t", &[("k", Some("4"))]);
    t.look("t");
}

/// What is left to a producer that is not the owner any more.
fn try_all(t: &mut Trace<'_>, id: &str, owner: Owner, topic: &str, sequence: i32) {
    t.add(id, owner, topic);
    t.produce(id, owner, topic, sequence, &[("zombie", Some("z"))]);
    t.end(id, owner, COMMIT);
    t.end(id, owner, ABORT);
}

pub fn a_fence_aborts_what_is_open(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    let old = t.init("a");
    t.transaction("a", old, "t", 0, &[("k", Some("1"))], COMMIT);
    t.add("a", old, "t");
    t.produce("a", old, "t", 1, &[("k", Some("2"))]);
    assert!(t.init_once("a", 10 * WITHIN).is_err(), "it has to be aborted first");
    let new = t.init("a");
    t.wait_stable("t");
    t.look("t");
    try_all(t, "a", old, "t", 2);
    t.add("a", new, "t");
    t.produce("a", new, "t", 0, &[("k", Some("3"))]);
    try_all(t, "a", old, "t", 2);
    t.end("a", new, COMMIT);
    try_all(t, "a", old, "t", 2);
    t.look("t");
}

pub fn of_two_successive_fences_the_last_one_stands(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    let first = t.init("a");
    let second = t.init("a");
    let third = t.init("a");
    try_all(t, "a", first, "t", 0);
    try_all(t, "a", second, "t", 0);
    t.transaction("a", third, "t", 0, &[("k", Some("1"))], COMMIT);
    try_all(t, "a", second, "t", 0);
    // The fence finds two partitions that never saw the old epoch's end.
    t.topic("u", Settings::default());
    t.add("a", third, "u");
    let fourth = t.init("a");
    t.look("u");
    try_all(t, "a", third, "u", 0);
    t.transaction("a", fourth, "u", 0, &[("k", Some("2"))], COMMIT);
    t.look("t");
    t.look("u");
}

pub fn a_transaction_ends_once(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    let a = t.init("a");
    t.end("a", a, COMMIT);
    t.end("a", a, ABORT);
    t.produce("a", a, "t", 0, &[("k", Some("not added"))]);
    t.add("a", a, "missing");
    t.add("b", a, "t");
    t.add("a", Owner { id: a.id + 1_000_000, ..a }, "t");
    t.add("a", Owner { epoch: a.epoch + 1, ..a }, "t");
    t.transaction("a", a, "t", 0, &[("k", Some("1"))], COMMIT);
    t.end("a", a, COMMIT);
    t.end("a", a, ABORT);
    t.produce("a", a, "t", 1, &[("k", Some("after the end"))]);
    t.transaction("a", a, "t", 1, &[("k", Some("2"))], ABORT);
    t.end("a", a, ABORT);
    t.end("a", a, COMMIT);
    t.look("t");
}

pub fn a_batch_counts_once(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    let a = t.init("a");
    t.add("a", a, "t");
    t.produce("a", a, "t", 0, &[("k", Some("1")), ("k", Some("2"))]);
    t.produce("a", a, "t", 0, &[("k", Some("1")), ("k", Some("2"))]);
    t.produce("a", a, "t", 3, &[("k", Some("a gap"))]);
    t.produce("a", a, "t", 2, &[("k", Some("3"))]);
    t.end("a", a, COMMIT);
    let b = t.init("a");
    t.add("a", b, "t");
    t.produce("a", b, "t", 3, &[("k", Some("a new epoch begins at 0"))]);
    t.produce("a", b, "t", 0, &[("k", Some("4"))]);
    t.end("a", b, COMMIT);
    t.look("t");
}

pub fn a_transaction_times_out(t: &mut Trace<'_>) {
    let timeout = Duration::from_millis(1500);
    t.topic("t", Settings::default());
    let old = t.init_for("a", timeout);
    t.transaction("a", old, "t", 0, &[("k", Some("1"))], COMMIT);
    t.add("a", old, "t");
    t.produce("a", old, "t", 1, &[("k", Some("2"))]);
    t.look("t");
    t.wait_stable("t");
    t.look("t");
    try_all(t, "a", old, "t", 2);
    // Nobody has taken its place, and still it cannot go on.
    let new = t.init_for("a", timeout);
    t.transaction("a", new, "t", 0, &[("k", Some("3"))], COMMIT);
    t.look("t");
}

pub fn timestamps_are_checked(t: &mut Trace<'_>) {
    t.topic("own", Settings::default());
    t.topic("brokers", Settings { log_append_time: true, ..Settings::default() });
    let a = t.init("a");
    for topic in ["own", "brokers"] {
        t.add("a", a, topic);
        let hours = [0, -10_000, 2, -1];
        let mut sequence = 0;
        for hour in hours {
            let records = t.records(hour, &[("k", Some(&hour.to_string()))]);
            t.produce_records("a", a, topic, sequence, &records);
            let next = t.cluster.ends(topic).expect("the topic is there").2;
            sequence = i32::try_from(next).expect("few records");
        }
    }
    t.end("a", a, COMMIT);
    for topic in ["own", "brokers"] {
        t.look(topic);
        let records = t.cluster.read(topic, crate::harness::records::Isolation::Committed);
        for record in records {
            // A test takes minutes at most.
            let hours = (record.timestamp - t.base_ms + HOUR_MS / 2).div_euclid(HOUR_MS);
            t.line(format!("{topic}: {} has the time {hours} h", record.text()));
        }
    }
}

pub fn what_cannot_be_kept_is_refused(t: &mut Trace<'_>) {
    t.topic("small", Settings { message_bytes_max: 1000, ..Settings::default() });
    t.topic("compacted", Settings { compact: true, ..Settings::default() });
    let a = t.init("a");
    t.add("a", a, "small");
    let large = "x".repeat(2000);
    t.produce("a", a, "small", 0, &[("k", Some("1")), ("k", Some(&large))]);
    t.produce("a", a, "small", 0, &[("k", Some("2"))]);
    t.add("a", a, "compacted");
    let keyless = Rec { key: None, timestamp: t.base_ms, ..Rec::new(0, "", "no key") };
    t.produce_records("a", a, "compacted", 0, &[keyless]);
    t.produce("a", a, "compacted", 0, &[("k", Some("3"))]);
    t.end("a", a, COMMIT);
    t.look("small");
    t.look("compacted");
}

/// A transaction whose records have a time that begins a new segment. The marker has the broker's time, which begins none.
fn segment(t: &mut Trace<'_>, owner: Owner, hours: i64, sequence: i32, pairs: &[Pair<'_>], commit: bool) {
    let records = t.records(hours, pairs);
    t.add("a", owner, "t");
    t.produce_records("a", owner, "t", sequence, &records);
    t.end("a", owner, commit);
}

fn compacted_topic(t: &mut Trace<'_>) {
    let settings = Settings {
        compact: true,
        segment_ms: HOUR_MS,
        timestamp_after_max_ms: 1000 * HOUR_MS,
        delete_retention_ms: 2000,
        ..Settings::default()
    };
    t.topic("t", settings);
}

pub fn compaction_keeps_the_last_committed_record(t: &mut Trace<'_>) {
    compacted_topic(t);
    let a = t.init("a");
    segment(t, a, 10, 0, &[("k1", Some("a")), ("k2", Some("b")), ("k3", Some("c"))], COMMIT);
    segment(t, a, 20, 3, &[("k1", Some("d")), ("k2", Some("e"))], COMMIT);
    segment(t, a, 30, 5, &[("k3", Some("aborted"))], ABORT);
    // The active segment is not touched, and what is in it does not count.
    segment(t, a, 40, 6, &[("k1", Some("f")), ("k4", Some("g")), ("k4", Some("h"))], COMMIT);
    t.compact("t", 6);
    // What is not decided, and what is behind it, does not count either.
    let b = t.init("b");
    t.add("b", b, "t");
    let open = t.records(50, &[("k2", Some("open"))]);
    t.produce_records("b", b, "t", 0, &open);
    segment(t, a, 60, 9, &[("k4", Some("i"))], COMMIT);
    segment(t, a, 70, 10, &[("k5", Some("j"))], COMMIT);
    t.compact("t", 7);
    t.end("b", b, COMMIT);
    segment(t, a, 80, 11, &[("k6", Some("k"))], COMMIT);
    t.compact("t", 6);
}

pub fn compaction_spares_the_segment_of_what_is_open(t: &mut Trace<'_>) {
    compacted_topic(t);
    let a = t.init("a");
    segment(t, a, 10, 0, &[("k0", Some("x")), ("k0", Some("y"))], COMMIT);
    // All of this is one segment, and the cleaner takes whole ones.
    segment(t, a, 20, 2, &[("k1", Some("a")), ("k1", Some("b"))], COMMIT);
    let b = t.init("b");
    t.add("b", b, "t");
    let open = t.records(20, &[("k2", Some("open"))]);
    t.produce_records("b", b, "t", 0, &open);
    segment(t, a, 20, 4, &[("k1", Some("c"))], COMMIT);
    segment(t, a, 20, 5, &[("k3", Some("aborted"))], ABORT);
    segment(t, a, 30, 6, &[("k1", Some("d"))], COMMIT);
    segment(t, a, 40, 7, &[("k4", Some("e"))], COMMIT);
    t.compact("t", 8);
    t.end("b", b, ABORT);
    segment(t, a, 50, 8, &[("k5", Some("f"))], COMMIT);
    t.compact("t", 4);
}

pub fn a_marker_can_begin_a_segment(t: &mut Trace<'_>) {
    compacted_topic(t);
    let a = t.init("a");
    segment(t, a, -10, 0, &[("k1", Some("a")), ("k1", Some("b"))], COMMIT);
    segment(t, a, -20, 2, &[("k1", Some("c"))], COMMIT);
    t.compact("t", 2);
}

pub fn tombstones_stay_for_a_while(t: &mut Trace<'_>) {
    compacted_topic(t);
    let a = t.init("a");
    segment(t, a, 10, 0, &[("k1", Some("a")), ("k2", Some("b"))], COMMIT);
    segment(t, a, 20, 2, &[("k1", None)], COMMIT);
    segment(t, a, 30, 3, &[("k3", Some("c"))], COMMIT);
    t.compact("t", 3);
    t.cluster.pass(Duration::from_millis(2500));
    // Only a pass removes it, and there is one only when there is something new.
    t.look("t");
    segment(t, a, 40, 4, &[("k4", Some("d"))], COMMIT);
    t.compact("t", 3);
}

pub fn a_topic_is_created_anew(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let before = log.identity().expect("an identity").changelog_topic_id;
    let mut writer = t.fence(&*log);
    t.transact(&mut *writer, &[message(Topic::Changelog, "1"), message(Topic::Changelog, "2")]);
    let mut reader = t.reader(&*log, 0);
    t.follow(&mut *reader);
    drop(writer);
    t.cluster.delete_topic("changelog");
    t.look("changelog");
    t.topic("changelog", Settings::default());
    let log = t.cluster.log();
    t.line(format!("the same id: {}", log.identity().expect("an identity").changelog_topic_id == before));
    t.look("changelog");
    let mut writer = t.fence(&*log);
    t.transact(&mut *writer, &[message(Topic::Changelog, "3")]);
    // Where the old one ended there is nothing now.
    let mut reader = t.reader(&*log, 3);
    t.follow(&mut *reader);
    let mut reader = t.reader(&*log, 0);
    t.follow(&mut *reader);
}

pub fn a_reader_of_a_topic_that_is_created_anew_is_out_of_range(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let mut writer = t.fence(&*log);
    t.transact(&mut *writer, &[message(Topic::Changelog, "1"), message(Topic::Changelog, "2")]);
    let mut reader = t.reader(&*log, 0);
    t.follow(&mut *reader);
    drop(writer);
    t.cluster.delete_topic("changelog");
    t.topic("changelog", Settings::default());
    t.follow(&mut *reader);
    let log = t.cluster.log();
    let mut writer = t.fence(&*log);
    let batch: Vec<_> = (3..9).map(|number| message(Topic::Changelog, &number.to_string())).collect();
    t.transact(&mut *writer, &batch);
    // It is not read on by itself, although its offset is there again.
    t.poll(&mut *reader, Duration::from_millis(500));
    reader.assign(PartitionId(0), Offset(0)).expect("a partition");
    t.follow(&mut *reader);
}

pub fn a_topic_is_created_anew_under_a_transaction(t: &mut Trace<'_>) {
    t.topic("t", Settings::default());
    t.topic("u", Settings::default());
    let a = t.init("a");
    for topic in ["t", "u"] {
        t.add("a", a, topic);
        t.produce("a", a, topic, 0, &[("k", Some("1"))]);
    }
    t.cluster.delete_topic("t");
    t.topic("t", Settings::default());
    t.look("t");
    t.end("a", a, COMMIT);
    t.look("t");
    t.look("u");
    let b = t.init("a");
    t.transaction("a", b, "t", 0, &[("k", Some("2"))], COMMIT);
    t.look("t");
}

pub fn records_are_deleted_from_the_front(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let mut writer = t.fence(&*log);
    for value in ["1", "2", "3"] {
        t.transact(&mut *writer, &[message(Topic::Changelog, value)]);
    }
    t.cluster.delete_before("changelog", 3);
    t.look("changelog");
    for from in [0, 3, 6] {
        let mut reader = t.reader(&*log, from);
        t.follow(&mut *reader);
    }
}

pub fn a_deposed_writer_cannot_commit(t: &mut Trace<'_>) {
    t.log_topics();
    let (one, other) = (t.cluster.log(), t.cluster.log());
    let mut old = t.fence(&*one);
    t.transact(&mut *old, &[message(Topic::Changelog, "old")]);
    let mut new = t.fence(&*other);
    t.transact(&mut *old, &[message(Topic::Changelog, "zombie")]);
    t.transact(&mut *new, &[message(Topic::Changelog, "new")]);
    t.transact(&mut *old, &[message(Topic::Changelog, "zombie again")]);
    let mut newest = t.fence(&*one);
    t.transact(&mut *new, &[message(Topic::Changelog, "zombie too")]);
    t.transact(&mut *newest, &[message(Topic::Changelog, "newest")]);
    t.look("changelog");
}

pub fn fencing_ends_what_a_dead_active_left_open(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let dead = t.init(OURS);
    for topic in ["changelog", "windows", "dead-letters"] {
        t.add(OURS, dead, topic);
        t.produce(OURS, dead, topic, 0, &[("k", Some("never committed"))]);
    }
    let mut reader = t.reader(&*log, 0);
    t.follow(&mut *reader);
    let mut writer = t.fence(&*log);
    t.look("changelog");
    t.follow(&mut *reader);
    t.end(OURS, dead, COMMIT);
    t.transact(&mut *writer, &[message(Topic::Changelog, "new"), message(Topic::Output, "window")]);
    t.follow(&mut *reader);
    for topic in ["changelog", "windows", "dead-letters"] {
        t.wait_stable(topic);
        t.look(topic);
    }
}

pub fn the_end_of_a_partition_lies_behind_control_records(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let mut reader = t.reader(&*log, 0);
    t.follow(&mut *reader);
    let mut writer = t.fence(&*log);
    let batch: Vec<_> = (0..100).map(|number| message(Topic::Changelog, &number.to_string())).collect();
    t.transact(&mut *writer, &batch);
    t.follow(&mut *reader);
    // An aborted transaction is behind the last record that can be read.
    let other = t.init("other");
    t.transaction("other", other, "changelog", 0, &[("k", Some("a")), ("k", Some("b"))], ABORT);
    t.follow(&mut *reader);
    let mut late = t.reader(&*log, 101);
    t.follow(&mut *late);
    t.transact(&mut *writer, &[message(Topic::Changelog, "100")]);
    t.follow(&mut *late);
    t.follow(&mut *reader);
}

pub fn ahead_of_the_last_stable_offset_no_end_is_told(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let other = t.init("other");
    t.add("other", other, "changelog");
    t.produce("other", other, "changelog", 0, &[("k", Some("a")), ("k", Some("b"))]);
    let mut reader = t.reader(&*log, 2);
    t.poll(&mut *reader, Duration::from_millis(500));
    t.end("other", other, COMMIT);
    t.follow(&mut *reader);
}

pub fn a_transaction_is_seen_whole_in_all_topics_or_not_at_all(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    let mut writer = t.fence(&*log);
    let all = [Topic::Changelog, Topic::Output, Topic::DeadLetters];
    t.transact(&mut *writer, &all.map(|topic| message(topic, "one")));
    // The dead letter is larger than the broker takes, so nothing of the transaction may be seen.
    let mut large = all.map(|topic| message(topic, "two"));
    large[2].value = Some(vec![b'x'; 2_000_000].into());
    t.transact(&mut *writer, &large);
    t.transact(&mut *writer, &[message(Topic::Output, "three")]);
    for topic in ["changelog", "windows", "dead-letters"] {
        t.wait_stable(topic);
        // How much was written before the abort is the client's affair.
        let committed = t.cluster.read(topic, crate::harness::records::Isolation::Committed);
        t.line(format!("{topic}: {:?}", committed.iter().map(Rec::text).collect::<Vec<_>>()));
    }
}

pub fn a_missing_topic_has_no_partitions(t: &mut Trace<'_>) {
    t.log_topics();
    let log = t.cluster.log();
    for topic in [Topic::Input, Topic::Changelog] {
        t.line(format!("{topic:?}: {:?}", log.partitions(topic).expect("the broker answers")));
    }
    // Asking creates nothing.
    t.look("readings");
}
