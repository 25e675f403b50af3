//! Liveness: from any world, once nothing goes wrong any more, somebody becomes active and commits.
//!
//! The search visits worlds, not ways, so it cannot see that something never happens on an endless way. Instead each
//! world that it visits is run on, without further faults, by schedulers that let everybody take steps in turn.

use crate::{
    steps::{Action, Rules},
    world::{Faults, NODES, Process, World},
};

/// Turns after which a scheduler gives up. The longest way takes less than half of them.
const TURNS_MAX: usize = 24;

/// Whether all schedulers come to an active that commits.
pub(crate) fn recovers(rules: &Rules, world: &World) -> bool {
    // Bounds keep the search finite; here they would be a fault.
    let rules = Rules { orders_max: usize::MAX, commits_max: usize::MAX, ..*rules };
    let forward: [usize; NODES] = std::array::from_fn(|node| node);
    let backward: [usize; NODES] = std::array::from_fn(|node| NODES - 1 - node);
    [forward, backward].iter().all(|order| {
        let lost = world.nodes.iter().filter(|node| node.process != Process::Up).count();
        // What is lost comes back, or stays away for ever as long as Raft has a quorum.
        runs(&rules, world, order, true) && (lost == 0 || lost > 1 || runs(&rules, world, order, false))
    })
}

fn runs(rules: &Rules, world: &World, order: &[usize; NODES], is_back: bool) -> bool {
    let mut world = World { faults: Faults::NONE, ..world.clone() };
    for turn in 0..TURNS_MAX {
        for node in order {
            if is_back {
                go(rules, &mut world, [Action::Thaw(*node), Action::Restart(*node)]);
            }
            let newest = u8::try_from(world.raft.orders.len()).expect("a bounded number of orders");
            go(rules, &mut world, [Action::Report(*node), Action::Order(*node), Action::Deliver(*node, newest)]);
            if turn == 0 {
                // Late copies of all that was ever sent arrive behind the newest order.
                let late: Vec<_> = (1..newest).map(|number| Action::Deliver(*node, number)).collect();
                go(rules, &mut world, late);
            }
            go(rules, &mut world, [Action::Decide(*node), Action::MakeVisible(*node)]);
            while let Some(applied) = rules.step(&world, Action::Apply(*node)) {
                world = applied;
            }
            let before = world.broker.log.len();
            go(
                rules,
                &mut world,
                [
                    Action::Refused(*node),
                    Action::StopTenure(*node),
                    Action::Begin(*node),
                    Action::Fence(*node),
                    Action::Settle(*node),
                    Action::Apply(*node),
                    Action::CaughtUp(*node),
                    Action::Write(*node),
                    Action::AskCommit(*node),
                    Action::Decide(*node),
                    Action::MakeVisible(*node),
                    Action::Answered(*node),
                ],
            );
            let has_committed = world.broker.log.len() > before;
            if has_committed && world.broker.owners[*node] && world.has_active() {
                return true;
            }
        }
    }
    false
}

fn go(rules: &Rules, world: &mut World, actions: impl IntoIterator<Item = Action>) {
    for action in actions {
        if let Some(next) = rules.step(world, action) {
            *world = next;
        }
    }
}
