//! Whatever dies and when: the result is that of an uninterrupted run.

use std::collections::BTreeMap;
use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset};
use proptest::prelude::*;

use super::{BASE_MS, MINUTE_MS, Record, is_final, semantics, store};
use crate::changelog::Progress;
use crate::semantics::Semantics;
use crate::store::{Applied, Batch, DeadLetter, Output, Store};

/// The changelog as compaction leaves it: the last value of each key.
#[derive(Clone, Default)]
struct Changelog(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Changelog {
    fn write(&mut self, batch: &Batch) {
        for record in &batch.entries {
            self.0.insert(record.key.to_vec(), record.value.as_ref().map(|value| value.to_vec()));
        }
        self.0.insert(Progress::key().to_vec(), Some(batch.progress.encode()));
    }

    /// A store that knows nothing but these records, applied in one of many orders.
    fn restore(&self, semantics: &Arc<Semantics>, seed: u64) -> Store {
        let mut store = store(semantics);
        let mut records: Vec<_> = self.0.iter().collect();
        records.sort_by_key(|(key, _)| xxhash_rust::xxh3::xxh3_64_with_seed(key, seed));
        for (key, value) in records {
            store.apply_changelog(key, value.as_deref()).expect("a record of this version");
        }
        store
    }
}

/// What came out of a run.
#[derive(Debug, Default, PartialEq)]
struct Result {
    outputs: Vec<Output>,
    dead_letters: Vec<Arc<DeadLetter>>,
    progress: Option<Progress>,
    open: Vec<String>,
}

/// What happens after a record.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Nothing,
    Commit,
    /// The process dies after the commit and another goes on from the changelog.
    CommitAndRestore,
    /// A transaction fails: everything since the last commit is undone and applied again.
    UndoAndReplay,
    /// The process dies before the commit.
    Restore,
}

struct Run<'a> {
    semantics: &'a Arc<Semantics>,
    records: &'a [Record],
    store: Store,
    standby: Store,
    changelog: Changelog,
    committed: usize,
    result: Result,
}

impl<'a> Run<'a> {
    fn new(semantics: &'a Arc<Semantics>, records: &'a [Record]) -> Self {
        let (store, standby) = (store(semantics), store(semantics));
        Run {
            semantics,
            records,
            store,
            standby,
            changelog: Changelog::default(),
            committed: 0,
            result: Result::default(),
        }
    }

    fn all(mut self, steps: impl Iterator<Item = Step>) -> Result {
        for (offset, (record, step)) in self.records.iter().zip(steps).enumerate() {
            self.store.apply(&record.borrowed(offset));
            self.step(offset + 1, step);
        }
        self.commit(self.records.len());
        self.result.open = self.store.open_windows();
        self.result
    }

    fn step(&mut self, done: usize, step: Step) {
        match step {
            Step::Nothing => {}
            Step::Commit => self.commit(done),
            Step::CommitAndRestore => {
                self.commit(done);
                self.restore(done);
            }
            Step::UndoAndReplay => {
                let before = self.store.batch(Epoch(1), Offset(0));
                self.store.undo();
                assert!(!self.store.has_changes());
                self.check_committed();
                self.replay(done);
                assert_eq!(self.store.batch(Epoch(1), Offset(0)), before);
            }
            Step::Restore => {
                self.restore(done);
                self.replay(done);
            }
        }
    }

    fn commit(&mut self, done: usize) {
        let next = Offset(i64::try_from(done).expect("small"));
        let batch = self.store.batch(Epoch(1), next);
        assert_eq!(self.store.batch(Epoch(1), next), batch);
        assert_eq!(self.store.recompute_digest(), batch.progress.digest);
        self.store.committed();
        self.changelog.write(&batch);
        // The standby sees the records of a transaction in any order: last things first.
        for record in batch.entries.iter().rev() {
            self.standby.apply_changelog(&record.key, record.value.as_deref()).expect("an entry");
        }
        let progress = self.standby.apply_changelog(Progress::key(), Some(&batch.progress.encode()));
        assert_eq!(progress, Ok(Applied::Progress(Box::new(batch.progress.clone()))));
        self.result.outputs.extend(batch.outputs);
        self.result.dead_letters.extend(batch.dead_letters);
        self.result.progress = Some(batch.progress);
        self.committed = done;
        self.check_committed();
    }

    fn check_committed(&self) {
        let Some(progress) = &self.result.progress else {
            return;
        };
        for store in [&self.store, &self.standby] {
            assert_eq!(store.progress(), Some(progress));
            assert_eq!((store.digest(), store.recompute_digest()), (progress.digest, progress.digest));
            assert_eq!((store.entries(), store.counters()), (progress.entries, &progress.counters));
            assert_eq!(store.log_time_ms(), progress.log_time_ms);
            let mut entries = 0;
            store.for_each_entry(|key, value| {
                entries += 1;
                assert_eq!(self.changelog.0.get(key), Some(&Some(value.to_vec())));
            });
            assert_eq!(entries, progress.entries);
        }
        assert_eq!(self.store.open_windows(), self.standby.open_windows());
        assert_eq!(self.store.series(), self.standby.series());
    }

    fn restore(&mut self, done: usize) {
        self.store = self.changelog.restore(self.semantics, done as u64);
    }

    fn replay(&mut self, done: usize) {
        for (offset, record) in self.records.iter().enumerate().take(done).skip(self.committed) {
            self.store.apply(&record.borrowed(offset));
        }
    }
}

fn any_value() -> impl Strategy<Value = String> {
    let messy = prop::sample::select(vec![
        "null", "\"\"", "\"x\"", "true", "1e999", "[]", "-0.0", "0.1", "1e308", "-1e308", "5e-324", "\"nan\"", "1e-30",
    ]);
    prop_oneof![3 => (-500..500i32).prop_map(|value| format!("{}", f64::from(value) / 10.0)), 1 => messy.prop_map(str::to_owned)]
}

fn any_record() -> impl Strategy<Value = Record> {
    let good =
        (0..4u8, -200..600i64, any_value(), any_value(), any::<bool>()).prop_map(|(device, minute, a, b, has_b)| {
            let time_ms = BASE_MS + minute * MINUTE_MS;
            let b = if has_b { format!(",\"b\":{b}") } else { String::new() };
            let value = format!("{{\"device_id\":\"d{device}\",\"ts\":{time_ms},\"a\":{a}{b}}}");
            Record { timestamp_ms: BASE_MS + minute / 2 * MINUTE_MS, value: Some(value) }
        });
    let bad = prop::sample::select(vec![None, Some("{"), Some("{}"), Some("{\"device_id\":\"d0\",\"ts\":9e30}")])
        .prop_map(|value| Record { timestamp_ms: -1, value: value.map(str::to_owned) });
    prop_oneof![8 => good, 1 => bad]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Nothing), 2 => Just(Step::Commit), 1 => Just(Step::CommitAndRestore), 1 => Just(Step::UndoAndReplay),
        1 => Just(Step::Restore),
    ]
}

fn any_rules() -> impl Strategy<Value = Arc<Semantics>> {
    let windows = prop::sample::select(vec![
        "size = \"1h\"\n",
        "size = \"1h\"\ngrace = \"30m\"\n",
        "size = \"10m\"\ngrace = \"2h\"\n",
        "size = \"1d\"\ngrace = \"1h\"\nidle_close = \"20m\"\n",
        "kind = \"hopping\"\nsize = \"1h\"\nadvance = \"20m\"\ngrace = \"10m\"\n",
        "kind = \"hopping\"\nsize = \"30m\"\nadvance = \"7m\"\nidle_close = \"10m\"\nretention = \"30m\"\n",
        "kind = \"session\"\ngap = \"15m\"\ngrace = \"30m\"\n",
        "kind = \"session\"\ngap = \"40m\"\ngrace = \"3h\"\nretention = \"1h\"\n",
        "size = \"10m\"\nretention = \"1m\"\n",
        "kind = \"calendar\"\nunit = \"hour\"\nzone = \"Asia/Kathmandu\"\nretention = \"2h\"\n",
        "kind = \"calendar\"\nunit = \"day\"\ngrace = \"30m\"\nidle_close = \"40m\"\n",
    ]);
    let dedup = prop::sample::select(vec!["none", "reading", "id:/a", "header:h"]);
    let variance = prop::sample::select(vec!["none", "sample", "population"]);
    (windows, dedup, variance, any::<bool>()).prop_map(|(window, dedup, variance, changes)| {
        let emit = if changes && !window.contains("session") { "changes" } else { "final" };
        semantics(&format!(
            "[input.dedup]\nby = \"{dedup}\"\nkeep = \"45m\"\n[input.limits]\nmax_future = \"off\"\n[window]\n{window}\
             [output]\nvariance = \"{variance}\"\nemit = \"{emit}\"\n\
             dead_letter = [\"late\", \"rejected\", \"missing\", \"duplicate\", \"null_record\"]\n"
        ))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn crashes_failed_transactions_and_restoring_leave_no_trace(
        rules in any_rules(), records in prop::collection::vec(any_record(), 1..80), steps in prop::collection::vec(any_step(), 80)
    ) {
        let harmless = |step: &Step| match step {
            Step::CommitAndRestore => Step::Commit,
            Step::UndoAndReplay | Step::Restore => Step::Nothing,
            step => *step,
        };
        let uninterrupted = Run::new(&rules, &records).all(steps.iter().map(harmless));
        let interrupted = Run::new(&rules, &records).all(steps.iter().copied());
        prop_assert_eq!(&interrupted, &uninterrupted);

        // Only the number of commits, and so of changes, tells how the records were cut into batches.
        let mut whole = Run::new(&rules, &records).all(std::iter::repeat(Step::Nothing));
        let mut cut = uninterrupted;
        for result in [&mut whole, &mut cut] {
            result.outputs.retain(is_final);
            if let Some(progress) = &mut result.progress {
                progress.commit = 0;
            }
        }
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn changelog_records_of_any_kind_never_panic(
        key in prop::collection::vec(any::<u8>(), 0..40), value in prop::option::of(prop::collection::vec(any::<u8>(), 0..80))
    ) {
        let mut store = store(&semantics(""));
        let _ = store.apply_changelog(&key, value.as_deref());
        prop_assert_eq!(store.digest(), store.recompute_digest());
    }
}
