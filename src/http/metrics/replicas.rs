//! Metrics of this node's replicas.

use std::collections::BTreeMap;

use hotspare_cluster::{PartitionId, Role};

use super::family::{Page, Series};
use crate::{changelog::Progress, http::readiness::lag_of, partition::status::ReplicaStatus};

const ROLES: [(&str, Role); 6] = [
    ("active", Role::Active),
    ("standby", Role::Standby),
    ("restoring", Role::Restoring),
    ("promoting", Role::Promoting),
    ("fenced", Role::Fenced),
    ("divergent", Role::Divergent),
];

type Replicas = BTreeMap<PartitionId, ReplicaStatus>;

/// All of them.
pub(super) fn all(page: &mut Page, replicas: &Replicas) {
    roles(page, replicas);
    positions(page, replicas);
    progress(page, replicas);
    readings(page, replicas);
    outcomes(page, replicas);
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only doubles")]
pub(super) fn number(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "Prometheus knows only doubles")]
fn signed(value: i64) -> f64 {
    value as f64
}

fn each(series: &mut Series, replicas: &Replicas, value: impl Fn(&ReplicaStatus) -> Option<f64>) {
    for (partition, status) in replicas {
        if let Some(value) = value(status) {
            series.add(&[("partition", &partition.to_string())], value);
        }
    }
}

/// A replica that restores tells nothing from progress records: a rebuild must not look like a reset of counters.
fn known(status: &ReplicaStatus) -> Option<&Progress> {
    status.progress.as_ref().filter(|_| status.role != Role::Restoring)
}

fn roles(page: &mut Page, replicas: &Replicas) {
    page.gauge_sum("replica_role", "1 for the role that the replica has.", |series| {
        for (partition, status) in replicas {
            for (name, role) in ROLES {
                let is_so = f64::from(u8::from(status.role == role));
                series.add(&[("partition", &partition.to_string()), ("role", name)], is_so);
            }
        }
    });
    page.counter("digest_checks_total", "Comparisons of the state's digest with the active's.", |series| {
        for (partition, status) in replicas {
            let partition = partition.to_string();
            for (result, count) in [("equal", status.checks.equal), ("different", status.checks.different)] {
                series.add(&[("partition", &partition), ("result", result)], number(count));
            }
        }
    });
    let unreadable = "Changelog records that cannot be read and were not replaced yet; must be 0.";
    page.gauge("changelog_unreadable_records", unreadable, |series| {
        each(series, replicas, |status| u32::try_from(status.unreadable_records).ok().map(f64::from));
    });
}

fn positions(page: &mut Page, replicas: &Replicas) {
    page.gauge("changelog_applied_offset", "Next changelog offset to apply.", |series| {
        each(series, replicas, |status| Some(signed(status.applied.0)));
    });
    page.gauge("changelog_lso_offset", "Last stable offset of the changelog as last seen.", |series| {
        each(series, replicas, |status| Some(signed(status.lso.0)));
    });
    page.gauge("standby_lag_records", "Changelog records not yet applied by a replica that is not active.", |series| {
        let lag = |status: &ReplicaStatus| lag_of(status, status.turned_at).0.map(number);
        each(series, replicas, |status| lag(status).filter(|_| status.role != Role::Active));
    });
    page.gauge("input_lag_records", "Input records not yet read by the active.", |series| {
        let is_active = |status: &ReplicaStatus| status.role == Role::Active;
        each(series, replicas, |status| status.input_lag_records.filter(|_| is_active(status)).map(signed));
    });
}

fn progress(page: &mut Page, replicas: &Replicas) {
    page.gauge("replica_epoch", "Own epoch, or the highest seen.", |series| {
        each(series, replicas, |status| {
            let is_known = status.role != Role::Restoring && status.epoch.0 > 0;
            is_known.then(|| number(status.epoch.0))
        });
    });
    page.gauge("commit_number", "Commit last applied or written.", |series| {
        each(series, replicas, |status| known(status).map(|progress| number(progress.commit)));
    });
}

fn readings(page: &mut Page, replicas: &Replicas) {
    let mut counter = |name, help, value: &dyn Fn(&Progress) -> u64| {
        page.counter(name, help, |series| each(series, replicas, |status| known(status).map(|p| number(value(p)))));
    };
    counter("input_records_total", "Records of the input topic.", &|p| p.counters.records);
    counter("windows_final_total", "Final windows.", &|p| p.counters.windows_final);
    counter("dead_letters_total", "Dead letters.", &|p| p.counters.dead_letters);
    page.counter("consumed_total", "Candidates for readings and null records.", |series| {
        each(series, replicas, |status| known(status).map(|_| number(status.consumed)));
    });
}

fn outcomes(page: &mut Page, replicas: &Replicas) {
    page.counter("readings_total", "What became of them, one outcome each.", |series| {
        for (partition, progress) in replicas.iter().filter_map(|(id, status)| Some((id, known(status)?))) {
            let (partition, counters) = (partition.to_string(), &progress.counters);
            for (outcome, count) in [
                ("counted", counters.counted),
                ("late", counters.late),
                ("missing", counters.missing),
                ("duplicate", counters.duplicate),
                ("rejected", counters.rejected.total()),
                ("null_record", counters.null_record),
            ] {
                series.add(&[("partition", &partition), ("outcome", outcome)], number(count));
            }
        }
    });
    page.counter("readings_rejected_total", "Rejections by reason.", |series| {
        for (partition, progress) in replicas.iter().filter_map(|(id, status)| Some((id, known(status)?))) {
            let partition = partition.to_string();
            for (reason, count) in progress.counters.rejected.by_name() {
                series.add(&[("partition", &partition), ("reason", reason.name())], number(count));
            }
        }
    });
    page.gauge_sum("readings_unaccounted", "Candidates without an outcome; must be 0.", |series| {
        each(series, replicas, |status| {
            known(status).map(|progress| number(status.consumed.abs_diff(progress.counters.consumed())))
        });
    });
}
