//! Several real Kafka brokers that are one cluster.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer};

use super::broker::{Broker, Site};
use super::network::Place;
use super::ports::Port;
use super::wait_until;

/// A broker answers when a majority is there, which may take long on a busy machine.
const WITHIN: Duration = Duration::from_secs(90);

/// Where one of them runs.
#[derive(Debug)]
pub struct Seat {
    prefix: Vec<String>,
    host: String,
    clients: Port,
    controller: Port,
}

impl Seat {
    /// On this machine's loopback.
    pub fn here() -> Seat {
        let (clients, controller) = (Port::reserve(), Port::reserve());
        Seat { prefix: Vec::new(), host: "127.0.0.1".to_owned(), clients, controller }
    }

    /// At a place of a network.
    pub fn at(place: &Place) -> Seat {
        let port = |number| Port::at(&place.host, number);
        Seat { prefix: place.prefix(), host: place.host.clone(), clients: port(9092), controller: port(9093) }
    }
}

/// Brokers of one cluster.
#[derive(Debug)]
pub struct Brokers {
    /// Each has the id of its place here and one more; any of them stands for the whole.
    pub all: Vec<Broker>,
    _seats: Vec<Seat>,
}

impl Brokers {
    /// Starts one at each seat. Of three or more, topics have three copies, of which two must be written.
    pub fn start(seats: Vec<Seat>) -> Brokers {
        let (copies, least) = if seats.len() < 3 { (1, "1") } else { (3, "2") };
        let list = |each: &dyn Fn((usize, &Seat)) -> String| (1..).zip(&seats).map(each).collect::<Vec<_>>().join(",");
        let bootstrap = list(&|(_, seat)| seat.clients.address());
        let voters = list(&|(id, seat)| format!("{id}@{}", seat.controller.address()));
        let site = |id: usize, seat: &Seat| Site {
            prefix: seat.prefix.clone(),
            arguments: [
                ("--host", seat.host.clone()),
                ("--port", seat.clients.number.to_string()),
                ("--controller-port", seat.controller.number.to_string()),
                ("--id", id.to_string()),
                ("--cluster-id", "hotspareTestingCluster".to_owned()),
                ("--voters", voters.clone()),
            ]
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value])
            .collect(),
            bootstrap: Some(bootstrap.clone()),
            replication: copies,
        };
        let copies = copies.to_string();
        let properties = [
            ("offsets.topic.replication.factor", &*copies),
            ("transaction.state.log.replication.factor", &copies),
            ("transaction.state.log.min.isr", least),
            ("share.coordinator.state.topic.replication.factor", &copies),
            ("share.coordinator.state.topic.min.isr", least),
            ("default.replication.factor", &copies),
            ("min.insync.replicas", least),
            // A broker that was killed is soon out of the way.
            ("replica.lag.time.max.ms", "2000"),
        ];
        let all = std::thread::scope(|scope| {
            let start = |(id, seat)| {
                let site = site(id, seat);
                scope.spawn(move || Broker::start_at(site, &properties, &[]))
            };
            let starting: Vec<_> = (1..).zip(&seats).map(start).collect();
            starting.into_iter().map(|started| started.join().expect("a broker")).collect()
        });
        Brokers { all, _seats: seats }
    }

    /// What a cluster must be told about copies of its topics.
    pub fn topics_config(&self) -> String {
        let (copies, least) = if self.all.len() < 3 { (1, 1) } else { (3, 2) };
        format!("[topics]\nreplication_factor = {copies}\nmin_insync_replicas = {least}")
    }

    /// Whether all copies of a topic are in sync.
    pub fn is_whole(&self, topic: &str) -> bool {
        let client: BaseConsumer = self.all[0].client().create().expect("a client");
        let Ok(metadata) = client.fetch_metadata(Some(topic), WITHIN) else { return false };
        metadata.topics()[0].partitions().iter().all(|partition| partition.isr().len() == self.all.len())
    }

    /// The place here of the broker that leads a partition.
    pub fn leader(&self, topic: &str, partition: usize) -> usize {
        let client: BaseConsumer = self.all[0].client().create().expect("a client");
        wait_until(&format!("{topic}/{partition} has a leader"), WITHIN, || {
            let metadata = client.fetch_metadata(Some(topic), WITHIN).ok()?;
            usize::try_from(metadata.topics().first()?.partitions().get(partition)?.leader() - 1).ok()
        })
    }
}
