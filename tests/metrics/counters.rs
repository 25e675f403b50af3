//! Counters of sources H and P over failovers: what survivors export together never goes back, and never beyond the truth.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hotspare::metrics::{Kind, Source, catalogue};

use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::node::Node;
use crate::harness::workload::{MESSY, Workload};
use crate::scrape::{Series, name, samples};

const WITHIN: Duration = Duration::from_secs(90);
/// Kills, where this variable does not say how many.
const KILLS: usize = 6;
const KILLS_VARIABLE: &str = "HOTSPARE_TEST_COUNTER_KILLS";

/// Whether a series is a counter of the history or of progress records.
fn is_followed(series: &str) -> bool {
    let name = name(series).strip_prefix("hotspare_").unwrap_or_default();
    catalogue::ALL.iter().any(|metric| {
        let is_own = match metric.kind {
            Kind::Histogram(_) => name.strip_prefix(metric.name).is_some_and(|end| end != "_sum"),
            Kind::Counter => name == metric.name,
            Kind::Gauge | Kind::GaugeSum => false,
        };
        is_own && matches!(metric.source, Source::History | Source::Progress)
    })
}

/// What one node's series were at last, over all its lives. Each may be behind the others; none may go back.
#[derive(Default)]
struct Followed {
    last: BTreeMap<Series, f64>,
    scrapes: usize,
}

impl Followed {
    fn take(&mut self, slot: &str, now: BTreeMap<Series, f64>) {
        self.scrapes += 1;
        for (series, value) in now.into_iter().filter(|(series, _)| is_followed(series)) {
            let before = self.last.insert(series.clone(), value);
            assert!(before.is_none_or(|before| before <= value), "{slot}: {series} went from {before:?} to {value}");
        }
    }
}

#[test]
fn counters_of_history_and_progress_neither_go_back_nor_jump_over_kills() {
    let kills = std::env::var(KILLS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2)
        .config(MESSY)
        // Fewer events than kills are kept: counters must outlive them.
        .config("[replication]\nstandbys = 2\n[cluster]\nhistory_events_max = 4")
        .start();
    let mut workload = Workload::new(11, 2);
    let ended = AtomicBool::new(false);
    // Nodes by their addresses alone, for the thread that scrapes while others are killed.
    let watched: Vec<Node> =
        cluster.nodes.iter().map(|node| Node::new(&node.slot, &node.config, &node.log, &node.http)).collect();
    let (followed, produced) = std::thread::scope(|scope| {
        let scraping = scope.spawn(|| {
            let mut followed: Vec<Followed> = watched.iter().map(|_| Followed::default()).collect();
            while !ended.load(Ordering::Relaxed) {
                for (node, followed) in watched.iter().zip(&mut followed) {
                    if let Some(now) = samples(node) {
                        followed.take(&node.slot, now);
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            followed
        });
        let mut produced = 0;
        for turn in 0..kills {
            let partition = u32::try_from(turn % 2).expect("small");
            let active = cluster.wait_active(partition, WITHIN);
            let records = workload.chunk(120);
            produced += records.len();
            cluster.broker.produce(&cluster.topic, &records);
            cluster.nodes[active].kill9();
            if turn % 3 != 0 {
                cluster.wait_active(partition, WITHIN);
            }
            cluster.nodes[active].start();
            cluster.wait_ready();
        }
        cluster.wait_clean();
        // One more look at all, at rest.
        std::thread::sleep(Duration::from_millis(500));
        ended.store(true, Ordering::Relaxed);
        (scraping.join().expect("counters never go back"), produced)
    });
    assert!(followed.iter().all(|followed| followed.scrapes > 20), "each node was scraped");
    let at_rest: Vec<_> = cluster.nodes.iter().map(|node| samples(node).expect("it runs")).collect();
    let all = |name: &str, labels: &str| -> Vec<f64> {
        let is_it = |series: &&String| crate::scrape::name(series) == name && series.contains(labels);
        at_rest
            .iter()
            .map(|samples| samples.iter().filter(|(series, _)| is_it(series)).map(|(_, value)| value).sum())
            .collect()
    };
    // No jump: in the end every node has the truth, and nothing went back to it.
    let records = f64::from(u32::try_from(produced).expect("few"));
    assert_eq!(all("hotspare_input_records_total", ""), [records; 3]);
    assert_eq!(all("hotspare_readings_unaccounted", ""), [0.0; 3]);
    assert_eq!(all("hotspare_consumed_total", ""), all("hotspare_readings_total", ""));
    let failovers = all("hotspare_failovers_total", "kind=\"failover\"");
    assert!(
        failovers.iter().all(|count| *count == failovers[0])
            && failovers[0] >= f64::from(u32::try_from(kills).unwrap()),
        "{kills} kills: {failovers:?}"
    );
    let timed = all("hotspare_failover_duration_seconds_count", "kind=\"failover\"");
    let succeeded = all("hotspare_failovers_total", "kind=\"failover\"");
    assert!(timed[0] > 0.0 && timed.iter().all(|count| *count == timed[0] && *count <= succeeded[0]), "{timed:?}");
}
