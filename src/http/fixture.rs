//! One cluster for the tests: three nodes, two partitions; `hotspare-1` restores its replica of partition 1.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use hotspare_cluster::{
    Act, ActError, ActRequest, Acted, Epoch, EventKind, EventResult, HistoryEvent, LastChange, Liveness, NodeId,
    NodeRef, NodeReport, NodeView, Offset, Operation, OperationId, PHASE_BOUNDS_S, PartitionId, PartitionView, Phases,
    Preflight, Reason, ReplicaReport, Role, Slot, TOTAL_BOUNDS_S, Totals, View, WallTime, Which,
};

use super::{Acting, Health, ReadyLimits, Rules, Snapshot, Source, rules::Shown};
use crate::{
    changelog::{Counters, Progress},
    metrics::Meters,
    partition::{devices::Split, machine::Checks, status::ReplicaStatus},
    reading,
};

/// 2026-03-01T14:00:00Z.
pub(crate) const NOW: WallTime = WallTime(1_772_373_600_000);

fn report(partition: u32, role: Role, applied: i64, lso: i64) -> ReplicaReport {
    ReplicaReport {
        partition: PartitionId(partition),
        role,
        epoch: Epoch(42),
        applied: Offset(applied),
        lso: Offset(lso),
        lag_records: lso - applied,
        lag_ms: if applied == lso { 0 } else { 41_200 },
        commit: 81_233,
        commit_age_ms: Some(12),
        input_lag_records: (role == Role::Active).then_some(3),
        digest_equal: Some(true),
        loop_age_ms: 1,
        next_input: None,
    }
}

fn node(id: u64, slot: &str, heard_ms: u64, replicas: Vec<ReplicaReport>) -> NodeView {
    NodeView {
        node_id: NodeId(id),
        slot: Slot(slot.to_owned()),
        address: format!("{slot}:7400"),
        zone: String::new(),
        state: Liveness::Live,
        last_heard_ms: Some(heard_ms),
        incarnation: Some(id * 1000),
        voter: true,
        draining: false,
        drain: None,
        store_uuid: format!("disk-{id}"),
        last_log_index: Some(90),
        nofailover: false,
        stopping: false,
        version: Some("0.1.0".to_owned()),
        leader: Some(NodeId(4)),
        report: Some(NodeReport {
            partitions_of_input: Some(2),
            kafka_ok: true,
            kafka_age_ms: 5,
            kafka_heard_ms: 60_000,
            replicas,
            stopping: false,
            semantics_hash: 0xabcd,
            config_hash: 0x77,
        }),
    }
}

fn partition(number: u32, epoch: u64, active: u64, standby: u64, age_ms: i64) -> PartitionView {
    PartitionView {
        partition: PartitionId(number),
        epoch: Epoch(epoch),
        active: Some(NodeId(active)),
        standbys: vec![NodeId(standby)],
        since: WallTime(NOW.0 - age_ms),
        confirmed: true,
        handover_from: None,
        pause: None,
        failovers_recent: 0,
        next_failover_held_ms: 0,
    }
}

/// What one failover of 45.9 ms leaves, that was false.
fn totals() -> Totals {
    let mut totals = Totals::default();
    let mut observe =
        |key: &str, seconds| totals.durations.entry(key.to_owned()).or_default().observe(TOTAL_BOUNDS_S, seconds);
    observe("initial/initial", 0.02);
    observe("failover/process_dead", 0.0459);
    totals.phases.entry("failover/fence".to_owned()).or_default().observe(PHASE_BOUNDS_S, 0.0142);
    totals.last.insert("failover".to_owned(), LastChange { at: WallTime(NOW.0 - 9000), total_ms: 45.9 });
    totals.false_failovers.insert("process_dead".to_owned(), 1);
    totals.withheld.insert("antiflap".to_owned(), 2);
    totals
}

/// The cluster as `hotspare-2` sees it.
pub(crate) fn view() -> View {
    View {
        cluster: "plant-a".to_owned(),
        cluster_id: "7f3c9d10".to_owned(),
        slot: "hotspare-2".to_owned(),
        node_id: NodeId(57),
        incarnation: 57_000,
        leader: Some(NodeId(4)),
        term: 12,
        applied_index: Some(90),
        committed_index: Some(90),
        voters: vec![NodeId(3), NodeId(4), NodeId(57)],
        nodes: vec![
            node(3, "hotspare-0", 21, vec![report(0, Role::Active, 500, 500)]),
            node(4, "hotspare-1", 34, vec![report(1, Role::Restoring, 100, 912_400)]),
            node(
                57,
                "hotspare-2",
                0,
                vec![report(0, Role::Standby, 498, 500), report(1, Role::Active, 912_400, 912_400)],
            ),
        ],
        partitions: vec![partition(0, 42, 3, 57, 274_000_000), partition(1, 9, 57, 4, 660_000)],
        events_total: BTreeMap::from([
            ("initial/initial/success".to_owned(), 2),
            ("failover/process_dead/success".to_owned(), 1),
        ]),
        false_positives_total: 1,
        totals: totals(),
        store_uuid: "disk-2".to_owned(),
        ..View::default()
    }
}

/// The same cluster with every standby warm.
pub(crate) fn healthy_view() -> View {
    let mut view = view();
    view.nodes[1] = node(4, "hotspare-1", 34, vec![report(1, Role::Standby, 912_400, 912_400)]);
    view
}

fn counters() -> Counters {
    use reading::{Outcome, Reason};
    let mut counters = Counters { records: 5, windows_final: 2, dead_letters: 3, ..Counters::default() };
    for outcome in [
        Outcome::Counted,
        Outcome::Counted,
        Outcome::Late,
        Outcome::Missing,
        Outcome::NullRecord,
        Outcome::Rejected(Reason::BadJson),
        Outcome::Rejected(Reason::Future),
    ] {
        counters.count(outcome);
    }
    counters
}

fn replica(role: Role, applied: i64, lso: i64, now: Instant) -> ReplicaStatus {
    let ago = |ms| now.checked_sub(Duration::from_millis(ms)).unwrap();
    ReplicaStatus {
        role,
        epoch: Epoch(42),
        applied: Offset(applied),
        lso: Offset(lso),
        level_at: Some(ago(250)),
        commit_at: Some(ago(12)),
        progress: Some(Progress {
            format: 1,
            epoch: Epoch(42),
            commit: 81_233,
            next_input_offset: Offset(5),
            log_time_ms: 1_772_373_599_000,
            counters: counters(),
            digest: 0x9f3c,
            entries: 17,
            semantics_hash: 0xabcd,
        }),
        consumed: counters().consumed(),
        series: 4,
        input_lag_records: (role == Role::Active).then_some(3),
        digest_equal: Some(true),
        checks: Checks { equal: 7, different: 0 },
        unreadable_records: 0,
        turned_at: now,
        checkpoint_at: Some(ago(30_000)),
        checkpoint_bytes: Some(4096),
        restoring: None,
        checkpoint_problem: None,
        problem: None,
    }
}

/// The replicas of `hotspare-2`.
pub(crate) fn replicas(now: Instant) -> BTreeMap<PartitionId, ReplicaStatus> {
    BTreeMap::from([
        (PartitionId(0), replica(Role::Standby, 498, 500, now)),
        (PartitionId(1), replica(Role::Active, 912_400, 912_400, now)),
    ])
}

/// Three events, newest last: first active, false failover, switchover that is not at its end.
pub(crate) fn events() -> Vec<HistoryEvent> {
    let member = |slot: &str, id| NodeRef { slot: Slot(slot.to_owned()), node_id: NodeId(id) };
    let initial = HistoryEvent {
        seq: 1,
        kind: EventKind::Initial,
        reason: Reason::Initial,
        partition: PartitionId(0),
        epoch: Epoch(1),
        result: EventResult::Success,
        by: None,
        at: WallTime(NOW.0 - 9000),
        from: None,
        from_incarnation: 0,
        to: member("hotspare-0", 3),
        evidence: Vec::new(),
        phases_ms: Phases::default(),
        total_ms: Some(20.0),
        pause_ms: None,
        records_caught_up: 0,
        readings_replayed: 0,
        passed_over: Vec::new(),
        false_positive: false,
        withheld: None,
        operation: None,
        error: None,
        note: None,
    };
    let failover = HistoryEvent {
        seq: 2,
        kind: EventKind::Failover,
        reason: Reason::ProcessDead,
        partition: PartitionId(1),
        from: Some(member("hotspare-0", 3)),
        to: member("hotspare-2", 57),
        phases_ms: Phases {
            detect: 1.3,
            decide: 3.9,
            fence: 14.2,
            catch_up: 2.0,
            first_output: 22.7,
            ..Phases::default()
        },
        total_ms: Some(45.9),
        false_positive: true,
        ..initial.clone()
    };
    let switchover = HistoryEvent {
        seq: 3,
        kind: EventKind::Switchover,
        reason: Reason::Shutdown,
        result: EventResult::Pending,
        total_ms: None,
        ..failover.clone()
    };
    vec![initial, failover, HistoryEvent { false_positive: false, ..switchover }]
}

/// What a status of it is made of.
pub(crate) fn snapshot(view: View) -> Snapshot {
    let now = Instant::now();
    Snapshot {
        view,
        replicas: replicas(now),
        warm_lag_records_max: 10_000,
        topics: None,
        kafka_age: Some(Duration::ZERO),
        devices_split: (0, Vec::new()),
        now,
        at: NOW,
    }
}

/// Rules of a server as they are by default.
pub(crate) fn rules() -> Rules {
    Rules {
        cluster: "plant-a".to_owned(),
        slot: "hotspare-2".to_owned(),
        ready: ReadyLimits { lag: Duration::from_secs(1), lag_records: 10_000, unready_after: Duration::from_secs(30) },
        body_bytes_max: 64 * 1024,
        header_bytes_max: 16 * 1024,
        request_timeout: Duration::from_secs(10),
        header_timeout: Duration::from_secs(5),
        connections_max: 16,
        requests_max: 16,
        allowed_hosts: Vec::new(),
        tokens_file: std::path::PathBuf::new(),
        failures_per_s_max: 10,
        read_open: true,
        metrics_open: true,
        per_partition: true,
        shown: Shown {
            zone: "z1".to_owned(),
            nofailover: false,
            standbys: 1,
            config_hash: 0x77,
            semantics_hash: 0xabcd,
        },
    }
}

/// A source whose parts a test can change.
#[derive(Default)]
pub(crate) struct Fake {
    /// What it says of the cluster.
    pub(crate) view: Mutex<View>,
    /// Facts about the process.
    pub(crate) health: Health,
    /// What was counted.
    pub(crate) meters: Meters,
    /// Operations that it knows.
    pub(crate) operations: Mutex<Vec<Operation>>,
    /// What it was asked for.
    pub(crate) asked: Mutex<Vec<ActRequest>>,
}

impl Source for Fake {
    fn view(&self) -> View {
        self.view.lock().unwrap().clone()
    }

    fn history(&self) -> Vec<HistoryEvent> {
        events()
    }

    fn replicas(&self) -> BTreeMap<PartitionId, ReplicaStatus> {
        replicas(Instant::now())
    }

    fn health(&self) -> &Health {
        &self.health
    }

    fn meters(&self) -> &Meters {
        &self.meters
    }

    fn devices_split(&self) -> (usize, Vec<Split>) {
        (0, Vec::new())
    }

    fn operations(&self) -> Vec<Operation> {
        self.operations.lock().unwrap().clone()
    }

    /// Refuses partition 1, has no leader for partition 2, and takes everything else.
    fn act(&self, request: ActRequest) -> Acting<'_> {
        let about = |p| matches!(&request.act, Act::Switchover { which: Which::Partitions(all), .. } if all.contains(&PartitionId(p)));
        let preflight = Preflight { allowed: !about(1), detail: "why".to_owned(), partitions: Vec::new() };
        let answer = match (about(1), about(2), request.dry_run) {
            (true, _, _) => Err(ActError::Refused(Box::new(preflight))),
            (_, true, _) => Err(ActError::NoLeader),
            (_, _, true) => Ok(Acted::WouldDo(preflight)),
            _ => Ok(Acted::Begun(OperationId(812))),
        };
        self.asked.lock().unwrap().push(request);
        Box::pin(async { answer })
    }
}
