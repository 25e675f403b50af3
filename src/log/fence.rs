//! Fencing: making every earlier writer of a partition unable to commit, fast.
//!
//! librdkafka's `init_transactions` takes 5 ms, but 505 ms when the dead writer left a transaction open, because it sleeps
//! a fixed 500 ms when the coordinator answers that the abort is still going on. Two cures: *direct*, our own request asked
//! again every 2 ms, then one `init_transactions`, which finds nothing left to abort; *hedged*, where the direct one
//! cannot log in: give up a handle after a short while, drop it completely, and try the next.

use std::time::{Duration, Instant};

use hotspare_cluster::PartitionId;
use rdkafka::{error::KafkaError, producer::Producer as _};

use super::{
    LogError,
    error::{Class, classify},
    wire,
    writer::Client,
};

/// After the direct request a handle has nothing to wait for; where it sleeps all the same (1 in 100 with twelve at
/// once), a second one is faster than its sleep.
const INIT_AFTER_DIRECT: Duration = Duration::from_millis(250);

/// How to fence.
pub(super) struct Fence<'a> {
    pub(super) bootstrap: &'a str,
    pub(super) transactional_id: &'a str,
    pub(super) transaction_timeout: Duration,
    pub(super) partition: PartitionId,
    /// First gap of the hedged way; it grows with each try.
    pub(super) hedge_after: Duration,
    pub(super) within: Duration,
    pub(super) new_handle: &'a dyn Fn() -> Result<Client, LogError>,
}

impl Fence<'_> {
    /// Our own request first, then a handle to work with.
    pub(super) fn direct(&self, warm: Option<Client>) -> Result<Client, LogError> {
        let begin = Instant::now();
        let was_warm = warm.is_some();
        wire::fence(self.bootstrap, self.transactional_id, self.transaction_timeout, self.within)
            .map_err(|error| LogError::Unavailable(format!("fencing {}: {error}", self.transactional_id)))?;
        let request_us = begin.elapsed().as_micros();
        let handle = self.init(warm, INIT_AFTER_DIRECT)?;
        let handle_us = begin.elapsed().as_micros() - request_us;
        tracing::debug!(partition = %self.partition, was_warm, request_us, handle_us, "fenced");
        Ok(handle)
    }

    /// Handles of librdkafka only.
    pub(super) fn hedged(&self, warm: Option<Client>) -> Result<Client, LogError> {
        self.init(warm, self.hedge_after)
    }

    /// One handle after the other, never two at a time: a loser that lives on would fence the winner again.
    fn init(&self, mut warm: Option<Client>, mut gap: Duration) -> Result<Client, LogError> {
        let begin = Instant::now();
        loop {
            let handle = match warm.take() {
                Some(handle) => handle,
                None => (self.new_handle)()?,
            };
            let Err(error) = handle.init_transactions(gap) else { return Ok(handle) };
            drop(handle);
            if !may_try_again(&error) || begin.elapsed() > self.within {
                return Err(LogError::Unavailable(format!(
                    "fencing {} after {} ms: {error}",
                    self.transactional_id,
                    begin.elapsed().as_millis()
                )));
            }
            tracing::debug!(partition = %self.partition, gap_ms = gap.as_millis(), %error, "next handle");
            gap = (gap * 2).min(self.within);
        }
    }
}

fn may_try_again(error: &KafkaError) -> bool {
    matches!(classify(error), Class::Retriable | Class::Abort | Class::Fenced)
}
