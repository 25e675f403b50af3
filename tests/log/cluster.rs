//! What the scenarios ask of a Kafka, whichever it is, and the trace of its answers.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hotspare::log::{CommitError, Event, Log, LogError, Message, Reader, Topic, Writer};
use hotspare::{Offset, PartitionId};

use crate::harness::records::{Isolation, Rec};

/// Far more than anything here takes, for a machine that is busy with other things.
pub const WITHIN: Duration = Duration::from_secs(20);
pub const HOUR_MS: i64 = 3_600_000;
/// The transactional id with which a log fences partition 0.
pub const OURS: &str = "0";
const P0: PartitionId = PartitionId(0);
const CONCURRENT_TRANSACTIONS: i16 = 51;

/// Settings of a topic with one partition; 0 leaves Kafka's default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    pub compact: bool,
    pub log_append_time: bool,
    pub timestamp_after_max_ms: i64,
    pub message_bytes_max: usize,
    pub segment_ms: i64,
    pub delete_retention_ms: i64,
}

/// Id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub id: i64,
    pub epoch: i16,
}

/// First offset, last stable offset, end.
pub type Ends = (i64, i64, i64);

/// A Kafka with one broker. Topics and transactional ids are given by short names. Errors are Kafka's codes.
pub trait Cluster {
    fn now_ms(&self) -> i64;
    fn create_topic(&mut self, topic: &str, settings: Settings);
    fn delete_topic(&mut self, topic: &str);
    fn init(&mut self, id: &str, timeout: Duration) -> Result<Owner, i16>;
    fn add(&mut self, id: &str, owner: Owner, topic: &str) -> Result<(), i16>;
    fn produce(&mut self, id: &str, owner: Owner, topic: &str, sequence: i32, records: &[Rec]) -> Result<i64, i16>;
    /// Without a transaction.
    fn append(&mut self, topic: &str, records: &[Rec]) -> Result<i64, i16>;
    fn end(&mut self, id: &str, owner: Owner, commit: bool) -> Result<(), i16>;
    /// Called before something is asked again: the broker's background work goes on.
    fn go_on(&mut self);
    fn ends(&mut self, topic: &str) -> Result<Ends, i16>;
    fn read(&mut self, topic: &str, isolation: Isolation) -> Vec<Rec>;
    /// Lets so much time go by.
    fn pass(&mut self, time: Duration);
    /// Lets the cleaner work until so many records are left.
    fn compact(&mut self, topic: &str, left: usize);
    fn delete_before(&mut self, topic: &str, offset: i64);
    /// A log as a node has it, on the topics `readings`, `changelog`, `windows`, `dead-letters`.
    fn log(&self) -> Box<dyn Log>;
}

/// Asks a cluster and writes down what it answers, without what differs from run to run.
pub struct Trace<'a> {
    pub cluster: &'a mut dyn Cluster,
    pub lines: Vec<String>,
    pub base_ms: i64,
    /// Ids of producers in the order in which they appeared.
    ids: Vec<i64>,
}

/// A record to write: its value is none for a tombstone.
pub type Pair<'a> = (&'a str, Option<&'a str>);

impl<'a> Trace<'a> {
    pub fn new(cluster: &'a mut dyn Cluster) -> Self {
        let base_ms = cluster.now_ms();
        Self { cluster, lines: Vec::new(), base_ms, ids: Vec::new() }
    }

    pub fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    pub fn topic(&mut self, topic: &str, settings: Settings) {
        self.cluster.create_topic(topic, settings);
    }

    /// Topics of a log.
    pub fn log_topics(&mut self) {
        for topic in ["changelog", "windows", "dead-letters"] {
            self.topic(topic, Settings::default());
        }
    }

    fn name_of(&mut self, owner: Owner) -> String {
        let known = self.ids.iter().position(|id| *id == owner.id);
        let number = known.unwrap_or_else(|| {
            self.ids.push(owner.id);
            self.ids.len() - 1
        });
        format!("producer {number} epoch {}", owner.epoch)
    }

    /// `InitProducerId`, once.
    pub fn init_once(&mut self, id: &str, timeout: Duration) -> Result<Owner, i16> {
        let answer = self.cluster.init(id, timeout);
        let text = match answer {
            Ok(owner) => self.name_of(owner),
            Err(code) => format!("error {code}"),
        };
        self.line(format!("init {id}: {text}"));
        answer
    }

    /// `InitProducerId`, until it is answered.
    pub fn init(&mut self, id: &str) -> Owner {
        self.init_for(id, 10 * WITHIN)
    }

    pub fn init_for(&mut self, id: &str, timeout: Duration) -> Owner {
        let answer = self.until_decided(|cluster| cluster.init(id, timeout));
        let owner = answer.unwrap_or_else(|code| panic!("init {id}: error {code}"));
        let name = self.name_of(owner);
        self.line(format!("init {id}: {name}"));
        owner
    }

    /// While the last transaction is being ended, which takes its time on a real broker only, one has to ask again.
    fn until_decided<T>(&mut self, mut ask: impl FnMut(&mut dyn Cluster) -> Result<T, i16>) -> Result<T, i16> {
        let begin = Instant::now();
        loop {
            match ask(self.cluster) {
                Err(CONCURRENT_TRANSACTIONS) if begin.elapsed() < WITHIN => self.cluster.go_on(),
                answer => return answer,
            }
        }
    }

    pub fn add(&mut self, id: &str, owner: Owner, topic: &str) {
        let answer = self.until_decided(|cluster| cluster.add(id, owner, topic));
        self.line(format!("add {topic} to {id}: {answer:?}"));
    }

    /// Records that have a time so many hours after the begin of the scenario.
    pub fn records(&self, hours: i64, pairs: &[Pair<'_>]) -> Vec<Rec> {
        let record = |(key, value): &Pair<'_>| Rec {
            value: value.map(|value| value.as_bytes().to_vec()),
            timestamp: self.base_ms + hours * HOUR_MS,
            ..Rec::new(0, *key, "")
        };
        pairs.iter().map(record).collect()
    }

    pub fn produce(&mut self, id: &str, owner: Owner, topic: &str, sequence: i32, pairs: &[Pair<'_>]) {
        let records = self.records(0, pairs);
        self.produce_records(id, owner, topic, sequence, &records);
    }

    pub fn append(&mut self, topic: &str, pairs: &[Pair<'_>]) {
        let records = self.records(0, pairs);
        let answer = self.cluster.append(topic, &records);
        self.line(format!("append {} to {topic}: {answer:?}", records.len()));
    }

    pub fn produce_records(&mut self, id: &str, owner: Owner, topic: &str, sequence: i32, records: &[Rec]) {
        let answer = self.until_decided(|cluster| cluster.produce(id, owner, topic, sequence, records));
        self.line(format!("produce {} to {topic} as {id}, sequence {sequence}: {answer:?}", records.len()));
    }

    /// `EndTxn`, and waits until readers see it.
    pub fn end(&mut self, id: &str, owner: Owner, commit: bool) {
        let mut answer = self.cluster.end(id, owner, commit);
        if answer.is_ok() {
            answer = self.until_decided(|cluster| cluster.end(id, owner, commit));
        }
        self.line(format!("{} {id}: {answer:?}", if commit { "commit" } else { "abort" }));
    }

    /// A whole transaction with one partition.
    pub fn transaction(
        &mut self,
        id: &str,
        owner: Owner,
        topic: &str,
        sequence: i32,
        pairs: &[Pair<'_>],
        commit: bool,
    ) {
        self.add(id, owner, topic);
        self.produce(id, owner, topic, sequence, pairs);
        self.end(id, owner, commit);
    }

    /// Where the topic ends and what is in it.
    pub fn look(&mut self, topic: &str) {
        let ends = self.cluster.ends(topic);
        self.line(format!("{topic}: start, stable, end {ends:?}"));
        if ends.is_ok() {
            for isolation in [Isolation::Committed, Isolation::Uncommitted] {
                let records = self.cluster.read(topic, isolation);
                let texts: Vec<_> = records.iter().map(text).collect();
                self.line(format!("{topic} {isolation:?}: {}", texts.join(" ")));
            }
        }
    }

    pub fn compact(&mut self, topic: &str, left: usize) {
        self.cluster.compact(topic, left);
        self.look(topic);
    }

    /// Waits until nothing in a topic is undecided.
    pub fn wait_stable(&mut self, topic: &str) {
        let begin = Instant::now();
        while self.cluster.ends(topic).is_ok_and(|(_, stable, end)| stable < end) {
            assert!(begin.elapsed() < WITHIN, "{topic} stays undecided");
            self.cluster.pass(Duration::from_millis(100));
            self.cluster.go_on();
        }
    }

    /// Fences partition 0 as a node does.
    pub fn fence(&mut self, log: &dyn Log) -> Box<dyn Writer> {
        let fenced = log.fence(P0).unwrap_or_else(|error| panic!("fencing: {error}"));
        self.line(format!("fence: changelog ends at {}, {}", fenced.changelog_end.0, fenced.method));
        fenced.writer
    }

    pub fn transact(&mut self, writer: &mut dyn Writer, messages: &[Message]) {
        let begin = Instant::now();
        let answer = loop {
            match writer.transact(messages) {
                Err(CommitError::Aborted(_)) if begin.elapsed() < WITHIN => {}
                answer => break answer,
            }
        };
        let text = match answer {
            Ok(committed) => format!("committed, changelog goes on at {}", committed.changelog_next.0),
            Err(CommitError::TooLarge { index, bytes }) => format!("message {index} is too large: {bytes}"),
            Err(CommitError::Aborted(text)) => panic!("aborted again and again: {text}"),
            Err(CommitError::Fenced(_)) => "fenced".to_owned(),
            Err(CommitError::Fatal(_)) => "fatal".to_owned(),
        };
        // Readers see it as soon as the markers are written.
        self.wait_stable("changelog");
        self.line(format!("transact {}: {text}", messages.len()));
    }

    /// What a reader of a log is handed until it is told an end or an error.
    pub fn follow(&mut self, reader: &mut dyn Reader) {
        let (mut texts, mut is_over, begin) = (Vec::new(), false, Instant::now());
        while !is_over {
            assert!(begin.elapsed() < WITHIN, "no end and no error is told; read: {texts:?}");
            reader.poll(Duration::from_millis(100), &mut |event| {
                // How often a client says that it cannot read, and goes on trying, is its own affair.
                if !matches!(event, Event::Error(_, LogError::Unavailable(_))) {
                    is_over |= !matches!(event, Event::Record(..));
                    texts.push(event_text(&event));
                }
            });
        }
        self.line(format!("reader: {}", texts.join(" ")));
    }

    /// What a reader is handed in so long.
    pub fn poll(&mut self, reader: &mut dyn Reader, time: Duration) {
        let mut texts = Vec::new();
        reader.poll(time, &mut |event| texts.push(event_text(&event)));
        self.line(format!("reader: {}", texts.join(" ")));
    }

    pub fn reader(&mut self, log: &dyn Log, from: i64) -> Box<dyn Reader> {
        let mut reader = log.reader(Topic::Changelog, "test").expect("a reader");
        reader.assign(P0, Offset(from)).expect("a partition");
        let bounds = reader.bounds(P0).map(|(start, stable)| (start.0, stable.0)).expect("bounds");
        assert_eq!(log.bounds(Topic::Changelog, P0).expect("bounds"), (Offset(bounds.0), Offset(bounds.1)));
        self.line(format!("reader at {from}: bounds {bounds:?}"));
        reader
    }
}

fn text(record: &Rec) -> String {
    let key = record.key.as_ref().map_or("-".into(), |key| String::from_utf8_lossy(key).into_owned());
    let value = if record.value.is_none() { "tombstone".to_owned() } else { record.text() };
    format!("{}:{key}={value}", record.offset)
}

fn event_text(event: &Event<'_>) -> String {
    match event {
        Event::Record(_, record) => {
            let part =
                |part: Option<&[u8]>| part.map_or("-".into(), |bytes| String::from_utf8_lossy(bytes).into_owned());
            let mut text = format!("{}:{}={}", record.offset.0, part(record.key), part(record.value));
            for (name, value) in record.headers() {
                write!(text, "[{name}={}]", part(value)).expect("a string takes everything");
            }
            text
        }
        Event::End(_, offset) => format!("end {}", offset.0),
        Event::Error(_, LogError::OffsetOutOfRange { .. }) => "out of range".to_owned(),
        Event::Error(_, error) => panic!("{error}"),
    }
}

pub fn message(topic: Topic, value: &str) -> Message {
    Message {
        topic,
        key: Some(Bytes::from_static(b"k")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: vec![("role".to_owned(), Some(b"active".to_vec())), ("none".to_owned(), None)],
    }
}
