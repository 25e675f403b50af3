//! The load: real readings, replayed by many devices, again and again with times that go on.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use super::{DemoError, Options};
use crate::generate::{
    feed::{Counts, Fed, FeedError, FeedOptions, feed},
    replay::{Mapping, Pace, Readings, Replay},
};

/// Where the readings are in a checkout.
const DATA: &str = "tests/data/iot-telemetry/raw_data_large.json";
/// Event time goes so many times as fast as the clock, as long as that needs no more devices than `COPIES_MAX` of each.
const SPEED: f64 = 30.0;
const COPIES_MIN: f64 = 20.0;
const COPIES_MAX: f64 = 200.0;

/// The readings that are shipped: below the working folder, or above or beside the program.
#[must_use]
pub fn find_data() -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let program = std::env::current_exe().ok();
    let bases = here.iter().chain(&program).flat_map(|path| path.ancestors()).map(Path::to_owned);
    bases.map(|base| base.join(DATA)).find(|path| path.is_file())
}

/// How the readings are spread over devices and time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    /// Devices that replay each reading.
    pub(super) copies: u32,
    /// How fast event time goes.
    pub(super) speed: f64,
}

impl Plan {
    /// For so many readings in so many milliseconds, sent at this rate.
    pub(super) fn of(readings: usize, span_ms: i64, rate: f64) -> Self {
        let measured_rate = readings as f64 * 1000.0 / (span_ms.max(1) as f64);
        let copies = (rate / (measured_rate * SPEED)).clamp(COPIES_MIN, COPIES_MAX).round();
        Self { copies: copies as u32, speed: rate / (measured_rate * copies) }
    }

    /// A size of windows of which each series ends one every few seconds.
    pub(super) fn window(self) -> &'static str {
        match self.speed {
            ..60.0 => "1m",
            60.0..600.0 => "10m",
            _ => "1h",
        }
    }
}

/// The load as a thread; ends when it is dropped.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    thread: Option<JoinHandle<Result<Fed, FeedError>>>,
}

impl Load {
    pub(super) fn read(options: &Options) -> Result<(Readings, Plan), DemoError> {
        let readings = Readings::load(std::slice::from_ref(&options.data), &Mapping::default())?;
        let plan = Plan::of(readings.len(), readings.span_ms(), options.rate);
        Ok((readings, plan))
    }

    pub(super) fn start(options: &Options, readings: Readings, plan: Plan) -> Result<Self, DemoError> {
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(Counts::default()));
        let feed_options = FeedOptions {
            properties: vec![("bootstrap.servers".to_owned(), options.kafka.clone())],
            topic: options.input(),
            stop: Arc::clone(&stop),
            counts: Arc::clone(&counts),
            ..FeedOptions::default()
        };
        let mut replay = Replay::new(readings, Pace::Rate(options.rate), plan.copies, true);
        let send = move || feed(&mut replay, &feed_options);
        let thread = std::thread::Builder::new().name("demo-load".to_owned()).spawn(send);
        let thread = thread.map_err(DemoError::io("start the load"))?;
        Ok(Self { stop, counts, thread: Some(thread) })
    }

    /// Records that the broker has.
    pub(super) fn acknowledged(&self) -> u64 {
        self.counts.acknowledged.load(Ordering::Relaxed)
    }

    /// Whether it ended by itself, which it should not.
    pub(super) fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it, and waits until all is acknowledged.
    pub(super) fn finish(mut self) -> Result<Fed, DemoError> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        match ended {
            Some(Ok(Ok(fed))) => Ok(fed),
            Some(Ok(Err(error))) => Err(DemoError::Kafka(format!("the load ended: {error}"))),
            _ => Err(DemoError::Other("the load ended without a result".to_owned())),
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_reached_with_many_devices_and_then_with_faster_time() {
        // 0.5 readings a second were measured.
        let plan = Plan::of(5000, 10_000_000, 2000.0);
        assert_eq!((plan.copies, plan.window()), (133, "1m"));
        assert!((plan.speed - 30.0).abs() < 0.5);
        let plan = Plan::of(5000, 10_000_000, 50_000.0);
        assert_eq!((plan.copies, plan.speed, plan.window()), (200, 500.0, "10m"));
        assert_eq!(Plan::of(5000, 10_000_000, 10.0).copies, 20);
    }

    #[test]
    fn the_shipped_readings_are_found() {
        assert!(find_data().is_some());
    }
}
