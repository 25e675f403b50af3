//! The threads of partitions on the Kafka in memory: nodes are cut off and replaced while requests and answers get lost.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotspare::checkpoint::Settings;
use hotspare::log::Log;
use hotspare::log::model::{Choice, Isolation, Kafka, ModelLog, ModelOptions, NewRecord, Seeded, TopicConfig, World};
use hotspare::partition::active::{ActiveRules, End, Tenure};
use hotspare::partition::control::Control;
use hotspare::partition::restore::Restore;
use hotspare::partition::snapshot::CheckpointRules;
use hotspare::partition::standby::Standbys;
use hotspare::partition::status::Statuses;
use hotspare::semantics::Semantics;
use hotspare::{Epoch, Offset, PartitionId};

const P0: PartitionId = PartitionId(0);
const BEGIN_MS: i64 = 1_800_000_000_000;
const WITHIN: Duration = Duration::from_secs(60);
const RECORDS: i64 = 3000;
const LIFES: i64 = 12;

/// Chance from a seed, time from the machine's clock. What is cut off gets no request through.
struct Live {
    chance: Seeded,
    begin: Instant,
    is_cut_off: AtomicBool,
}

impl World for Live {
    fn now_ms(&self) -> i64 {
        BEGIN_MS + i64::try_from(self.begin.elapsed().as_millis()).expect("a short test")
    }

    fn wait(&self, at_most: Duration) {
        std::thread::sleep(at_most.min(Duration::from_millis(1)));
    }

    fn choose(&self, choice: Choice, options: usize) -> usize {
        let is_cut_off = self.is_cut_off.load(Ordering::Relaxed);
        if is_cut_off && choice == Choice::Request { 1 } else { self.chance.choose(choice, options) }
    }
}

struct Node {
    world: Arc<Live>,
    log: Arc<dyn Log>,
    standbys: Standbys,
    statuses: Statuses,
    /// Replicas that had to be given up.
    troubles: Arc<Mutex<Vec<String>>>,
    _checkpoints: tempfile::TempDir,
}

type Running = (Arc<Control>, JoinHandle<End>);

impl Node {
    fn start(kafka: &Arc<Mutex<Kafka>>, seed: u64, trouble_permille: u32) -> Self {
        let chance = Seeded::new(seed, trouble_permille, BEGIN_MS);
        let world = Arc::new(Live { chance, begin: Instant::now(), is_cut_off: AtomicBool::new(false) });
        let options = ModelOptions {
            cluster: "plant".to_owned(),
            input: "readings".to_owned(),
            changelog: "changelog".to_owned(),
            output: "windows".to_owned(),
            dead_letters: "dead-letters".to_owned(),
            transaction_timeout: Duration::from_millis(500),
            operation_timeout: Duration::from_millis(500),
        };
        let log: Arc<dyn Log> = Arc::new(ModelLog::new(Arc::clone(kafka), world.clone(), options));
        let folder = tempfile::tempdir().expect("a folder");
        let semantics = Semantics::from_toml("[input]\ntopic = \"readings\"\n").expect("the defaults");
        let rules = CheckpointRules {
            folder: folder.path().to_owned(),
            cluster: "plant".to_owned(),
            interval: Duration::from_millis(50),
            changelog_records: 100,
            files: Settings { keep: 2, bytes_per_s_max: 1 << 30, read_back: true },
            age_max: Duration::from_secs(3600),
        };
        let (statuses, troubles) = (Statuses::default(), Arc::<Mutex<Vec<String>>>::default());
        let told = Arc::clone(&troubles);
        let tell = move |trouble| told.lock().expect("nobody panics with it").push(format!("{trouble:?}"));
        let standbys = Standbys::start(Arc::clone(&log), statuses.clone(), tell).expect("a thread");
        let restore =
            Restore { log: Arc::clone(&log), semantics: Arc::new(semantics), rules, statuses: statuses.clone() };
        standbys.link().follow(boxed(restore.run(P0, || true).expect("wanted")));
        Self { world, log, standbys, statuses, troubles, _checkpoints: folder }
    }

    fn promote(&self, epoch: u64) -> Running {
        let control = Arc::new(Control::default());
        let tenure = Tenure {
            partition: P0,
            epoch: Epoch(epoch),
            renewed: false,
            predecessor: None,
            log: Arc::clone(&self.log),
            standbys: self.standbys.link(),
            rules: ActiveRules {
                transaction_timeout: Duration::from_secs(10),
                commit_interval: Duration::from_millis(2),
                commit_entries_max: 50,
                commit_bytes_max: 1 << 20,
                promote_timeout: WITHIN,
            },
            statuses: self.statuses.clone(),
            control: Arc::clone(&control),
        };
        (control, std::thread::spawn(move || tenure.run(|_| {})))
    }

    fn wait_consumed(&self, epoch: u64, offset: i64, (_, thread): &Running) {
        let begin = Instant::now();
        loop {
            let progress = self.statuses.all().remove(&P0).and_then(|status| status.progress);
            if progress.as_ref().is_some_and(|it| it.epoch == Epoch(epoch) && it.next_input_offset >= Offset(offset)) {
                return;
            }
            assert!(begin.elapsed() < WITHIN, "epoch {epoch} does not get to {offset}: {progress:?}");
            assert!(!thread.is_finished(), "the tenure of epoch {epoch} is over");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn boxed<R, C>((replica, checkpoints): (R, C)) -> (Box<R>, C) {
    (Box::new(replica), checkpoints)
}

fn broker() -> Arc<Mutex<Kafka>> {
    let mut kafka = Kafka::default();
    kafka.advance_to(BEGIN_MS);
    for topic in ["readings", "changelog", "windows", "dead-letters"] {
        let config = TopicConfig {
            compact: topic == "changelog",
            log_append_time: topic != "readings",
            segment_records_max: 20,
            ..TopicConfig::default()
        };
        kafka.create_topic(topic, 1, config).expect("it is new");
    }
    Arc::new(Mutex::new(kafka))
}

/// Readings of a few devices, one in ten minutes each; some are late.
fn feed(kafka: &Mutex<Kafka>, numbers: std::ops::Range<i64>) {
    let record = |number: i64| {
        let late_ms = if number % 17 == 0 { 7_200_000 } else { 0 };
        let (device, ts) = (number % 5, BEGIN_MS - 100 * 86_400_000 + number / 5 * 600_000 - late_ms);
        let value = format!(r#"{{"device_id":"d{device}","ts":{ts},"value":{}.1}}"#, number * 7 % 101);
        NewRecord { timestamp_ms: ts, value: Some(value.into()), ..NewRecord::default() }
    };
    let records: Vec<_> = numbers.map(record).collect();
    kafka.lock().expect("nobody panics with it").append("readings", 0, &records).expect("they are in order");
}

/// Values that a `read_committed` reader gets.
fn committed(kafka: &Mutex<Kafka>, topic: &str) -> Vec<String> {
    let mut kafka = kafka.lock().expect("nobody panics with it");
    kafka.write_markers();
    let (found, _) = kafka.fetch(topic, 0, 0, Isolation::Committed, usize::MAX).expect("it is there");
    let text = |record: &NewRecord| String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned();
    found.iter().filter_map(|entry| entry.data()).map(text).collect()
}

fn finish((control, thread): Running) -> End {
    control.finish();
    thread.join().expect("no panic")
}

/// What one undisturbed active makes of the input.
fn calm_run() -> (Vec<String>, Vec<String>) {
    let kafka = broker();
    let node = Node::start(&kafka, 0, 0);
    feed(&kafka, 0..RECORDS);
    let running = node.promote(1);
    node.wait_consumed(1, RECORDS, &running);
    assert!(matches!(finish(running), End::Stopped));
    (committed(&kafka, "windows"), committed(&kafka, "dead-letters"))
}

#[test]
fn failovers_on_a_broker_that_loses_requests_change_no_output() {
    let (windows, dead_letters) = calm_run();
    assert!(windows.len() > 200 && dead_letters.len() > 20, "{} and {}", windows.len(), dead_letters.len());

    let kafka = broker();
    let mut nodes = [1, 2].map(|seed| Node::start(&kafka, seed, 100));
    let share = RECORDS / LIFES;
    let (mut old, mut fenced): (Option<(usize, Running)>, _) = (None, 0);
    for life in 0..LIFES {
        let (epoch, who) = (u64::try_from(life).expect("from 0") + 1, usize::try_from(life % 2).expect("0 or 1"));
        feed(&kafka, life * share..(life + 1) * share);
        // The one before is cut off in the middle of whatever it does, or goes on as a zombie.
        if let Some((before, _)) = &old {
            nodes[*before].world.is_cut_off.store(life % 3 != 0, Ordering::Relaxed);
        }
        let running = nodes[who].promote(epoch);
        // In the last life all is consumed, else a part.
        let goal = if life + 1 == LIFES { RECORDS } else { life * share + share / 2 };
        nodes[who].wait_consumed(epoch, goal, &running);
        if let Some((before, zombie)) = old.replace((who, running)) {
            nodes[before].world.is_cut_off.store(false, Ordering::Relaxed);
            let end = finish(zombie);
            match end {
                End::Fenced { .. } => fenced += 1,
                End::Stopped => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let (_, running) = old.expect("the last life");
    assert!(matches!(finish(running), End::Stopped));
    assert!(fenced > 0, "nobody tried to write after it was deposed");
    let (changelog, end) = {
        let kafka = kafka.lock().expect("nobody panics with it");
        let entries = kafka.entries("changelog", 0).expect("it is there").len();
        (entries, kafka.bounds("changelog", 0).expect("it is there").end)
    };
    assert!(i64::try_from(changelog).is_ok_and(|entries| entries < end), "nothing was compacted");
    for node in &mut nodes {
        assert_eq!(*node.troubles.lock().expect("nobody panics with it"), Vec::<String>::new());
        node.standbys.stop();
    }
    assert_eq!(committed(&kafka, "windows"), windows);
    assert_eq!(committed(&kafka, "dead-letters"), dead_letters);
}
