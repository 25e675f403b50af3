use super::*;

#[test]
fn the_first_placement_spreads_actives_and_standbys() {
    for (nodes, partitions, standbys) in [(1, 4, 1), (3, 6, 1), (3, 12, 2), (5, 100, 2), (7, 3, 1)] {
        let world = World::settled(nodes, partitions, standbys);
        let loads = world.loads();
        let (most, fewest) = (loads.iter().max().unwrap(), loads.iter().min().unwrap());
        assert!(most - fewest <= 1, "{loads:?}");
        for entry in world.state.partitions.values() {
            assert_eq!(entry.standbys.len() as u64, u64::from(standbys).min(nodes - 1));
            assert!(!entry.standbys.contains(&entry.active.unwrap()));
        }
    }
}

#[test]
fn one_partition_is_not_placed_on_the_raft_leader_if_another_node_is_there() {
    assert_eq!(World::settled(3, 1, 1).active(0), 2);
    assert_eq!(World::settled(1, 1, 0).active(0), 1);
}

#[test]
fn the_first_placement_waits_for_missing_nodes_but_not_for_ever() {
    let mut world = World::new(3, 3, 1);
    world.nodes.get_mut(&NodeId(3)).unwrap().liveness = Liveness::Unknown;
    world.now = Duration::from_millis(1_500);
    assert!(world.plan().commands.iter().all(|c| !matches!(c, Command::CreatePartitions { .. })));
    world.now = Duration::from_secs(10);
    world.settle();
    assert_eq!(world.loads(), [1, 2, 0]);
}

#[test]
fn standbys_are_placed_in_another_zone_than_the_active_where_there_is_one() {
    let mut world = World::new(4, 8, 1);
    for (id, zone) in [(1, "east"), (2, "east"), (3, "west"), (4, "west")] {
        world.nodes.get_mut(&NodeId(id)).unwrap().zone = zone.into();
    }
    world.settle();
    for entry in world.state.partitions.values() {
        assert_ne!(entry.active.unwrap().0 <= 2, entry.standbys[0].0 <= 2, "{entry:?}");
    }
}

#[test]
fn a_spare_node_becomes_standby_at_once_and_the_surplus_is_dropped_when_all_is_calm() {
    let mut world = World::settled(3, 3, 1);
    world.die(2, Cause::ProcessDead);
    world.settle();
    for entry in world.state.partitions.values() {
        let live = entry.standbys.iter().filter(|s| **s != NodeId(2)).count();
        assert_eq!(live, 1, "{entry:?}");
    }
    world.restart(2);
    world.nodes.get_mut(&NodeId(2)).unwrap().report.replicas.iter_mut().for_each(|r| r.role = Role::Standby);
    world.settle();
    world.pass(world.settings.rebalance_after);
    for _ in 0..30 {
        let plan = world.plan();
        world.commit(plan);
        world.confirm_all();
    }
    assert!(world.state.partitions.values().all(|p| p.standbys.len() == 1), "{:?}", world.state.partitions);
    assert_eq!(world.loads(), [1, 1, 1], "and actives are spread again");
}

#[test]
fn actives_move_one_at_a_time_and_only_to_a_warm_standby_when_all_is_calm() {
    let mut world = World::settled(2, 4, 1);
    world.die(2, Cause::ProcessDead);
    world.settle();
    world.restart(2);
    world.nodes.get_mut(&NodeId(2)).unwrap().report.replicas.iter_mut().for_each(|r| r.role = Role::Restoring);
    world.settle();
    world.pass(world.settings.rebalance_after);
    assert!(orders(&world.plan()).is_empty(), "nothing is warm");
    world.nodes.get_mut(&NodeId(2)).unwrap().report.replicas.iter_mut().for_each(|r| r.role = Role::Standby);
    world.calm = world.now;
    assert!(orders(&world.plan()).is_empty(), "not calm");
    world.pass(world.settings.rebalance_after);
    let plan = world.plan();
    assert_eq!(orders(&plan).len(), 1);
    assert_eq!((orders(&plan)[0].reason, orders(&plan)[0].target), (Reason::Rebalance, NodeId(2)));
    world.commit(plan);
    let entry = world.state.partitions.values_mut().find(|p| p.active == Some(NodeId(2))).unwrap();
    entry.stage = Stage::Ordered;
    assert!(orders(&world.plan()).is_empty(), "one at a time");
}

#[test]
fn a_witness_holds_no_replica() {
    let mut world = World::new(3, 6, 2);
    world.nodes.get_mut(&NodeId(2)).unwrap().witness = true;
    world.settle();
    assert_eq!(world.loads(), [3, 0, 3]);
    assert!(world.state.partitions.values().all(|p| !p.standbys.contains(&NodeId(2))));
}

#[test]
fn a_changed_number_of_partitions_is_a_problem_and_changes_nothing() {
    let mut world = World::settled(3, 4, 1);
    world.nodes.get_mut(&NodeId(1)).unwrap().report.partitions_of_input = Some(6);
    let plan = world.plan();
    assert!(plan.commands.is_empty());
    assert!(plan.problems[0].contains("has 6 partitions") && plan.problems[0].contains("made for 4"));
}
