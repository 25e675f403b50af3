//! The way of a request to the modelled broker.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{Choice, Code, Kafka, World};
use crate::log::LogError;

/// Between attempts of a request that was not answered or may be asked again.
const RETRY_GAP: Duration = Duration::from_millis(5);

/// Why a request has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    /// Whether it took effect is not known.
    #[error("no answer")]
    NoAnswer,
    #[error("broker refused with {0}")]
    Refused(#[from] Code),
}

impl From<Failure> for LogError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Refused(Code::OffsetOutOfRange) => Self::OffsetOutOfRange { offset: -1 },
            Failure::Refused(code) if code.is_fenced() => Self::Fenced,
            failure => Self::Unavailable(failure.to_string()),
        }
    }
}

#[derive(Clone)]
pub(super) struct Link {
    pub(super) kafka: Arc<Mutex<Kafka>>,
    pub(super) world: Arc<dyn World>,
}

impl Link {
    /// Asks once.
    pub(super) fn ask<T>(&self, request: impl FnOnce(&mut Kafka) -> Result<T, Code>) -> Result<T, Failure> {
        self.world.travel();
        let answer = self.answer(request);
        self.world.travel();
        answer
    }

    fn answer<T>(&self, request: impl FnOnce(&mut Kafka) -> Result<T, Code>) -> Result<T, Failure> {
        let mut kafka = self.kafka.lock().unwrap_or_else(PoisonError::into_inner);
        kafka.advance_to(self.world.now_ms());
        if !kafka.is_available() {
            return Err(Failure::NoAnswer);
        }
        self.work_in_background(&mut kafka);
        match self.world.choose(Choice::Request, 3) {
            0 => Ok(request(&mut kafka)?),
            1 => Err(Failure::NoAnswer),
            _ => {
                let _lost = request(&mut kafka);
                Err(Failure::NoAnswer)
            }
        }
    }

    /// Asks until there is an answer that stands, or for so long.
    pub(super) fn persist<T>(
        &self,
        within: Duration,
        mut request: impl FnMut(&mut Kafka) -> Result<T, Code>,
    ) -> Result<T, Failure> {
        let begin_ms = self.world.now_ms();
        loop {
            match self.ask(&mut request) {
                Err(failure @ (Failure::NoAnswer | Failure::Refused(Code::ConcurrentTransactions))) => {
                    if u128::try_from(self.world.now_ms() - begin_ms).is_ok_and(|waited| waited > within.as_millis()) {
                        return Err(failure);
                    }
                    self.world.wait(RETRY_GAP);
                }
                result => return result,
            }
        }
    }

    fn work_in_background(&self, kafka: &mut Kafka) {
        let mut index = 0;
        while index < kafka.markers() {
            match self.world.choose(Choice::Marker, 2) {
                0 => kafka.write_marker(index),
                _ => index += 1,
            }
        }
        let compacted = kafka.compacted();
        let chosen = self.world.choose(Choice::Compaction, 1 + compacted.len());
        if let Some((topic, partition)) = chosen.checked_sub(1).and_then(|index| compacted.get(index)) {
            // It was just listed.
            let _exists = kafka.compact(topic, *partition);
        }
    }
}
