//! What a node asks of the thread of an active, and what that tells.

use std::{
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use hotspare_cluster::{Offset, PromotionPhases};

/// What others ask of the thread.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    finish: AtomicBool,
    checkpoint: AtomicBool,
    left: Mutex<Option<Left>>,
    left_told: Condvar,
}

/// The active before has stopped.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The first input offset that it did not commit; none if it is not known.
    pub next_input: Option<Offset>,
    /// When it stopped reading.
    pub stopped_at: Instant,
    /// The time of its last commit.
    pub last_commit: Duration,
}

impl Control {
    /// The tenure is over: undo what is not committed and hand the replica on.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// The tenure is over, but what was read is committed first.
    pub fn finish(&self) {
        self.finish.store(true, Ordering::Release);
    }

    /// Whether this active takes checkpoints itself, because no standby does.
    pub fn set_checkpoint(&self, alone: bool) {
        self.checkpoint.store(alone, Ordering::Release);
    }

    /// The active before has stopped.
    pub fn tell_left(&self, left: Left) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        self.left_told.notify_all();
    }

    /// Waits until it has.
    pub(super) fn wait_left(&self, within: Duration) -> Option<Left> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.left_told.wait_timeout_while(left, within, |left| left.is_none());
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(super) fn finishing(&self) -> bool {
        self.finish.load(Ordering::Acquire)
    }

    /// Whether what does not succeed need not be tried again.
    pub(super) fn ending(&self) -> bool {
        self.stopped() || self.finishing()
    }

    /// Whether this active takes checkpoints itself.
    pub(super) fn takes_checkpoints(&self) -> bool {
        self.checkpoint.load(Ordering::Acquire)
    }
}

/// The first commit of a tenure.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// Where the time went.
    pub phases: PromotionPhases,
    /// Changelog records applied on the way.
    pub records_caught_up: u64,
    /// Input records of the first transaction, which the one before had not committed.
    pub readings_replayed: u64,
    /// Of a switchover: since the active before stopped reading.
    pub pause: Option<Duration>,
}

/// What a tenure tells while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum TenureNews {
    /// The first transaction is committed.
    Begun(Begun),
    /// It was asked to finish, and has: nothing is read or written any more.
    Left(Left),
}
