//! Disks that are full or can only be read: what is on them stays whole, the error names the file and the cure, and the
//! replica goes on, for it needs no disk to follow or to be promoted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::disk::Disk;
use crate::harness::node::Node;
use crate::harness::skip;
use crate::harness::workload::{MESSY, Workload};
use crate::{WITHIN, commit, local};

/// Three nodes, of which this one stands by on the disk of the test.
const VICTIM: usize = 2;
const SETTINGS: &str = "[replication]\nstandbys = 2\n[checkpoint]\ninterval = \"100ms\"";

fn prepared() -> TestCluster<'static> {
    let cluster = TestCluster::of(Broker::shared(), 3, 1).config(MESSY).config(SETTINGS);
    // Stands by for good.
    cluster.node_config(VICTIM, "[node]\nnofailover = true").prepare()
}

fn start(cluster: &mut TestCluster<'_>) {
    cluster.nodes.iter_mut().for_each(Node::start);
    cluster.wait_ready();
    cluster.wait_active(0, WITHIN);
}

/// What is in a folder of checkpoints, whole.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files
        .filter_map(|file| Some((file.file_name().to_string_lossy().into_owned(), std::fs::read(file.path()).ok()?)))
        .collect()
}

fn wait_checkpoints(cluster: &mut TestCluster<'_>, workload: &mut Workload, folder: &Path) {
    let before = content(folder);
    cluster.wait_until("there are two new checkpoints", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        let now = content(folder);
        (now.len() == 2 && now.keys().all(|name| name.ends_with(".ckpt") && !before.contains_key(name))).then_some(())
    });
}

/// Feeds until the victim has said why checkpoints are not written, `times` more than before.
fn wait_refused(cluster: &mut TestCluster<'_>, workload: &mut Workload, error: &str) {
    let refusals = |cluster: &TestCluster<'_>| {
        let log = cluster.nodes[VICTIM].log_text();
        log.lines().filter(|line| line.contains("checkpoint not written") && line.contains(error)).count()
    };
    let before = refusals(cluster);
    cluster.wait_until("checkpoints are refused twice", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        (refusals(cluster) >= before + 2).then_some(())
    });
    let log = cluster.nodes[VICTIM].log_text();
    let line = log.lines().rev().find(|line| line.contains("checkpoint not written")).expect("just seen");
    for part in ["checkpoints/0/", ".ckpt", "free space"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

/// Feeds until the victim has applied what the active has committed since.
fn wait_followed(cluster: &mut TestCluster<'_>, workload: &mut Workload) {
    let before = commit(cluster, VICTIM, 0);
    assert!(before.is_some());
    cluster.wait_until("the victim goes on following", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        let replica = local(cluster, VICTIM, 0)?;
        (replica["progress"]["commit"].as_u64() > before && replica["digest_equal"] == true).then_some(())
    });
}

fn problems(cluster: &TestCluster<'_>, node: usize) -> String {
    cluster.nodes[node].status().map_or_else(String::new, |status| status["problems"].to_string())
}

#[test]
fn a_full_disk_stops_checkpoints_and_raft_there_and_nothing_else() {
    let mut cluster = prepared();
    let data = cluster.dir().join(format!("hotspare-{VICTIM}/data"));
    let disk = match Disk::in_memory(&data, 1024) {
        Ok(disk) => disk,
        Err(reason) => return skip("a full disk", &reason),
    };
    start(&mut cluster);
    let mut workload = Workload::new(81, 1);
    let folder = data.join("checkpoints/0");
    wait_checkpoints(&mut cluster, &mut workload, &folder);
    disk.fill();
    // One may have been on its way.
    wait_refused(&mut cluster, &mut workload, "No space left");
    let kept = content(&folder);
    wait_refused(&mut cluster, &mut workload, "No space left");
    assert_eq!(kept.len(), 2);
    assert!(content(&folder) == kept, "the old checkpoints stay as they are, and nothing half-written is there");
    assert!(problems(&cluster, VICTIM).contains("checkpoint"), "{}", problems(&cluster, VICTIM));
    wait_followed(&mut cluster, &mut workload);

    // Each failover needs entries in the log of Raft, of which the victim can write no more than its last page has room for.
    // Then it takes no part any more, and the two others go on.
    let said = cluster.wait_until("the victim says that raft has stopped there", WITHIN, |cluster| {
        let said = problems(cluster, VICTIM);
        if said.contains("raft has stopped") {
            return Some(said);
        }
        let active = cluster.active_of(0)?;
        cluster.nodes[active].kill9();
        cluster.nodes[active].start();
        std::thread::sleep(Duration::from_millis(500));
        None
    });
    for part in [&*data.join("raft/log").display().to_string(), "No space left", "restart"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let ready = cluster.nodes[VICTIM].http_get("/readyz?verbose").expect("it answers");
    assert!(ready.status == 503 && ready.body.contains("raft"), "{}", ready.body);
    assert_eq!(cluster.nodes[VICTIM].http_get("/livez").expect("it answers").status, 200);
    cluster.wait_until("another node is active", WITHIN, |cluster| cluster.active_of(0));
    cluster.wait_until("the two others have a leader", WITHIN, |cluster| {
        cluster.raft_leader().filter(|leader| *leader != VICTIM)
    });
    wait_followed(&mut cluster, &mut workload);

    disk.free();
    wait_checkpoints(&mut cluster, &mut workload, &folder);
    assert!(!problems(&cluster, VICTIM).contains("checkpoint"), "{}", problems(&cluster, VICTIM));
    cluster.nodes[VICTIM].kill9();
    cluster.nodes[VICTIM].start();
    cluster.wait_ready();
    let log = cluster.nodes[VICTIM].log_text();
    let life = log.rsplit("--- start").next().unwrap_or_default();
    assert!(life.contains("restored from a checkpoint"), "{life}");
    assert!(!problems(&cluster, VICTIM).contains("raft has stopped"));
    wait_followed(&mut cluster, &mut workload);
    cluster.wait_clean();
    cluster.nodes.iter_mut().for_each(Node::kill9);
    drop(disk);
}

#[test]
fn a_disk_that_can_only_be_read_is_named_and_a_repaired_one_is_used_again() {
    let mut cluster = prepared();
    let data = cluster.dir().join(format!("hotspare-{VICTIM}/data"));
    let disk = match Disk::that_fails(&data, 16) {
        Ok(disk) => disk,
        Err(reason) => return skip("a disk that can only be read", &reason),
    };
    start(&mut cluster);
    let mut workload = Workload::new(82, 1);
    let folder = data.join("checkpoints/0");
    wait_checkpoints(&mut cluster, &mut workload, &folder);
    disk.fail();
    wait_refused(&mut cluster, &mut workload, "Read-only file system");
    let kept = content(&folder);
    wait_refused(&mut cluster, &mut workload, "Read-only file system");
    assert!(kept.len() >= 2 && content(&folder) == kept);
    wait_followed(&mut cluster, &mut workload);
    // It does not start so, and says which file and what to do.
    cluster.nodes[VICTIM].kill9();
    cluster.nodes[VICTIM].start();
    cluster.nodes[VICTIM].wait_exit_code(1, WITHIN);
    let said = cluster.nodes[VICTIM].log_tail(3);
    for part in [&*data.display().to_string(), "Read-only file system", "Repair: "] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let disk = disk.repaired().expect("it can be repaired");
    cluster.nodes[VICTIM].start();
    cluster.wait_ready();
    let log = cluster.nodes[VICTIM].log_text();
    let life = log.rsplit("--- start").next().unwrap_or_default();
    assert!(life.contains("restored from a checkpoint"), "{life}");
    wait_checkpoints(&mut cluster, &mut workload, &folder);
    cluster.wait_clean();
    cluster.nodes.iter_mut().for_each(Node::kill9);
    drop(disk);
}
