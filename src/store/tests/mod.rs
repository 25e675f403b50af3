mod crashes;
mod order;
mod silence;

use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};

use super::{Applied, Batch, Output, Store};
use crate::changelog::{ChangelogError, Counters};
use crate::reading::{InputRecord, Reason};
use crate::semantics::Semantics;

const BASE_MS: i64 = 1_704_067_200_000;
const MINUTE_MS: i64 = 60_000;

/// A record of a test, with its own bytes.
#[derive(Clone, Debug)]
struct Record {
    timestamp_ms: i64,
    value: Option<String>,
}

impl Record {
    fn borrowed(&self, offset: usize) -> InputRecord<'_> {
        InputRecord {
            offset: Offset(i64::try_from(offset).expect("small")),
            timestamp_ms: self.timestamp_ms,
            key: Some(b"key"),
            value: self.value.as_deref().map(str::as_bytes),
            headers: vec![("h".into(), Some(b"x"))],
        }
    }
}

fn reading(device: &str, minute: i64, value: &str) -> Record {
    let time_ms = BASE_MS + minute * MINUTE_MS;
    let value = format!("{{\"device_id\":\"{device}\",\"ts\":{time_ms},\"a\":{value}}}");
    Record { timestamp_ms: time_ms, value: Some(value) }
}

fn semantics(more: &str) -> Arc<Semantics> {
    let text = format!(
        "[input]\ntopic = \"iot\"\n[[input.value]]\nname = \"a\"\npointer = \"/a\"\n[[input.value]]\nname = \"b\"\n\
         pointer = \"/b\"\n{more}"
    );
    Arc::new(Semantics::from_toml(&text).expect("a configuration"))
}

fn store(semantics: &Arc<Semantics>) -> Store {
    Store::new(Arc::clone(semantics), PartitionId(7))
}

fn is_final(output: &Output) -> bool {
    output.value.ends_with(b"\"final\":true}")
}

#[test]
fn a_closed_window_is_given_once_and_its_entry_taken_away() {
    let rules = semantics("");
    let mut store = store(&rules);
    store.apply(&reading("d", 10, "1.5").borrowed(0));
    let first = store.batch(Epoch(1), Offset(1));
    assert_eq!((first.entries.len(), first.outputs.len(), first.progress.entries), (1, 0, 1));
    store.committed();

    store.apply(&reading("d", 70, "2").borrowed(1));
    store.apply(&reading("d", 59, "3").borrowed(2));
    let second = store.batch(Epoch(1), Offset(3));
    let tombstones: Vec<_> = second.entries.iter().filter(|record| record.value.is_none()).collect();
    assert_eq!((second.entries.len(), tombstones.len(), second.outputs.len()), (2, 1, 1));
    assert_eq!(tombstones[0].key, first.entries[0].key);
    assert_eq!(second.outputs[0].key, "d");
    let text = r#"{"device":"d","metric":"a","partition":7,"window_start_ms":1704067200000,"window_end_ms":1704070800000,"count":1,"sum":1.5,"mean":1.5,"min":1.5,"max":1.5,"first":1.5,"first_ms":1704067800000,"last":1.5,"last_ms":1704067800000,"final":true}"#;
    assert_eq!(second.outputs[0].value, text);
    assert_eq!(second.dead_letters[0].reasons, "late=1");
    assert_eq!((second.progress.commit, second.progress.counters.windows_final), (2, 1));
}

#[test]
fn a_window_that_opens_and_closes_in_one_batch_leaves_no_entry() {
    let rules = semantics("");
    let mut store = store(&rules);
    for (offset, minute) in [0, 60, 120].into_iter().enumerate() {
        store.apply(&reading("d", minute, "1").borrowed(offset));
    }
    let batch = store.batch(Epoch(1), Offset(3));
    assert_eq!((batch.entries.len(), batch.outputs.len(), batch.progress.entries), (1, 2, 1));
    assert!(batch.entries[0].value.is_some());
}

#[test]
fn changes_follow_the_final_outputs_in_order() {
    let rules = semantics("[output]\nemit = \"changes\"\n");
    let mut store = store(&rules);
    for (offset, device) in ["b", "a", "c"].into_iter().enumerate() {
        store.apply(&reading(device, 1, "1").borrowed(offset));
    }
    store.apply(&reading("c", 61, "1").borrowed(3));
    let shown = |batch: &Batch| -> Vec<_> {
        batch.outputs.iter().map(|output| (output.key.to_vec(), is_final(output))).collect()
    };
    let wanted = [(b"c".to_vec(), true), (b"a".to_vec(), false), (b"b".to_vec(), false), (b"c".to_vec(), false)];
    assert_eq!(shown(&store.batch(Epoch(1), Offset(4))), wanted);
    store.committed();
    store.apply(&reading("b", 2, "1").borrowed(4));
    assert_eq!(shown(&store.batch(Epoch(1), Offset(5))), [(b"b".to_vec(), false)]);
}

#[test]
fn a_record_that_cannot_be_applied_is_one_rejection_with_a_dead_letter() {
    let rules = semantics("[output]\ndead_letter = []\n");
    let mut store = store(&rules);
    store.apply(&reading("d", 1, "1").borrowed(0));
    store.undo();
    assert_eq!(store.counters(), &Counters::default());
    store.reject_internal(&reading("d", 1, "1").borrowed(0));
    let batch = store.batch(Epoch(1), Offset(1));
    assert_eq!(batch.progress.counters.rejected.get(Reason::InternalError), 1);
    assert_eq!(batch.progress.counters.consumed(), 1);
    assert_eq!(batch.progress.log_time_ms, BASE_MS + MINUTE_MS);
    assert_eq!(batch.dead_letters[0].readings, "[[null,null,\"internal_error\"]]");
}

#[test]
fn pending_grows_and_is_empty_after_the_commit() {
    let rules = semantics("");
    let mut store = store(&rules);
    assert!(!store.has_changes());
    store.apply(&reading("d", 1, "\"bad\"").borrowed(0));
    store.apply(&reading("d", 1, "1").borrowed(1));
    store.apply(&reading("d", 2, "1").borrowed(2));
    let pending = store.pending();
    assert_eq!((pending.entries, pending.records), (1, 3));
    assert!(pending.bytes > 100);
    store.batch(Epoch(1), Offset(3));
    store.committed();
    assert_eq!((store.pending(), store.has_changes()), (super::Pending::default(), false));
    store.raise_log_time(i64::MAX, usize::MAX);
    assert!(store.has_changes());
}

#[test]
fn records_of_other_versions_and_other_windows_are_refused_and_change_nothing() {
    let rules = semantics("");
    let mut active = store(&rules);
    active.apply(&reading("d", 1, "1").borrowed(0));
    let batch = active.batch(Epoch(1), Offset(1));
    let (key, value) = (batch.entries[0].key.to_vec(), batch.entries[0].value.as_ref().expect("an entry").to_vec());
    let mut standby = store(&rules);
    let mut refuse = |key: &[u8], value: &[u8]| {
        let error = standby.apply_changelog(key, Some(value)).expect_err("refused");
        assert_eq!((standby.digest(), standby.entries(), standby.series()), (0, 0, 0));
        error
    };
    let newer = [&[2], &value[1..]].concat();
    assert_eq!(refuse(&key, &newer), ChangelogError::Newer { kind: 1, version: 2 });
    assert!(matches!(refuse(&key, &value[..9]), ChangelogError::Corrupt { .. }));
    let mut other_definition = key.clone();
    other_definition[1] = 1;
    assert!(matches!(refuse(&other_definition, &value), ChangelogError::Corrupt { .. }));
    let mut other_start = key.clone();
    *other_start.last_mut().expect("bytes") += 1;
    assert!(matches!(refuse(&other_start, &value), ChangelogError::Corrupt { .. }));
    assert_eq!(standby.apply_changelog(&[200], Some(b"?")), Ok(Applied::Unknown));
    assert_eq!(standby.apply_changelog(&key, None), Ok(Applied::Tombstone));
    assert_eq!(standby.apply_changelog(&key, Some(&value)), Ok(Applied::Entry));
    assert_eq!(standby.apply_changelog(&key, Some(&value)), Ok(Applied::Entry));
    assert_eq!(standby.digest(), batch.progress.digest);
}

#[test]
fn a_panic_amid_a_record_is_undone() {
    let rules = semantics("");
    let (mut store, mut other) = (store(&rules), store(&rules));
    for store in [&mut store, &mut other] {
        store.apply(&reading("d", 1, "1").borrowed(0));
        store.batch(Epoch(1), Offset(1));
        store.committed();
    }
    // As far as a record with two readings gets when the second one panics.
    let record = reading("d", 90, "2");
    store.active.begin(&rules, &record.borrowed(1));
    let time_ms = BASE_MS + 90 * MINUTE_MS;
    let first = crate::reading::Reading { device: "d", metric: "a", time_ms, value: 2.0, identity: None };
    store.active.read(&rules, &first);
    store.undo();
    for store in [&mut store, &mut other] {
        store.apply(&reading("d", 2, "4").borrowed(2));
    }
    assert_eq!(store.batch(Epoch(1), Offset(3)), other.batch(Epoch(1), Offset(3)));
    assert_eq!(store.consumed(), 2);
}

#[test]
fn a_store_can_move_to_another_thread() {
    fn can_move<T: Send>() {}
    fn can_be_shared<T: Send + Sync>() {}
    can_move::<Store>();
    can_be_shared::<Semantics>();
}
