//! Brokers, nodes and the client, each at its own place in a network.

use crate::harness::brokers::Brokers;
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

/// Disks of nodes; none where this machine does not allow it.
#[derive(Debug)]
pub struct Disks {
    /// Of node [`FULL`].
    pub full: Result<Disk, String>,
    /// Of node [`BREAKS`].
    pub breaks: Result<Disk, String>,
}

/// Starts the nodes.
pub fn start_nodes<'b>(brokers: &'b Brokers, places: &Places) -> (TestCluster<'b>, Disks) {
    let plan = TestCluster::of(&brokers.all[0], NODES, PARTITIONS).config(MESSY).config(SETTINGS);
    let plan = plan.config(&brokers.topics_config());
    let mut cluster = plan.places(&places.nodes).prepare();
    let data = |node: usize| cluster.dir().join(format!("hotspare-{node}/data"));
    let disks = Disks { full: Disk::in_memory(&data(FULL), 16 * 1024), breaks: Disk::that_fails(&data(BREAKS), 32) };
    cluster.nodes.iter_mut().for_each(Node::start);
    cluster.wait_ready();
    (cluster, disks)
}
