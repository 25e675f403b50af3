//! A cluster of `hotspare node` processes on a broker.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use toml::{Table, Value};

use super::broker::Broker;
use super::network::Place;
use super::node::Node;
use super::ports::Port;
use super::{unique_name, wait_until_or_tell};

/// How long a cluster may take to become ready.
const READY_WITHIN: Duration = Duration::from_secs(90);

/// The readings that clusters take unless told otherwise: `{"device":"a","ts":1700000000,"value":1.5}`.
const READINGS: &str = r#"
[input]
format = "json"
[input.device]
pointer = "/device"
[input.time]
pointer = "/ts"
[[input.value]]
name = "value"
pointer = "/value"
[window]
kind = "tumbling"
size = "10s"
[topics]
replication_factor = 1
min_insync_replicas = 1
"#;

/// What a cluster is to be; see [`TestCluster::of`].
#[derive(Debug)]
pub struct Plan<'b> {
    broker: &'b Broker,
    nodes: usize,
    partitions: i32,
    topic_settings: Vec<(&'static str, &'static str)>,
    left_out: Vec<(&'static str, &'static str)>,
    config: Table,
    per_node: Vec<(usize, Table)>,
    env: Vec<(String, String)>,
    places: Vec<Place>,
}

impl<'b> Plan<'b> {
    /// TOML that is laid over the configuration of each node: tables are merged, anything else takes the place.
    #[must_use]
    pub fn config(mut self, overrides: &str) -> Self {
        merge(&mut self.config, table(overrides));
        self
    }

    /// The same for one node.
    #[must_use]
    pub fn node_config(mut self, node: usize, overrides: &str) -> Self {
        self.per_node.push((node, table(overrides)));
        self
    }

    /// Leaves a setting out that tests have otherwise.
    #[must_use]
    pub fn without(mut self, section: &'static str, key: &'static str) -> Self {
        self.left_out.push((section, key));
        self
    }

    /// A setting of the input topic.
    #[must_use]
    pub fn topic_setting(mut self, name: &'static str, value: &'static str) -> Self {
        self.topic_settings.push((name, value));
        self
    }

    /// An environment variable of every node at every start.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs each node at a place of its own.
    #[must_use]
    pub fn places(mut self, places: &[Place]) -> Self {
        self.places = places.to_vec();
        self
    }

    fn ports(&self) -> Vec<(Port, Port)> {
        let of = |number| match self.places.get(number) {
            Some(Place { host, .. }) => (Port::at(host, 7400), Port::at(host, 7401)),
            None => (Port::reserve(), Port::reserve()),
        };
        (0..self.nodes).map(of).collect()
    }

    /// Creates the input topic and the files; starts nothing.
    pub fn prepare(self) -> TestCluster<'b> {
        let name = self.config.get("cluster").and_then(|cluster| cluster.get("name")).and_then(Value::as_str);
        let name = name.map_or_else(|| unique_name("test"), str::to_owned);
        let topic = self.config.get("input").and_then(|input| input.get("topic")).and_then(Value::as_str);
        let topic = topic.map_or_else(|| format!("{name}-readings"), str::to_owned);
        if !self.broker.topics().contains_key(&topic) {
            // Tests use records of past years, which must not be deleted for their age.
            self.broker.create_topic(&topic, self.partitions, &self.topic_settings);
        }
        let dir = tempfile::Builder::new().prefix("hotspare-test-").tempdir().expect("a folder for the cluster");
        let ports = self.ports();
        // Three voters as usual; a smaller cluster has one, which is a trial without failover.
        let voters = if self.nodes < 3 { 1 } else { 3 };
        let slots: Vec<String> = (0..self.nodes).map(|number| format!("hotspare-{number}")).collect();
        let mut nodes = Vec::new();
        for (number, (peers, http)) in ports.iter().enumerate() {
            let base = dir.path().join(&slots[number]);
            std::fs::create_dir(&base).expect("a folder for the node");
            let mut config = table(READINGS);
            merge(
                &mut config,
                base_config(&name, &topic, self.broker.bootstrap(), &slots[..voters], &ports[..voters], voters),
            );
            merge(&mut config, node_config(&slots[number], &base, peers, http));
            merge(&mut config, self.config.clone());
            for (_, overrides) in self.per_node.iter().filter(|(node, _)| *node == number) {
                merge(&mut config, overrides.clone());
            }
            for (section, key) in &self.left_out {
                if let Some(Value::Table(section)) = config.get_mut(*section) {
                    section.remove(*key);
                }
            }
            let file = base.join("hotspare.toml");
            std::fs::write(&file, config.to_string()).expect("a configuration file");
            let mut node = Node::new(&slots[number], &file, &base.join("log"), &http.address());
            node.env.extend(self.env.iter().cloned());
            if let Some(place) = self.places.get(number) {
                node.move_to(place);
            }
            nodes.push(node);
        }
        TestCluster {
            broker: self.broker,
            name,
            topic,
            partitions: self.partitions,
            nodes,
            dir: Some(dir),
            _ports: ports,
        }
    }

    /// Starts all nodes and waits until they are ready and each partition has an active.
    pub fn start(self) -> TestCluster<'b> {
        let mut cluster = self.prepare();
        cluster.nodes.iter_mut().for_each(Node::start);
        cluster.wait_ready();
        for partition in 0..cluster.partitions.unsigned_abs() {
            cluster.wait_active(partition, READY_WITHIN);
        }
        cluster
    }
}

/// A cluster. Its processes end, and its files are removed, when it is dropped; the logs are printed if the test fails.
#[derive(Debug)]
pub struct TestCluster<'b> {
    /// The broker that it uses.
    pub broker: &'b Broker,
    /// The cluster's name, with which its topics begin.
    pub name: String,
    /// The input topic.
    pub topic: String,
    /// The partitions of the input topic.
    pub partitions: i32,
    /// The nodes; `nodes[i]` has the slot `hotspare-i`.
    pub nodes: Vec<Node>,
    dir: Option<TempDir>,
    _ports: Vec<(Port, Port)>,
}

impl<'b> TestCluster<'b> {
    /// Starts a cluster on the broker that the tests of this binary share; `overrides` as in [`Plan::config`].
    pub fn start(nodes: usize, partitions: i32, overrides: &str) -> TestCluster<'static> {
        TestCluster::of(Broker::shared(), nodes, partitions).config(overrides).start()
    }

    /// A cluster to be refined before it starts.
    pub fn of(broker: &'b Broker, nodes: usize, partitions: i32) -> Plan<'b> {
        Plan {
            broker,
            nodes,
            partitions,
            topic_settings: vec![("retention.ms", "-1")],
            left_out: Vec::new(),
            config: Table::new(),
            per_node: Vec::new(),
            env: Vec::new(),
            places: Vec::new(),
        }
    }

    /// The topic with the windows.
    pub fn output_topic(&self) -> String {
        format!("{}-windows", self.name)
    }

    /// The changelog topic.
    pub fn changelog_topic(&self) -> String {
        format!("{}-changelog", self.name)
    }

    /// The topic with the dead letters.
    pub fn dead_letter_topic(&self) -> String {
        format!("{}-dead-letters", self.name)
    }

    /// The folder with a folder for each node: `hotspare.toml`, `log`, `data`.
    pub fn dir(&self) -> &Path {
        self.dir.as_ref().expect("kept until the cluster is dropped").path()
    }

    /// Waits until each node that runs is ready.
    pub fn wait_ready(&mut self) {
        self.wait_until("all running nodes are ready", READY_WITHIN, |cluster| {
            let mut dead = Vec::new();
            for node in &mut cluster.nodes {
                if node.pid().is_some() && !node.is_running() {
                    dead.push(node.slot.clone());
                }
            }
            assert!(dead.is_empty(), "ended instead of becoming ready: {dead:?}");
            cluster.nodes.iter().all(|node| node.pid().is_none() || node.is_ready()).then_some(())
        });
    }

    /// Waits until `check` gives a value. A failure tells what was waited for and how each node is.
    pub fn wait_until<T>(&mut self, what: &str, within: Duration, mut check: impl FnMut(&mut Self) -> Option<T>) -> T {
        let this = std::cell::RefCell::new(self);
        wait_until_or_tell(what, within, || check(&mut this.borrow_mut()), || this.borrow_mut().describe())
    }

    /// The number of the node that says it is active for a partition.
    pub fn active_of(&self, partition: u32) -> Option<usize> {
        self.nodes.iter().position(|node| node.is_active(partition))
    }

    /// Waits for an active of the partition and returns its number.
    pub fn wait_active(&mut self, partition: u32, within: Duration) -> usize {
        self.wait_until(&format!("partition {partition} has an active"), within, |cluster| cluster.active_of(partition))
    }

    /// How each node is.
    pub fn describe(&mut self) -> String {
        self.nodes.iter_mut().map(Node::describe).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for TestCluster<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let nodes = self.describe();
            eprintln!("=== cluster {} when the test failed\n{nodes}", self.name);
            for node in &self.nodes {
                eprintln!("=== the end of the log of {}\n{}", node.slot, node.log_tail(100));
            }
        }
        self.nodes.clear();
        if std::env::var_os("HOTSPARE_TEST_KEEP").is_some()
            && let Some(dir) = self.dir.take()
        {
            eprintln!("=== files of cluster {}: {}", self.name, dir.keep().display());
        }
    }
}

fn base_config(
    name: &str,
    topic: &str,
    bootstrap: &str,
    slots: &[String],
    ports: &[(Port, Port)],
    voters: usize,
) -> Table {
    let strings = |list: Vec<String>| Value::Array(list.into_iter().map(Value::String).collect());
    let mut cluster = Table::new();
    cluster.insert("name".to_owned(), name.into());
    cluster.insert("expected_slots".to_owned(), strings(slots.to_vec()));
    cluster.insert("seeds".to_owned(), strings(ports.iter().map(|(peers, _)| peers.address()).collect()));
    cluster.insert("voters".to_owned(), Value::Integer(i64::try_from(voters).expect("few voters")));
    let mut config = Table::new();
    config.insert("cluster".to_owned(), Value::Table(cluster));
    config.insert("input".to_owned(), Value::Table(Table::from_iter([("topic".to_owned(), Value::from(topic))])));
    let properties = Table::from_iter([("bootstrap.servers".to_owned(), Value::from(bootstrap))]);
    config.insert(
        "kafka".to_owned(),
        Value::Table(Table::from_iter([("properties".to_owned(), Value::Table(properties))])),
    );
    config
}

fn node_config(slot: &str, base: &Path, peers: &Port, http: &Port) -> Table {
    let section = |pairs: &[(&str, String)]| {
        Value::Table(pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from(value.as_str()))).collect())
    };
    Table::from_iter([
        (
            "node".to_owned(),
            section(&[("slot", slot.to_owned()), ("data_dir", base.join("data").display().to_string())]),
        ),
        ("peers".to_owned(), section(&[("listen", peers.address()), ("advertise", peers.address())])),
        ("http".to_owned(), section(&[("listen", http.address())])),
    ])
}

fn table(text: &str) -> Table {
    text.parse().unwrap_or_else(|error| panic!("configuration of a test: {error}\n{text}"))
}

/// Lays `over` upon `base`.
fn merge(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
