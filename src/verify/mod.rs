//! Does what is in Kafka equal what an uninterrupted run gives? Reads input, output, dead letters and changelog
//! `read_committed`, runs the input through the pure rooms in this process, and compares.
//!
//! The rules: each final window exactly once and byte for byte; each change (`emit = "changes"`) equal to the state of
//! its window after exactly so many readings, at most once, never after a newer one, and the newest of an open window
//! is its current state; dead letters equal; the state that the changelog tells equal, with its counters and its digest.
//! Checked is what the newest progress record covers, so a running cluster can be checked too.

mod findings;
mod letters;
mod outputs;
mod partition;
mod state;
mod tail;

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use hotspare_cluster::{Offset, PartitionId};
use serde::Serialize;

pub use findings::{Example, Examples, Findings};
pub use partition::PartitionReport;

use crate::{
    changelog::ChangelogError,
    config::Config,
    log::{
        Log, LogError, Topic,
        kafka::{KafkaLog, KafkaOptions},
    },
};

/// So many partitions are checked at a time.
const WORKERS_MAX: usize = 4;

/// What is compared with the clean run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Against {
    /// The output topic.
    pub output: bool,
    /// The state in the changelog.
    pub changelog: bool,
    /// The dead-letter topic.
    pub dead_letters: bool,
}

impl Default for Against {
    fn default() -> Self {
        Self { output: true, changelog: true, dead_letters: true }
    }
}

/// What to check.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// These partitions; none: all.
    pub partitions: Option<Vec<PartitionId>>,
    /// What was given for input before this offset is not judged. The clean run begins at the start all the same.
    pub from: Option<Offset>,
    /// The clean run ends before this input offset; none, or beyond the progress record: there. The changelog, which
    /// holds the newest state only, is then left out.
    pub to: Option<Offset>,
    /// What is compared.
    pub against: Against,
    /// Set by whoever wants it to end early.
    pub stop: Arc<AtomicBool>,
}

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `pass` or `fail`.
    pub verdict: &'static str,
    /// What should be there and is not.
    pub lost: u64,
    /// What is there more than once.
    pub duplicated: u64,
    /// What is there and should not be, or is different.
    pub wrong: u64,
    /// The first few of each.
    pub examples: Examples,
    /// One for each partition, in order.
    pub partitions: Vec<PartitionReport>,
}

impl Report {
    fn of(mut parts: Vec<(PartitionReport, Findings)>) -> Self {
        parts.sort_unstable_by_key(|(report, _)| report.partition);
        let mut all = Findings::default();
        let mut partitions = Vec::with_capacity(parts.len());
        for (report, findings) in parts {
            all.merge(findings);
            partitions.push(report);
        }
        Self {
            verdict: if all.is_clean() { "pass" } else { "fail" },
            lost: all.lost,
            duplicated: all.duplicated,
            wrong: all.wrong,
            examples: all.examples,
            partitions,
        }
    }

    /// Whether nothing is lost, doubled or wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        (self.lost, self.duplicated, self.wrong) == (0, 0, 0)
    }
}

/// Why no verdict can be given.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// Kafka does not answer, or not as it should.
    #[error("cannot read {what}: {source}")]
    Log {
        /// Which topic and partition.
        what: String,
        /// What the client says.
        source: LogError,
    },
    /// Nothing came for too long.
    #[error("cannot read {what}: nothing came for {waited_s} s at offset {at}, {wanted} is wanted; is the broker up?")]
    Stalled {
        /// Which topic and partition.
        what: String,
        /// For how long, in seconds.
        waited_s: u64,
        /// How far it was read.
        at: i64,
        /// The end.
        wanted: i64,
    },
    /// A topic does not exist.
    #[error("topic \"{0}\" does not exist; look with: hotspare topics check")]
    NoTopic(String),
    /// The input has no such partition.
    #[error("the input has {count} partitions, from 0 on; there is no partition {partition}")]
    NoPartition {
        /// The one asked for.
        partition: PartitionId,
        /// How many there are.
        count: u32,
    },
    /// What must be read from its beginning has lost that.
    #[error(
        "{what} begins at offset {begin}, for its retention deleted what was before: what came of it cannot be computed again"
    )]
    Deleted {
        /// Which topic and partition.
        what: String,
        /// First offset.
        begin: i64,
    },
    /// The cluster runs with another meaning.
    #[error(
        "partition {partition} was written with other settings of [input], [window] and [output] (hash {found:016x}, this \
         configuration has {wanted:016x}); verify with the nodes' configuration"
    )]
    OtherSemantics {
        /// The partition.
        partition: PartitionId,
        /// Hash in its progress record.
        found: u64,
        /// Hash of the configuration.
        wanted: u64,
    },
    /// The changelog holds what this version cannot read.
    #[error("changelog of partition {partition} at offset {offset}: {source}")]
    Changelog {
        /// The partition.
        partition: PartitionId,
        /// Where.
        offset: i64,
        /// What is wrong with it.
        source: ChangelogError,
    },
    /// Ended early, as asked.
    #[error("interrupted; there is no verdict")]
    Interrupted,
}

/// Checks partitions, several at a time. Blocks.
///
/// # Errors
/// No verdict can be given; see [`VerifyError`].
pub fn run(config: &Config, options: &Options) -> Result<Report, VerifyError> {
    let log = KafkaLog::new(KafkaOptions::from_config(config))
        .map_err(|source| VerifyError::Log { what: "from Kafka".to_owned(), source })?;
    run_on(config, &log, options)
}

/// The same, for topics that are open already.
///
/// # Errors
/// No verdict can be given; see [`VerifyError`].
pub fn run_on(config: &Config, log: &dyn Log, options: &Options) -> Result<Report, VerifyError> {
    let partitions = partitions(config, log, options)?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from).clamp(1, WORKERS_MAX);
    let (queue, done) = (Mutex::new(partitions.into_iter()), Mutex::new(Vec::new()));
    let check = || -> Result<(), VerifyError> {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(partition) = next else { return Ok(()) };
            let part = partition::check(config, log, options, partition)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push(part);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(check)).collect();
        // A thread that panicked has no result; that is an error like an interruption.
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err(VerifyError::Interrupted)))
    })?;
    Ok(Report::of(done.into_inner().unwrap_or_else(PoisonError::into_inner)))
}

fn partitions(config: &Config, log: &dyn Log, options: &Options) -> Result<Vec<PartitionId>, VerifyError> {
    let count = log
        .partitions(Topic::Input)
        .map_err(|source| VerifyError::Log { what: format!("topic \"{}\"", config.input.topic), source })?
        .ok_or_else(|| VerifyError::NoTopic(config.input.topic.clone()))?;
    let Some(wanted) = &options.partitions else { return Ok((0..count).map(PartitionId).collect()) };
    match wanted.iter().find(|partition| partition.0 >= count) {
        Some(&partition) => Err(VerifyError::NoPartition { partition, count }),
        None => Ok(wanted.clone()),
    }
}

/// Whether somebody asked to end early.
fn is_stopped(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
