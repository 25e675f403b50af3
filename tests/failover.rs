//! Kills, wherever and whenever: the result is that of a run without any.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use harness::broker::Broker;
use harness::cluster::TestCluster;
use harness::collector::Collector;
use harness::records::Rec;
use harness::workload::{MESSY, Workload};
use hotspare::PartitionId;
use hotspare::store::Store;
use serde_json::Value;

/// Far more than anything here takes, for a machine that is busy with other things.
const WITHIN: Duration = Duration::from_secs(90);
const SIGKILL: i32 = 9;

/// The epoch of a partition, as a node sees it that is not `except`.
fn epoch(cluster: &TestCluster<'_>, partition: usize, except: usize) -> Option<u64> {
    let others = cluster.nodes.iter().enumerate().filter(|(node, _)| *node != except);
    let seen = |node: &harness::node::Node| node.status()?["partitions"][partition]["epoch"].as_u64();
    others.filter_map(|(_, node)| seen(node)).max()
}

/// The event of the newest failover of a partition beyond an epoch that ended well.
fn success(cluster: &TestCluster<'_>, partition: usize, beyond: u64) -> Option<Value> {
    cluster.history().into_iter().rev().find(|event| {
        event["partition"] == partition
            && event["epoch"].as_u64() > Some(beyond)
            && event["kind"] == "failover"
            && event["result"] == "success"
    })
}

#[test]
fn killed_at_many_positions_of_the_input_the_result_is_that_of_a_clean_run() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2)
        .config(MESSY)
        .config("[replication]\nstandbys = 2\n[output]\nemit = \"changes\"")
        .start();
    let mut workload = Workload::new(1, 2);
    let (mut kills, mut leaders, mut timed) = (0, 0, 0);
    for step in 0..13_usize {
        let partition = step % 2;
        let active = cluster.wait_active(u32::try_from(partition).expect("small"), WITHIN);
        let before = epoch(&cluster, partition, active).expect("an epoch");
        let leader = cluster.raft_leader();
        cluster.broker.produce(&cluster.topic, &workload.chunk(150));
        cluster.nodes[active].kill9();
        kills += 1;
        leaders += usize::from(leader == Some(active));
        // Sometimes it is back before anybody knows, sometimes later.
        if step % 3 == 0 {
            cluster.nodes[active].start();
        }
        let event =
            cluster.wait_until("the failover is in the history", WITHIN, |cluster| success(cluster, partition, before));
        assert!(event["evidence"].as_array().is_some_and(|seen| !seen.is_empty()), "{event}");
        assert!(event["phases_ms"]["fence"].is_number(), "{event}");
        // By one clock, the deciding leader's: where that one is gone before the report arrives, nobody knows it.
        timed += usize::from(event["total_ms"].is_number());
        if !cluster.nodes[active].is_running() {
            cluster.nodes[active].start();
        }
        // Now and then the leader of Raft dies too, whatever else it is.
        if step % 4 == 3 {
            cluster.wait_ready();
            let leader = cluster.wait_until("Raft has a leader", WITHIN, |cluster| cluster.raft_leader());
            cluster.broker.produce(&cluster.topic, &workload.chunk(50));
            cluster.nodes[leader].kill9();
            cluster.nodes[leader].start();
            (kills, leaders) = (kills + 1, leaders + 1);
        }
        cluster.wait_ready();
    }
    assert!(timed > 6, "most of 13 failovers have a total time, here {timed}");
    assert!(kills >= 13 && leaders >= 1, "{kills} kills, {leaders} of Raft leaders");
    let report = cluster.wait_clean();
    for part in &report.partitions {
        assert!(part.records > 500 && part.windows_final > 50 && part.dead_letters > 20, "{report:?}");
    }
}

/// What series know beyond their windows, and what silence does to them, survives too: the input falls silent and log time
/// goes on in the changelog alone.
#[test]
fn sessions_duplicates_and_silence_survive_kills() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2)
        .topic_setting("message.timestamp.type", "LogAppendTime")
        .config(MESSY)
        .config(
            "[input.dedup]\nby = \"reading\"\nkeep = \"10s\"\n[input.limits]\nmax_future = \"off\"\n\
             [window]\nkind = \"session\"\ngap = \"900ms\"\nidle_close = \"1s\"\nretention = \"20s\"\n\
             [output]\nvariance = \"sample\"\n[replication]\nstandbys = 2",
        )
        .without("window", "size")
        .start();
    for turn in 0..6_u64 {
        let now_ms = i64::try_from(
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis(),
        );
        let mut workload = Workload::beginning(turn, 2, now_ms.expect("a time") - 15_000);
        let records = workload.chunk(120);
        cluster.broker.produce(&cluster.topic, &records);
        let partition = u32::try_from(turn % 2).expect("small");
        let active = cluster.wait_active(partition, WITHIN);
        // Once amid the readings, once amid the silence after them.
        if turn % 3 == 2 {
            std::thread::sleep(Duration::from_millis(1500));
        }
        cluster.nodes[active].kill9();
        cluster.broker.produce(&cluster.topic, &records);
        cluster.nodes[active].start();
        cluster.wait_ready();
    }
    let report = cluster.wait_until("silence has closed every window", WITHIN, |cluster| {
        let report = cluster.wait_clean();
        report.partitions.iter().all(|part| part.windows_open == 0).then_some(report)
    });
    for part in &report.partitions {
        let counters =
            cluster.progress(i32::try_from(part.partition.0).expect("small")).pop().expect("progress").counters;
        assert!(counters.duplicate > 20 && counters.windows_final > 20 && counters.late > 0, "{counters:?}");
    }
}

/// One failover is one event id in the logs and one trace of both nodes that took part.
#[test]
fn a_failover_has_one_id_in_all_logs_and_one_trace() {
    let collector = Collector::start();
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config(&format!("[replication]\nstandbys = 2\n[traces]\nendpoint = \"{}\"", collector.endpoint()))
        .start();
    // Until the one that orders and the one that takes over are two, which the planner prefers.
    let mut workload = Workload::new(5, 1);
    let (event, trace) = (0..5)
        .find_map(|_| {
            cluster.broker.produce(&cluster.topic, &workload.chunk(20));
            let active = cluster.wait_active(0, WITHIN);
            let before = epoch(&cluster, 0, active).expect("an epoch");
            cluster.nodes[active].kill9();
            let event = cluster.wait_until("the failover", WITHIN, |cluster| success(cluster, 0, before));
            cluster.nodes[active].start();
            cluster.wait_ready();
            let trace = cluster.wait_until("its trace", WITHIN, |_| {
                let spans = collector.spans();
                let id = spans.iter().rev().find(|(_, span)| span.name == "failover")?.1.trace_id.clone();
                let trace: Vec<_> = spans.into_iter().filter(|(_, span)| span.trace_id == id).collect();
                trace.iter().any(|(_, span)| span.name == "failover decide").then_some(trace)
            });
            let senders: BTreeSet<_> = trace.iter().map(|(sender, _)| sender.clone()).collect();
            (senders.len() == 2).then_some((event, trace))
        })
        .expect("a failover that two nodes tell of");
    let whole = &trace.iter().find(|(_, span)| span.name == "failover").expect("the whole").1;
    for (_, span) in trace.iter().filter(|(_, span)| span.name != "failover") {
        assert_eq!(span.parent_span_id, whole.span_id, "{span:?}");
    }
    let names: BTreeSet<_> = trace.iter().map(|(_, span)| span.name.as_str()).collect();
    assert!(names.contains("failover fence") && names.contains("failover first_output"), "{names:?}");
    let event_id = format!("\"event_id\":\"0-{}\"", event["epoch"]);
    let told = cluster.nodes.iter().filter(|node| node.log_text().contains(&event_id)).count();
    assert!(told >= 2, "{event_id} is in the logs of {told} nodes");
}

/// Feeds the only node until it has died. It must have been killed by itself: a point that is never reached proves nothing.
fn feed_until_killed(cluster: &mut TestCluster<'_>, workload: &mut Workload, point: &str) {
    let begin = Instant::now();
    while cluster.nodes[0].is_running() {
        assert!(
            begin.elapsed() < WITHIN,
            "{point} was never reached\n{}\n{}",
            cluster.describe(),
            cluster.nodes[0].log_tail(30)
        );
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        std::thread::sleep(Duration::from_millis(10));
    }
    let status = cluster.nodes[0].wait_exit(WITHIN);
    assert_eq!(status.signal(), Some(SIGKILL), "{point}: {status}\n{}", cluster.nodes[0].log_tail(30));
}

#[test]
fn killed_at_each_named_point_the_result_is_that_of_a_clean_run() {
    // Alone, so that it takes checkpoints itself.
    let mut cluster = TestCluster::of(Broker::shared(), 1, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true\n[checkpoint]\ninterval = \"50ms\"\n[output]\nemit = \"final\"")
        .prepare();
    let mut workload = Workload::new(2, 1);
    let points = [
        "after_decode=kill@3",
        "mid_produce=kill@1",
        "checkpoint_before_rename=kill@1",
        "before_commit=kill@2",
        "after_commit=kill@3",
        "checkpoint_after_rename=kill@1",
        "restore_mid=kill@1",
        "after_fence=kill@1",
        "between_fence_and_catch_up=kill@1",
        "mid_produce=kill@3",
        "checkpoint_before_rename=kill@2",
        "after_commit=kill@1",
        "before_commit=kill@1",
    ];
    for point in points {
        cluster.nodes[0].start_with_env(&[("HOTSPARE_FAILPOINTS", point)]);
        feed_until_killed(&mut cluster, &mut workload, point);
        // Every other time it comes up whole before the next one.
        if point.ends_with("@1") {
            cluster.nodes[0].start();
            cluster.wait_active(0, WITHIN);
            cluster.broker.produce(&cluster.topic, &workload.chunk(20));
            cluster.nodes[0].kill9();
        }
    }
    cluster.nodes[0].start();
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    let report = cluster.wait_clean();
    assert!(report.partitions[0].windows_final > 10, "{report:?}");
    assert!(cluster.nodes[0].log_text().contains("restored from a checkpoint"));
}

#[test]
fn a_successor_killed_in_the_middle_of_its_promotion_is_replaced() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true\n[replication]\nstandbys = 2")
        .start();
    let mut workload = Workload::new(3, 1);
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    let active = cluster.wait_active(0, WITHIN);
    let successors: Vec<usize> = (0..3).filter(|node| *node != active).collect();
    for (&node, point) in successors.iter().zip(["after_fence=kill", "between_fence_and_catch_up=kill"]) {
        cluster.nodes[node].kill9();
        cluster.nodes[node].start_with_env(&[("HOTSPARE_FAILPOINTS", point)]);
        cluster.wait_ready();
    }
    assert_eq!(cluster.wait_active(0, WITHIN), active, "standbys may die without a failover");
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    cluster.nodes[active].kill9();
    // The first successor dies; for the second a quorum is needed, which the restarted active gives.
    let first = cluster.wait_until("the first successor has died", WITHIN, |cluster| {
        successors.iter().copied().find(|node| !cluster.nodes[*node].is_running())
    });
    let status = cluster.nodes[first].wait_exit(WITHIN);
    assert_eq!(status.signal(), Some(SIGKILL), "{status}");
    cluster.nodes[active].start_with_env(&[("HOTSPARE_FAILPOINTS", "between_fence_and_catch_up=kill")]);
    cluster.wait_until("the next one has died too", WITHIN, |cluster| {
        let dead = (0..3).filter(|node| *node != first).any(|node| !cluster.nodes[node].is_running());
        dead.then_some(())
    });
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    for node in &mut cluster.nodes {
        if node.is_running() {
            node.kill9();
        }
        node.start();
    }
    cluster.wait_ready();
    cluster.wait_clean();
}

#[test]
fn a_successor_that_lags_applies_everything_before_it_begins() {
    const DEVICES: u32 = 3000;
    let mut caught_up = 0;
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true\n[replication]\nstandbys = 2")
        .env("HOTSPARE_FAILPOINTS", "standby_read=slow")
        .start();
    for round in 0..3_u32 {
        let active = cluster.wait_active(0, WITHIN);
        // Far more entries than a standby reads at a time, and each time it waits for 300 ms.
        let time_ms = 1_704_067_200_000 + i64::from(round) * 60_000;
        let reading = |device: u32| {
            let body = format!(r#"{{"device":"d{device}","ts":{},"value":{round}.5}}"#, time_ms / 1000);
            Rec { timestamp: time_ms, ..Rec::new(0, format!("d{device}"), body) }
        };
        cluster.broker.produce(&cluster.topic, &(0..DEVICES).map(reading).collect::<Vec<_>>());
        cluster.wait_until("the active has committed them", WITHIN, |cluster| {
            let status = cluster.nodes[active].status()?;
            let records = status["local"][0]["progress"]["counters"]["records"].as_u64()?;
            (records == u64::from((round + 1) * DEVICES)).then_some(())
        });
        let before = epoch(&cluster, 0, active).expect("an epoch");
        cluster.nodes[active].kill9();
        cluster.nodes[active].start();
        let event = cluster.wait_until("the failover is in the history", WITHIN, |cluster| success(cluster, 0, before));
        caught_up += event["records_caught_up"].as_u64().expect("a number");
        cluster.wait_ready();
    }
    assert!(caught_up > 0, "no successor lagged, so nothing was proved");
    cluster.wait_clean();
}

fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn text_of(name: &str) -> String {
    let mut text = String::new();
    std::fs::File::open(beside(name))
        .and_then(|mut file| file.read_to_string(&mut text))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    text
}

/// The records of the data set, each with the time at which it was measured (see `tests/data/golden/README.md`).
fn telemetry() -> Vec<Rec> {
    let text = text_of("iot-telemetry/raw_data_large.json");
    let readings: Vec<&serde_json::value::RawValue> = serde_json::from_str(&text).expect("an array");
    let record = |reading: &&serde_json::value::RawValue| {
        let fields: Value = serde_json::from_str(reading.get()).expect("a reading");
        let device = fields["device_id"].as_str().expect("a device").to_owned();
        let (seconds, rest) =
            reading.get().split_once("\"ts\":").expect("a time").1.trim().split_once('.').expect("a fraction");
        let millis: String = rest.chars().take_while(char::is_ascii_digit).chain("000".chars()).take(3).collect();
        let mut record = Rec::new(0, device, reading.get());
        record.timestamp = format!("{seconds}{millis}").parse().expect("a time");
        record
    };
    readings.iter().map(record).collect()
}

#[test]
fn state_equals_the_golden_values() {
    let rules = text_of("golden/iot-telemetry.hourly.toml").replace("topic = \"iot\"", "");
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config(&rules)
        .config("[input.device]\npointer = \"/device_id\"\n[input.time]\npointer = \"/ts\"\n[window]\ngrace = \"0s\"")
        .start();
    let records = telemetry();
    let (first, second) = records.split_at(records.len() / 2);
    cluster.broker.produce(&cluster.topic, first);
    let active = cluster.wait_active(0, WITHIN);
    cluster.nodes[active].kill9();
    cluster.broker.produce(&cluster.topic, second);
    cluster.nodes[active].start();
    cluster.wait_clean();

    let mut lines: Vec<String> = cluster.broker.read_committed(&cluster.output_topic()).iter().map(Rec::text).collect();
    let mut store = Store::new(Arc::clone(cluster.loaded_config().semantics()), PartitionId(0));
    for record in cluster.broker.read_committed(&cluster.changelog_topic()) {
        store.apply_changelog(&record.key.expect("a key"), record.value.as_deref()).expect("a record of the changelog");
    }
    lines.extend(store.open_windows());
    let golden = text_of("golden/iot-telemetry-large.hourly.jsonl");
    for (index, (found, wanted)) in lines.iter().zip(golden.lines()).enumerate() {
        assert_eq!(found, wanted, "line {}", index + 1);
    }
    assert_eq!(lines.len(), golden.lines().count());
    let all: Value = serde_json::from_str(&text_of("golden/counters.json")).expect("JSON");
    let wanted = &all["iot-telemetry-large.hourly"];
    let counters = &store.progress().expect("a progress record").counters;
    for (name, count) in [
        ("records", counters.records),
        ("counted", counters.counted),
        ("late", counters.late),
        ("missing", counters.missing),
        ("duplicate", counters.duplicate),
        ("null_record", counters.null_record),
    ] {
        assert_eq!(wanted[name], count, "{name}");
    }
    assert_eq!(counters.rejected.total(), 0);
}
