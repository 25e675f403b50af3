//! Mistakes that others made, put between a node and its topics: the simulation has to find each of them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use hotspare::log::{
    CommitError, Committed, Event, Fenced, Log, LogError, LogIdentity, Message, Reader, Topic, Writer,
};
use hotspare::{Offset, PartitionId};

/// First byte of the key of a changelog entry that tells the life of a series.
const SERIES: u8 = 2;

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Mistake {
    /// The state is committed in one transaction, the outputs in one after it.
    StateBeforeOutputs,
    /// The outputs are committed in one transaction, the state in one after it.
    OutputsBeforeState,
    /// Input offsets are counted instead of read, though control records take offsets too.
    OffsetsCounted,
    /// A reader to which nothing came for a while is taken to be at the end.
    CaughtUpByTimeout,
    /// Writers of other nodes are not fenced.
    NoFencing,
    /// A promotion does not wait until the changelog is applied to its end.
    NotCaughtUp,
    /// How far the log time of a series went is not written to the changelog.
    WatermarkNotReplicated,
    /// Every other change of an entry is left out, as if the next one added to it.
    EntriesLeftOut,
    /// What was read and not committed is not undone when a tenure ends.
    UndoForgotten,
}

impl Mistake {
    /// Makes it, as far as it is in the product and not between it and the topics.
    pub fn arm(self) {
        if self == Self::UndoForgotten {
            fail::cfg("stand_by_without_undo", "return").expect("a valid action");
        }
    }
}

/// Topics with a mistake between them and the node.
pub struct Mistaken {
    pub log: Arc<dyn Log>,
    pub mistake: Mistake,
}

impl Log for Mistaken {
    fn reader(&self, topic: Topic, name: &str) -> Result<Box<dyn Reader>, LogError> {
        let reader = self.log.reader(topic, name)?;
        Ok(match self.mistake {
            Mistake::CaughtUpByTimeout if topic == Topic::Changelog => Box::new(Hasty { reader, assigned: Vec::new() }),
            _ => reader,
        })
    }

    fn input_reader(&self, partition: PartitionId) -> Result<Box<dyn Reader>, LogError> {
        let reader = self.log.input_reader(partition)?;
        if self.mistake == Mistake::OffsetsCounted { Ok(Box::new(Counting { reader, next: 0 })) } else { Ok(reader) }
    }

    fn fence(&self, partition: PartitionId) -> Result<Fenced, LogError> {
        let fenced = self.log.fence(partition)?;
        let changelog_end = if self.mistake == Mistake::NotCaughtUp { Offset(0) } else { fenced.changelog_end };
        let writer = Box::new(Sloppy { writer: fenced.writer, mistake: self.mistake, written: BTreeMap::new() });
        Ok(Fenced { writer, changelog_end, ..fenced })
    }

    fn prepare(&self, partition: PartitionId) -> Result<(), LogError> {
        self.log.prepare(partition)
    }

    fn bounds(&self, topic: Topic, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        self.log.bounds(topic, partition)
    }

    fn keep_warm(&self, partitions: &[PartitionId]) {
        self.log.keep_warm(partitions);
    }

    fn partitions(&self, topic: Topic) -> Result<Option<u32>, LogError> {
        self.log.partitions(topic)
    }

    fn identity(&self) -> Result<LogIdentity, LogError> {
        self.log.identity()
    }
}

struct Sloppy {
    writer: Box<dyn Writer>,
    mistake: Mistake,
    /// How often each entry was written.
    written: BTreeMap<Vec<u8>, u64>,
}

impl Sloppy {
    /// Two transactions instead of one.
    fn in_two(&mut self, messages: &[Message], state_first: bool) -> Result<Committed, CommitError> {
        let (state, outputs): (Vec<_>, Vec<_>) =
            messages.iter().cloned().partition(|message| message.topic == Topic::Changelog);
        if state_first {
            let committed = self.writer.transact(&state)?;
            if !outputs.is_empty() {
                self.writer.transact(&outputs)?;
            }
            return Ok(committed);
        }
        if !outputs.is_empty() {
            self.writer.transact(&outputs)?;
        }
        self.writer.transact(&state)
    }

    fn without(&mut self, messages: &[Message], mut is_left_out: impl FnMut(&mut Self, &[u8]) -> bool) -> Vec<Message> {
        let mut kept = messages.to_vec();
        kept.retain(|message| {
            let is_entry = message.topic == Topic::Changelog && message.value.is_some();
            !(is_entry && message.key.as_deref().is_some_and(|key| is_left_out(self, key)))
        });
        kept
    }
}

impl Writer for Sloppy {
    fn transact(&mut self, messages: &[Message]) -> Result<Committed, CommitError> {
        match self.mistake {
            Mistake::StateBeforeOutputs => self.in_two(messages, true),
            Mistake::OutputsBeforeState => self.in_two(messages, false),
            Mistake::WatermarkNotReplicated => {
                let kept = self.without(messages, |_, key| key.first() == Some(&SERIES));
                self.writer.transact(&kept)
            }
            Mistake::EntriesLeftOut => {
                let is_progress = |key: &[u8]| key == hotspare::changelog::Progress::key();
                let kept = self.without(messages, |this, key| {
                    let count = this.written.entry(key.to_vec()).or_default();
                    *count += 1;
                    !is_progress(key) && *count % 2 == 0
                });
                self.writer.transact(&kept)
            }
            _ => self.writer.transact(messages),
        }
    }
}

/// Tells the end when nothing came.
struct Hasty {
    reader: Box<dyn Reader>,
    assigned: Vec<PartitionId>,
}

impl Reader for Hasty {
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), LogError> {
        self.assigned.push(partition);
        self.reader.assign(partition, offset)
    }

    fn unassign(&mut self, partition: PartitionId) -> Result<(), LogError> {
        self.assigned.retain(|assigned| *assigned != partition);
        self.reader.unassign(partition)
    }

    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event<'_>)) {
        let mut heard = Vec::new();
        self.reader.poll(timeout, &mut |event| {
            match &event {
                Event::Record(partition, _) | Event::End(partition, _) | Event::Error(partition, _) => {
                    heard.push(*partition);
                }
            }
            sink(event);
        });
        for partition in self.assigned.clone() {
            if !heard.contains(&partition)
                && let Ok((_, end)) = self.reader.bounds(partition)
            {
                sink(Event::End(partition, end));
            }
        }
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        self.reader.bounds(partition)
    }

    fn note_progress(&mut self, partition: PartitionId, next: Offset) {
        self.reader.note_progress(partition, next);
    }
}

/// Counts records instead of reading their offsets.
struct Counting {
    reader: Box<dyn Reader>,
    next: i64,
}

impl Reader for Counting {
    fn assign(&mut self, partition: PartitionId, offset: Offset) -> Result<(), LogError> {
        self.next = offset.0;
        self.reader.assign(partition, offset)
    }

    fn unassign(&mut self, partition: PartitionId) -> Result<(), LogError> {
        self.reader.unassign(partition)
    }

    fn poll(&mut self, timeout: Duration, sink: &mut dyn FnMut(Event<'_>)) {
        self.reader.poll(timeout, &mut |event| match event {
            Event::Record(partition, mut record) => {
                record.offset = Offset(self.next);
                self.next += 1;
                sink(Event::Record(partition, record));
            }
            event => sink(event),
        });
    }

    fn bounds(&mut self, partition: PartitionId) -> Result<(Offset, Offset), LogError> {
        self.reader.bounds(partition)
    }

    fn note_progress(&mut self, partition: PartitionId, next: Offset) {
        self.reader.note_progress(partition, next);
    }
}
