//! The state that the changelog tells against the state of the clean run.

use std::collections::BTreeMap;

use hotspare_cluster::{
    PartitionId,
    invariants::{self, Between, Commit},
};

use super::findings::{Example, Findings};
use crate::{
    changelog::{Counters, Progress},
    store::Store,
};

/// Compares entries, counters, log time and digests.
pub(super) fn compare(partition: PartitionId, changelog: &Store, clean: &Store, findings: &mut Findings) {
    let differs = |what, expected: String, found: String, note| {
        move || Example { partition, what, offset: None, expected: Some(expected), found: Some(found), note }
    };
    let (told, real) = (changelog.recompute_digest(), clean.recompute_digest());
    if told != real || changelog.entries() != clean.entries() {
        compare_entries(partition, changelog, clean, findings);
    }
    if let Some(progress) = changelog.progress()
        && (progress.digest != told || progress.entries != changelog.entries())
    {
        let show = |digest: u128, entries: u64| format!("{digest:032x} of {entries} entries");
        let (expected, found) = (show(told, changelog.entries()), show(progress.digest, progress.entries));
        findings.wrong(differs("digest", expected, found, "the progress record's digest is not that of the entries"));
    }
    // What the configuration calls lost is the same on both sides, so the whole counters must be.
    if changelog.counters() != clean.counters() {
        let (expected, found) = (show(clean.counters()), show(changelog.counters()));
        findings.wrong(differs(
            "counters",
            expected,
            found,
            "the progress record's counters differ from the clean run's",
        ));
    }
    if changelog.log_time_ms() != clean.log_time_ms() {
        let (expected, found) = (clean.log_time_ms().to_string(), changelog.log_time_ms().to_string());
        findings.wrong(differs(
            "counters",
            expected,
            found,
            "the progress record's log time differs from the clean run's",
        ));
    }
}

/// Compares a progress record with the one before it in the changelog.
pub(super) fn check_succession(
    partition: PartitionId,
    offset: i64,
    before: Option<&Commit>,
    progress: &Progress,
    findings: &mut Findings,
) {
    let after = progress.as_commit();
    if let Some(before) = before
        && let Err(violation) = invariants::succession(before, &after, Between::Compacted)
    {
        findings.wrong(|| Example {
            partition,
            what: "progress",
            offset: Some(offset),
            expected: None,
            found: Some(violation.to_string()),
            note: "the progress record does not follow from the one before it",
        });
    }
}

fn compare_entries(partition: PartitionId, changelog: &Store, clean: &Store, findings: &mut Findings) {
    let (told, real) = (shown(changelog), shown(clean));
    let example = |expected: Option<&String>, found: Option<&String>, note| {
        let (expected, found) = (expected.cloned(), found.cloned());
        move || Example { partition, what: "entry", offset: None, expected, found, note }
    };
    for (window, expected) in &real {
        match told.get(window) {
            None => findings.lost(example(Some(expected), None, "the open window is not in the changelog")),
            Some(found) if found != expected => {
                findings.wrong(example(Some(expected), Some(found), "the open window differs from the clean run's"));
            }
            Some(_) => {}
        }
    }
    for (window, found) in &told {
        if !real.contains_key(window) {
            findings.wrong(example(None, Some(found), "the clean run has no such open window"));
        }
    }
    if told == real {
        // What is shown is equal and the bytes are not: the shown values are rounded, the entries are exact.
        findings.wrong(example(None, None, "entries differ in what is not shown of a window"));
    }
}

/// Open windows by what names them.
fn shown(store: &Store) -> BTreeMap<String, String> {
    let name = |text: String| (text.split(",\"count\":").next().unwrap_or_default().to_owned(), text);
    store.open_windows().into_iter().map(name).collect()
}

fn show(counters: &Counters) -> String {
    let rejected = counters.rejected.by_name().into_iter().filter(|(_, count)| *count > 0);
    let rejected: Vec<_> = rejected.map(|(reason, count)| format!("{}={count}", reason.name())).collect();
    format!(
        "records={} counted={} late={} missing={} duplicate={} null_record={} windows_final={} dead_letters={} {}",
        counters.records,
        counters.counted,
        counters.late,
        counters.missing,
        counters.duplicate,
        counters.null_record,
        counters.windows_final,
        counters.dead_letters,
        rejected.join(" ")
    )
}
