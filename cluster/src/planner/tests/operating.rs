use super::*;
use crate::operation::Preflight;

const HOUR_MS: u64 = 3_600_000;

fn switchover(to: Option<u64>) -> ActRequest {
    let which = Which::Partitions(vec![PartitionId(0)]);
    let to = to.map(|id| Slot(format!("n{id}")));
    request(Act::Switchover { which, to, allow_cold: false })
}

fn failover() -> ActRequest {
    let which = Which::Partitions(vec![PartitionId(0)]);
    request(Act::Failover { which, to: None, allow_cold: false, allow_nofailover: false })
}

fn pause(partition: Option<PartitionId>) -> ActRequest {
    request(Act::Pause { partition, for_ms: HOUR_MS })
}

fn refusal(result: Result<OperationId, ActError>) -> Preflight {
    match result {
        Err(ActError::Refused(preflight)) => *preflight,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_switchover_moves_the_partition_and_is_done_with_the_first_commit() {
    let mut world = World::settled(3, 1, 2);
    let (from, to) = (world.active(0), 1 + world.active(0) % 3);
    let id = world.act(switchover(Some(to))).unwrap();
    let plan = world.plan();
    let order = orders(&plan)[0].clone();
    assert_eq!((order.kind, order.reason, order.target), (EventKind::Switchover, Reason::Operator, NodeId(to)));
    assert_eq!((order.by.as_deref(), order.operation), (Some("alice"), Some(id)));
    world.commit(plan);
    let step = |world: &World| world.state.operations.get(id).unwrap().steps[0].clone();
    assert_eq!((step(&world).state, step(&world).epoch), (StepState::Ordered, Some(order.epoch)));
    assert!(world.plan().commands.is_empty(), "one order is enough");
    world.confirm_all();
    let operation = world.state.operations.get(id).unwrap();
    assert_eq!((operation.state, operation.steps[0].state), (OperationState::Done, StepState::Done));
    assert_eq!(operation.steps[0].from.as_ref().map(|from| from.node_id), Some(NodeId(from)));
}

#[test]
fn the_same_request_id_is_the_same_operation_and_of_another_act_refused() {
    let mut world = World::settled(3, 2, 2);
    let asked = ActRequest { request_id: Some("r1".into()), ..switchover(None) };
    let first = world.act(asked.clone()).unwrap();
    let command = |request| Command::Begin { request: Box::new(request), steps: Vec::new(), at: world.wall };
    let again = command(asked);
    let other = command(ActRequest { request_id: Some("r1".into()), ..pause(None) });
    assert_eq!(world.state.apply(90, again, 10), vec![crate::state::Event::Begun(first)]);
    assert!(matches!(world.state.apply(91, other, 10)[..], [crate::state::Event::Ignored(_)]));
    assert!(world.state.pause.is_none());
}

#[test]
fn a_refusal_names_every_candidate_with_reason_and_numbers() {
    type Spoil = fn(&mut World, u64);
    let table: [(&str, &str, Spoil); 10] = [
        ("dead", "last heard of 5 ms ago", |w, id| w.die(id, Cause::ProcessDead)),
        ("suspect", "last heard", |w, id| w.nodes.get_mut(&NodeId(id)).unwrap().liveness = Liveness::Suspect),
        ("restoring", "applied 100 of 900", |w, id| {
            let replica = w.replica(id, 0);
            (replica.role, replica.lso) = (Role::Restoring, Offset(900));
        }),
        ("divergent", "commit 1", |w, id| w.replica(id, 0).digest_equal = Some(false)),
        ("draining", "by alice: \"kernel\"", drain),
        ("stopping", "shutting down", |w, id| w.nodes.get_mut(&NodeId(id)).unwrap().report.stopping = true),
        ("nofailover", "node.nofailover", |w, id| w.nodes.get_mut(&NodeId(id)).unwrap().nofailover = true),
        ("semantics_differ", "0000000000000008", |w, id| {
            w.nodes.get_mut(&NodeId(id)).unwrap().report.semantics_hash = 8;
        }),
        ("version_too_old", "version 0.1.0, the active has 0.3.0", |w, id| {
            w.nodes.values_mut().for_each(|node| node.version = "0.3.0".into());
            w.nodes.get_mut(&NodeId(id)).unwrap().version = "0.1.0".into();
        }),
        ("cold", "5000 ms behind; warm is at most 1000 ms", |w, id| w.replica(id, 0).lag_ms = 5_000),
    ];
    for (reason, numbers, spoil) in table {
        let mut world = World::settled(3, 1, 1);
        let (active, standby) = (world.active(0), world.entry(0).standbys[0].0);
        spoil(&mut world, standby);
        let before = world.state.clone();
        let preflight = refusal(world.act(switchover(None)));
        assert!(preflight.detail.contains("no node can take partition 0"), "{}", preflight.detail);
        let candidates = &preflight.partitions[0].candidates;
        assert_eq!(candidates.len(), 2, "{reason}: all but the active {active}");
        let of = |id| candidates.iter().find(|c| c.node_id == NodeId(id)).unwrap();
        assert_eq!(of(standby).reason.as_deref(), Some(reason), "{candidates:?}");
        assert!(of(standby).detail.contains(numbers), "{reason}: {}", of(standby).detail);
        assert_eq!(of(6 - active - standby).reason.as_deref(), Some("no_replica"));
        assert_eq!(world.state, before, "a refusal changes nothing");
    }
}

#[test]
fn a_cold_successor_is_taken_only_where_that_is_asked_for() {
    let mut world = World::settled(2, 1, 1);
    world.replica(3 - world.active(0), 0).lag_ms = 50_000;
    let which = Which::All;
    let cold = Act::Switchover { which, to: None, allow_cold: true };
    assert!(refusal(world.act(switchover(None))).partitions[0].candidates[0].reason.is_some());
    world.act(request(cold)).unwrap();
    assert_eq!(orders(&world.plan()).len(), 1);
}

#[test]
fn what_does_not_exist_is_not_found_and_what_is_there_already_refused() {
    let mut world = World::settled(3, 1, 2);
    for act in [
        Act::Switchover { which: Which::Partitions(vec![PartitionId(9)]), to: None, allow_cold: false },
        Act::Switchover { which: Which::All, to: Some(Slot("nobody".into())), allow_cold: false },
        Act::Drain { slot: Slot("nobody".into()), evacuate: false },
        Act::Pause { partition: Some(PartitionId(9)), for_ms: 1 },
    ] {
        assert!(matches!(world.act(request(act)), Err(ActError::NotFound(_))));
    }
    let active = world.active(0);
    assert!(refusal(world.act(switchover(Some(active)))).detail.contains("already"));
    assert!(refusal(world.act(request(Act::Pause { partition: None, for_ms: 25 * HOUR_MS }))).detail.contains("24h"));
    assert!(refusal(world.act(request(Act::Resume { partition: None }))).detail.contains("not paused"));
    let undrain = Act::Undrain { slot: Slot("n1".into()) };
    assert!(refusal(world.act(request(undrain))).detail.contains("not being drained"));
}

#[test]
fn a_successor_that_dies_before_its_first_commit_gives_the_partition_back_to_the_old_active() {
    let mut world = World::settled(2, 1, 1);
    let (from, to) = (world.active(0), 3 - world.active(0));
    let id = world.act(switchover(None)).unwrap();
    let epoch = world.entry(0).epoch;
    let plan = world.plan();
    world.commit(plan);
    // It works on under its own epoch until the successor is ready.
    let old = world.replica(from, 0);
    (old.role, old.epoch) = (Role::Active, epoch);
    world.die(to, Cause::ProcessDead);
    let plan = world.plan();
    assert_eq!((orders(&plan)[0].target, orders(&plan)[0].kind), (NodeId(from), EventKind::Failover));
    world.commit(plan);
    let operation = world.state.operations.get(id).unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    assert!(operation.steps[0].detail.as_ref().unwrap().contains("undone"), "{operation:?}");
}

#[test]
fn a_step_that_cannot_be_done_for_a_minute_is_given_up() {
    let mut world = World::settled(2, 1, 1);
    let id = world.act(switchover(None)).unwrap();
    world.replica(3 - world.active(0), 0).role = Role::Restoring;
    assert!(world.plan().commands.is_empty());
    world.pass(Duration::from_secs(61));
    let plan = world.plan();
    world.commit(plan);
    let operation = world.state.operations.get(id).unwrap();
    assert_eq!(operation.state, OperationState::Failed);
    assert!(operation.steps[0].detail.as_ref().unwrap().contains("restoring"), "{operation:?}");
    world.replica(3 - world.active(0), 0).role = Role::Standby;
    assert!(world.plan().commands.is_empty(), "it does not happen afterwards");
}

#[test]
fn a_paused_failover_is_recorded_once_and_done_by_an_operator_or_after_the_pause() {
    for by_operator in [true, false] {
        let mut world = World::settled(3, 1, 2);
        let active = world.active(0);
        world.act(pause(by_operator.then_some(PartitionId(0)))).unwrap();
        world.die(active, Cause::ProcessDead);
        let plan = world.plan();
        assert!(orders(&plan).is_empty());
        assert_eq!((plan.withheld[0].reason, plan.withheld[0].remaining), ("paused", Some(Duration::from_secs(3600))));
        world.commit(plan);
        assert!(world.plan().commands.is_empty(), "once");
        let event = world.state.history.events.back().unwrap();
        assert_eq!((event.result, event.withheld.as_deref()), (EventResult::Withheld, Some("paused")));
        assert_eq!(world.state.history.totals.withheld["paused"], 1);
        if by_operator {
            world.act(failover()).unwrap();
        } else {
            world.pass(Duration::from_secs(3601));
        }
        let plan = world.plan();
        let reason = if by_operator { Reason::Operator } else { Reason::ProcessDead };
        assert_eq!(orders(&plan)[0].reason, reason);
        world.commit(plan);
        assert_eq!(world.entry(0).withheld, None);
    }
}

#[test]
fn an_operators_failover_goes_at_once_and_past_a_living_active() {
    let mut world = World::settled(3, 1, 2);
    world.state.partitions.get_mut(&PartitionId(0)).unwrap().failovers = vec![world.wall; 9];
    let active = world.active(0);
    world.act(failover()).unwrap();
    let plan = world.plan();
    assert_eq!((orders(&plan)[0].kind, orders(&plan)[0].reason), (EventKind::Failover, Reason::Operator));
    assert_ne!(orders(&plan)[0].target, NodeId(active));
    world.commit(plan);
    assert_eq!(world.entry(0).failovers.len(), 9, "no failure of the partition");
}

#[test]
fn a_node_that_is_never_promoted_is_taken_where_an_operator_allows_it() {
    let mut world = World::settled(2, 1, 1);
    let other = 3 - world.active(0);
    world.nodes.get_mut(&NodeId(other)).unwrap().nofailover = true;
    assert_eq!(refusal(world.act(failover())).partitions[0].candidates[0].reason.as_deref(), Some("nofailover"));
    let act = Act::Failover { which: Which::All, to: None, allow_cold: false, allow_nofailover: true };
    world.act(request(act)).unwrap();
    assert_eq!(orders(&world.plan())[0].target, NodeId(other));
}

/// Whatever happens: no automatic act while the cluster is paused, and a decision for each partition without an active.
#[test]
fn while_paused_nothing_is_done_that_nobody_asked_for() {
    for seed in 0..200_u64 {
        let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |below: u64| {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice % below
        };
        let mut world = World::settled(4, 8, 1);
        world.act(request(Act::Pause { partition: None, for_ms: 24 * HOUR_MS })).unwrap();
        for _ in 0..20 {
            let id = 1 + roll(4);
            match roll(6) {
                0 | 1 => world.die(id, if roll(2) == 0 { Cause::ProcessDead } else { Cause::Silent }),
                2 => world.restart(id),
                3 => {
                    let active = world.state.partitions.values().map(|p| (p.epoch, PartitionId(0))).next().unwrap();
                    world.outcome(PartitionId(0), active.0, PromotionResult::Failed { error: "x".into() });
                }
                4 => world.calm = Duration::ZERO,
                _ => world.nodes.get_mut(&NodeId(id)).unwrap().report.replicas.clear(),
            }
            world.pass(Duration::from_millis(roll(600_000)));
            let plan = world.plan();
            for command in &plan.commands {
                let harmless = matches!(command, Command::NodeUp { .. } | Command::Withheld(_));
                assert!(harmless, "seed {seed}: {command:?}");
            }
            world.commit(plan);
        }
    }
}

#[test]
fn one_node_is_drained_at_a_time_and_the_next_one_waits_and_says_for_whom() {
    let mut world = World::settled(3, 6, 2);
    let act = |id: u64| request(Act::Drain { slot: Slot(format!("n{id}")), evacuate: false });
    let (first, second) = (world.act(act(2)).unwrap(), world.act(act(3)).unwrap());
    let get = |world: &World, id| world.state.operations.get(id).unwrap().clone();
    let waits = get(&world, second).detail.unwrap();
    assert!(waits.contains("n2 is being drained by alice") && waits.contains("hotspare undrain n2"), "{waits}");
    world.settle();
    assert_eq!((get(&world, first).state, world.loads()[1]), (OperationState::Done, 0));
    assert!(get(&world, second).is_running() && world.loads()[2] > 0, "until the first takes part again");
    world.act(request(Act::Undrain { slot: Slot("n2".into()) })).unwrap();
    world.settle();
    assert_eq!((get(&world, second).state, world.loads()[2]), (OperationState::Done, 0));
    assert_eq!(get(&world, second).detail, None);
}

#[test]
fn an_evacuated_node_loses_its_replicas_once_others_have_them() {
    let mut world = World::settled(4, 4, 1);
    let act = Act::Drain { slot: Slot("n4".into()), evacuate: true };
    let id = world.act(request(act)).unwrap();
    world.settle();
    assert!(world.state.partitions.values().all(|p| p.active != Some(NodeId(4)) && !p.standbys.contains(&NodeId(4))));
    assert!(world.state.partitions.values().all(|p| p.standbys.len() == 1));
    assert_eq!(world.state.operations.get(id).unwrap().state, OperationState::Done);
}

#[test]
fn a_drain_that_would_leave_a_partition_without_an_active_is_refused() {
    let mut world = World::settled(2, 2, 1);
    let active = world.active(0);
    world.replica(3 - active, 0).role = Role::Restoring;
    let act = Act::Drain { slot: Slot(format!("n{active}")), evacuate: false };
    assert!(refusal(world.act(request(act))).detail.contains("no node can take partition 0"));
}
