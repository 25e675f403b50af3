//! Nodes that are cut off from Kafka but not from each other.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod harness;

use std::time::Duration;

use harness::brokers::{Brokers, Seat};
use harness::cluster::TestCluster;
use harness::network::{Network, Place};
use harness::skip;
use harness::workload::{MESSY, Workload};

/// Far more than anything here takes, for a machine that is busy with other things.
const WITHIN: Duration = Duration::from_secs(90);

/// A broker, three nodes; this thread moves to a place of its own.
fn places(network: &mut Network) -> Result<(Place, Vec<Place>), String> {
    let broker = network.place("kafka1")?;
    let nodes = (0..3).map(|node| network.place(&format!("node{node}"))).collect::<Result<_, _>>()?;
    network.place("client")?.enter()?;
    Ok((broker, nodes))
}

fn cut(one: &Place, other: &Place) {
    one.cut_from(other);
    other.cut_from(one);
}

#[test]
fn an_active_that_is_cut_off_from_kafka_alone_is_replaced_and_nobody_is_when_all_are() {
    let made = Network::new().and_then(|mut network| places(&mut network).map(|places| (network, places)));
    let (_network, (kafka, nodes)) = match made {
        Ok(made) => made,
        Err(reason) => return skip("cuts between nodes and Kafka", &reason),
    };
    let brokers = Brokers::start(vec![Seat::at(&kafka)]);
    let plan = TestCluster::of(&brokers.all[0], 3, 1).places(&nodes).config(MESSY);
    let mut cluster = plan.config("[replication]\nstandbys = 2\n[peers]\nplaintext = true").start();
    let mut workload = Workload::new(96, 1);
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.wait_clean();
    let victim = cluster.wait_active(0, WITHIN);
    cut(&nodes[victim], &kafka);
    let event = cluster.wait_until("the history tells that another took over", WITHIN, |cluster| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(5));
        cluster.history().into_iter().find(|event| event["reason"] == "stalled" && event["result"] == "success")
    });
    assert_eq!(
        (&event["kind"], &event["from"]["slot"]),
        (&"failover".into(), &cluster.nodes[victim].slot.clone().into())
    );
    kafka.heal();
    nodes[victim].heal();
    cluster.wait_until("the one that was cut off stands by", WITHIN, |cluster| {
        let status = cluster.nodes[victim].status()?;
        (status["local"][0]["role"] == "standby").then_some(())
    });
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    cluster.wait_clean();
    cluster.wait_ready();

    let before = cluster.history().len();
    nodes.iter().for_each(|node| cut(node, &kafka));
    cluster.broker.produce(&cluster.topic, &workload.chunk(100));
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(cluster.history().len(), before, "{:?}", cluster.history().last());
    kafka.heal();
    nodes.iter().for_each(Place::heal);
    cluster.wait_clean();
}
