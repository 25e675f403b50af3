//! The Raft log on disk: one file, records in the order in which they were made, durable before they count.
//!
//! Each write is one frame (length, checksum) of one or more records, followed by an fsync. A frame that is cut
//! off at the end was never acknowledged and is dropped; a damaged frame before other good ones is damage and
//! refused. After a failed fsync nothing is known about the file any more, so everything fails from then on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotspare_system::mpsc::{Receiver, SyncSender, sync_channel};
use hotspare_system::{disk as system_disk, thread};
use serde::{Deserialize, Serialize};

use crate::disk::{self, Framed};
use crate::histogram::{Histogram, SHORT_BOUNDS_S};

use super::types::{EntryForm, LogIdForm, VoteForm};

/// First byte of each frame.
const FORMAT: u8 = 1;

/// Writes waiting for the disk.
const QUEUE_MAX: usize = 1024;

/// One record of the log file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Record {
    Vote(VoteForm),
    Entry(EntryForm),
    Committed(Option<LogIdForm>),
    /// Entries above this index are void; all are, if none.
    TruncateAfter(Option<u64>),
    /// Entries up to this one are in a snapshot.
    PurgeUpTo(LogIdForm),
}

/// Told when a write is durable, or has failed.
pub(crate) type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

enum Job {
    Append(Vec<Record>, Done),
    /// Replaces the whole content.
    Rewrite(Vec<Record>, Done),
}

/// The writing end of the log file; its thread ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LogFile {
    jobs: SyncSender<Job>,
    fsyncs: Arc<Fsyncs>,
}

/// How long fsyncs of the log took.
#[derive(Debug, Default)]
pub(crate) struct Fsyncs {
    us_max: AtomicU64,
    times: Mutex<Histogram>,
}

impl Fsyncs {
    /// The longest, in microseconds.
    pub(crate) fn us_max(&self) -> u64 {
        self.us_max.load(Ordering::Relaxed)
    }

    /// All.
    pub(crate) fn times(&self) -> Histogram {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn took(&self, time: Duration) -> u64 {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.us_max.fetch_max(us, Ordering::Relaxed);
        self.times.lock().unwrap_or_else(PoisonError::into_inner).observe(SHORT_BOUNDS_S, time.as_secs_f64());
        us
    }
}

/// Opens the log file and gives back its records; creates it where it is missing.
pub(crate) fn open(path: &Path, fsync_warn: Duration) -> io::Result<(LogFile, Vec<Record>)> {
    let created = !path.exists();
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    if created {
        file.sync_all()?;
        disk::sync_folder(path.parent().unwrap_or(Path::new(".")))?;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (records, good) = decode(&bytes, path)?;
    if good < bytes.len() {
        tracing::warn!(file = %path.display(), dropped_bytes = bytes.len() - good, "raft_log_tail_dropped");
        file.set_len(good as u64)?;
        file.sync_all()?;
    }
    file.seek(SeekFrom::Start(good as u64))?;
    let (jobs, queue) = sync_channel(QUEUE_MAX);
    let fsyncs = Arc::<Fsyncs>::default();
    let writer = Writer { path: path.to_owned(), file, failed: None, fsync_warn, fsyncs: fsyncs.clone() };
    thread::Builder::new().name("raft-log".into()).spawn(move || writer.run(&queue))?;
    Ok((LogFile { jobs, fsyncs }, records))
}

/// Whether a log file was ever made in this folder.
pub(crate) fn exists(path: &Path) -> bool {
    path.exists()
}

fn decode(bytes: &[u8], path: &Path) -> io::Result<(Vec<Record>, usize)> {
    let damaged = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {why}", path.display()));
    let mut records = Vec::new();
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match disk::unframe(rest) {
            Framed::End => return Ok((records, at)),
            Framed::Torn if followed_by_good(rest) => {
                return Err(damaged(format!(
                    "the record at byte {at} is damaged though later ones are whole; the disk has lost data. \
                     Repair: give this node an empty folder, it then joins under a new id"
                )));
            }
            Framed::Torn => return Ok((records, at)),
            Framed::Record(payload, taken) => {
                let json = match payload.split_first() {
                    Some((&FORMAT, json)) => json,
                    Some((newer, _)) => {
                        return Err(damaged(format!("format {newer}, this program reads {FORMAT}; run the newer one")));
                    }
                    None => return Err(damaged(format!("the record at byte {at} is empty"))),
                };
                let group: Vec<Record> =
                    serde_json::from_slice(json).map_err(|e| damaged(format!("the record at byte {at}: {e}")))?;
                records.extend(group);
                at += taken;
            }
        }
    }
}

/// Whether a whole record follows a damaged one whose length can be believed.
fn followed_by_good(torn: &[u8]) -> bool {
    let length = torn.get(..4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes);
    let next = length.and_then(|l| torn.get(disk::RECORD_HEADER_BYTES + l as usize..));
    next.is_some_and(|rest| matches!(disk::unframe(rest), Framed::Record(payload, _) if !payload.is_empty()))
}

fn encode(records: &[Record]) -> io::Result<Vec<u8>> {
    let mut payload = vec![FORMAT];
    serde_json::to_writer(&mut payload, records).map_err(io::Error::other)?;
    let mut bytes = Vec::with_capacity(payload.len() + disk::RECORD_HEADER_BYTES);
    disk::frame(&payload, &mut bytes)?;
    Ok(bytes)
}

impl LogFile {
    /// Appends records; `done` is called when they are durable, in the order of the calls.
    pub(crate) fn append(&self, records: Vec<Record>, done: Done) {
        self.send(Job::Append(records, done));
    }

    /// Replaces the content by records that mean the same.
    pub(crate) fn rewrite(&self, records: Vec<Record>, done: Done) {
        self.send(Job::Rewrite(records, done));
    }

    /// How long fsyncs took so far.
    pub(crate) fn fsyncs(&self) -> Arc<Fsyncs> {
        self.fsyncs.clone()
    }

    fn send(&self, job: Job) {
        if let Err(refused) = self.jobs.send(job) {
            let (Job::Append(_, done) | Job::Rewrite(_, done)) = refused.0;
            done(Err(io::Error::other("the writer of the raft log has stopped")));
        }
    }
}

struct Writer {
    path: PathBuf,
    file: File,
    failed: Option<String>,
    fsync_warn: Duration,
    fsyncs: Arc<Fsyncs>,
}

impl Writer {
    fn run(mut self, queue: &Receiver<Job>) {
        let mut next = queue.recv().ok();
        while let Some(job) = next.take() {
            match job {
                Job::Rewrite(records, done) => {
                    let result = self.guarded(|w| w.replace(&records));
                    done(result);
                }
                Job::Append(mut records, done) => {
                    // What has queued up meanwhile shares one fsync.
                    let mut waiting = vec![done];
                    loop {
                        match queue.try_recv() {
                            Ok(Job::Append(more, done)) => {
                                records.extend(more);
                                waiting.push(done);
                            }
                            Ok(rewrite) => {
                                next = Some(rewrite);
                                break;
                            }
                            Err(_) => break,
                        }
                    }
                    let result = self.guarded(|w| w.write(&records));
                    for done in waiting {
                        done(result.as_ref().copied().map_err(|e| io::Error::new(e.kind(), e.to_string())));
                    }
                }
            }
            if next.is_none() {
                next = queue.recv().ok();
            }
        }
    }

    /// After one failure nothing is tried any more.
    fn guarded(&mut self, action: impl FnOnce(&mut Self) -> io::Result<()>) -> io::Result<()> {
        if let Some(why) = &self.failed {
            return Err(io::Error::other(format!("the raft log failed before: {why}")));
        }
        let result = action(self);
        if let Err(e) = &result {
            tracing::error!(file = %self.path.display(), error = %e, "raft_log_failed");
            self.failed = Some(e.to_string());
        }
        result.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", self.path.display())))
    }

    fn write(&mut self, records: &[Record]) -> io::Result<()> {
        self.file.write_all(&encode(records)?)?;
        let started = Instant::now();
        system_disk::sync_data(&self.file)?;
        let took = started.elapsed();
        let took_us = self.fsyncs.took(took);
        if took > self.fsync_warn {
            tracing::warn!(took_us, "raft_fsync_slow");
        }
        Ok(())
    }

    fn replace(&mut self, records: &[Record]) -> io::Result<()> {
        disk::write_atomically(&self.path, &encode(records)?)?;
        let mut file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        file.seek(SeekFrom::End(0))?;
        self.file = file;
        let _ = fs::remove_file(self.path.with_extension("tmp"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(index: u64) -> Record {
        let id = serde_json::from_value(serde_json::json!({"term": 1, "node": 1, "index": index})).unwrap();
        Record::PurgeUpTo(id)
    }

    fn append(log: &LogFile, record: Record) -> io::Result<()> {
        let (tx, rx) = std::sync::mpsc::channel();
        log.append(vec![record], Box::new(move |r| tx.send(r).unwrap()));
        rx.recv().unwrap()
    }

    fn reopen(path: &Path) -> io::Result<Vec<Record>> {
        open(path, Duration::from_secs(1)).map(|(_, records)| records)
    }

    #[test]
    fn a_torn_tail_is_dropped_at_every_length_and_writing_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = open(&path, Duration::from_secs(1)).unwrap();
        append(&log, purge(1)).unwrap();
        let first = fs::metadata(&path).unwrap().len();
        append(&log, purge(2)).unwrap();
        let whole = fs::read(&path).unwrap();
        for cut in first as usize..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (log, records) = open(&path, Duration::from_secs(1)).unwrap();
            assert_eq!(records, vec![purge(1)], "cut at {cut}");
            append(&log, purge(3)).unwrap();
            assert_eq!(reopen(&path).unwrap(), vec![purge(1), purge(3)]);
        }
    }

    #[test]
    fn damage_before_good_records_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = open(&path, Duration::from_secs(1)).unwrap();
        append(&log, purge(1)).unwrap();
        append(&log, purge(2)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[12] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(reopen(&path).unwrap_err().to_string().contains("is damaged though later ones are whole"));
        assert_eq!(fs::read(&path).unwrap(), bytes, "nothing was changed");
    }

    #[test]
    fn a_rewritten_log_has_the_new_records_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let (log, _) = open(&path, Duration::from_secs(1)).unwrap();
        append(&log, purge(1)).unwrap();
        let (tx, rx) = std::sync::mpsc::channel();
        log.rewrite(vec![purge(5)], Box::new(move |r| tx.send(r).unwrap()));
        rx.recv().unwrap().unwrap();
        append(&log, purge(6)).unwrap();
        assert_eq!(reopen(&path).unwrap(), vec![purge(5), purge(6)]);
    }

    #[test]
    fn a_newer_format_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut bytes = Vec::new();
        disk::frame(&[FORMAT + 1, b'[', b']'], &mut bytes).unwrap();
        fs::write(&path, &bytes).unwrap();
        assert!(reopen(&path).unwrap_err().to_string().contains("format 2"));
    }
}
