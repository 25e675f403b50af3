//! The replicas of the node that answers.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hotspare_cluster::PartitionId;

use crate::{
    changelog::{Counters, Progress},
    http::{
        document::{CountersDoc, LocalReplica, ProgressDoc},
        readiness::lag_of,
    },
    partition::status::ReplicaStatus,
};

/// Details of all replicas here.
pub(super) fn replicas(replicas: &BTreeMap<PartitionId, ReplicaStatus>, now: Instant) -> Vec<LocalReplica> {
    replicas.iter().map(|(partition, status)| replica(*partition, status, now)).collect()
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn replica(partition: PartitionId, status: &ReplicaStatus, now: Instant) -> LocalReplica {
    let (lag_records, lag) = lag_of(status, now);
    let age_ms = |at: Option<Instant>| at.map(|at| ms(now.saturating_duration_since(at)));
    LocalReplica {
        partition,
        role: status.role,
        epoch: status.epoch,
        applied: status.applied,
        lso: status.lso,
        lag_records,
        lag_ms: lag.map(ms),
        commit_age_ms: age_ms(status.commit_at),
        progress: status.progress.as_ref().map(progress),
        series: status.series.try_into().unwrap_or(u64::MAX),
        input_lag_records: status.input_lag_records,
        digest_equal: status.digest_equal,
        digest_checks_equal: status.checks.equal,
        digest_checks_different: status.checks.different,
        checkpoint_age_ms: age_ms(status.checkpoint_at),
        loop_age_ms: ms(now.saturating_duration_since(status.turned_at)),
        problem: status.problem.clone().or_else(|| status.checkpoint_problem.clone()),
    }
}

fn progress(progress: &Progress) -> ProgressDoc {
    ProgressDoc {
        epoch: progress.epoch,
        commit: progress.commit,
        next_input_offset: progress.next_input_offset,
        log_time_ms: progress.log_time_ms,
        entries: progress.entries,
        digest: format!("{:032x}", progress.digest),
        semantics_hash: format!("{:016x}", progress.semantics_hash),
        counters: counters(&progress.counters),
    }
}

fn counters(counters: &Counters) -> CountersDoc {
    let rejected = counters.rejected.by_name().into_iter().filter(|(_, count)| *count > 0);
    CountersDoc {
        records: counters.records,
        consumed: counters.consumed(),
        counted: counters.counted,
        late: counters.late,
        missing: counters.missing,
        duplicate: counters.duplicate,
        null_record: counters.null_record,
        rejected: rejected.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
        windows_final: counters.windows_final,
        dead_letters: counters.dead_letters,
    }
}
