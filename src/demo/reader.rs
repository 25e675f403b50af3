//! Reads the output as any user's `read_committed` reader would, and notes when what arrived.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use hotspare_cluster::PartitionId;

use super::{DemoError, outage::Watch};
use crate::log::{Event, Log, Topic};

const POLL: Duration = Duration::from_millis(5);

/// A thread that reads all partitions of the output; ends when it is dropped.
pub(super) struct OutputReader {
    watch: Arc<Mutex<Watch>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl OutputReader {
    /// Begins at the end of the output.
    pub(super) fn start(log: &dyn Log, partitions: u32) -> Result<Self, DemoError> {
        let kafka = |error: crate::log::LogError| DemoError::Kafka(error.to_string());
        let mut reader = log.reader(Topic::Output, "demo").map_err(kafka)?;
        for partition in (0..partitions).map(PartitionId) {
            let (_, end) = log.bounds(Topic::Output, partition).map_err(kafka)?;
            reader.assign(partition, end).map_err(kafka)?;
        }
        let (watch, stop) = (Arc::new(Mutex::new(Watch::default())), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&watch), Arc::clone(&stop));
        let read = move || {
            while !stopped.load(Ordering::Relaxed) {
                reader.poll(POLL, &mut |event| {
                    if let Event::Record(partition, record) = event {
                        let mut watch = shared.lock().unwrap_or_else(PoisonError::into_inner);
                        watch.saw(partition.0, Instant::now(), record.timestamp_ms);
                    }
                });
            }
        };
        let thread = std::thread::Builder::new().name("demo-reader".to_owned()).spawn(read);
        let thread = thread.map_err(DemoError::io("start the reader of the output"))?;
        Ok(Self { watch, stop, thread: Some(thread) })
    }

    /// Looks at what was seen, or notes a kill.
    pub(super) fn watch<T>(&self, look: impl FnOnce(&mut Watch) -> T) -> T {
        look(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for OutputReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
