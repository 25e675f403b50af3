//! Wall clocks that jump: they decide nothing but the age of checkpoints.

use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::clock::Clock;
use crate::harness::cluster::TestCluster;
use crate::harness::skip;
use crate::harness::workload::{MESSY, Workload};
use crate::{WITHIN, commit, feed, wait_other_active};

const DAY_HOURS: i64 = 24;

fn checkpoints(cluster: &TestCluster<'_>, node: usize) -> Vec<String> {
    let folder = cluster.dir().join(format!("hotspare-{node}/data/checkpoints/0"));
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| name.ends_with(".ckpt")).collect()
}

fn failovers(cluster: &TestCluster<'_>) -> usize {
    cluster.history().iter().filter(|event| event["kind"] == "failover").count()
}

/// What a node's log says from its newest start on.
fn log_of_this_life(cluster: &TestCluster<'_>, node: usize) -> String {
    cluster.nodes[node].log_text().rsplit("--- start").next().unwrap_or_default().to_owned()
}

fn wait_commits(cluster: &mut TestCluster<'_>, node: usize, workload: &mut Workload) {
    let before = commit(cluster, node, 0);
    cluster.wait_until("the active goes on committing", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        (commit(cluster, node, 0) > before).then_some(())
    });
}

/// Kills a node, starts it again and returns what it says until it is ready.
fn restart(cluster: &mut TestCluster<'_>, node: usize) -> String {
    cluster.nodes[node].kill9();
    cluster.nodes[node].start();
    cluster.wait_ready();
    log_of_this_life(cluster, node)
}

#[test]
fn steps_of_wall_clocks_change_nothing() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config("[replication]\nstandbys = 2\n[checkpoint]\ninterval = \"100ms\"")
        .prepare();
    let clocks: Result<Vec<Clock>, String> = cluster.nodes.iter_mut().map(Clock::of).collect();
    let clocks = match clocks {
        Ok(clocks) => clocks,
        Err(reason) => return skip("steps of wall clocks", &reason),
    };
    cluster.nodes.iter_mut().for_each(crate::harness::node::Node::start);
    cluster.wait_ready();
    let active = cluster.wait_active(0, WITHIN);
    let (next, other) = ((active + 1) % 3, (active + 2) % 3);
    let mut workload = Workload::new(71, 1);
    wait_commits(&mut cluster, active, &mut workload);
    for (node, hours) in [
        (active, DAY_HOURS),
        (next, DAY_HOURS),
        (active, -DAY_HOURS),
        (next, -DAY_HOURS),
        (other, 30 * DAY_HOURS),
        (active, 2 * DAY_HOURS),
        (other, -30 * DAY_HOURS),
    ] {
        clocks[node].set(hours);
        feed(&cluster, &mut workload, Duration::from_millis(600));
        wait_commits(&mut cluster, active, &mut workload);
    }
    assert_eq!(failovers(&cluster), 0, "a jump of a clock is no failure: {:?}", cluster.history());
    assert!(cluster.nodes[active].is_active(0));

    // Set back while nothing comes, so that whoever waits by the clock waits on; then across a kill, with all clocks days apart.
    cluster.wait_consumed();
    std::thread::sleep(Duration::from_secs(1));
    clocks[next].set(-4 * DAY_HOURS);
    clocks[other].set(-60 * DAY_HOURS);
    std::thread::sleep(Duration::from_secs(1));
    cluster.nodes[active].kill9();
    cluster.broker.produce(&cluster.topic, &workload.chunk(200));
    let successor = wait_other_active(&mut cluster, active);
    clocks[successor].set(DAY_HOURS);
    wait_commits(&mut cluster, successor, &mut workload);
    clocks[successor].set(-DAY_HOURS);
    wait_commits(&mut cluster, successor, &mut workload);
    cluster.nodes[active].start();
    cluster.wait_ready();
    cluster.wait_clean();
    assert_eq!(failovers(&cluster), 1, "only the kill's: {:?}", cluster.history());

    // Of the time in which they were written, checkpoints are used; from the future, they are refused until there are new ones.
    let standby = active;
    clocks[standby].set(DAY_HOURS);
    let before = checkpoints(&cluster, standby);
    let write_new = |cluster: &mut TestCluster<'_>, workload: &mut Workload, before: &[String]| {
        cluster.wait_until("there are new checkpoints, and only those", WITHIN, |cluster| {
            cluster.broker.produce(&cluster.topic, &workload.chunk(20));
            std::thread::sleep(Duration::from_millis(100));
            let now = checkpoints(cluster, standby);
            (now.len() == 2 && now.iter().all(|name| !before.contains(name))).then_some(now)
        })
    };
    let future = write_new(&mut cluster, &mut workload, &before);
    let log = restart(&mut cluster, standby);
    assert!(log.contains("restored from a checkpoint"), "{log}");
    clocks[standby].set(0);
    let log = restart(&mut cluster, standby);
    assert!(log.contains("checkpoint refused") && log.contains("restoring from the changelog"), "{log}");
    write_new(&mut cluster, &mut workload, &future);
    let log = restart(&mut cluster, standby);
    assert!(log.contains("restored from a checkpoint") && !log.contains("checkpoint refused"), "{log}");
    cluster.wait_clean();
    assert_eq!(failovers(&cluster), 1, "{:?}", cluster.history());
}
