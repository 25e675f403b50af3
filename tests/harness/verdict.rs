//! What a cluster has made of its input, judged against a clean run.

use std::time::Duration;

use hotspare::changelog::Progress;
use hotspare::config::{self, Config};
use hotspare::invariants::{self, Between};
use hotspare::verify::{self, Options, Report};
use serde_json::Value;

use super::cluster::TestCluster;
use super::wait_until_or_tell;

/// A cluster may take so long to consume what is in its input.
const CONSUMED_WITHIN: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(150);

impl TestCluster<'_> {
    /// The configuration of the first node, as the node reads it.
    pub fn loaded_config(&self) -> Config {
        config::load(Some(&self.nodes[0].config), std::iter::empty(), &[]).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Waits until all input is consumed, and returns the comparison with a clean run.
    pub fn wait_consumed(&mut self) -> Report {
        let config = self.loaded_config();
        let mut last = String::new();
        let this = std::cell::RefCell::new((self, &mut last));
        wait_until_or_tell(
            "all input is consumed",
            CONSUMED_WITHIN,
            || {
                std::thread::sleep(LOOK_EVERY);
                match verify::run(&config, &Options::default()) {
                    Ok(report) if is_whole(&report) => Some(report),
                    Ok(report) => {
                        *this.borrow_mut().1 = text(&report);
                        None
                    }
                    Err(error) => {
                        *this.borrow_mut().1 = error.to_string();
                        None
                    }
                }
            },
            || {
                let mut this = this.borrow_mut();
                let nodes = this.0.describe();
                format!("{}\n{nodes}", this.1)
            },
        )
    }

    /// Waits until all input is consumed. Outputs, dead letters, state and counters must then equal those of a clean run,
    /// each record must be accounted for, and the changelog must be that of one writer after the other.
    pub fn wait_clean(&mut self) -> Report {
        let report = self.wait_consumed();
        assert!(report.is_clean(), "not what a clean run gives: {}", text(&report));
        for part in &report.partitions {
            let partition = i32::try_from(part.partition.0).expect("few partitions");
            let progress = self.progress(partition);
            let newest = progress.last().unwrap_or_else(|| panic!("partition {partition} has no progress record"));
            let counters = &newest.counters;
            let records = u64::try_from(part.input_end.0).expect("an offset");
            assert_eq!(counters.records, records, "records of partition {partition}");
            check_chain(&progress);
        }
        report
    }

    /// The committed progress records of a partition, in order.
    pub fn progress(&self, partition: i32) -> Vec<Progress> {
        self.broker
            .read_committed(&self.changelog_topic())
            .iter()
            .filter(|record| record.partition == partition && record.key.as_deref() == Some(Progress::key()))
            .map(|record| Progress::decode(record.value.as_deref().unwrap_or_default()).expect("a progress record"))
            .collect()
    }

    /// The events of the history, oldest first, as the first node that answers knows it.
    pub fn history(&self) -> Vec<Value> {
        let answer = self.nodes.iter().find_map(|node| {
            let answer = node.http_get("/v1/history?limit=1000").ok()?;
            (answer.status == 200).then(|| answer.json())
        });
        let mut events = answer.and_then(|answer| answer["events"].as_array().cloned()).unwrap_or_default();
        events.reverse();
        events
    }

    /// The node that leads Raft, as the first node that answers and knows one sees it.
    pub fn raft_leader(&self) -> Option<usize> {
        self.nodes.iter().find_map(|node| {
            let status = node.status()?;
            let slot = status["leader"]["slot"].as_str()?.to_owned();
            self.nodes.iter().position(|node| node.slot == slot)
        })
    }
}

/// Each tenure follows the one before: epochs never go back, no commit is missing or there twice, no input is read twice.
fn check_chain(progress: &[Progress]) {
    for pair in progress.windows(2) {
        let [before, after] = pair else { continue };
        let checked = invariants::succession(&before.as_commit(), &after.as_commit(), Between::Nothing);
        assert!(checked.is_ok(), "{checked:?}: {before:?}, then {after:?}");
    }
}

fn is_whole(report: &Report) -> bool {
    report.partitions.iter().all(|part| part.next_input_offset >= part.input_end)
}

/// The report for the text of a failure.
pub fn text(report: &Report) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default()
}
