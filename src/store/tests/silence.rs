//! What happens because log time rises.

use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset};

use super::{BASE_MS, MINUTE_MS, Record, semantics, store};
use crate::reading::InputRecord;
use crate::store::{Batch, Store};

/// A reading of `a` with its record's timestamp, both in minutes.
fn at(device: &str, minute: i64, logged_minute: i64) -> Record {
    let time_ms = BASE_MS + minute * MINUTE_MS;
    let value = format!("{{\"device_id\":\"{device}\",\"ts\":{time_ms},\"a\":1}}");
    Record { timestamp_ms: BASE_MS + logged_minute * MINUTE_MS, value: Some(value) }
}

fn commit(store: &mut Store, next: i64) -> Batch {
    let batch = store.batch(Epoch(1), Offset(next));
    store.committed();
    assert_eq!((store.digest(), store.recompute_digest()), (batch.progress.digest, batch.progress.digest));
    batch
}

fn keys(batch: &Batch) -> Vec<String> {
    batch.outputs.iter().map(|output| String::from_utf8_lossy(&output.key).into_owned()).collect()
}

#[test]
fn much_that_is_due_at_once_is_done_in_parts_with_the_same_result() {
    let rules = semantics("[input.limits]\nmax_future = \"off\"\n[window]\nidle_close = \"10m\"\nretention = \"3h\"\n");
    let (mut whole, mut parts) = (store(&rules), store(&rules));
    for store in [&mut whole, &mut parts] {
        for (offset, device) in ["e", "b", "d", "a", "c"].into_iter().enumerate() {
            // Two are due at the same moment.
            store.apply(&at(device, 1, i64::try_from(offset).expect("small") / 2).borrowed(offset));
        }
        commit(store, 5);
    }
    let last = at("z", 300, 300);
    whole.apply(&last.borrowed(5));
    let wanted = commit(&mut whole, 6);
    let (mut given, mut commits) = (Vec::new(), 0);
    while !parts.raise_log_time(last.timestamp_ms, 2) {
        let batch = commit(&mut parts, 5);
        assert!(batch.entries.len() <= 4, "{}", batch.entries.len());
        given.extend(keys(&batch));
        commits += 1;
    }
    parts.apply(&last.borrowed(5));
    given.extend(keys(&commit(&mut parts, 6)));
    assert_eq!(keys(&wanted), ["b", "e", "a", "d", "c"]);
    assert_eq!((given, commits), (keys(&wanted), 4));
    assert_eq!((parts.digest(), parts.log_time_ms(), parts.series()), (whole.digest(), whole.log_time_ms(), 1));
}

#[test]
fn a_fact_closes_once_and_is_in_the_state_for_some_days() {
    let rules = semantics("[input.limits]\nmax_future = \"off\"\n[window]\nidle_close = \"10m\"\n");
    let mut store = store(&rules);
    store.apply(&at("d", 1, 1).borrowed(0));
    commit(&mut store, 1);
    let later_ms = |minutes: i64| BASE_MS + minutes * MINUTE_MS;
    assert!(!store.is_silence_due(later_ms(10)));
    assert!(store.is_silence_due(later_ms(11)));
    store.log_time_fact(Offset(1), later_ms(11), usize::MAX);
    let batch = commit(&mut store, 1);
    assert_eq!((keys(&batch), batch.progress.log_time_ms), (vec!["d".to_owned()], later_ms(11)));
    assert!(!store.is_silence_due(later_ms(10_000)));
    assert_eq!(store.facts().collect::<Vec<_>>(), [(Offset(1), later_ms(11))]);
    // The watermark stays, and what is closed stays closed.
    store.apply(&at("d", 59, 12).borrowed(1));
    assert_eq!(commit(&mut store, 2).progress.counters.late, 1);
    store.apply(&at("d", 12_000, 12_000).borrowed(2));
    let batch = commit(&mut store, 3);
    assert_eq!(store.facts().count(), 0);
    assert!(batch.entries.iter().any(|record| record.key[0] == 3 && record.value.is_none()));
}

#[test]
fn an_undone_rise_of_log_time_is_due_again() {
    let rules = semantics("[input.limits]\nmax_future = \"off\"\n[window]\nidle_close = \"10m\"\nretention = \"4h\"\n");
    let mut store = store(&rules);
    store.apply(&at("d", 1, 1).borrowed(0));
    commit(&mut store, 1);
    for _ in 0..3 {
        // Read again later than the silence would have ended, then undone: the old due time holds.
        store.apply(&at("d", 70, 9).borrowed(1));
        store.apply(&at("e", 1, 500).borrowed(2));
        assert_eq!(keys(&store.batch(Epoch(1), Offset(3))), ["d", "d"]);
        store.undo();
        assert!(store.is_silence_due(BASE_MS + 11 * MINUTE_MS));
    }
    store.apply(&at("e", 1, 11).borrowed(1));
    assert_eq!(keys(&commit(&mut store, 2)), ["d"]);
    store.apply(&at("e", 1, 400).borrowed(2));
    assert_eq!((commit(&mut store, 3).outputs.len(), store.series()), (1, 0));
}

#[test]
fn state_stays_small_over_very_many_devices_that_are_seen_once() {
    let rules =
        semantics("[input.dedup]\nby = \"reading\"\nkeep = \"1m\"\n[window]\nsize = \"1m\"\nretention = \"2m\"\n");
    let mut store = store(&rules);
    let (mut series_max, mut entries_max, mut text) = (0, 0, String::new());
    const DEVICES: i64 = 1_000_000;
    for device in 0..DEVICES {
        // A thousand of them in a minute.
        let time_ms = BASE_MS + device * 60;
        text.clear();
        std::fmt::Write::write_fmt(&mut text, format_args!("{{\"device_id\":\"{device}\",\"ts\":{time_ms},\"a\":1}}"))
            .expect("text");
        store.apply(&InputRecord {
            offset: Offset(device),
            timestamp_ms: time_ms,
            key: None,
            value: Some(text.as_bytes()),
            headers: Vec::new(),
        });
        if device % 500 == 499 {
            store.batch(Epoch(1), Offset(device + 1));
            store.committed();
            series_max = series_max.max(store.series());
            entries_max = entries_max.max(store.entries());
        }
    }
    assert_eq!(store.counters().counted, DEVICES.unsigned_abs());
    assert!(series_max < 4_000, "{series_max}");
    assert!(entries_max < 10_000, "{entries_max}");
    assert_eq!(store.digest(), store.recompute_digest());
    let _ = Arc::clone(&rules);
}
