//! Three agents in this process, on loopback, with a data plane that only pretends.
#![allow(missing_docs)]

mod common;

use std::time::Duration;

use common::{Node, Place, settled, wait};
use hotspare_cluster::{EventKind, EventResult, Liveness, PartitionId, Reason, StartError};

const SLOTS: [&str; 3] = ["a", "b", "c"];

async fn start_all(place: &Place) -> Vec<Node> {
    let mut nodes = Vec::new();
    for slot in place.addresses.keys() {
        nodes.push(place.start(slot).await.unwrap());
    }
    nodes
}

async fn all_settled(nodes: &[Node], place: &Place) {
    wait("all partitions have an active and standbys everywhere", || {
        let standbys = place.standbys as usize;
        nodes.iter().all(|n| settled(&n.view(), place.partitions, standbys)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_cluster_spreads_its_partitions_and_all_nodes_agree() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &SLOTS, 6);
    let nodes = start_all(&place).await;
    all_settled(&nodes, &place).await;
    let actives: Vec<usize> = nodes.iter().map(|n| n.actives().len()).collect();
    assert_eq!(actives, [2, 2, 2]);
    let partitions = nodes[0].view().partitions;
    assert!(nodes.iter().all(|n| n.view().partitions == partitions));
    assert!(partitions.iter().all(|p| p.standbys.len() == 1 && Some(p.standbys[0]) != p.active));
    let history = nodes[2].cluster.history();
    assert_eq!(history.len(), 6);
    assert!(history.iter().all(|e| e.kind == EventKind::Initial && e.result == EventResult::Success));
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_node_works_and_resumes_after_a_restart_with_higher_epochs() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::new(folder.path(), &["a"], 2);
    place.standbys = 0;
    let node = place.start("a").await.unwrap();
    wait("both partitions are active", || (node.actives().len() == 2).then_some(())).await;
    let before = node.actives();
    node.stop().await;
    let node = place.start("a").await.unwrap();
    let after = wait("both are active again", || Some(node.actives()).filter(|a| a.len() == 2)).await;
    assert!(before.iter().all(|(p, epoch)| after[p] > *epoch), "{before:?} {after:?}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handed_over_node_leaves_nothing_behind_and_comes_back_as_standby() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &SLOTS, 6);
    let mut nodes = start_all(&place).await;
    all_settled(&nodes, &place).await;
    let leader = nodes.iter().position(|n| n.view().is_leader).unwrap();
    let leaving = nodes.remove(leader);
    let gone = leaving.id();
    let slot = leaving.cluster.identity().slot;
    let handed = leaving.cluster.hand_over(Duration::from_secs(10)).await;
    assert_eq!(handed.actives_left, []);
    assert!(handed.raft_leadership_moved, "{handed:?}");
    leaving.stop().await;
    wait("the others see it as stopped", || {
        let stopped = |n: &Node| n.view().nodes.iter().any(|x| x.node_id == gone && x.state == Liveness::Stopped);
        nodes.iter().all(stopped).then_some(())
    })
    .await;
    let history = nodes[0].cluster.history();
    let moved: Vec<_> = history.iter().filter(|e| e.kind != EventKind::Initial).collect();
    assert_eq!(moved.len(), 2, "{moved:?}");
    assert!(moved.iter().all(|e| e.kind == EventKind::Switchover && e.reason == Reason::Shutdown));
    let voters = nodes[0].view().voters;
    assert_eq!(voters.len(), 3, "membership never changes on stop");

    nodes.push(place.start(&slot.0).await.unwrap());
    wait("it is a standby again, and no longer stopping", || {
        let view = nodes[0].view();
        let back = view.nodes.iter().any(|n| n.node_id == gone && n.state == Liveness::Live && !n.stopping);
        (back && view.partitions.iter().any(|p| p.standbys.contains(&gone))).then_some(())
    })
    .await;
    assert!(nodes[2].actives().is_empty());
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn epochs_survive_a_restart_of_all_nodes_and_only_grow() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &SLOTS, 4);
    let nodes = start_all(&place).await;
    all_settled(&nodes, &place).await;
    let ids: Vec<_> = nodes.iter().map(Node::id).collect();
    let before = nodes[0].view();
    for node in nodes {
        node.stop().await;
    }
    let nodes = start_all(&place).await;
    all_settled(&nodes, &place).await;
    assert_eq!(nodes.iter().map(Node::id).collect::<Vec<_>>(), ids);
    let after = wait("all have been ordered anew", || {
        let view = nodes[0].view();
        let newer = view.partitions.iter().zip(&before.partitions).all(|(new, old)| new.epoch > old.epoch);
        newer.then_some(view)
    })
    .await;
    assert_eq!(after.cluster_id, before.cluster_id);
    assert!(nodes[0].cluster.history().len() >= 8);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_cluster_is_refused_and_counted_on_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &["a", "b", "z"], 1);
    let foreign = Place { cluster: "mill".into(), ..place.clone() };
    let a = place.start("a").await.unwrap();
    let z = foreign.start("z").await.unwrap();
    for node in [&a, &z] {
        wait("the other is refused", || {
            node.view().refused_connections.get("cluster_name").filter(|n| **n > 0).copied()
        })
        .await;
    }
    assert!(a.view().nodes.is_empty() && a.view().leader.is_none(), "no cluster was formed");
    a.stop().await;
    z.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_folder_is_used_by_one_process_and_one_cluster_only() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &["a"], 1);
    let node = place.start("a").await.unwrap();
    wait("it leads", || node.view().leader).await;
    let error = place.start("a").await.err().unwrap();
    assert!(matches!(error, StartError::Identity(_)), "{error}");
    assert!(error.to_string().contains("is used by another process"), "{error}");
    node.stop().await;
    let foreign = Place { cluster: "mill".into(), ..place.clone() };
    let error = foreign.start("a").await.err().unwrap().to_string();
    assert!(error.contains("\"plant\"") && error.contains("\"mill\""), "{error}");
    std::fs::remove_dir_all(place.data_dir("a").join("raft")).unwrap();
    let error = place.start("a").await.err().unwrap().to_string();
    assert!(error.contains("is missing though this node has an id"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_disk_joins_under_a_new_id_and_the_old_one_is_tombstoned() {
    let folder = tempfile::tempdir().unwrap();
    let place = Place::new(folder.path(), &SLOTS, 3);
    let mut nodes = start_all(&place).await;
    all_settled(&nodes, &place).await;
    let lost = nodes.remove(2);
    let old = lost.id();
    lost.stop().await;
    std::fs::rename(place.data_dir("c"), place.folder.join("kept")).unwrap();
    let empty = place.start("c").await.unwrap();
    wait("it has a new id and votes, and the old id is gone", || {
        let view = nodes[0].view();
        let done = empty.id() != old && view.voters.contains(&empty.id()) && view.tombstones.contains(&old);
        (done && !view.nodes.iter().any(|n| n.node_id == old)).then_some(())
    })
    .await;
    assert_eq!(nodes[0].view().voters.len(), 3);
    wait("the new one holds replicas", || {
        let view = nodes[0].view();
        view.partitions.iter().any(|p| p.standbys.contains(&empty.id())).then_some(())
    })
    .await;
    empty.stop().await;

    std::fs::rename(place.data_dir("c"), place.folder.join("new")).unwrap();
    std::fs::rename(place.folder.join("kept"), place.data_dir("c")).unwrap();
    let ghost = place.start("c").await.unwrap();
    wait("the old disk is refused", || {
        nodes[0].view().refused_connections.get("tombstoned").filter(|n| **n > 0).copied()
    })
    .await;
    ghost.stop().await;
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_epoch_seen_in_the_changelog_is_jumped_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut place = Place::new(folder.path(), &["a"], 1);
    place.standbys = 0;
    let node = place.start("a").await.unwrap();
    wait("it is active", || (node.actives().len() == 1).then_some(())).await;
    node.cluster.report_epoch_seen(PartitionId(0), hotspare_cluster::Epoch(41));
    wait("its epoch is above", || (node.actives().get(&PartitionId(0))?.0 > 41).then_some(())).await;
    node.stop().await;
}
