use super::*;
use crate::report::PromotionPhases;
use crate::totals::LastChange;

fn new_node(id: u64, slot: &str) -> NewNode {
    NewNode {
        node_id: NodeId(id),
        slot: Slot(slot.into()),
        address: format!("{slot}:1"),
        zone: String::new(),
        store_uuid: format!("disk-{slot}"),
    }
}

fn formed() -> State {
    let mut state = State::default();
    let nodes = vec![new_node(1, "a"), new_node(2, "b"), new_node(3, "c")];
    state.apply(1, Command::Form { cluster_id: "x".into(), nodes }, 10);
    state.apply(2, Command::CreatePartitions { count: 2 }, 10);
    state
}

fn order(partition: u32, expected: u64, epoch: u64, target: u64) -> OrderCommand {
    OrderCommand {
        partition: PartitionId(partition),
        expected: Epoch(expected),
        epoch: Epoch(epoch),
        target: NodeId(target),
        target_incarnation: 70 + target,
        standbys: vec![NodeId(1), NodeId(2), NodeId(3)],
        kind: EventKind::Failover,
        reason: Reason::ProcessDead,
        by: None,
        at: WallTime(1_000_000 + epoch as i64),
        evidence: Vec::new(),
        phases_ms: Phases { detect: 1.0, ..Phases::default() },
        passed_over: Vec::new(),
        antiflap_window_ms: 600_000,
        operation: None,
    }
}

fn give(state: &mut State, index: u64, order: OrderCommand) -> Vec<Event> {
    state.apply(index, Command::Order(Box::new(order)), 10)
}

fn outcome(epoch: u64, result: PromotionResult) -> Command {
    Command::Outcome {
        outcome: PromotionOutcome {
            partition: PartitionId(0),
            epoch: Epoch(epoch),
            result,
            phases_ms: PromotionPhases { fence: 3.0, catch_up: 2.0, first_output: 9.0, ..PromotionPhases::default() },
            records_caught_up: 4,
            readings_replayed: 5,
            pause_ms: Some(20.0),
        },
        timing: Some(Timing { phases_ms: Phases { detect: 1.5, decide: 4.0, ..Phases::default() }, total_ms: 21.0 }),
        at: WallTime(9),
    }
}

fn counted(state: &State, key: &str) -> u64 {
    state.history.ended.get(key).copied().unwrap_or(0)
}

#[test]
fn epochs_only_grow_and_an_outdated_order_changes_nothing() {
    let mut state = formed();
    assert_eq!(give(&mut state, 3, order(0, 0, 1, 1)), vec![Event::Assigned(PartitionId(0))]);
    let before = state.clone();
    for outdated in [order(0, 0, 1, 2), order(0, 0, 2, 2), order(0, 1, 1, 2), order(9, 0, 1, 2), order(0, 1, 2, 9)] {
        assert!(matches!(give(&mut state, 4, outdated)[..], [Event::Ignored(_)]));
        assert_eq!(state, before);
    }
    state.apply(5, Command::EpochSeen { partition: PartitionId(0), seen: Epoch(7) }, 10);
    assert!(matches!(give(&mut state, 6, order(0, 1, 7, 2))[..], [Event::Ignored(_)]));
    assert_eq!(give(&mut state, 7, order(0, 1, 8, 2)), vec![Event::Assigned(PartitionId(0))]);
    assert_eq!(state.partitions[&PartitionId(0)].epoch, Epoch(8));
}

#[test]
fn an_outcome_completes_the_event_and_is_counted_once() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 1));
    state.apply(4, outcome(1, PromotionResult::Ok), 10);
    state.apply(5, outcome(1, PromotionResult::Ok), 10);
    let event = &state.history.events[0];
    assert_eq!(event.result, EventResult::Success);
    assert_eq!((event.phases_ms.detect, event.phases_ms.decide, event.phases_ms.fence), (1.5, 4.0, 3.0));
    assert_eq!(event.total_ms, Some(21.0));
    assert_eq!(counted(&state, "failover/process_dead/success"), 1);
    assert_eq!(state.partitions[&PartitionId(0)].stage, Stage::Confirmed);
}

#[test]
fn a_superseded_promotion_raises_the_floor() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 1));
    state.apply(4, outcome(1, PromotionResult::Superseded { seen: Epoch(40) }), 10);
    let entry = &state.partitions[&PartitionId(0)];
    assert_eq!((entry.floor, entry.stage), (Epoch(40), Stage::Superseded));
}

#[test]
fn counters_live_on_when_events_are_trimmed() {
    let mut state = formed();
    for epoch in 1..=50 {
        give(&mut state, 2 + epoch, order(0, epoch - 1, epoch, 1 + epoch % 3));
        state.apply(100, outcome(epoch, PromotionResult::Ok), 10);
    }
    assert_eq!(state.history.events.len(), 10);
    assert_eq!(state.history.events.back().map(|e| e.seq), Some(50));
    assert_eq!(counted(&state, "failover/process_dead/success"), 50);
    let totals = &state.history.totals;
    let duration = &totals.durations["failover/process_dead"];
    assert_eq!((duration.count(), duration.sum()), (50, 1.05));
    assert_eq!(totals.phases["failover/fence"].sum(), 0.15);
    assert_eq!(totals.last["failover"], LastChange { at: WallTime(1_000_050), total_ms: 21.0 });
}

#[test]
fn an_order_without_outcome_ends_as_failed_when_the_next_is_given() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 1));
    give(&mut state, 4, OrderCommand { reason: Reason::PromotionFailed, ..order(0, 1, 2, 2) });
    assert_eq!(state.history.events[0].result, EventResult::Failed);
    assert_eq!(state.history.events[1].from.as_ref().map(|f| f.node_id), Some(NodeId(1)));
}

#[test]
fn the_same_incarnation_heard_again_marks_its_failovers_as_false() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 1));
    give(&mut state, 4, order(0, 1, 2, 2));
    state.apply(5, Command::FalsePositive { node: NodeId(1), incarnation: 99 }, 10);
    assert!(!state.history.events[1].false_positive);
    state.apply(6, Command::FalsePositive { node: NodeId(1), incarnation: 71 }, 10);
    assert!(state.history.events[1].false_positive);
    // Each node that hears it says so.
    state.apply(7, Command::FalsePositive { node: NodeId(1), incarnation: 71 }, 10);
    assert_eq!(state.history.false_positives, 1);
    assert_eq!(state.history.totals.false_failovers["process_dead"], 1);
    assert_eq!(state.history.falsely_deposed(NodeId(1), 71).count(), 0);
}

#[test]
fn a_new_disk_gets_the_log_index_as_id_and_the_old_id_never_returns() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 2));
    let node = NewNode { store_uuid: "new".into(), ..new_node(0, "b") };
    let allot = Command::Allot { node: node.clone(), replaces: Some(NodeId(2)) };
    assert_eq!(state.apply(57, allot.clone(), 10), vec![Event::Allotted(NodeId(57))]);
    assert_eq!(state.apply(58, allot, 10), vec![Event::Allotted(NodeId(57))]);
    state.apply(59, Command::Tombstone { node: NodeId(2) }, 10);
    assert!(state.tombstones.contains_key(&NodeId(2)) && !state.nodes.contains_key(&NodeId(2)));
    let entry = &state.partitions[&PartitionId(0)];
    assert_eq!(entry.active, None);
    assert!(entry.standbys.contains(&NodeId(57)) && !entry.standbys.contains(&NodeId(2)));
    let other = NewNode { store_uuid: "third".into(), ..node };
    let late = Command::Allot { node: other, replaces: Some(NodeId(2)) };
    assert!(matches!(state.apply(60, late, 10)[..], [Event::Ignored(_)]));
}

#[test]
fn a_new_process_is_no_longer_stopping() {
    let mut state = formed();
    let up = |incarnation| Command::NodeUp { node: NodeId(1), incarnation, address: "h:1".into(), zone: "z".into() };
    state.apply(3, up(5), 10);
    state.apply(4, Command::Stopping { node: NodeId(1), incarnation: 4 }, 10);
    assert!(!state.nodes[&NodeId(1)].stopping);
    state.apply(5, Command::Stopping { node: NodeId(1), incarnation: 5 }, 10);
    assert!(state.nodes[&NodeId(1)].stopping);
    state.apply(6, up(5), 10);
    assert!(state.nodes[&NodeId(1)].stopping);
    state.apply(7, up(6), 10);
    assert!(!state.nodes[&NodeId(1)].stopping);
}

#[test]
fn state_and_commands_survive_their_encoding() {
    let mut state = formed();
    give(&mut state, 3, order(0, 0, 1, 1));
    state.apply(4, outcome(1, PromotionResult::Ok), 10);
    let bytes = serde_json::to_vec(&state).unwrap();
    assert_eq!(serde_json::from_slice::<State>(&bytes).unwrap(), state);
    let batch = Batch { commands: vec![Command::Order(Box::new(order(1, 0, 1, 2))), outcome(3, PromotionResult::Ok)] };
    let bytes = serde_json::to_vec(&batch).unwrap();
    assert_eq!(serde_json::from_slice::<Batch>(&bytes).unwrap(), batch);
}
