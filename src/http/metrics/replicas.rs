//! Metrics of this node's replicas.

use hotspare_cluster::Role;

use super::{Facts, count, family::Page, flag, number, seconds, signed};
use crate::{
    changelog::Progress,
    http::readiness::lag_of,
    metrics::{Metric, catalogue as all},
    partition::status::ReplicaStatus,
};

const ROLES: [(&str, Role); 6] = [
    ("active", Role::Active),
    ("standby", Role::Standby),
    ("restoring", Role::Restoring),
    ("promoting", Role::Promoting),
    ("fenced", Role::Fenced),
    ("divergent", Role::Divergent),
];

/// All of them.
pub(super) fn all(page: &mut Page, facts: &Facts<'_>) {
    roles(page, facts);
    positions(page, facts);
    state(page, facts);
    progress(page, facts);
    outcomes(page, facts);
}

fn each(page: &mut Page, facts: &Facts<'_>, metric: &Metric, value: impl Fn(&ReplicaStatus) -> Option<f64>) {
    page.fill(metric, |series| {
        for (partition, status) in facts.replicas {
            if let Some(value) = value(status) {
                series.add(&[&partition.to_string()], value);
            }
        }
    });
}

/// A replica that restores tells nothing from progress records: a rebuild must not look like a reset of counters.
fn known(status: &ReplicaStatus) -> Option<&Progress> {
    status.progress.as_ref().filter(|_| status.role != Role::Restoring)
}

fn roles(page: &mut Page, facts: &Facts<'_>) {
    page.fill(&all::REPLICA_ROLE, |series| {
        for (partition, status) in facts.replicas {
            for (name, role) in ROLES {
                series.add(&[&partition.to_string(), name], flag(status.role == role));
            }
        }
    });
    each(page, facts, &all::ACTIVE_CLAIMS, |status| Some(flag(status.role == Role::Active)));
    page.fill(&all::DIGEST_CHECKS, |series| {
        for (partition, status) in facts.replicas {
            for (result, count) in [("equal", status.checks.equal), ("different", status.checks.different)] {
                series.add(&[&partition.to_string(), result], number(count));
            }
        }
    });
    page.fill(&all::CHANGELOG_UNREADABLE, |series| {
        for (partition, status) in facts.replicas {
            series.add(&[&partition.to_string()], count(status.unreadable_records));
        }
    });
    page.fill(&all::FENCED, |series| {
        for partition in facts.replicas.keys() {
            for cause in all::FENCED.labels.iter().filter(|label| label.name == "cause").flat_map(|label| label.values)
            {
                series.add(&[&partition.to_string(), cause], 0.0);
            }
        }
        for (labels, count) in facts.tally.values.get(all::FENCED.name).into_iter().flatten() {
            series.add(&labels.iter().map(String::as_str).collect::<Vec<_>>(), *count);
        }
    });
}

fn positions(page: &mut Page, facts: &Facts<'_>) {
    each(page, facts, &all::CHANGELOG_APPLIED, |status| Some(signed(status.applied.0)));
    each(page, facts, &all::CHANGELOG_LSO, |status| Some(signed(status.lso.0)));
    let lag =
        |status: &ReplicaStatus| if status.role == Role::Active { (None, None) } else { lag_of(status, facts.now) };
    each(page, facts, &all::STANDBY_LAG_RECORDS, |status| lag(status).0.map(number));
    each(page, facts, &all::STANDBY_LAG_SECONDS, |status| lag(status).1.map(|age| age.as_secs_f64()));
    each(page, facts, &all::RESTORE_REMAINING, |status| {
        lag(status).0.filter(|_| status.role == Role::Restoring).map(number)
    });
    let input = |status: &ReplicaStatus| status.input_lag_records.filter(|_| status.role == Role::Active);
    each(page, facts, &all::INPUT_LAG_RECORDS, |status| input(status).map(signed));
    each(page, facts, &all::INPUT_LAG_SECONDS, |status| match input(status)? {
        0 => Some(0.0),
        _ => status
            .progress
            .as_ref()
            .map(|progress| seconds(facts.wall_ms.saturating_sub(progress.log_time_ms)).max(0.0)),
    });
}

fn state(page: &mut Page, facts: &Facts<'_>) {
    let at = |at: Option<std::time::Instant>| at.map(|at| facts.timestamp(facts.now.saturating_duration_since(at)));
    each(page, facts, &all::LAST_APPLIED, |status| at(status.commit_at));
    each(page, facts, &all::LAST_COMMIT, |status| at(status.commit_at.filter(|_| status.role == Role::Active)));
    each(page, facts, &all::STATE_ENTRIES, |status| status.progress.as_ref().map(|progress| number(progress.entries)));
    each(page, facts, &all::STATE_SERIES, |status| Some(count(status.series)));
    each(page, facts, &all::CHECKPOINT_LAST, |status| at(status.checkpoint_at));
    each(page, facts, &all::CHECKPOINT_BYTES, |status| status.checkpoint_bytes.map(number));
}

fn progress(page: &mut Page, facts: &Facts<'_>) {
    each(page, facts, &all::REPLICA_EPOCH, |status| {
        let is_known = status.role != Role::Restoring && status.epoch.0 > 0;
        is_known.then(|| number(status.epoch.0))
    });
    each(page, facts, &all::COMMIT_NUMBER, |status| known(status).map(|progress| number(progress.commit)));
    let mut counter = |metric, value: &dyn Fn(&Progress) -> u64| {
        each(page, facts, metric, |status| known(status).map(|progress| number(value(progress))));
    };
    counter(&all::INPUT_RECORDS, &|progress| progress.counters.records);
    counter(&all::WINDOWS_FINAL, &|progress| progress.counters.windows_final);
    counter(&all::DEAD_LETTERS, &|progress| progress.counters.dead_letters);
    each(page, facts, &all::CONSUMED, |status| known(status).map(|_| number(status.consumed)));
    each(page, facts, &all::READINGS_UNACCOUNTED, |status| {
        known(status).map(|progress| number(status.consumed.abs_diff(progress.counters.consumed())))
    });
}

fn outcomes(page: &mut Page, facts: &Facts<'_>) {
    let known = || facts.replicas.iter().filter_map(|(id, status)| Some((id.to_string(), known(status)?)));
    page.fill(&all::READINGS, |series| {
        for (partition, progress) in known() {
            let counters = &progress.counters;
            for (outcome, count) in [
                ("counted", counters.counted),
                ("late", counters.late),
                ("missing", counters.missing),
                ("duplicate", counters.duplicate),
                ("rejected", counters.rejected.total()),
                ("null_record", counters.null_record),
            ] {
                series.add(&[&partition, outcome], number(count));
            }
        }
    });
    page.fill(&all::READINGS_REJECTED, |series| {
        for (partition, progress) in known() {
            for (reason, count) in progress.counters.rejected.by_name() {
                series.add(&[&partition, reason.name()], number(count));
            }
        }
    });
}
