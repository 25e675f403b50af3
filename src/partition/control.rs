//! What a node asks of the thread of an active.

use std::sync::atomic::{AtomicBool, Ordering};

/// What others ask of the thread.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    finish: AtomicBool,
    checkpoint: AtomicBool,
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
