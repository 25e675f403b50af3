//! One partition's log: offsets, transactions' traces in it, and what readers of either isolation see.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Code;

/// Who writes: an id that the coordinator gave, and how often it was given anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    /// Stays with a transactional id.
    pub id: i64,
    /// Grows with each fence; the broker refuses lower ones.
    pub epoch: i16,
}

impl Producer {
    /// Who writes without transactions.
    pub(super) const NONE: Self = Self { id: -1, epoch: -1 };
}

/// A record to write.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewRecord {
    /// Milliseconds since 1970 by the producer's clock.
    pub timestamp_ms: i64,
    /// Key, if any.
    pub key: Option<Bytes>,
    /// Value; none is a tombstone.
    pub value: Option<Bytes>,
    /// Headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl NewRecord {
    fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
        self.key.as_ref().map_or(0, Bytes::len) + self.value.as_ref().map_or(0, Bytes::len) + headers.sum::<usize>()
    }
}

/// What stands at an offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A record.
    Data(NewRecord),
    /// A control record: the end of a transaction. No reader is given it.
    Marker {
        /// Commit or abort.
        commit: bool,
    },
}

/// An offset that is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it stands.
    pub offset: i64,
    /// Whose transaction it belongs to; id -1 for none.
    pub producer: Producer,
    /// What it is.
    pub content: Content,
    /// When the cleaner may remove a tombstone; set when it first meets it.
    pub(super) delete_horizon_ms: Option<i64>,
}

impl Entry {
    /// The record; none for a control record.
    #[must_use]
    pub fn data(&self) -> Option<&NewRecord> {
        match &self.content {
            Content::Data(record) => Some(record),
            Content::Marker { .. } => None,
        }
    }
}

/// What a reader wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Committed records up to the last stable offset.
    Committed,
    /// All records up to the end.
    Uncommitted,
}

/// Settings of a topic, named as Kafka names them.
#[derive(Debug, Clone)]
pub struct TopicConfig {
    /// `cleanup.policy=compact`.
    pub compact: bool,
    /// `message.timestamp.type=LogAppendTime`.
    pub log_append_time: bool,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`, without the envelope.
    pub message_bytes_max: usize,
    /// `segment.ms`.
    pub segment_ms: i64,
    /// Records after which a segment is full (Kafka counts bytes).
    pub segment_records_max: usize,
    /// `delete.retention.ms`: how long a tombstone stays after it was first cleaned.
    pub delete_retention_ms: i64,
}

impl Default for TopicConfig {
    fn default() -> Self {
        const HOUR_MS: i64 = 3_600_000;
        Self {
            compact: false,
            log_append_time: false,
            timestamp_after_max_ms: HOUR_MS,
            message_bytes_max: 1 << 20,
            segment_ms: 7 * 24 * HOUR_MS,
            segment_records_max: usize::MAX,
            delete_retention_ms: 24 * HOUR_MS,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    base: i64,
    /// Time of its first batch, by which it is rolled.
    first_ms: Option<i64>,
    pub(super) entries: Vec<Entry>,
}

/// What the partition knows of a producer.
#[derive(Debug, Clone, Copy)]
struct Latest {
    epoch: i16,
    /// Last batch: its first and last sequence number, and the offset of the first.
    batch: Option<(i32, i32, i64)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Aborted {
    producer_id: i64,
    first: i64,
    /// Offset of the marker.
    last: i64,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Partition {
    /// The last one is the active one.
    pub(super) segments: Vec<Segment>,
    pub(super) start: i64,
    pub(super) end: i64,
    /// First offset that the cleaner has not gone over.
    pub(super) dirty_from: i64,
    /// First offset of each open transaction, by producer id.
    open: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
    producers: BTreeMap<i64, Latest>,
}

impl Partition {
    pub(super) fn new() -> Self {
        Self {
            segments: vec![Segment::default()],
            start: 0,
            end: 0,
            dirty_from: 0,
            open: BTreeMap::new(),
            aborted: Vec::new(),
            producers: BTreeMap::new(),
        }
    }

    /// The last stable offset: before it every transaction is decided.
    pub(super) fn stable(&self) -> i64 {
        self.open.values().copied().min().unwrap_or(self.end)
    }

    pub(super) fn is_open(&self, producer_id: i64) -> bool {
        self.open.contains_key(&producer_id)
    }

    /// Takes a batch of a transaction as a whole, or refuses it as a whole; gives the offset of its first record. A batch that
    /// it has already is acknowledged again.
    pub(super) fn append(
        &mut self,
        producer: Producer,
        sequence: i32,
        records: &[NewRecord],
        config: &TopicConfig,
        now_ms: i64,
    ) -> Result<i64, Code> {
        let last_sequence = sequence + i32::try_from(records.len()).unwrap_or(i32::MAX) - 1;
        check_records(records, config, now_ms)?;
        if let Some(first) = self.check_producer(producer, sequence, last_sequence)? {
            return Ok(first);
        }
        let first = self.put_records(producer, records, config, now_ms);
        self.open.entry(producer.id).or_insert(first);
        let batch = Some((sequence, last_sequence, first));
        self.producers.insert(producer.id, Latest { epoch: producer.epoch, batch });
        Ok(first)
    }

    /// Takes a batch of no transaction.
    pub(super) fn append_plain(
        &mut self,
        records: &[NewRecord],
        config: &TopicConfig,
        now_ms: i64,
    ) -> Result<i64, Code> {
        check_records(records, config, now_ms)?;
        Ok(self.put_records(Producer::NONE, records, config, now_ms))
    }

    fn put_records(&mut self, producer: Producer, records: &[NewRecord], config: &TopicConfig, now_ms: i64) -> i64 {
        let timed = |record: &NewRecord| NewRecord {
            timestamp_ms: if config.log_append_time { now_ms } else { record.timestamp_ms },
            ..record.clone()
        };
        let first = self.end;
        self.put(producer, records.iter().map(timed).map(Content::Data).collect(), config, now_ms);
        first
    }

    fn check_producer(&self, producer: Producer, sequence: i32, last: i32) -> Result<Option<i64>, Code> {
        let Some(known) = self.producers.get(&producer.id) else { return Ok(None) };
        if producer.epoch < known.epoch {
            return Err(Code::InvalidProducerEpoch);
        }
        let expected = match known.batch {
            Some((first, end, offset)) if producer.epoch == known.epoch => {
                if (first, end) == (sequence, last) {
                    return Ok(Some(offset));
                }
                end + 1
            }
            _ => 0,
        };
        if sequence == expected { Ok(None) } else { Err(Code::OutOfOrderSequence) }
    }

    /// Ends the transaction of a producer here. Occupies an offset also where it wrote nothing.
    pub(super) fn mark(&mut self, producer: Producer, commit: bool, config: &TopicConfig, now_ms: i64) {
        let last = self.end;
        self.put(producer, vec![Content::Marker { commit }], config, now_ms);
        if let Some(first) = self.open.remove(&producer.id)
            && !commit
        {
            self.aborted.push(Aborted { producer_id: producer.id, first, last });
        }
        let known = self.producers.entry(producer.id).or_insert(Latest { epoch: producer.epoch, batch: None });
        if producer.epoch > known.epoch {
            *known = Latest { epoch: producer.epoch, batch: None };
        }
    }

    fn put(&mut self, producer: Producer, batch: Vec<Content>, config: &TopicConfig, now_ms: i64) {
        let time_of = |content: &Content| match content {
            Content::Data(record) => record.timestamp_ms,
            Content::Marker { .. } => now_ms,
        };
        let batch_ms = batch.iter().map(time_of).max().unwrap_or(now_ms);
        let active = self.segments.last().filter(|active| {
            let is_old = active.first_ms.is_some_and(|first_ms| batch_ms - first_ms > config.segment_ms);
            !active.entries.is_empty() && (is_old || active.entries.len() >= config.segment_records_max)
        });
        if active.is_some() || self.segments.is_empty() {
            self.segments.push(Segment { base: self.end, ..Segment::default() });
        }
        let Some(active) = self.segments.last_mut() else { return };
        active.first_ms.get_or_insert(batch_ms);
        for content in batch {
            active.entries.push(Entry { offset: self.end, producer, content, delete_horizon_ms: None });
            self.end += 1;
        }
    }

    /// How far the cleaner may go: whole segments, neither the active one nor one with something that is not stable.
    pub(super) fn cleanable_until(&self) -> i64 {
        let stable = self.stable();
        self.segments.iter().rev().find(|segment| segment.base <= stable).map_or(self.start, |segment| segment.base)
    }

    pub(super) fn is_aborted(&self, entry: &Entry) -> bool {
        let covers = |aborted: &Aborted| {
            aborted.producer_id == entry.producer.id && (aborted.first..=aborted.last).contains(&entry.offset)
        };
        self.aborted.iter().any(covers)
    }

    /// Where a reader of this isolation comes to an end.
    pub(super) fn end_for(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::Committed => self.stable(),
            Isolation::Uncommitted => self.end,
        }
    }

    /// The next records from an offset, at most so many, and the position after them. The position passes over
    /// control records, aborted ones and offsets that compaction removed.
    pub(super) fn fetch(&self, from: i64, isolation: Isolation, most: usize) -> Result<(Vec<&Entry>, i64), Code> {
        if from < self.start || from > self.end {
            return Err(Code::OffsetOutOfRange);
        }
        let end = self.end_for(isolation);
        let sees =
            |entry: &&Entry| entry.data().is_some() && (isolation == Isolation::Uncommitted || !self.is_aborted(entry));
        let in_range = |entry: &&Entry| entry.offset < end;
        let found: Vec<_> = self.entries_from(from).take_while(in_range).filter(sees).take(most).collect();
        let next = match found.last() {
            Some(last) if found.len() == most => last.offset + 1,
            _ => end.max(from),
        };
        Ok((found, next))
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.segments.iter().flat_map(|segment| &segment.entries)
    }

    fn entries_from(&self, from: i64) -> impl Iterator<Item = &Entry> {
        let is_before = move |segment: &&Segment| segment.entries.last().is_none_or(|last| last.offset < from);
        let segments = self.segments.iter().skip_while(is_before);
        segments.flat_map(move |segment| {
            let skipped = segment.entries.partition_point(|entry| entry.offset < from);
            segment.entries.iter().skip(skipped)
        })
    }

    /// Removes what lies before an offset, as retention or an operator's request does.
    pub(super) fn delete_before(&mut self, offset: i64) -> Result<(), Code> {
        if offset < self.start || offset > self.end {
            return Err(Code::OffsetOutOfRange);
        }
        self.start = offset;
        for segment in &mut self.segments {
            segment.entries.retain(|entry| entry.offset >= offset);
        }
        let active = self.segments.pop();
        self.segments.retain(|segment| !segment.entries.is_empty());
        self.segments.extend(active);
        Ok(())
    }
}

fn check_records(records: &[NewRecord], config: &TopicConfig, now_ms: i64) -> Result<(), Code> {
    if records.iter().map(NewRecord::bytes).sum::<usize>() > config.message_bytes_max {
        return Err(Code::MessageTooLarge);
    }
    if config.compact && records.iter().any(|record| record.key.is_none()) {
        return Err(Code::InvalidRecord);
    }
    let is_ahead = |record: &NewRecord| record.timestamp_ms - now_ms > config.timestamp_after_max_ms;
    if !config.log_append_time && records.iter().any(is_ahead) {
        return Err(Code::InvalidTimestamp);
    }
    Ok(())
}
