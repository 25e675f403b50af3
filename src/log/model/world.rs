//! What the model does not decide itself: the time, and what a real cluster leaves to chance.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// A choice that a real cluster leaves to chance. The first option, 0, is always the plain course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Of a request: 0 it is answered, 1 it gets lost, 2 it takes effect and its answer gets lost.
    Request,
    /// Of a marker that is decided: 0 it is written now, 1 later.
    Marker,
    /// Of the log cleaner: 0 it rests, n it goes over the nth partition of the compacted topics.
    Compaction,
    /// Of a reader's partitions: which it asks for first.
    Partition,
}

/// What is around the clients of the model. A simulation has one for each node, so that their clocks can differ and a
/// node that is cut off is one whose requests all get lost.
pub trait World: Send + Sync {
    /// Now, by the clock of who asks; ms since 1970.
    fn now_ms(&self) -> i64;

    /// Who calls this has nothing to do for so long, at most. Time must go on with it, or clients wait for ever.
    fn wait(&self, at_most: Duration);

    /// A request is on its way to the broker, or its answer back; others may go on meanwhile. Nothing is locked.
    fn travel(&self) {}

    /// One of the options from 0 on.
    fn choose(&self, choice: Choice, options: usize) -> usize;
}

/// A world that is the same for the same seed, in which time goes on only where somebody waits.
#[derive(Debug)]
pub struct Seeded {
    state: Mutex<State>,
    trouble_permille: u32,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    now_us: i64,
}

impl Seeded {
    /// Of 1000 choices, `trouble_permille` are not the plain course. The clock begins at `now_ms`.
    #[must_use]
    pub fn new(seed: u64, trouble_permille: u32, now_ms: i64) -> Self {
        let state = State { random: ChaCha8Rng::seed_from_u64(seed), now_us: now_ms * 1000 };
        Self { state: Mutex::new(state), trouble_permille }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl World for Seeded {
    fn now_ms(&self) -> i64 {
        self.state().now_us.div_euclid(1000)
    }

    fn wait(&self, at_most: Duration) {
        self.state().now_us += i64::try_from(at_most.as_micros()).unwrap_or(i64::MAX);
    }

    fn choose(&self, _choice: Choice, options: usize) -> usize {
        let random = &mut self.state().random;
        let is_plain = options < 2 || random.random_range(0..1000) >= self.trouble_permille;
        if is_plain { 0 } else { random.random_range(1..options) }
    }
}
