//! [`Reader`] on the model.

use std::{collections::BTreeMap, time::Duration};

use hotspare_cluster::{Offset, PartitionId};

use super::{
    Choice, Code, Entry, Isolation,
    link::{Failure, Link},
};
use crate::log::{Event, Headers, LogError, Reader, Record};

/// Most events of one call, as with the real one.
const BATCH_EVENTS: usize = 1024;

/// Reads one partition.
#[derive(Debug)]
struct Position {
    next: i64,
    /// The end that was told last; each is told once.
    told_end: Option<i64>,
    /// An error was told. After an offset that the log has not, nothing is read any more until it is assigned anew.
    told_error: Option<Code>,
}

pub(super) struct ModelReader {
    pub(super) link: Link,
    pub(super) topic: String,
    pub(super) operation_timeout: Duration,
    positions: BTreeMap<PartitionId, Position>,
}

impl ModelReader {
    pub(super) fn new(link: Link, topic: String, operation_timeout: Duration) -> Self {
        Self { link, topic, operation_timeout, positions: BTreeMap::new() }
    }

    /// Hands over what is there; false if that is nothing.
    fn deliver(&mut self, sink: &mut dyn FnMut(Event<'_>)) -> bool {
        let partitions: Vec<_> = self.positions.keys().copied().collect();
        let first = self.link.world.choose(Choice::Partition, partitions.len());
        let mut left = BATCH_EVENTS;
        for partition in partitions.iter().cycle().skip(first).take(partitions.len()) {
            if left > 0 {
                left -= self.deliver_of(*partition, left, sink);
            }
        }
        left < BATCH_EVENTS
    }

    fn deliver_of(&mut self, partition: PartitionId, most: usize, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        let Some(position) = self.positions.get_mut(&partition) else { return 0 };
        if position.told_error == Some(Code::OffsetOutOfRange) {
            return 0;
        }
        let answer = self.link.ask(|kafka| {
            let (found, next) = kafka.fetch(&self.topic, partition.0, position.next, Isolation::Committed, most)?;
            let stable = kafka.bounds(&self.topic, partition.0)?.stable;
            Ok((found.into_iter().cloned().collect::<Vec<_>>(), next, stable))
        });
        let (found, next, stable) = match answer {
            Ok(answer) => answer,
            Err(Failure::Refused(code)) if position.told_error != Some(code) => {
                position.told_error = Some(code);
                let error = match code {
                    Code::OffsetOutOfRange => LogError::OffsetOutOfRange { offset: position.next },
                    code => Failure::Refused(code).into(),
                };
                sink(Event::Error(partition, error));
                return 1;
            }
            Err(_) => return 0,
        };
        position.next = next;
        position.told_error = None;
        let mut events = found.len();
        found.iter().filter_map(record).for_each(|record| sink(Event::Record(partition, record)));
        if next == stable && events < most && position.told_end != Some(stable) {
            position.told_end = Some(stable);
            events += 1;
            sink(Event::End(partition, Offset(stable)));
        }
        events
    }
}

fn record(entry: &Entry) -> Option<Record<'_>> {
    let data = entry.data()?;
    Some(Record {
        offset: Offset(entry.offset),
        timestamp_ms: data.timestamp_ms,
        key: data.key.as_deref(),
        value: data.value.as_deref(),
        headers: Headers::Model(&data.headers),
    })
}

impl Reader for ModelReader {
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), LogError> {
        let position = Position { next: offset.0, told_end: None, told_error: None };
        self.positions.insert(partition, position);
        Ok(())
    }

    fn unassign(&mut self, partition: PartitionId) -> Result<(), LogError> {
        self.positions.remove(&partition);
        Ok(())
    }

    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event<'_>)) {
        if !self.deliver(sink) && !timeout.is_zero() {
            self.link.world.wait(timeout);
            self.deliver(sink);
        }
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        bounds(&self.link, &self.topic, partition, self.operation_timeout)
    }

    fn note_progress(&mut self, _partition: PartitionId, _next: Offset) {}
}

/// First offset and last stable offset.
pub(super) fn bounds(
    link: &Link,
    topic: &str,
    partition: PartitionId,
    within: Duration,
) -> Result<(Offset, Offset), LogError> {
    let bounds = link.persist(within, |kafka| kafka.bounds(topic, partition.0))?;
    Ok((Offset(bounds.start), Offset(bounds.stable)))
}
