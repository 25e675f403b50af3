//! The paths, and what they answer.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, Path, State},
    http::{StatusCode, Uri, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use hotspare_cluster::{EventKind, HistoryEvent, PartitionId, WallTime};
use serde::Serialize;

use super::{
    Shared, actions,
    document::{NodeDoc, PartitionDoc, StatusDoc},
    guard::guard,
    metrics, probes,
    problem::Problem,
    query::Parameters,
    status::{Snapshot, status},
};

/// Events in one answer, where nothing is said.
const EVENTS: usize = 100;
/// Most events in one answer.
const EVENTS_MAX: usize = 1000;

/// What operators may ask for.
const ACTS: [&str; 6] = ["/v1/switchover", "/v1/failover", "/v1/drain", "/v1/undrain", "/v1/pause", "/v1/resume"];

/// All paths.
pub(super) fn router(shared: &Arc<Shared>) -> Router {
    let acts = ACTS.iter().fold(Router::new(), |router, path| router.route(path, post(actions::act)));
    let api = Router::new()
        .route("/v1/status", get(whole))
        .route("/v1/nodes", get(nodes))
        .route("/v1/partitions", get(partitions))
        .route("/v1/partitions/{partition}", get(partition))
        .route("/v1/history", get(history))
        .route("/v1/operations", get(actions::operations))
        .route("/v1/operations/{id}", get(actions::operation))
        .route("/v1/can-stop/{slot}", get(actions::may_stop))
        .route("/v1/preflight/{action}", get(actions::preflight))
        .merge(acts);
    complete(watched().merge(api), shared)
}

/// Metrics and health alone, for a listener of their own.
pub(super) fn watched_router(shared: &Arc<Shared>) -> Router {
    complete(watched(), shared)
}

fn watched() -> Router<Arc<Shared>> {
    Router::new()
        .route("/livez", get(probes::livez))
        .route("/readyz", get(probes::readyz))
        .route("/startupz", get(probes::startupz))
        .route("/active", get(probes::active))
        .route("/standby", get(probes::standby))
        .route("/metrics", get(scrape))
}

fn complete(router: Router<Arc<Shared>>, shared: &Arc<Shared>) -> Router {
    let bytes_max = usize::try_from(shared.rules.body_bytes_max).unwrap_or(usize::MAX);
    router
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(DefaultBodyLimit::max(bytes_max))
        .layer(middleware::from_fn_with_state(Arc::clone(shared), guard))
        .with_state(Arc::clone(shared))
}

async fn not_found(uri: Uri) -> Problem {
    Problem::not_found(format!("there is nothing at {}", uri.path()))
}

async fn not_allowed(uri: Uri) -> Problem {
    let detail = format!("{} does not take this method; the header Allow names those that it takes", uri.path());
    Problem::new("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// This machine's wall clock.
fn wall_clock() -> WallTime {
    WallTime(jiff::Timestamp::now().as_millisecond())
}

fn document(shared: &Shared) -> StatusDoc {
    status(&snapshot(shared))
}

fn snapshot(shared: &Shared) -> Snapshot {
    let (view, replicas, now) = shared.observe();
    let health = shared.source.health();
    Snapshot {
        view,
        replicas,
        warm_lag_records_max: shared.rules.ready.lag_records,
        topics: health.topics(),
        kafka_age: health.kafka_age(),
        devices_split: shared.source.devices_split(),
        now,
        at: wall_clock(),
    }
}

async fn whole(State(shared): State<Arc<Shared>>) -> Json<StatusDoc> {
    Json(document(&shared))
}

#[derive(Serialize)]
struct Nodes {
    nodes: Vec<NodeDoc>,
}

async fn nodes(State(shared): State<Arc<Shared>>) -> Json<Nodes> {
    Json(Nodes { nodes: document(&shared).nodes })
}

#[derive(Serialize)]
struct Partitions {
    partitions: Vec<PartitionDoc>,
}

async fn partitions(State(shared): State<Arc<Shared>>) -> Json<Partitions> {
    Json(Partitions { partitions: document(&shared).partitions })
}

async fn partition(State(shared): State<Arc<Shared>>, Path(name): Path<String>) -> Result<Json<PartitionDoc>, Problem> {
    let mut partitions = document(&shared).partitions;
    let asked = name.parse().ok().map(PartitionId);
    match partitions.iter().position(|partition| Some(partition.partition) == asked) {
        Some(index) => Ok(Json(partitions.swap_remove(index))),
        None => Err(Problem::not_found(format!("there is no partition \"{name}\"; {} are known", partitions.len()))),
    }
}

/// `/v1/history`.
#[derive(Serialize)]
struct History {
    events: Vec<HistoryEvent>,
}

async fn history(State(shared): State<Arc<Shared>>, uri: Uri) -> Result<Json<History>, Problem> {
    let parameters = Parameters::of(&uri)?.only(&["partition", "kind", "limit", "before"])?;
    let partition = parameters.parse("partition", "its number, from 0")?.map(PartitionId);
    let before: Option<u64> = parameters.parse("before", "the number of an event")?;
    let limit = parameters.parse("limit", "a number from 1 to 1000")?.unwrap_or(EVENTS);
    if !(1..=EVENTS_MAX).contains(&limit) {
        return Err(Problem::bad_request(format!(
            "parameter \"limit\" is {limit}; write a number from 1 to {EVENTS_MAX}"
        )));
    }
    let kind = parameters.text("kind").map(kind_of).transpose()?;
    let mut events = shared.source.history();
    events.retain(|event| {
        partition.is_none_or(|partition| event.partition == partition)
            && kind.is_none_or(|kind| event.kind == kind)
            && before.is_none_or(|before| event.seq < before)
    });
    Ok(Json(History { events: events.into_iter().rev().take(limit).collect() }))
}

fn kind_of(name: &str) -> Result<EventKind, Problem> {
    match name {
        "initial" => Ok(EventKind::Initial),
        "failover" => Ok(EventKind::Failover),
        "switchover" => Ok(EventKind::Switchover),
        _ => Err(Problem::bad_request(format!(
            "parameter \"kind\" is \"{name}\"; write initial, failover or switchover"
        ))),
    }
}

async fn scrape(State(shared): State<Arc<Shared>>) -> Response {
    let snapshot = snapshot(&shared);
    let status = status(&snapshot);
    let (source, rules) = (&shared.source, &shared.rules);
    let health = source.health();
    let facts = metrics::Facts {
        cluster: &rules.cluster,
        slot: &rules.slot,
        view: &snapshot.view,
        status: &status,
        replicas: &snapshot.replicas,
        tally: &source.meters().tally(),
        history_known: health.is_history_known(),
        per_partition: rules.per_partition,
        settings: &rules.shown,
        devices_split: snapshot.devices_split.0,
        kafka_age: health.kafka_contact_age(),
        tick_age: health.tick_age(),
        now: snapshot.now,
        wall_ms: snapshot.at.0,
    };
    match metrics::text(&facts) {
        Ok(text) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response(),
        Err(error) => Problem::new("internal", StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
