//! Checkpoints that are damaged or wrong never become a state, and never replace a good one.

use std::path::{Path, PathBuf};

use hotspare::PartitionId;
use hotspare::checkpoint::{Directory, Loaded, Settings, Snapshot};
use hotspare::store::Store;

use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::records::Rec;
use crate::harness::workload::{MESSY, Workload};
use crate::{WITHIN, local};

fn folder(cluster: &TestCluster<'_>, node: usize) -> PathBuf {
    cluster.dir().join(format!("hotspare-{node}/data/checkpoints/0"))
}

/// The checkpoints of partition 0, the newest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(directory) = Directory::open(folder.to_owned(), Settings::default()) else {
        return Vec::new();
    };
    directory.list().map_or_else(|_| Vec::new(), |all| all.into_iter().map(|listed| listed.path).collect())
}

/// Feeds until there are two checkpoints, then kills the node.
fn feed_and_kill(cluster: &mut TestCluster<'_>, workload: &mut Workload) -> Vec<PathBuf> {
    let folder = folder(cluster, 0);
    let before = files(&folder);
    cluster.wait_until("there are two new checkpoints", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        let now = files(&folder);
        (now.len() >= 2 && now.iter().all(|file| !before.contains(file))).then_some(())
    });
    cluster.nodes[0].kill9();
    files(&folder)
}

/// What the node's log says from its newest start on.
fn log_of_this_life(cluster: &TestCluster<'_>) -> String {
    let log = cluster.nodes[0].log_text();
    log.rsplit("--- start").next().unwrap_or_default().to_owned()
}

#[test]
fn a_damaged_checkpoint_is_refused_and_the_next_source_is_used() {
    let mut cluster = TestCluster::of(Broker::shared(), 1, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true\n[checkpoint]\ninterval = \"50ms\"")
        .start();
    let mut workload = Workload::new(31, 1);

    let kept = feed_and_kill(&mut cluster, &mut workload);
    let length = std::fs::metadata(&kept[0]).expect("a file").len();
    let file = std::fs::File::options().write(true).open(&kept[0]).expect("a file");
    file.set_len(length * 2 / 3).expect("cut off");
    cluster.nodes[0].start();
    cluster.wait_ready();
    let log = log_of_this_life(&cluster);
    assert!(log.contains("checkpoint refused") && log.contains("it was cut off"), "{log}");
    assert!(log.contains("restored from a checkpoint"), "the older one is used:\n{log}");
    cluster.wait_clean();

    for (number, path) in feed_and_kill(&mut cluster, &mut workload).iter().enumerate() {
        let mut bytes = std::fs::read(path).expect("a file");
        let at = bytes.len() / (number + 2);
        bytes[at] ^= 0x10;
        std::fs::write(path, bytes).expect("written");
    }
    cluster.nodes[0].start();
    cluster.wait_ready();
    let log = log_of_this_life(&cluster);
    assert!(log.matches("checkpoint refused").count() >= 2 && log.contains("fails its checksum"), "{log}");
    assert!(log.contains("restoring from the changelog") && !log.contains("restored from a checkpoint"), "{log}");
    cluster.wait_clean();

    let kept = feed_and_kill(&mut cluster, &mut workload);
    let config = std::fs::read_to_string(&cluster.nodes[0].config).expect("a configuration");
    std::fs::write(&cluster.nodes[0].config, config.replace("\"50ms\"", "\"2s\"")).expect("written");
    cluster.nodes[0].start_with_env(&[("HOTSPARE_FAILPOINTS", "checkpoint_write_error=error")]);
    cluster.wait_until("a checkpoint could not be written", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(5));
        log_of_this_life(cluster).contains("checkpoint not written").then_some(())
    });
    assert_eq!(files(&folder(&cluster, 0)), kept, "what was there stays, and nothing half-written is there");
    cluster.wait_clean();
    cluster.nodes[0].kill9();
    cluster.nodes[0].start();
    cluster.wait_ready();
    assert!(log_of_this_life(&cluster).contains("restored from a checkpoint"));
    cluster.wait_clean();
}

/// Makes a checkpoint, sound in itself, of which one entry is missing.
fn forget_an_entry(folder: &Path, cluster: &TestCluster<'_>, device: &[u8]) {
    let newest = files(folder).remove(0);
    let mut loaded = Loaded::open(&newest).unwrap_or_else(|refused| panic!("{}", refused.reason));
    let mut store = Store::new(std::sync::Arc::clone(cluster.loaded_config().semantics()), PartitionId(0));
    let mut snapshot = Snapshot::new();
    let mut forgotten = 0;
    loaded
        .for_each_entry(|key, value| {
            if key.windows(device.len()).any(|part| part == device) {
                forgotten += 1;
            } else {
                store.apply_changelog(key, Some(value)).expect("an entry");
                snapshot.entry(key, value);
            }
        })
        .expect("read");
    assert_eq!(forgotten, 1, "the entry to forget is there");
    let mut header = loaded.header.clone();
    (header.entries, header.digest) = (store.entries(), store.digest());
    for file in files(folder) {
        std::fs::remove_file(file).expect("removed");
    }
    let directory = Directory::open(folder.to_owned(), Settings::default()).expect("a folder");
    directory.write_snapshot(&header, snapshot).expect("written");
}

#[test]
fn a_replica_whose_state_differs_is_found_by_its_digest_and_built_again() {
    let mut cluster = TestCluster::of(Broker::shared(), 3, 1)
        .config(MESSY)
        .config("[replication]\nstandbys = 2\n[checkpoint]\ninterval = \"50ms\"")
        .start();
    let mut workload = Workload::new(32, 1);
    // A device that is heard of once: no later entry hides that this one is missing.
    let mut quiet = Rec::new(0, "quiet", r#"{"device":"quiet","ts":1704067200,"value":1}"#);
    quiet.timestamp = 1_704_067_200_000;
    cluster.broker.produce(&cluster.topic, &[quiet]);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    let active = cluster.wait_active(0, WITHIN);
    let standby = (active + 1) % 3;
    let folder = folder(&cluster, standby);
    cluster.wait_until("the standby has a checkpoint", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(20));
        let newest = Loaded::open(files(&folder).first()?).ok()?;
        (newest.header.entries > 0).then_some(())
    });
    cluster.nodes[standby].kill9();
    forget_an_entry(&folder, &cluster, b"quiet");
    cluster.nodes[standby].start();
    cluster.wait_until("the difference is found", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(5));
        cluster.nodes[standby].log_text().contains("state divergence").then_some(())
    });
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.wait_until("it is built again and equal", WITHIN, |cluster| {
        let replica = local(cluster, standby, 0)?;
        (replica["role"] == "standby" && replica["digest_equal"] == true).then_some(())
    });
    let other = 3 - active - standby;
    assert!(!cluster.nodes[other].log_text().contains("state divergence"), "the other standby was right");
    // Now it is as good as any.
    cluster.nodes[other].kill9();
    cluster.nodes[active].kill9();
    cluster.nodes[other].start();
    cluster.nodes[active].start();
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.wait_ready();
    cluster.wait_clean();
}
