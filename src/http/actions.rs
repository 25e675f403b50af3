//! What operators ask for over HTTP. Nothing is decided here: the Raft leader takes or refuses it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    body::Bytes,
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use hotspare_cluster::{
    Act, ActError, ActRequest, Acted, Operation, OperationId, PartitionId, Preflight, Slot, Which, can_stop,
};
use serde::{Deserialize, Serialize};

use super::{Shared, auth::Role, connection::Caller, problem::Problem, query::Parameters};
use crate::config::Timespan;

/// Longest wait for a change of an operation.
const WAIT_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
const TEXT_CHARS_MAX: usize = 1000;

/// The body of a request; which fields an act takes is checked, so that a misspelt one is not passed over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ActBody {
    /// These partitions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionId>,
    /// Only this partition, of pause and resume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionId>,
    /// All partitions whose active is on this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Slot>,
    /// All partitions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all: bool,
    /// The node that takes them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Slot>,
    /// The node that is drained, or is not any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Slot>,
    /// Its replicas leave too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub evacuate: bool,
    /// A successor that is far behind is taken too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_cold: bool,
    /// A node that is never promoted automatically is taken too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub allow_nofailover: bool,
    /// How long a pause lasts: `1h`.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub lasts: Option<Timespan>,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Only say what would happen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

impl ActBody {
    /// The act of this name with these values.
    fn act(&self, name: &str) -> Result<Act, Problem> {
        let bad = |detail: &str| Err(Problem::bad_request(detail));
        let (takes, needs_reason): (&[&str], bool) = match name {
            "switchover" => (&["partitions", "node", "all", "to", "allow_cold"], false),
            "failover" => (&["partitions", "node", "to", "allow_cold", "allow_nofailover"], true),
            "drain" => (&["slot", "evacuate"], true),
            "undrain" => (&["slot"], false),
            "pause" => (&["partition", "for"], true),
            "resume" => (&["partition"], false),
            _ => return Err(Problem::not_found(format!("there is no action \"{name}\""))),
        };
        let given = serde_json::to_value(self).unwrap_or_default();
        let given = given.as_object().into_iter().flat_map(|fields| fields.keys());
        let foreign = given.filter(|field| !["reason", "dry_run"].contains(&field.as_str()));
        if let Some(field) = foreign.into_iter().find(|field| !takes.contains(&field.as_str())) {
            return Err(Problem::bad_request(format!("{name} takes no \"{field}\"; it takes {}", takes.join(", "))));
        }
        if self.reason.chars().count() > TEXT_CHARS_MAX {
            return Err(Problem::bad_request(format!("the reason is over {TEXT_CHARS_MAX} characters")));
        }
        if needs_reason && self.reason.trim().is_empty() && !self.dry_run {
            return Err(Problem::bad_request(format!("{name} needs a \"reason\", for those who wonder later")));
        }
        let (to, allow_cold) = (self.to.clone(), self.allow_cold);
        Ok(match name {
            "switchover" => Act::Switchover { which: self.which()?, to, allow_cold },
            "failover" => {
                Act::Failover { which: self.which()?, to, allow_cold, allow_nofailover: self.allow_nofailover }
            }
            "pause" => match self.lasts {
                Some(lasts) => Act::Pause { partition: self.partition, for_ms: lasts.as_ms() },
                None => return bad("pause needs \"for\", such as \"1h\"; at most 24h"),
            },
            "resume" => Act::Resume { partition: self.partition },
            _ => match self.slot.clone() {
                Some(slot) if name == "drain" => Act::Drain { slot, evacuate: self.evacuate },
                Some(slot) => Act::Undrain { slot },
                None => return bad("the \"slot\" of a node is needed"),
            },
        })
    }

    fn which(&self) -> Result<Which, Problem> {
        match (&self.partitions[..], &self.node, self.all) {
            ([], None, true) => Ok(Which::All),
            ([], Some(slot), false) => Ok(Which::Node(slot.clone())),
            ([_, ..], None, false) => Ok(Which::Partitions(self.partitions.clone())),
            _ => Err(Problem::bad_request("name exactly one of \"partitions\", \"node\" and \"all\"")),
        }
    }
}

#[derive(Serialize)]
struct Begun {
    operation: OperationId,
}

/// `POST /v1/{action}`.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(Caller(from)): ConnectInfo<Caller>,
    headers: HeaderMap,
    uri: Uri,
    body: Bytes,
) -> Result<Response, Problem> {
    let by = shared.auth.check(&headers, Some(from), Role::Operate)?;
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        let detail = "the body must be JSON, with content-type application/json";
        return Err(Problem::new("unsupported_media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    let body: ActBody =
        serde_json::from_slice(&body).map_err(|error| Problem::bad_request(format!("the body: {error}")))?;
    let request_id = headers.get("idempotency-key").map(|id| id.to_str().map(str::trim).unwrap_or_default());
    if request_id.is_some_and(|id| id.is_empty() || id.len() > 200) {
        return Err(Problem::bad_request("Idempotency-Key must have 1 to 200 visible characters"));
    }
    let act = body.act(uri.path().rsplit('/').next().unwrap_or_default())?;
    let request =
        ActRequest { act, by, reason: body.reason, request_id: request_id.map(str::to_owned), dry_run: body.dry_run };
    match shared.source.act(request).await {
        Ok(Acted::Begun(operation)) => {
            let location = format!("/v1/operations/{operation}");
            Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(Begun { operation })).into_response())
        }
        Ok(Acted::WouldDo(preflight)) => Ok(Json(preflight).into_response()),
        Err(error) => Err(problem(error)),
    }
}

fn problem(error: ActError) -> Problem {
    let detail = error.to_string();
    match error {
        ActError::NoLeader => Problem::unavailable("no_leader", detail),
        ActError::Unknown(_) => Problem::unavailable("unknown", detail),
        ActError::NotFound(_) => Problem::not_found(detail),
        ActError::Refused(preflight) => {
            Problem::new("refused", StatusCode::CONFLICT, detail).with_preflight(*preflight)
        }
    }
}

/// `GET /v1/preflight/{action}`: a dry run, answered by the Raft leader.
pub(super) async fn preflight(
    State(shared): State<Arc<Shared>>,
    Path(action): Path<String>,
    uri: Uri,
) -> Result<Json<Preflight>, Problem> {
    let names = ["partition", "node", "all", "to", "slot", "evacuate", "allow_cold", "allow_nofailover", "for"];
    let parameters = Parameters::of(&uri)?.only(&names)?;
    let slot = |name| parameters.text(name).map(|slot| Slot(slot.to_owned()));
    let partition = parameters.parse("partition", "its number, from 0")?.map(PartitionId);
    let changes = matches!(action.as_str(), "switchover" | "failover");
    let body = ActBody {
        partitions: partition.filter(|_| changes).into_iter().collect(),
        partition: partition.filter(|_| !changes),
        node: slot("node"),
        all: parameters.flag("all"),
        to: slot("to"),
        slot: slot("slot"),
        evacuate: parameters.flag("evacuate"),
        allow_cold: parameters.flag("allow_cold"),
        allow_nofailover: parameters.flag("allow_nofailover"),
        lasts: parameters.parse("for", "a duration such as 1h")?,
        reason: String::new(),
        dry_run: true,
    };
    let act = body.act(&action)?;
    let request = ActRequest { act, by: String::new(), reason: String::new(), request_id: None, dry_run: true };
    match shared.source.act(request).await {
        Ok(Acted::WouldDo(preflight)) => Ok(Json(preflight)),
        Ok(Acted::Begun(id)) => Err(Problem::new("internal", StatusCode::INTERNAL_SERVER_ERROR, id.to_string())),
        Err(error) => Err(problem(error)),
    }
}

/// `GET /v1/operations`.
#[derive(Serialize)]
pub(super) struct Operations {
    operations: Vec<Operation>,
}

/// The operations that are kept, newest first.
pub(super) async fn operations(State(shared): State<Arc<Shared>>) -> Json<Operations> {
    let mut operations = shared.source.operations();
    operations.reverse();
    Json(Operations { operations })
}

/// `GET /v1/operations/{id}[?wait=10s]`: with `wait` it answers at the next change, or after that time.
pub(super) async fn operation(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Json<Operation>, Problem> {
    let parameters = Parameters::of(&uri)?.only(&["wait"])?;
    let wait: Option<Timespan> = parameters.parse("wait", "a duration such as 10s")?;
    let wait = wait.map_or(Duration::ZERO, Timespan::get).min(WAIT_MAX).min(shared.rules.request_timeout / 2);
    let id: OperationId = id.parse().map_err(Problem::not_found)?;
    let begin = Instant::now();
    let get = || shared.source.operations().into_iter().find(|operation| operation.id == id);
    let mut first = None;
    loop {
        let now = get();
        // One that was just taken may not be known here yet.
        let same = first.as_ref().is_some_and(|first| *first == now);
        let waits = now.as_ref().is_none_or(Operation::is_running) && (first.is_none() || same);
        if !waits || begin.elapsed() >= wait {
            return now.map(Json).ok_or_else(|| Problem::not_found(format!("{id} is not known here")));
        }
        first.get_or_insert(now);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// `/v1/can-stop/{slot}`: 200, or 409 with what would break.
pub(super) async fn may_stop(
    State(shared): State<Arc<Shared>>,
    Path(slots): Path<String>,
) -> Result<Json<MayStop>, Problem> {
    let view = shared.observe().0;
    let slots: Vec<Slot> = slots.split(',').map(|slot| Slot(slot.to_owned())).collect();
    let objections = can_stop(&view, &slots).map_err(Problem::not_found)?;
    if objections.is_empty() {
        return Ok(Json(MayStop { can_stop: true, slots }));
    }
    Err(Problem::new("refused", StatusCode::CONFLICT, objections.join("; ")))
}

/// The answer of `/v1/can-stop`.
#[derive(Serialize)]
pub(super) struct MayStop {
    can_stop: bool,
    slots: Vec<Slot>,
}
