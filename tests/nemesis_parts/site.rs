//! Brokers, nodes and the client, each at its own place in a network.

use crate::harness::broker::{Broker, Site};
use crate::harness::cluster::TestCluster;
use crate::harness::disk::Disk;
use crate::harness::network::{Network, Place};
use crate::harness::node::Node;
use crate::harness::workload::MESSY;

/// Partitions of the input.
pub const PARTITIONS: i32 = 2;
/// Nodes of the cluster.
pub const NODES: usize = 3;
/// The node whose disk can be filled, and the one whose disk can break.
pub const FULL: usize = 1;
pub const BREAKS: usize = 2;

const SETTINGS: &str = r#"
[replication]
standbys = 2
[cluster]
slot_takeover_after = "3s"
[checkpoint]
interval = "2s"
[peers]
plaintext = true
[active]
commit_interval = "100ms"
"#;

/// Where everything is.
#[derive(Debug)]
pub struct Places {
    /// The brokers'.
    pub brokers: Vec<Place>,
    /// The nodes'.
    pub nodes: Vec<Place>,
}

impl Places {
    /// Makes them, and moves this thread to the client's.
    pub fn in_network(network: &mut Network, brokers: usize) -> Result<Places, String> {
        let brokers = (1..=brokers).map(|number| network.place(&format!("kafka{number}"))).collect::<Result<_, _>>()?;
        let nodes = (0..NODES).map(|number| network.place(&format!("node{number}"))).collect::<Result<_, _>>()?;
        network.place("client")?.enter()?;
        Ok(Places { brokers, nodes })
    }

    /// Ends all cuts and delays.
    pub fn heal(&self) {
        self.brokers.iter().chain(&self.nodes).for_each(Place::heal);
    }
}

/// Starts all brokers of a cluster.
pub fn start_brokers(places: &[Place]) -> Vec<Broker> {
    let count = places.len();
    let (copies, least) = if count < 3 { (1, 1) } else { (3, 2) };
    let bootstrap = places.iter().map(|place| format!("{}:9092", place.host)).collect::<Vec<_>>().join(",");
    let voters = (1..).zip(places).map(|(id, place)| format!("{id}@{}:9093", place.host)).collect::<Vec<_>>().join(",");
    let site = |id: usize, place: &Place| Site {
        prefix: place.prefix(),
        arguments: [
            ("--host", place.host.clone()),
            ("--port", "9092".to_owned()),
            ("--controller-port", "9093".to_owned()),
            ("--id", id.to_string()),
            ("--cluster-id", "hotspareNemesisCluster".to_owned()),
            ("--voters", voters.clone()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect(),
        bootstrap: Some(bootstrap.clone()),
        replication: copies,
    };
    let (copies, least) = (copies.to_string(), least.to_string());
    let properties = [
        ("offsets.topic.replication.factor", &*copies),
        ("transaction.state.log.replication.factor", &copies),
        ("transaction.state.log.min.isr", &least),
        ("share.coordinator.state.topic.replication.factor", &copies),
        ("share.coordinator.state.topic.min.isr", &least),
        ("default.replication.factor", &copies),
        ("min.insync.replicas", &least),
        // A broker that was killed is soon out of the way.
        ("replica.lag.time.max.ms", "2000"),
    ];
    std::thread::scope(|scope| {
        let starting: Vec<_> = (1..)
            .zip(places)
            .map(|(id, place)| {
                let site = site(id, place);
                scope.spawn(move || Broker::start_at(site, &properties, &[]))
            })
            .collect();
        starting.into_iter().map(|started| started.join().expect("a broker")).collect()
    })
}

/// Disks of nodes; none where this machine does not allow it.
#[derive(Debug)]
pub struct Disks {
    /// Of node [`FULL`].
    pub full: Result<Disk, String>,
    /// Of node [`BREAKS`].
    pub breaks: Result<Disk, String>,
}

/// Starts the nodes.
pub fn start_nodes<'b>(broker: &'b Broker, places: &Places) -> (TestCluster<'b>, Disks) {
    let copies = broker.replication();
    let topics =
        format!("[topics]\nreplication_factor = {copies}\nmin_insync_replicas = {}", if copies < 3 { 1 } else { 2 });
    let plan = TestCluster::of(broker, NODES, PARTITIONS).config(MESSY).config(SETTINGS).config(&topics);
    let mut cluster = plan.places(&places.nodes).prepare();
    let data = |node: usize| cluster.dir().join(format!("hotspare-{node}/data"));
    let disks = Disks { full: Disk::in_memory(&data(FULL), 16 * 1024), breaks: Disk::that_fails(&data(BREAKS), 32) };
    cluster.nodes.iter_mut().for_each(Node::start);
    cluster.wait_ready();
    (cluster, disks)
}
