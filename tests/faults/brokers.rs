//! Three brokers, of which one dies: each partition of each topic has a new leader, and everything goes on.

use std::time::Duration;

use crate::harness::brokers::{Brokers, Seat};
use crate::harness::cluster::TestCluster;
use crate::harness::workload::{MESSY, Workload};
use crate::{WITHIN, commit, feed};

#[test]
fn the_changelog_moves_to_another_broker_under_load() {
    let brokers = Brokers::start((0..3).map(|_| Seat::here()).collect());
    let plan = TestCluster::of(&brokers.all[0], 3, 1).config(MESSY).config("[replication]\nstandbys = 2");
    let mut cluster = plan.config(&brokers.topics_config()).start();
    let mut workload = Workload::new(95, 1);
    feed(&cluster, &mut workload, Duration::from_secs(1));
    for _ in 0..2 {
        let old = brokers.leader(&cluster.changelog_topic(), 0);
        brokers.all[old].kill9();
        cluster.wait_until("another broker leads the changelog", WITHIN, |cluster| {
            (brokers.leader(&cluster.changelog_topic(), 0) != old).then_some(())
        });
        // Two of three copies are enough to write.
        let active = cluster.wait_active(0, WITHIN);
        let before = commit(&cluster, active, 0);
        feed(&cluster, &mut workload, Duration::from_secs(1));
        let active = cluster.wait_until("commits go on", WITHIN, |cluster| {
            let active = cluster.active_of(0)?;
            (commit(cluster, active, 0) > before).then_some(active)
        });
        // The replicas follow the new leader, and one of them is promoted there.
        cluster.nodes[active].kill9();
        cluster.nodes[active].start();
        feed(&cluster, &mut workload, Duration::from_secs(1));
        cluster.wait_ready();
        cluster.wait_clean();
        brokers.all[old].start_again();
        cluster.wait_until("all copies are there again", WITHIN, |cluster| {
            brokers.is_whole(&cluster.changelog_topic()).then_some(())
        });
    }
    cluster.wait_clean();
}
