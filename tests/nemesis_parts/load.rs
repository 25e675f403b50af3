//! Readings without end, and a look at how long nothing is committed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Message, Offset, TopicPartitionList};

use crate::harness::broker::Broker;
use crate::harness::records::Isolation;
use crate::harness::workload::Workload;

/// Readings of one chunk, and the time from one to the next.
const CHUNK: usize = 10;
const EVERY: Duration = Duration::from_millis(50);

/// Feeds a topic and watches commits, each in a thread of its own, until told to end.
#[derive(Debug)]
pub struct Load {
    /// Who has it may write. Whoever checks takes it, and nothing comes in meanwhile.
    gate: Mutex<()>,
    ends: AtomicBool,
    fed: AtomicU64,
    /// For each partition.
    commits: Mutex<Vec<Commits>>,
}

/// What was seen of the commits of one partition.
#[derive(Clone, Copy, Debug, Default)]
struct Commits {
    count: u64,
    last: Option<Instant>,
    longest: Duration,
}

impl Load {
    /// One that is to be run by [`Load::feed`] and [`Load::watch`].
    pub fn new(partitions: i32) -> Self {
        let commits = vec![Commits::default(); usize::try_from(partitions).expect("partitions")];
        Self {
            gate: Mutex::new(()),
            ends: AtomicBool::new(false),
            fed: AtomicU64::new(0),
            commits: Mutex::new(commits),
        }
    }

    fn commits(&self) -> MutexGuard<'_, Vec<Commits>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends both threads.
    pub fn end(&self) {
        self.ends.store(true, Ordering::Release);
    }

    fn has_ended(&self) -> bool {
        self.ends.load(Ordering::Acquire)
    }

    /// Readings so far.
    pub fn fed(&self) -> u64 {
        self.fed.load(Ordering::Acquire)
    }

    /// Writes readings.
    pub fn feed(&self, broker: &Broker, topic: &str, mut workload: Workload) {
        while !self.has_ended() {
            let open = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            broker.produce(topic, &workload.chunk(CHUNK));
            drop(open);
            self.fed.fetch_add(CHUNK as u64, Ordering::AcqRel);
            std::thread::sleep(EVERY);
        }
    }

    /// Reads the changelog.
    pub fn watch(&self, broker: &Broker, changelog: &str) {
        let consumer: BaseConsumer = broker.consumer(Isolation::Committed);
        let mut assignment = TopicPartitionList::new();
        for partition in (0..).take(self.commits().len()) {
            assignment.add_partition_offset(changelog, partition, Offset::End).expect("an offset");
        }
        consumer.assign(&assignment).expect("partitions can be assigned");
        while !self.has_ended() {
            let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) else { continue };
            let place = usize::try_from(record.partition()).expect("a partition");
            let mut commits = self.commits();
            let (now, seen) = (Instant::now(), &mut commits[place]);
            seen.count += 1;
            let pause = seen.last.map_or(Duration::ZERO, |last| now - last);
            (seen.last, seen.longest) = (Some(now), seen.longest.max(pause));
        }
    }

    /// Records of the changelog seen so far, by partition.
    pub fn seen(&self) -> Vec<u64> {
        self.commits().iter().map(|seen| seen.count).collect()
    }

    /// The longest time without a commit since this was asked last.
    pub fn longest_pause(&self) -> Duration {
        let mut commits = self.commits();
        let longest = commits.iter().map(|seen| seen.longest).max().unwrap_or_default();
        commits.iter_mut().for_each(|seen| seen.longest = Duration::ZERO);
        longest
    }

    /// Nothing comes in as long as the answer lives.
    pub fn hold(&self) -> impl Drop + '_ {
        struct Held<'l>(&'l Load, Option<MutexGuard<'l, ()>>);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.commits().iter_mut().for_each(|seen| seen.last = None);
                self.1 = None;
            }
        }
        Held(self, Some(self.gate.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
