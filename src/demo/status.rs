//! What the nodes say of themselves over HTTP. Reads only what is shown or decided on, and takes what is missing for
//! "not so"; the shapes are those of `/v1/status` and `/v1/history`.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(2);
/// A standby further behind is not called warm.
const WARM_LAG_MS: i64 = 1000;

/// The cluster as one node sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Status {
    /// Slot of the Raft leader.
    pub(super) leader: Option<String>,
    /// Slots and how they look.
    pub(super) nodes: BTreeMap<String, String>,
    pub(super) partitions: Vec<Partition>,
}

/// A partition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Partition {
    pub(super) partition: u32,
    pub(super) epoch: u64,
    /// Slot of its active.
    pub(super) active: Option<String>,
    /// Whether that one works.
    pub(super) is_working: bool,
    /// Slots of its standbys.
    pub(super) standbys: Vec<String>,
    /// Standbys that could take over now.
    pub(super) warm: u32,
    /// Largest lag of its standbys, in records.
    pub(super) lag_records: i64,
    /// Input that waits, in records.
    pub(super) input_lag_records: Option<i64>,
}

/// A failover, as the history tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Failover {
    /// Its number.
    pub seq: u64,
    /// The partition.
    pub partition: u32,
    /// The epoch that began.
    pub epoch: u64,
    /// Why.
    pub reason: String,
    /// `pending`, `success`, `failed` or `superseded`.
    pub result: String,
    /// The slot that took over.
    pub to: String,
    /// Where the time went.
    pub phases_ms: BTreeMap<String, f64>,
    /// From the last sign of life to the report of the first commit.
    pub total_ms: Option<f64>,
}

/// Asks nodes.
pub(super) struct Client {
    agent: ureq::Agent,
}

impl Client {
    pub(super) fn new() -> Self {
        // Kept connections would break when a node is killed.
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            .max_idle_connections(0);
        Self { agent: config.build().into() }
    }

    fn get(&self, address: &str, path: &str) -> Option<(u16, String)> {
        let mut answer = self.agent.get(format!("http://{address}{path}")).call().ok()?;
        let body = answer.body_mut().read_to_string().ok()?;
        Some((answer.status().as_u16(), body))
    }

    fn json(&self, address: &str, path: &str) -> Option<Value> {
        let (status, body) = self.get(address, path)?;
        (status == 200).then(|| serde_json::from_str(&body).ok()).flatten()
    }

    /// Whether the node says that it is ready.
    pub(super) fn is_ready(&self, address: &str) -> bool {
        self.get(address, "/readyz").is_some_and(|(status, _)| status == 200)
    }

    /// Why the node is not ready.
    pub(super) fn why_not_ready(&self, address: &str) -> String {
        match self.get(address, "/readyz?verbose") {
            Some((status, body)) => format!("/readyz {status} {}", body.trim().replace('\n', "; ")),
            None => "/readyz does not answer".to_owned(),
        }
    }

    pub(super) fn status(&self, address: &str) -> Option<Status> {
        Some(parse_status(&self.json(address, "/v1/status")?))
    }

    /// Failovers, newest first.
    pub(super) fn failovers(&self, address: &str) -> Vec<Failover> {
        self.json(address, "/v1/history?limit=200").map_or_else(Vec::new, |answer| parse_history(&answer))
    }
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or(0)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// The slot of a node that is given as `{"slot":…}`, or as an id.
fn slot(value: &Value, slots: &BTreeMap<u64, String>) -> Option<String> {
    match value {
        Value::Object(member) => member.get("slot")?.as_str().map(str::to_owned),
        Value::Number(id) => slots.get(&id.as_u64()?).cloned(),
        _ => None,
    }
}

fn parse_status(status: &Value) -> Status {
    let nodes = list(status, "nodes");
    let slots: BTreeMap<u64, String> = nodes.iter().map(|node| (number(node, "node_id"), text(node, "slot"))).collect();
    // What each node told of its replicas.
    let mut replicas: BTreeMap<(String, u64), &Value> = BTreeMap::new();
    for node in nodes {
        let told = if node["replicas"].is_array() { node } else { &node["report"] };
        for replica in list(told, "replicas") {
            replicas.insert((text(node, "slot"), number(replica, "partition")), replica);
        }
    }
    let partition = |value: &Value| {
        let (number_of, active) = (number(value, "partition"), slot(&value["active"], &slots));
        let replica = |slot: &str| replicas.get(&(slot.to_owned(), number_of)).copied();
        let of_active = active.as_deref().and_then(replica);
        let standbys: Vec<String> =
            list(value, "standbys").iter().filter_map(|standby| slot(standby, &slots)).collect();
        let of_standbys: Vec<&Value> = standbys.iter().filter_map(|slot| replica(slot)).collect();
        let lag = |replica: &&Value| replica["lag_records"].as_i64().unwrap_or(i64::MAX);
        let warm = of_standbys.iter().filter(|replica| {
            replica["role"] == "standby" && replica["lag_ms"].as_i64().is_some_and(|lag_ms| lag_ms <= WARM_LAG_MS)
        });
        Partition {
            partition: u32::try_from(number_of).unwrap_or(u32::MAX),
            epoch: number(value, "epoch"),
            is_working: of_active.is_some_and(|replica| {
                replica["role"] == "active" && number(replica, "epoch") == number(value, "epoch")
            }),
            warm: u32::try_from(warm.count()).unwrap_or(0),
            lag_records: of_standbys.iter().map(lag).max().unwrap_or(0),
            input_lag_records: of_active.and_then(|replica| replica["input_lag_records"].as_i64()),
            active,
            standbys,
        }
    };
    Status {
        leader: slot(&status["leader"], &slots),
        nodes: nodes.iter().map(|node| (text(node, "slot"), text(node, "state"))).collect(),
        partitions: list(status, "partitions").iter().map(partition).collect(),
    }
}

fn parse_history(history: &Value) -> Vec<Failover> {
    let of = |event: &Value| Failover {
        seq: number(event, "seq"),
        partition: u32::try_from(number(event, "partition")).unwrap_or(u32::MAX),
        epoch: number(event, "epoch"),
        reason: text(event, "reason"),
        result: text(event, "result"),
        to: text(&event["to"], "slot"),
        phases_ms: event["phases_ms"].as_object().map_or_else(BTreeMap::new, |phases| {
            phases.iter().filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
        }),
        total_ms: event["total_ms"].as_f64(),
    };
    list(history, "events").iter().filter(|event| event["kind"] == "failover").map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leader_actives_and_warm_standbys_are_found_in_a_status() {
        let replica = |role: &str, epoch: u64, lag: i64| json!({"partition": 3, "role": role, "epoch": epoch, "lag_records": lag, "lag_ms": lag, "input_lag_records": 5});
        let status = json!({
            "leader": {"slot": "b", "node_id": 2},
            "nodes": [
                {"slot": "a", "node_id": 1, "state": "live", "replicas": [replica("active", 7, 0)]},
                {"slot": "b", "node_id": 2, "state": "live", "replicas": [replica("standby", 7, 2)]},
                {"slot": "c", "node_id": 3, "state": "dead", "replicas": [replica("restoring", 0, 9000)]},
            ],
            "partitions": [{"partition": 3, "epoch": 7, "active": {"slot": "a", "node_id": 1},
                "standbys": [{"slot": "b"}, {"slot": "c"}]}],
        });
        let found = parse_status(&status);
        assert_eq!(found.leader.as_deref(), Some("b"));
        assert_eq!(found.nodes["c"], "dead");
        let wanted = Partition {
            partition: 3,
            epoch: 7,
            active: Some("a".to_owned()),
            is_working: true,
            standbys: vec!["b".to_owned(), "c".to_owned()],
            warm: 1,
            lag_records: 9000,
            input_lag_records: Some(5),
        };
        assert_eq!(found.partitions, [wanted]);
    }

    #[test]
    fn an_active_of_an_older_epoch_does_not_count_and_ids_are_resolved() {
        let status = json!({
            "leader": 1,
            "nodes": [{"slot": "a", "node_id": 1, "report": {"replicas": [{"partition": 0, "role": "active", "epoch": 1}]}}],
            "partitions": [{"partition": 0, "epoch": 2, "active": 1, "standbys": []}],
        });
        let found = parse_status(&status);
        assert_eq!(found.leader.as_deref(), Some("a"));
        assert_eq!((found.partitions[0].active.as_deref(), found.partitions[0].is_working), (Some("a"), false));
        assert_eq!(parse_status(&json!("what?")), Status::default());
    }

    #[test]
    fn only_failovers_are_taken_from_the_history() {
        let history = json!({"events": [
            {"seq": 2, "kind": "failover", "partition": 1, "epoch": 4, "reason": "process_dead", "result": "success",
             "to": {"slot": "b"}, "phases_ms": {"detect": 1.5}, "total_ms": 40.5},
            {"seq": 1, "kind": "initial", "partition": 1, "epoch": 3},
        ]});
        let found = parse_history(&history);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].epoch, found[0].phases_ms["detect"], found[0].total_ms), (4, 1.5, Some(40.5)));
    }
}
