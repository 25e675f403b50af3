//! The check of one partition.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use hotspare_cluster::{Epoch, Offset, PartitionId};
use serde::Serialize;

use super::{Findings, Options, VerifyError, findings::text, letters::Letters, outputs::Outputs, state, tail::Tail};
use crate::{
    changelog::{Progress, Unreadable},
    config::Config,
    log::{Log, Topic},
    reading::InputRecord,
    semantics::{Emit, Semantics},
    store::{Applied, Batch, Store},
};

/// What was found in one partition.
#[derive(Clone, Debug, Serialize)]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// Epoch of the newest progress record; 0 without one.
    pub epoch: Epoch,
    /// Number of its commit.
    pub commit: u64,
    /// The input offset up to before which the clean run went.
    pub next_input_offset: Offset,
    /// End of the input.
    pub input_end: Offset,
    /// Input records that the clean run read.
    pub records: u64,
    /// Readings counted.
    pub counted: u64,
    /// Final outputs of the clean run.
    pub windows_final: u64,
    /// Windows open at its end.
    pub windows_open: u64,
    /// Outputs read from the topic.
    pub outputs: u64,
    /// Dead letters of the clean run.
    pub dead_letters: u64,
    /// Missing.
    pub lost: u64,
    /// More than once.
    pub duplicated: u64,
    /// Different.
    pub wrong: u64,
}

struct Check<'a> {
    config: &'a Config,
    log: &'a dyn Log,
    options: &'a Options,
    partition: PartitionId,
    outputs: Outputs,
    letters: Letters,
    findings: Findings,
}

/// Checks a partition.
pub(super) fn check(
    config: &Config,
    log: &dyn Log,
    options: &Options,
    partition: PartitionId,
) -> Result<(PartitionReport, Findings), VerifyError> {
    let check = Check {
        config,
        log,
        options,
        partition,
        outputs: Outputs::new(partition),
        letters: Letters::new(partition),
        findings: Findings::default(),
    };
    check.run()
}

impl Check<'_> {
    fn tail(&self, topic: Topic) -> Tail<'_> {
        let topics = &self.config.topics;
        let name = match topic {
            Topic::Input => &self.config.input.topic,
            Topic::Changelog => topics.changelog(),
            Topic::Output => topics.output(),
            Topic::DeadLetters => topics.dead_letters(),
        };
        Tail { log: self.log, topic, name, partition: self.partition, stop: &self.options.stop }
    }

    fn run(mut self) -> Result<(PartitionReport, Findings), VerifyError> {
        let against = self.options.against;
        // All outputs before this one are of commits that the progress record, read next, covers.
        let sure = if against.output { self.tail(Topic::Output).whole()? } else { Offset(0) };
        let changelog = self.changelog()?;
        let progress = changelog.progress().cloned();
        let (end, is_whole) = self.end_of_run(progress.as_ref());
        let outputs = self.read_outputs()?;
        self.read_letters()?;
        let input_end = self.tail(Topic::Input).whole()?;
        let clean = self.clean_run(end, &changelog)?;
        if against.output && is_whole && self.config.semantics().emit() == Emit::Changes {
            for open in clean.open_windows() {
                self.outputs.expect_current(open.as_bytes(), &mut self.findings);
            }
        }
        if against.changelog && is_whole {
            state::compare(self.partition, &changelog, &clean, &mut self.findings);
        }
        let Self { config, log, options, partition, outputs: book, letters, mut findings } = self;
        // A run that ends early does not know what comes after.
        book.finish(if is_whole { sure.0 } else { 0 }, &mut findings);
        letters.finish(end.0, &mut findings);
        let (topic, name) = (Topic::Output, config.topics.output());
        show_found(&Tail { log, topic, name, partition, stop: &options.stop }, &mut findings)?;
        let counters = clean.counters();
        let report = PartitionReport {
            partition,
            epoch: progress.as_ref().map_or(Epoch(0), |progress| progress.epoch),
            commit: progress.as_ref().map_or(0, |progress| progress.commit),
            next_input_offset: end,
            input_end,
            records: counters.records,
            counted: counters.counted,
            windows_final: counters.windows_final,
            windows_open: clean.windows_open(),
            outputs,
            dead_letters: counters.dead_letters,
            lost: findings.lost,
            duplicated: findings.duplicated,
            wrong: findings.wrong,
        };
        Ok((report, findings))
    }

    /// The state that the changelog tells.
    fn changelog(&mut self) -> Result<Store, VerifyError> {
        let mut findings = Findings::default();
        let mut store = Store::new(Arc::clone(self.config.semantics()), self.partition);
        let mut unreadable = Unreadable::default();
        let tail = self.tail(Topic::Changelog);
        let (begin, end) = tail.bounds()?;
        tail.read(begin, end, |record| {
            let before = store.progress().map(Progress::as_commit);
            let key = record.key.unwrap_or_default();
            let applied = store.apply_changelog(key, record.value);
            if let Ok(Applied::Progress(progress)) = &applied {
                let (partition, offset) = (self.partition, record.offset.0);
                state::check_succession(partition, offset, before.as_ref(), progress, &mut findings);
            }
            unreadable.note(record.offset, key, record.value, applied.err());
            Ok(())
        })?;
        if self.options.against.changelog {
            self.findings.merge(findings);
        }
        // With other settings entries look broken; the progress record, which comes after them, tells why.
        self.check_semantics(store.progress())?;
        match unreadable.first() {
            None => Ok(store),
            Some((offset, source)) => {
                Err(VerifyError::Changelog { partition: self.partition, offset: offset.0, source: source.clone() })
            }
        }
    }

    fn check_semantics(&self, progress: Option<&Progress>) -> Result<(), VerifyError> {
        let wanted = self.config.semantics().hash();
        match progress {
            Some(progress) if progress.semantics_hash != wanted => {
                Err(VerifyError::OtherSemantics { partition: self.partition, found: progress.semantics_hash, wanted })
            }
            _ => Ok(()),
        }
    }

    /// Where the clean run ends, and whether that is where the progress record stands.
    fn end_of_run(&self, progress: Option<&Progress>) -> (Offset, bool) {
        let end = progress.map_or(Offset(0), |progress| progress.next_input_offset);
        match self.options.to {
            Some(to) if to < end => (to, false),
            _ => (end, true),
        }
    }

    fn read_outputs(&mut self) -> Result<u64, VerifyError> {
        if !self.options.against.output {
            return Ok(0);
        }
        let mut outputs = std::mem::replace(&mut self.outputs, Outputs::new(self.partition));
        let (mut findings, mut count) = (Findings::default(), 0);
        let tail = self.tail(Topic::Output);
        let end = tail.whole()?;
        tail.read(Offset(0), end, |record| {
            count += 1;
            outputs.read(record.offset.0, record.key, record.value, &mut findings);
            Ok(())
        })?;
        self.outputs = outputs;
        self.findings.merge(findings);
        Ok(count)
    }

    fn read_letters(&mut self) -> Result<(), VerifyError> {
        if !self.options.against.dead_letters {
            return Ok(());
        }
        let mut letters = std::mem::replace(&mut self.letters, Letters::new(self.partition));
        let mut findings = Findings::default();
        let tail = self.tail(Topic::DeadLetters);
        let end = tail.whole()?;
        tail.read(Offset(0), end, |record| {
            letters.read(record.offset.0, (record.key, record.value), &record.headers(), &mut findings);
            Ok(())
        })?;
        self.letters = letters;
        self.findings.merge(findings);
        Ok(())
    }

    /// An uninterrupted run over the input, up to before this offset, and the log-time facts that the changelog holds.
    fn clean_run(&mut self, end: Offset, changelog: &Store) -> Result<Store, VerifyError> {
        let mut outputs = std::mem::replace(&mut self.outputs, Outputs::new(self.partition));
        let mut letters = std::mem::replace(&mut self.letters, Letters::new(self.partition));
        let mut findings = Findings::default();
        let (against, from) = (self.options.against, self.options.from.unwrap_or(Offset(0)));
        let mut clean = CleanRun::new(self.config.semantics(), self.partition, changelog.facts());
        self.tail(Topic::Input).read(Offset(0), end, |record| {
            let input = InputRecord {
                offset: record.offset,
                timestamp_ms: record.timestamp_ms,
                key: record.key,
                value: record.value,
                headers: record.headers(),
            };
            let is_judged = record.offset >= from;
            let batch = clean.step(&input);
            if against.output {
                for output in &batch.outputs {
                    outputs.expect(&output.key, &output.value, is_judged, &mut findings);
                }
            }
            if against.dead_letters {
                for letter in &batch.dead_letters {
                    letters.expect(letter, is_judged, &mut findings);
                }
            }
            Ok(())
        })?;
        if against.output {
            for output in &clean.finish(end).outputs {
                outputs.expect(&output.key, &output.value, true, &mut findings);
            }
        }
        (self.outputs, self.letters) = (outputs, letters);
        self.findings.merge(findings);
        Ok(clean.store)
    }
}

/// Reads once more what the examples are about, for only hashes of it were kept.
fn show_found(output: &Tail<'_>, findings: &mut Findings) -> Result<(), VerifyError> {
    for example in &mut findings.examples.wrong {
        let is_output = example.what == "final" || example.what == "change";
        let (true, None, Some(offset)) = (is_output, &example.found, example.offset) else { continue };
        output.read(Offset(offset), Offset(offset.saturating_add(1)), |record| {
            example.found = record.value.map(text);
            Ok(())
        })?;
    }
    Ok(())
}

/// The pure rooms with a commit after every record, so that every state that any cluster may have shown is seen.
pub(super) struct CleanRun {
    pub(super) store: Store,
    /// Log-time facts that are still to come, by the offset before which they stand.
    facts: VecDeque<(Offset, i64)>,
}

impl CleanRun {
    pub(super) fn new(
        semantics: &Arc<Semantics>,
        partition: PartitionId,
        facts: impl Iterator<Item = (Offset, i64)>,
    ) -> Self {
        Self { store: Store::new(Arc::clone(semantics), partition), facts: facts.collect() }
    }

    /// Reads a record and gives what a commit after it writes.
    pub(super) fn step(&mut self, record: &InputRecord<'_>) -> Batch {
        self.facts_until(record.offset);
        let store = &mut self.store;
        // A record on which the code panics is a rejection, there as here.
        if catch_unwind(AssertUnwindSafe(|| store.apply(record))).is_err() {
            store.undo();
            store.reject_internal(record);
        }
        self.commit(Offset(record.offset.0.saturating_add(1)))
    }

    /// Gives what a commit after the last record writes: the facts that follow it.
    pub(super) fn finish(&mut self, end: Offset) -> Batch {
        self.facts_until(end);
        self.commit(end)
    }

    fn facts_until(&mut self, offset: Offset) {
        while let Some((before, log_time_ms)) = self.facts.pop_front_if(|(before, _)| *before <= offset) {
            self.store.log_time_fact(before, log_time_ms, usize::MAX);
        }
    }

    fn commit(&mut self, next: Offset) -> Batch {
        let batch = self.store.batch(Epoch(0), next);
        self.store.committed();
        batch
    }
}
