//! What must hold at every moment, and what must hold in the end.

use std::collections::BTreeMap;

use hotspare::changelog::Progress;
use hotspare::config::Config;
use hotspare::log::Log;
use hotspare::log::model::{Isolation, Kafka};
use hotspare::verify;
use hotspare::{Epoch, NodeId, PartitionId};
use hotspare_cluster::{Cluster, EventResult, Role};

use crate::{
    kafka::PARTITIONS,
    world::{NAMES, Nodes, Seen},
};

#[derive(Default)]
pub struct Checks {
    /// What did not hold.
    pub failures: Vec<String>,
    /// Why not all replicas are level yet.
    pub missing: String,
    /// Who is the active of an epoch.
    actives: BTreeMap<(PartitionId, Epoch), NodeId>,
    /// The newest epoch that a process knows.
    newest: BTreeMap<(u64, PartitionId), Epoch>,
    /// What is written in the history under a number.
    history: BTreeMap<u64, (PartitionId, Epoch, NodeId)>,
    /// Up to where the changelog was looked at, and the epoch and number of its last commit.
    commits: BTreeMap<u32, (i64, Epoch, u64)>,
}

fn running(nodes: &Nodes) -> Vec<Seen> {
    nodes.iter().filter_map(|node| node.lock().expect("nobody panics with it").clone()).collect()
}

impl Checks {
    /// What holds at every moment.
    pub fn look(&mut self, nodes: &Nodes, kafka: &Kafka, config: &Config) {
        for node in running(nodes) {
            self.look_at_epochs(&node.cluster);
            for (partition, status) in node.statuses.all() {
                if status.checks.different > 0 || status.role == Role::Divergent {
                    let slot = node.cluster.identity().slot;
                    self.failures.push(format!("replica of {partition} on {slot} differs: {:?}", status.problem));
                }
            }
        }
        for partition in 0..PARTITIONS {
            self.look_at_commits(partition, kafka, config);
        }
    }

    fn look_at_epochs(&mut self, cluster: &Cluster) {
        let known = cluster.assignments().borrow().clone();
        for (partition, assignment) in &known.by_partition {
            let epoch = assignment.epoch;
            // None, where it is this node's and was ordered to an earlier process of it.
            if let Some(active) = assignment.active {
                let first = *self.actives.entry((*partition, epoch)).or_insert(active);
                if first != active {
                    self.failures.push(format!("two actives of {partition} {epoch}: {first} and {active}"));
                }
            }
            let newest = self.newest.entry((cluster.incarnation(), *partition)).or_default();
            if epoch < *newest {
                self.failures.push(format!("epoch of {partition} fell from {newest} to {epoch}"));
            }
            *newest = epoch;
        }
    }

    /// In the changelog no epoch comes after a higher one, and commits are numbered on.
    fn look_at_commits(&mut self, partition: u32, kafka: &Kafka, config: &Config) {
        let (from, epoch, commit) = self.commits.entry(partition).or_insert((0, Epoch(0), 0));
        let Ok((found, next)) =
            kafka.fetch(config.topics.changelog(), partition, *from, Isolation::Committed, usize::MAX)
        else {
            return;
        };
        *from = next;
        for entry in found {
            let Some(value) = entry.data().filter(|data| data.key.as_deref() == Some(Progress::key())) else {
                continue;
            };
            let Some(Ok(progress)) = value.value.as_deref().map(Progress::decode) else {
                self.failures.push(format!("progress record at {} cannot be read", entry.offset));
                continue;
            };
            if progress.epoch < *epoch || progress.commit <= *commit {
                self.failures.push(format!(
                    "partition {partition}: commit {} of epoch {} after commit {commit} of epoch {epoch}",
                    progress.commit, progress.epoch
                ));
            }
            (*epoch, *commit) = (progress.epoch, progress.commit);
        }
    }

    /// Whether all is consumed and all replicas are at the same commit with the same digest.
    pub fn is_level(&mut self, nodes: &Nodes, kafka: &Kafka, config: &Config) -> bool {
        self.missing = self.what_is_missing(nodes, kafka, config).err().unwrap_or_default();
        self.missing.is_empty()
    }

    fn what_is_missing(&self, nodes: &Nodes, kafka: &Kafka, config: &Config) -> Result<(), String> {
        let nodes = running(nodes);
        if nodes.len() < NAMES.len() {
            return Err("a node does not run".into());
        }
        let views: Vec<_> = nodes.iter().map(|node| node.cluster.view()).collect();
        for view in &views {
            if view.leader.is_none() || view.voters.len() != NAMES.len() || view.partitions != views[0].partitions {
                return Err(format!("{} knows leader {:?}, voters {:?}", view.slot, view.leader, view.voters));
            }
            if view.partitions.len() != PARTITIONS as usize {
                return Err(format!("{} knows {} partitions", view.slot, view.partitions.len()));
            }
            if let Some(partition) = view.partitions.iter().find(|p| !p.confirmed || p.standbys.len() + 1 < NAMES.len())
            {
                return Err(format!("{partition:?}"));
            }
        }
        let all: Vec<_> = nodes.iter().map(|node| node.statuses.all()).collect();
        for number in 0..PARTITIONS {
            let partition = PartitionId(number);
            let end = kafka.bounds(&config.input.topic, number).map_err(|code| code.to_string())?.end;
            // What is aborted, and control records, need no commit.
            let has_records = |from| {
                let found = kafka.fetch(&config.input.topic, number, from, Isolation::Committed, usize::MAX);
                found.is_ok_and(|(found, _)| found.iter().any(|entry| entry.data().is_some()))
            };
            let replicas: Vec<_> = all.iter().filter_map(|all| all.get(&partition)).collect();
            let shown = || {
                let replicas =
                    replicas.iter().map(|r| (r.role, r.progress.as_ref().map(|p| (p.commit, p.next_input_offset))));
                format!("partition {number}, input end {end}: {:?}", replicas.collect::<Vec<_>>())
            };
            let actives = replicas.iter().filter(|replica| replica.role == Role::Active).count();
            let level = replicas.iter().all(|replica| {
                matches!(replica.role, Role::Active | Role::Standby)
                    && replica.digest_equal == Some(true)
                    && replica.progress == replicas[0].progress
                    && replica.progress.as_ref().is_some_and(|progress| !has_records(progress.next_input_offset.0))
            });
            if actives != 1 || replicas.len() != NAMES.len() || !level {
                return Err(shown());
            }
        }
        Ok(())
    }

    /// The outputs, the dead letters and the state are those of a clean run over the whole input.
    pub fn verify(&mut self, config: &Config, log: &dyn Log) {
        match verify::run_on(config, log, &verify::Options::default()) {
            Ok(report) if report.is_clean() => {}
            Ok(report) => self.failures.push(format!(
                "lost {}, duplicated {}, wrong {}: {:?}",
                report.lost, report.duplicated, report.wrong, report.examples
            )),
            Err(error) => self.failures.push(error.to_string()),
        }
    }

    /// The history is the same everywhere, without gaps, and epochs grow in it.
    pub fn history(&mut self, nodes: &Nodes) {
        for node in running(nodes) {
            let history = node.cluster.history();
            let mut epochs: BTreeMap<PartitionId, Epoch> = BTreeMap::new();
            for (before, event) in [None].into_iter().chain(history.iter().map(Some)).zip(&history) {
                if before.is_some_and(|before| before.seq + 1 != event.seq) {
                    self.failures.push(format!("a gap in the history before {}", event.seq));
                }
                let what = (event.partition, event.epoch, event.to.node_id);
                let known = *self.history.entry(event.seq).or_insert(what);
                if known != what {
                    self.failures.push(format!("event {} is {known:?} and {what:?}", event.seq));
                }
                if event.result == EventResult::Withheld {
                    // It tells of the tenure that was not begun yet.
                    continue;
                }
                let last = epochs.entry(event.partition).or_default();
                if event.epoch <= *last {
                    self.failures.push(format!("{} is not above {last} in the history", event.epoch));
                }
                *last = event.epoch;
            }
        }
    }
}
