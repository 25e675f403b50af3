//! What a node refuses at its start, with the repair in the text, and what it waits for.

use std::path::Path;

use crate::WITHIN;
use crate::harness::broker::Broker;
use crate::harness::cluster::{Plan, TestCluster};
use crate::harness::node::Node;
use crate::harness::ports::Port;
use crate::harness::workload::{MESSY, Workload};

fn single() -> Plan<'static> {
    TestCluster::of(Broker::shared(), 1, 2).config(MESSY)
}

/// The node ends with this exit code and says all of these.
fn assert_refused(cluster: &mut TestCluster<'_>, code: i32, texts: &[&str]) {
    let node = &mut cluster.nodes[0];
    node.start();
    node.wait_exit_code(code, WITHIN);
    let log = node.log_text();
    for text in texts {
        assert!(log.contains(text), "it does not say {text}:\n{log}");
    }
}

#[test]
fn a_changelog_that_is_not_compacted_is_refused() {
    let mut cluster = single().prepare();
    cluster.broker.create_topic(&cluster.changelog_topic(), 2, &[("cleanup.policy", "delete")]);
    let repair = format!("Repair: hotspare topics repair {}", cluster.changelog_topic());
    assert_refused(&mut cluster, 1, &["cleanup.policy=delete", "it must be compact", &repair]);
}

#[test]
fn a_changelog_with_another_number_of_partitions_is_refused() {
    let mut cluster = single().prepare();
    cluster.broker.create_topic(&cluster.changelog_topic(), 3, &[("cleanup.policy", "compact")]);
    assert_refused(&mut cluster, 1, &["has 3 partitions; it must have 2", "Repair: "]);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    let mut cluster = single().config("[failover]\nsuspect_afer = \"300ms\"").prepare();
    assert_refused(&mut cluster, 2, &["suspect_afer", "failover.suspect_after"]);
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

#[test]
fn a_data_folder_that_is_in_use_or_another_clusters_is_refused() {
    let cluster = single().start();
    let folder = cluster.dir().join("hotspare-0");
    let text = std::fs::read_to_string(&cluster.nodes[0].config).expect("a configuration");
    let (peers, http) = (Port::reserve(), Port::reserve());
    let mut table: toml::Table = text.parse().expect("TOML");
    for (section, key, value) in [
        ("peers", "listen", peers.address()),
        ("peers", "advertise", peers.address()),
        ("http", "listen", http.address()),
    ] {
        table[section][key] = value.into();
    }
    let config = folder.join("second.toml");
    std::fs::write(&config, table.to_string()).expect("a configuration");
    let mut second = Node::new("second", &config, &folder.join("second.log"), &http.address());
    second.start();
    second.wait_exit_code(1, WITHIN);
    let log = second.log_text();
    let pid = cluster.nodes[0].pid().expect("it runs").to_string();
    assert!(log.contains(&folder.join("data").display().to_string()) && log.contains(&pid), "{log}");

    let mut other = single().prepare();
    copy(&folder.join("data"), &other.dir().join("hotspare-0/data"));
    let texts = [cluster.name.as_str(), &other.name.clone(), "Repair: "];
    assert_refused(&mut other, 1, &texts);
}

#[test]
fn a_broker_that_cannot_be_reached_is_waited_for() {
    let mut cluster = single().config("[kafka.properties]\n\"bootstrap.servers\" = \"127.0.0.1:1\"").prepare();
    cluster.nodes[0].start();
    let said = cluster.wait_until("it says so", WITHIN, |cluster| {
        let ready = cluster.nodes[0].http_get("/readyz?verbose").ok()?;
        (ready.status == 503 && ready.body.contains("no broker has answered")).then_some(ready.body)
    });
    assert!(said.contains("kafka_client"), "{said}");
    assert_eq!(cluster.nodes[0].http_get("/livez").expect("it answers").status, 200);
    cluster.wait_until("the log says so", WITHIN, |cluster| {
        cluster.nodes[0].log_text().contains("kafka does not answer").then_some(())
    });
    assert!(cluster.nodes[0].is_running());
    cluster.nodes[0].sigterm();
    cluster.nodes[0].wait_exit_code(0, WITHIN);
}

#[test]
fn an_input_topic_that_is_missing_is_waited_for() {
    let mut cluster = single().prepare();
    cluster.broker.delete_topic(&cluster.topic);
    cluster.nodes[0].start();
    let missing = format!("input topic \"{}\" does not exist", cluster.topic);
    cluster.wait_until("it says so", WITHIN, |cluster| {
        let ready = cluster.nodes[0].http_get("/readyz?verbose").ok()?;
        let is_in_log = cluster.nodes[0].log_text().contains(&missing.replace('"', "\\\""));
        (is_in_log && ready.status == 503 && ready.body.contains(&missing)).then_some(())
    });
    assert!(!cluster.broker.topics().contains_key(&cluster.topic), "the input is never created");
    cluster.broker.create_topic(&cluster.topic, 2, &[("retention.ms", "-1")]);
    cluster.wait_ready();
    cluster.broker.produce(&cluster.topic, &Workload::new(21, 2).chunk(100));
    cluster.wait_clean();
}
