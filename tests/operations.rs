//! What operators ask for, on real processes: switchover, failover, pause, drain, and who may.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use harness::broker::Broker;
use harness::cluster::{Plan, TestCluster};
use harness::workload::{MESSY, Workload};
use serde_json::Value;

/// Far more than anything here takes, for a machine that is busy with other things.
const WITHIN: Duration = Duration::from_secs(90);
const ALICE: &str = "alice-0123456789-0123456789-0123456789";
const BOB: &str = "bob---0123456789-0123456789-0123456789";

/// Tokens, as nodes and commands read them.
struct Tokens {
    dir: tempfile::TempDir,
}

impl Tokens {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("tokens"), format!("alice operate {ALICE}\nbob read {BOB}\n")).expect("a file");
        for (name, token) in [("alice", ALICE), ("bob", BOB)] {
            std::fs::write(dir.path().join(name), token).expect("a file");
        }
        Self { dir }
    }

    fn plan<'b>(&self, broker: &'b Broker, nodes: usize, partitions: i32) -> Plan<'b> {
        // A machine that is busy with other things may take long for anything.
        let patient = "[replication]\nstandbys = 2\n[failover]\npromote_timeout = \"60s\"";
        let tokens = format!("[auth]\ntokens_file = {:?}\n{patient}", self.dir.path().join("tokens"));
        TestCluster::of(broker, nodes, partitions).config(MESSY).config(&tokens)
    }

    /// Runs a command as somebody: exit code, stdout, stderr.
    fn run(&self, cluster: &TestCluster<'_>, who: &str, arguments: &[&str]) -> (i32, String, String) {
        let servers: Vec<_> = cluster.nodes.iter().map(|node| format!("http://{}", node.http)).collect();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hotspare"));
        command.args(arguments).args(["--server", &servers.join(",")]).env_remove("HOTSPARE_TOKEN_FILE");
        if !who.is_empty() {
            command.arg("--token-file").arg(self.dir.path().join(who));
        }
        let output = command.output().expect("the command runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// The same as alice; it must end with this code.
    fn ok(&self, cluster: &TestCluster<'_>, code: i32, arguments: &[&str]) -> String {
        let (found, out, err) = self.run(cluster, "alice", arguments);
        assert_eq!(found, code, "{arguments:?}\n{out}\n{err}");
        out
    }
}

/// Feeds the cluster while `then` goes on.
fn fed<'b, T>(
    cluster: &mut TestCluster<'b>,
    workload: &mut Workload,
    then: impl FnOnce(&mut TestCluster<'b>) -> T,
) -> T {
    let (broker, topic, ended) = (cluster.broker, cluster.topic.clone(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                broker.produce(&topic, &workload.chunk(20));
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        // Also when the test fails, or the feeder would go on for ever.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(&ended);
        then(cluster)
    })
}

fn events(cluster: &TestCluster<'_>, kind: &str, reason: &str) -> Vec<Value> {
    let all = cluster.history().into_iter();
    all.filter(|event| event["kind"] == kind && event["reason"] == reason).collect()
}

#[test]
fn a_switchover_moves_partitions_while_they_work_and_nothing_is_read_twice() {
    let tokens = Tokens::new();
    let mut cluster = tokens.plan(Broker::shared(), 3, 2).start();
    cluster.wait_ready();
    let mut workload = Workload::new(7, 2);
    fed(&mut cluster, &mut workload, |cluster| {
        for turn in 0..4_usize {
            let from = cluster.wait_active(0, WITHIN);
            let to = cluster.nodes[(from + 1) % 3].slot.clone();
            // The one that was the active before is soon a standby again.
            let preflight = cluster.wait_until("it can take over", WITHIN, |cluster| {
                let (code, out, _) = tokens.run(cluster, "alice", &["switchover", "0", "--to", &to, "--dry-run"]);
                (code == 0).then_some(out)
            });
            assert!(preflight.contains("good") && preflight.contains("records"), "{preflight}");
            let out = tokens.ok(cluster, 0, &["switchover", "0", "--to", &to, "--reason", "rack 4", "--wait", "90s"]);
            assert!(out.contains("done: pause "), "{out}");
            let event = events(cluster, "switchover", "operator").pop().expect("an event");
            assert_eq!((&event["by"], &event["to"]["slot"]), (&"alice".into(), &to.as_str().into()), "turn {turn}");
            assert!(event["pause_ms"].is_number() && event["phases_ms"]["last_commit"].is_number(), "{event}");
        }
        let moved = tokens.ok(cluster, 0, &["switchover", "--all", "--wait", "90s"]);
        assert_eq!(moved.matches("epoch").count(), 2, "{moved}");
    });
    cluster.wait_clean();
    let (_, active) = (cluster.wait_ready(), cluster.wait_active(0, WITHIN));
    let slot = cluster.nodes[active].slot.clone();
    let out = tokens.ok(&cluster, 3, &["switchover", "0", "--to", &slot]);
    assert!(out.contains("refused:") && out.contains("already"), "{out}");
    for node in &cluster.nodes {
        assert!(!node.log_text().contains("left the input at another place"), "{}", node.slot);
    }
}

#[test]
fn a_node_that_is_asked_to_end_hands_over_in_the_same_way() {
    let tokens = Tokens::new();
    let mut cluster = tokens.plan(Broker::shared(), 3, 1).start();
    cluster.wait_ready();
    let mut workload = Workload::new(8, 1);
    fed(&mut cluster, &mut workload, |cluster| {
        let active = cluster.wait_active(0, WITHIN);
        cluster.nodes[active].sigterm();
        cluster.nodes[active].wait_exit_code(0, WITHIN);
        let event = cluster.wait_until("the handover is in the history", WITHIN, |cluster| {
            events(cluster, "switchover", "shutdown").pop().filter(|event| event["result"] == "success")
        });
        assert!(event["pause_ms"].is_number(), "{event}");
        cluster.nodes[active].start();
    });
    cluster.wait_clean();
}

/// Where a participant dies: the old active, its successor, the Raft leader.
const POINTS: [&str; 9] = [
    "leader_before_switchover",
    "leader_after_switchover",
    "handover_before_ready",
    "handover_after_ready",
    "handover_before_last_commit",
    "before_commit",
    "handover_after_last_commit",
    "handover_after_left",
    "after_fence",
];

#[test]
#[ignore = "once in three runs readings were skipped after a death: to be found"]
fn a_death_at_any_step_of_a_switchover_ends_it_undoes_it_or_is_followed_by_a_failover() {
    for point in POINTS {
        let tokens = Tokens::new();
        // The first promotion fences and commits too, so there it is a later time.
        let action = match point {
            "before_commit" => "kill@40",
            "after_fence" => "kill@2",
            _ => "kill",
        };
        let armed = format!("{point}={action}");
        let mut cluster = tokens.plan(Broker::shared(), 3, 1).config("[drill]\nenabled = true").prepare();
        cluster.nodes.iter_mut().for_each(|node| node.start_with_env(&[("HOTSPARE_FAILPOINTS", &armed)]));
        cluster.wait_ready();
        cluster.wait_active(0, WITHIN);
        let mut workload = Workload::new(9, 1);
        let deaths = fed(&mut cluster, &mut workload, |cluster| {
            let (mut deaths, begin) = (0, Instant::now());
            while deaths == 0 {
                assert!(begin.elapsed() < WITHIN, "{point} was never reached\n{}", cluster.describe());
                let _ = tokens.run(cluster, "alice", &["switchover", "0", "--wait", "2s"]);
                for node in &mut cluster.nodes {
                    if !node.is_running() {
                        deaths += 1;
                        node.start();
                    }
                }
            }
            cluster.wait_until("all goes on", WITHIN, |cluster| {
                for node in &mut cluster.nodes {
                    if !node.is_running() {
                        node.start();
                    }
                }
                let answered = cluster.nodes.iter().find_map(harness::node::Node::status)?;
                let idle = answered["operations"].as_array()?.is_empty();
                (idle && cluster.active_of(0).is_some()).then_some(())
            });
            deaths
        });
        assert!(deaths > 0, "{point}");
        cluster.wait_clean();
    }
}

#[test]
fn while_paused_a_dead_active_stays_dead_and_that_is_recorded() {
    let tokens = Tokens::new();
    let mut cluster = tokens.plan(Broker::shared(), 3, 1).start();
    cluster.wait_ready();
    assert_eq!(tokens.run(&cluster, "", &["pause", "--for", "1h", "--reason", "x"]).0, 8, "without a token");
    assert_eq!(tokens.run(&cluster, "bob", &["pause", "--for", "1h", "--reason", "x"]).0, 8, "with too small a role");
    tokens.ok(&cluster, 3, &["pause", "--for", "25h", "--reason", "x"]);
    let out = tokens.ok(&cluster, 0, &["pause", "--for", "1h", "--reason", "network work"]);
    assert!(out.contains("until "), "{out}");
    let active = cluster.wait_active(0, WITHIN);
    let mut workload = Workload::new(10, 1);
    cluster.broker.produce(&cluster.topic, &workload.chunk(50));
    cluster.nodes[active].kill9();
    let event = cluster.wait_until("what is withheld is recorded", WITHIN, |cluster| {
        cluster.history().into_iter().find(|event| event["result"] == "withheld")
    });
    assert_eq!((&event["withheld"], &event["reason"]), (&"paused".into(), &"process_dead".into()));
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(cluster.active_of(0), None, "nothing happens by itself");
    let other = &cluster.nodes[(active + 1) % 3];
    let problems = other.status().expect("a status")["problems"].to_string();
    assert!(problems.contains("paused by alice") && problems.contains("network work"), "{problems}");
    // An operator may, all the same.
    let out = tokens.ok(&cluster, 0, &["failover", "0", "--reason", "now", "--wait", "90s"]);
    assert!(out.contains("done"), "{out}");
    tokens.ok(&cluster, 0, &["resume"]);
    cluster.nodes[active].start();
    cluster.wait_ready();
    let active = cluster.wait_active(0, WITHIN);
    cluster.nodes[active].kill9();
    cluster.wait_active(0, WITHIN);
    cluster.nodes[active].start();
    cluster.wait_clean();
}

#[test]
fn one_node_is_drained_at_a_time_and_can_stop_then() {
    let tokens = Tokens::new();
    let mut cluster = tokens.plan(Broker::shared(), 3, 3).start();
    cluster.wait_ready();
    let out = tokens.ok(&cluster, 0, &["drain", "hotspare-1", "--reason", "kernel", "--wait", "90s"]);
    assert!(out.contains("done"), "{out}");
    assert!(!(0..3).any(|partition| cluster.nodes[1].is_active(partition)));
    tokens.ok(&cluster, 0, &["can-stop", "hotspare-1"]);
    let no = tokens.ok(&cluster, 3, &["can-stop", "hotspare-1", "hotspare-2"]);
    assert!(no.contains("1 of 3 voters would be left"), "{no}");
    let (code, _, err) = tokens.run(&cluster, "alice", &["drain", "hotspare-2", "--reason", "too", "--wait", "1s"]);
    assert!(
        code == 4 && err.contains("hotspare-1 is being drained by alice") && err.contains("still running, op-"),
        "{code} {out} {err}"
    );
    tokens.ok(&cluster, 0, &["undrain", "hotspare-1"]);
    cluster.wait_until("the second is drained", WITHIN, |cluster| {
        let status = cluster.nodes[0].status()?;
        (status["operations"].as_array()?.is_empty() && !(0..3).any(|p| cluster.nodes[2].is_active(p))).then_some(())
    });
    tokens.ok(&cluster, 0, &["undrain", "hotspare-2"]);
    let members = tokens.ok(&cluster, 0, &["members"]);
    assert_eq!(members.matches("voter").count() + members.matches("leader").count(), 3, "{members}");
    // The same request twice is one operation.
    let twice: Vec<String> = (0..2)
        .map(|_| {
            tokens.ok(
                &cluster,
                0,
                &["pause", "--partition", "0", "--for", "1m", "--reason", "x", "--request-id", "a", "-o", "json"],
            )
        })
        .collect();
    let id = |text: &str| serde_json::from_str::<Value>(text).expect("JSON")["id"].clone();
    assert_eq!(id(&twice[0]), id(&twice[1]));
}
