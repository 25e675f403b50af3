//! Faults without pause on a cluster in a network of its own, in an order drawn from a seed. After each one, what came out
//! must be that of a clean run, and all replicas must have the same digest.
//!
//! `tests/nemesis` runs it longer; the variables are `HOTSPARE_NEMESIS_SECONDS`, `_SEED`, `_BROKERS`, `_SUMMARY` (a file for
//! the last line) and `_REQUIRED` (fail instead of being skipped).

#![allow(missing_docs, unreachable_pub, reason = "a test")]
#![allow(clippy::print_stderr, reason = "its reader looks there")]

mod harness;

#[path = "nemesis_parts/faults.rs"]
mod faults;
#[path = "nemesis_parts/load.rs"]
mod load;
#[path = "nemesis_parts/schedule.rs"]
mod schedule;
#[path = "nemesis_parts/site.rs"]
mod site;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use faults::Scene;
use harness::brokers::{Brokers, Seat};
use harness::network::Network;
use harness::skip;
use harness::verdict;
use harness::workload::Workload;
use load::Load;
use schedule::{Kind, Schedule, Step};
use site::{NODES, PARTITIONS, Places, start_nodes};

/// Far more than any recovery takes, for a machine that is busy with other things.
const WITHIN: Duration = Duration::from_secs(120);

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("HOTSPARE_NEMESIS_{name}")).ok().filter(|value| !value.is_empty())
}

fn number(name: &str, default: u64) -> u64 {
    let wrong = |text: String| panic!("HOTSPARE_NEMESIS_{name}={text}: not a whole number");
    variable(name).map_or(default, |text| text.parse().unwrap_or_else(|_| wrong(text)))
}

/// What was done so far. Gives the last line, also of a run that failed.
struct Tally {
    begin: Instant,
    seed: u64,
    brokers: usize,
    faults: BTreeMap<Kind, usize>,
    left_out: BTreeMap<Kind, String>,
    longest: BTreeMap<Kind, Duration>,
    checks: usize,
    at: Option<Step>,
    failovers: Option<usize>,
    readings: u64,
}

impl Tally {
    fn say(&self, text: &str) {
        eprintln!("nemesis {:>6.1} s  {text}", self.begin.elapsed().as_secs_f64());
    }

    fn line(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let left_out: Vec<String> = self.left_out.iter().map(|(kind, why)| format!("{kind} ({why})")).collect();
        let left_out = if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) };
        let pause = self.longest.iter().max_by_key(|(_, pause)| **pause);
        let pause = pause.map_or("none".to_owned(), |(kind, pause)| format!("{} ms ({kind})", pause.as_millis()));
        let held = match &self.at {
            Some(step) if std::thread::panicking() => format!("FAILED at {step}"),
            None if std::thread::panicking() => "FAILED".to_owned(),
            _ => "held: 0 lost, 0 doubled, 0 wrong, digests equal".to_owned(),
        };
        format!(
            "nemesis: seed {}, {} brokers, {:.0} s, {} readings: {} faults ({}){left_out}; longest time without a commit {pause}; \
             failovers {}; verified {} times; {held}",
            self.seed,
            self.brokers,
            self.begin.elapsed().as_secs_f64(),
            self.readings,
            self.faults.values().sum::<usize>(),
            faults.join(", "),
            self.failovers.map_or("unknown".to_owned(), |count| count.to_string()),
            self.checks,
        )
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        let line = self.line();
        eprintln!("{line}");
        if let Some(path) = variable("SUMMARY") {
            let written = std::fs::write(&path, line + "\n");
            written.unwrap_or_else(|error| eprintln!("{path}: {error}"));
        }
    }
}

/// Waits until every partition commits again, then stops the readings and judges all that came out.
fn check(scene: &mut Scene<'_>, load: &Load, tally: &mut Tally) {
    let before = load.seen();
    let cluster = &mut scene.cluster;
    cluster.wait_until("every partition commits again", WITHIN, |_| {
        load.seen().iter().zip(&before).all(|(now, before)| now > before).then_some(())
    });
    cluster.wait_ready();
    let held = load.hold();
    let report = cluster.wait_consumed();
    assert!(report.is_clean(), "not what a clean run gives: {}", verdict::text(&report));
    for part in &report.partitions {
        let partition = part.partition.0;
        cluster.wait_until(&format!("all replicas of partition {partition} are equal"), WITHIN, |cluster| {
            let of = |node: &harness::node::Node| {
                let status = node.status()?;
                let replica =
                    status["local"].as_array()?.iter().find(|replica| replica["partition"] == partition)?.clone();
                let is_fit = replica["role"] == "active" || replica["role"] == "standby";
                (is_fit && replica["digest_equal"] == true).then(|| {
                    let progress = &replica["progress"];
                    [&progress["commit"], &progress["digest"], &progress["entries"]].map(ToString::to_string)
                })
            };
            let digests: Option<Vec<_>> = cluster.nodes.iter().map(of).collect();
            digests.filter(|all| all.iter().all(|one| *one == all[0])).map(|_| ())
        });
    }
    drop(held);
    tally.checks += 1;
    tally.readings = load.fed();
}

fn run(scene: &mut Scene<'_>, load: &Load, tally: &mut Tally, seconds: u64) {
    check(scene, load, tally);
    load.longest_pause();
    for step in Schedule::new(tally.seed, PARTITIONS.unsigned_abs(), NODES) {
        if tally.begin.elapsed() >= Duration::from_secs(seconds) {
            break;
        }
        std::thread::sleep(step.calm);
        tally.say(&step.to_string());
        tally.at = Some(step.clone());
        match scene.suffer(&step) {
            Ok(victim) => {
                *tally.faults.entry(step.kind).or_default() += 1;
                tally.say(&format!("   it was {victim}; healed"));
            }
            Err(why) => {
                tally.say(&format!("   LEFT OUT: {why}"));
                tally.left_out.insert(step.kind, why);
                continue;
            }
        }
        check(scene, load, tally);
        let pause = load.longest_pause();
        let longest = tally.longest.entry(step.kind).or_default();
        *longest = (*longest).max(pause);
        tally.say(&format!("   clean, digests equal; longest time without a commit {} ms", pause.as_millis()));
    }
    let history = scene.cluster.history();
    tally.failovers = Some(history.iter().filter(|event| event["kind"] == "failover").count());
}

#[test]
fn whatever_fails_the_result_is_that_of_a_clean_run() {
    let (seconds, seed) = (number("SECONDS", 90), number("SEED", 1));
    let brokers = usize::try_from(number("BROKERS", 1)).expect("few");
    assert!(brokers == 1 || brokers == 3, "HOTSPARE_NEMESIS_BROKERS={brokers}: it must be 1 or 3");
    let made = Network::new().and_then(|mut network| {
        let places = Places::in_network(&mut network, brokers)?;
        Ok((network, places))
    });
    let (network, places) = match made {
        Ok(made) => made,
        Err(reason) if variable("REQUIRED").is_none() => return skip("the nemesis", &reason),
        Err(reason) => panic!("no network can be made for the nemesis: {reason}"),
    };
    let running = Brokers::start(places.brokers.iter().map(Seat::at).collect());
    let (cluster, disks) = start_nodes(&running, &places);
    let mut scene = Scene { brokers: &running, cluster, places, disks };
    for partition in 0..PARTITIONS.unsigned_abs() {
        scene.cluster.wait_active(partition, WITHIN);
    }
    let load = Load::new(PARTITIONS);
    let mut tally = Tally {
        begin: Instant::now(),
        seed,
        brokers,
        faults: BTreeMap::new(),
        left_out: BTreeMap::new(),
        longest: BTreeMap::new(),
        checks: 0,
        at: None,
        failovers: None,
        readings: 0,
    };
    tally.say(&format!("seed {seed}, {seconds} s, {brokers} brokers; packets are delayed {}", network.delay()));
    let (topic, changelog) = (scene.cluster.topic.clone(), scene.cluster.changelog_topic());
    std::thread::scope(|scope| {
        struct End<'l>(&'l Load);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.end();
            }
        }
        let _end = End(&load);
        scope.spawn(|| load.feed(&running.all[0], &topic, Workload::new(seed, PARTITIONS)));
        scope.spawn(|| load.watch(&running.all[0], &changelog));
        run(&mut scene, &load, &mut tally, seconds);
    });
    // Before the disks are unmounted.
    scene.cluster.nodes.iter_mut().filter(|node| node.pid().is_some()).for_each(harness::node::Node::kill9);
}
