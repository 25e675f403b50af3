//! The successor's side of a switchover: it gets ready while the old active works, and takes over when that has stopped.
//! That only makes the pause short: it fences in any case, so nothing rests on what is told, nor on its arrival.

use std::time::{Duration, Instant};

use fail::fail_point;
use hotspare_cluster::{Offset, PartitionId};
use hotspare_system::thread;

use super::{
    active::{End, Tenure},
    control::Left,
};
use crate::log::Reader;

/// A replica that was at the end of the changelog so lately is caught up, though the active goes on writing.
const LEVEL_WITHIN: Duration = Duration::from_millis(250);
/// Between looks whether it is.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// A word may be lost, so it is said again so often.
const SAY_EVERY: Duration = Duration::from_millis(50);

/// The active before.
pub struct Predecessor {
    /// Tells it to stop.
    pub tell_ready: Box<dyn Fn() + Send>,
    /// Whether its node is gone, so that nobody will answer.
    pub is_gone: Box<dyn Fn() -> bool + Send>,
}

/// What a switchover has brought.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Handed {
    /// From the order until the old active stopped reading.
    pub(super) prepare: Duration,
    /// The old active's last commit.
    pub(super) last_commit: Duration,
    /// When it stopped reading; none if it never said so.
    pub(super) stopped_at: Option<Instant>,
    /// Where the input is being read ahead.
    pub(super) ahead: Option<Offset>,
    /// Where the old active says that the input goes on.
    next_input: Option<Offset>,
}

impl Handed {
    /// What the old active committed must be what stands in the changelog.
    pub(super) fn compare(&self, partition: PartitionId, found: Offset) {
        if let Some(told) = self.next_input.filter(|told| *told != found) {
            tracing::error!(%partition, %told, %found, "the old active left the input at another place than the changelog says");
        }
    }
}

impl Tenure {
    /// Connects, catches up, asks the old active to stop, and waits until it has.
    pub(super) fn take_over(
        &self,
        predecessor: &Predecessor,
        input: &mut dyn Reader,
        ordered_at: Instant,
    ) -> Result<Handed, End> {
        let partition = self.partition;
        if let Err(error) = self.log.prepare(partition) {
            // The fence will say what is wrong, if it still is.
            tracing::debug!(%partition, %error, "not connected before the switchover");
        }
        fail_point!("handover_before_ready");
        // Half of the time of a promotion, for the other half is that of an ordinary one. Then the old active is fenced as it is.
        let give_up_at = ordered_at + self.rules.promote_timeout / 2;
        while !self.statuses.is_level(partition, LEVEL_WITHIN) {
            if self.control.ending() {
                return Err(End::Stopped);
            }
            if (predecessor.is_gone)() || Instant::now() >= give_up_at {
                return Ok(Handed { prepare: ordered_at.elapsed(), ..Handed::default() });
            }
            thread::sleep(LOOK_EVERY);
        }
        let status = self.statuses.all().remove(&partition);
        let ahead = status.and_then(|status| status.progress).map(|progress| progress.next_input_offset);
        if let Some(ahead) = ahead {
            input.assign(partition, ahead).map_err(|error| End::Failed(error.to_string()))?;
        }
        let left = self.ask_to_leave(predecessor, give_up_at)?;
        fail_point!("handover_after_left");
        Ok(match left {
            Some(Left { next_input, stopped_at, last_commit }) => Handed {
                prepare: stopped_at.saturating_duration_since(ordered_at),
                last_commit,
                stopped_at: Some(stopped_at),
                ahead,
                next_input,
            },
            None => Handed { prepare: ordered_at.elapsed(), ahead, ..Handed::default() },
        })
    }

    fn ask_to_leave(&self, predecessor: &Predecessor, give_up_at: Instant) -> Result<Option<Left>, End> {
        loop {
            (predecessor.tell_ready)();
            fail_point!("handover_after_ready");
            if let Some(left) = self.control.wait_left(SAY_EVERY) {
                return Ok(Some(left));
            }
            if self.control.ending() {
                return Err(End::Stopped);
            }
            if (predecessor.is_gone)() || Instant::now() >= give_up_at {
                tracing::warn!(partition = %self.partition, epoch = %self.epoch, "the old active does not answer, fencing it");
                return Ok(None);
            }
        }
    }
}
