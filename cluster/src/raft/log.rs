//! The log store of openraft: all entries in memory, each durable in the log file before it counts.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use tokio::sync::oneshot;

use super::log_file::{self, Fsyncs, LogFile, Record};
use super::types::{Entry, EntryForm, LogId, LogIdForm, Types, Vote, VoteForm, log_id_form};

/// The log of one node; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    file: Arc<LogFile>,
    kept: Arc<Mutex<Kept>>,
}

/// What the log file says.
#[derive(Debug, Default)]
struct Kept {
    vote: Option<Vote>,
    committed: Option<LogId>,
    /// Not yet written: goes with the next write, for it may be lost.
    committed_unwritten: bool,
    purged: Option<LogId>,
    entries: BTreeMap<u64, Entry>,
}

impl Kept {
    fn take(&mut self, record: Record) {
        match record {
            Record::Vote(vote) => self.vote = Some(vote.into()),
            Record::Committed(id) => self.committed = id.map(LogId::from),
            Record::Entry(form) => {
                let entry = Entry::from(form);
                self.entries.insert(entry.log_id.index, entry);
            }
            Record::TruncateAfter(last) => self.truncate_after(last),
            Record::PurgeUpTo(id) => self.purge(id.into()),
        }
    }

    fn truncate_after(&mut self, last: Option<u64>) {
        match last {
            None => self.entries.clear(),
            Some(last) => drop(self.entries.split_off(&last.saturating_add(1))),
        }
    }

    fn purge(&mut self, id: LogId) {
        self.entries = self.entries.split_off(&id.index.saturating_add(1));
        self.purged = Some(id);
    }

    fn last(&self) -> Option<LogId> {
        self.entries.last_key_value().map(|(_, e)| e.log_id).or(self.purged)
    }

    fn all(&self) -> Vec<Record> {
        let vote = self.vote.as_ref().map(|v| Record::Vote(VoteForm::from(v)));
        let purged = self.purged.as_ref().map(|id| Record::PurgeUpTo(LogIdForm::from(id)));
        let committed = Record::Committed(log_id_form(self.committed.as_ref()));
        let entries = self.entries.values().map(|e| Record::Entry(EntryForm::from(e)));
        vote.into_iter().chain(purged).chain([committed]).chain(entries).collect()
    }
}

impl Log {
    /// Opens the log at `path`, or makes an empty one.
    pub(crate) fn open(path: &Path, fsync_warn: Duration) -> io::Result<Self> {
        let (file, records) = log_file::open(path, fsync_warn)?;
        let mut kept = Kept::default();
        for record in records {
            kept.take(record);
        }
        Ok(Self { file: Arc::new(file), kept: Arc::new(Mutex::new(kept)) })
    }

    /// How long fsyncs took so far.
    pub(crate) fn fsyncs(&self) -> Arc<Fsyncs> {
        self.file.fsyncs()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and waits until it is durable.
    async fn write(&self, record: Record) -> io::Result<()> {
        let (tx, rx) = oneshot::channel();
        self.file.append(vec![record], Box::new(move |result| drop(tx.send(result))));
        rx.await.map_err(|_| io::Error::other("the writer of the raft log has stopped"))?
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> io::Result<Vec<Entry>> {
        Ok(self.kept().entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        Ok(self.kept().vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let kept = self.kept();
        Ok(LogState { last_purged_log_id: kept.purged, last_log_id: kept.last() })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        self.write(Record::Vote(VoteForm::from(vote))).await?;
        self.kept().vote = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> io::Result<()> {
        let mut kept = self.kept();
        kept.committed = committed;
        kept.committed_unwritten = true;
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogId>> {
        // Written with a later entry, it may name one that a crash cut off.
        let kept = self.kept();
        Ok(kept.committed.min(kept.last()))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut records = Vec::new();
        {
            let mut kept = self.kept();
            if std::mem::take(&mut kept.committed_unwritten) {
                records.push(Record::Committed(log_id_form(kept.committed.as_ref())));
            }
            for entry in entries {
                records.push(Record::Entry(EntryForm::from(&entry)));
                kept.entries.insert(entry.log_id.index, entry);
            }
        }
        self.file.append(records, Box::new(move |result| callback.io_completed(result)));
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> io::Result<()> {
        let last = last_log_id.map(|id| id.index);
        self.kept().truncate_after(last);
        self.write(Record::TruncateAfter(last)).await
    }

    async fn purge(&mut self, log_id: LogId) -> io::Result<()> {
        let records = {
            let mut kept = self.kept();
            kept.purge(log_id);
            kept.all()
        };
        let (tx, rx) = oneshot::channel();
        self.file.rewrite(records, Box::new(move |result| drop(tx.send(result))));
        rx.await.map_err(|_| io::Error::other("the writer of the raft log has stopped"))?
    }
}
