use super::*;

/// A progress record as an active of this epoch writes it, of a state without entries.
fn progress(semantics: &Semantics, epoch: u64, commit: u64, next_input: i64) -> Progress {
    Progress {
        format: crate::changelog::VERSION,
        epoch: Epoch(epoch),
        commit,
        next_input_offset: Offset(next_input),
        log_time_ms: 0,
        counters: crate::changelog::Counters::default(),
        digest: 0,
        entries: 0,
        semantics_hash: semantics.hash(),
    }
}

/// A replica that follows these epochs, commits and input offsets, one a changelog offset.
fn follows(records: &[(u64, u64, i64)]) -> Replica {
    let semantics = Arc::new(Semantics::from_toml("[input]\ntopic = \"iot\"\n[window]\nsize = \"10s\"\n").unwrap());
    let mut replica = Replica::empty(&semantics, PartitionId(0), Offset(0));
    for (offset, (epoch, commit, next_input)) in (0..).zip(records) {
        let value = progress(&semantics, *epoch, *commit, *next_input).encode();
        assert!(replica.follow(Offset(offset), Some(Progress::key()), Some(&value)).unwrap());
    }
    replica
}

#[test]
fn a_replica_follows_one_tenure_after_the_other_also_where_compaction_left_gaps() {
    let replica = follows(&[(1, 1, 10), (1, 2, 20), (4, 9, 20), (4, 10, 90)]);
    assert_eq!((replica.epoch_seen(), replica.next()), (Epoch(4), Offset(4)));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant epoch_never_falls (P5) is violated: 1 after 2 (commit 3 of epoch 1)")]
fn a_record_of_a_deposed_active_behind_its_successors_is_noticed() {
    follows(&[(1, 1, 10), (2, 2, 20), (1, 3, 30)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant input_offset_never_falls (P1) is violated: 19 after 20")]
fn input_that_is_counted_again_is_noticed() {
    follows(&[(1, 1, 10), (2, 2, 20), (2, 3, 19)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant changelog_in_order (P1) is violated: offset 1 where 2 is the next")]
fn a_changelog_record_that_comes_twice_is_noticed() {
    let mut replica = follows(&[(1, 1, 10), (1, 2, 20)]);
    let _ = replica.follow(Offset(1), Some(Progress::key()), None);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant epoch_never_falls (P5) is violated: 1 after 2")]
fn a_tenure_below_the_changelog_is_noticed_before_it_writes() {
    let _ = follows(&[(2, 1, 10)]).transaction(Epoch(1), Offset(10));
}

#[test]
fn a_tenure_begins_above_the_changelog_or_is_a_renewed_one() {
    let replica = follows(&[(1, 1, 10), (5, 2, 20)]);
    assert_eq!(replica.may_begin(Epoch(6), false), Eligible::Yes);
    assert_eq!(replica.may_begin(Epoch(5), true), Eligible::Yes);
    for (epoch, renewed) in [(5, false), (4, false), (4, true)] {
        assert_eq!(replica.may_begin(Epoch(epoch), renewed), Eligible::Overtaken(Epoch(5)));
    }
}
