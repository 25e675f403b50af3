//! Reading a partition of a topic from one offset to another.

use std::{
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use hotspare_cluster::{Offset, PartitionId};

use super::{VerifyError, is_stopped};
use crate::log::{Event, Log, LogError, Record, Topic};

const POLL: Duration = Duration::from_millis(100);
/// Longest wait for the next record.
const STALL: Duration = Duration::from_secs(30);

/// One partition of one topic.
pub(super) struct Tail<'a> {
    pub(super) log: &'a dyn Log,
    pub(super) topic: Topic,
    /// The topic's name.
    pub(super) name: &'a str,
    pub(super) partition: PartitionId,
    pub(super) stop: &'a AtomicBool,
}

impl Tail<'_> {
    /// Topic and partition, for people.
    pub(super) fn what(&self) -> String {
        format!("topic \"{}\" partition {}", self.name, self.partition)
    }

    fn error(&self, source: LogError) -> VerifyError {
        VerifyError::Log { what: self.what(), source }
    }

    /// First offset and last stable offset.
    pub(super) fn bounds(&self) -> Result<(Offset, Offset), VerifyError> {
        self.log.bounds(self.topic, self.partition).map_err(|source| self.error(source))
    }

    /// The end, if the beginning is still there.
    pub(super) fn whole(&self) -> Result<Offset, VerifyError> {
        match self.bounds()? {
            (Offset(0), end) => Ok(end),
            (Offset(begin), _) => Err(VerifyError::Deleted { what: self.what(), begin }),
        }
    }

    /// Reads records from the first offset up to before the second, which must not be beyond the last stable offset.
    pub(super) fn read(
        &self,
        from: Offset,
        to: Offset,
        mut each: impl FnMut(&Record<'_>) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        if from >= to {
            return Ok(());
        }
        let mut reader = self.log.reader(self.topic, "verify").map_err(|source| self.error(source))?;
        reader.assign(self.partition, from).map_err(|source| self.error(source))?;
        let (mut at, mut moved_at) = (from, Instant::now());
        let mut result = Ok(());
        while at < to && result.is_ok() {
            if is_stopped(self.stop) {
                return Err(VerifyError::Interrupted);
            }
            let before = at;
            reader.poll(POLL, &mut |event| match event {
                Event::Record(_, record) => {
                    if record.offset < to && result.is_ok() {
                        result = each(&record);
                    }
                    at = at.max(Offset(record.offset.0.saturating_add(1)));
                }
                Event::End(_, end) => at = at.max(end),
                Event::Error(_, error @ (LogError::OffsetOutOfRange { .. } | LogError::Configuration(_))) => {
                    result = Err(self.error(error));
                }
                // The client goes on trying.
                Event::Error(..) => {}
            });
            if at > before {
                moved_at = Instant::now();
            } else if moved_at.elapsed() > STALL {
                return Err(VerifyError::Stalled {
                    what: self.what(),
                    waited_s: STALL.as_secs(),
                    at: at.0,
                    wanted: to.0,
                });
            }
        }
        result
    }
}
