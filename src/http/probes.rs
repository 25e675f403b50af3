//! `/livez`, `/readyz`, `/startupz`, `/active`, `/standby`: questions of load balancers and of who restarts processes.

use std::{fmt::Write as _, sync::Arc, time::Instant};

use axum::{
    extract::State,
    http::{StatusCode, Uri},
    response::{IntoResponse, Response},
};
use hotspare_cluster::{PartitionId, Role, View};

use super::{
    Shared,
    health::{Check, Probe, checks},
    problem::Problem,
    query::Parameters,
};
use crate::{config::Timespan, partition::status::ReplicaStatus};

pub(super) async fn livez(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    answer(&shared, &uri, Probe::Live)
}

pub(super) async fn startupz(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    answer(&shared, &uri, Probe::Startup)
}

pub(super) async fn readyz(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    answer(&shared, &uri, Probe::Ready)
}

fn answer(shared: &Shared, uri: &Uri, probe: Probe) -> Result<Response, Problem> {
    let parameters = Parameters::of(uri)?;
    // Whether to restart a process must not hang on anything but the runtime that answers here.
    let view = if probe == Probe::Ready { shared.observe().0 } else { View::default() };
    let checks = checks(probe, &shared.source.health().facts(&view, Instant::now()));
    let excluded: Vec<&str> = parameters.all("exclude").collect();
    let failed: Vec<Check> =
        checks.iter().filter(|check| !check.ok && !excluded.contains(&check.name)).cloned().collect();
    if parameters.flag("verbose") {
        let status = if failed.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        return Ok((status, verbose(&checks, &excluded)).into_response());
    }
    if failed.is_empty() {
        return Ok("ok\n".into_response());
    }
    let text = |check: &Check| format!("{}: {}", check.name, check.detail);
    let detail = failed.iter().map(text).collect::<Vec<_>>().join("; ");
    let kind = match probe {
        Probe::Live => "not_live",
        Probe::Startup => "not_started",
        Probe::Ready => "not_ready",
    };
    Ok(Problem::unavailable(kind, detail).with_checks(failed).into_response())
}

fn verbose(checks: &[Check], excluded: &[&str]) -> String {
    let mut text = String::new();
    for Check { name, ok, detail } in checks {
        let skipped = excluded.contains(name);
        let line = match (skipped, ok) {
            (true, _) => format!("[+]{name} excluded"),
            (false, true) => format!("[+]{name} ok"),
            (false, false) => format!("[-]{name} {detail}"),
        };
        writeln!(text, "{line}").ok();
    }
    for name in excluded.iter().filter(|name| !checks.iter().any(|check| check.name == **name)) {
        writeln!(text, "warning: there is no check \"{name}\" to exclude").ok();
    }
    text
}

/// Whether this node is active for a partition, or for any.
pub(super) async fn active(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let asked = partition(&Parameters::of(&uri)?)?;
    let (view, replicas) = (shared.source.view(), shared.source.replicas());
    let mut own = replicas.iter().filter(|(partition, status)| is_active(&view, **partition, status));
    let found = match asked {
        Some(asked) => own.any(|(partition, _)| *partition == asked),
        None => own.next().is_some(),
    };
    if found {
        return Ok("ok\n".into_response());
    }
    let what = asked.map_or_else(|| "any partition".to_owned(), |asked| format!("partition {asked}"));
    Err(Problem::unavailable("not_active", format!("{} is not active for {what}", view.slot)))
}

/// A replica that was deposed and has not noticed yet does not count.
fn is_active(view: &View, partition: PartitionId, status: &ReplicaStatus) -> bool {
    let known = view.partitions.iter().find(|known| known.partition == partition);
    let deposed = known.is_some_and(|known| known.epoch > status.epoch && known.active != Some(view.node_id));
    status.role == Role::Active && !deposed
}

/// Whether this node holds a following replica of a partition that is at most `max_age` old.
pub(super) async fn standby(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri)?;
    let asked =
        partition(&parameters)?.ok_or_else(|| Problem::bad_request("name the partition: /standby?partition=0"))?;
    let max_age: Option<Timespan> = parameters.parse("max_age", "a duration such as 1s")?;
    let slot = shared.source.view().slot;
    let no = |detail: String| Err(Problem::unavailable("not_standby", detail));
    let replicas = shared.source.replicas();
    let Some(status) = replicas.get(&asked).filter(|status| status.role == Role::Standby) else {
        return no(format!("{slot} is no standby for partition {asked}"));
    };
    let Some(max_age) = max_age else {
        return Ok("ok\n".into_response());
    };
    match status.level_at.map(|at| at.elapsed()) {
        Some(age) if age <= max_age.get() => Ok("ok\n".into_response()),
        age => {
            let age = age.map_or_else(|| "?".to_owned(), |age| format!("{:.1}", age.as_secs_f64()));
            no(format!("partition {asked} on {slot} is {age} s old, more than {max_age}"))
        }
    }
}

fn partition(parameters: &Parameters) -> Result<Option<PartitionId>, Problem> {
    Ok(parameters.parse("partition", "its number, from 0")?.map(PartitionId))
}
