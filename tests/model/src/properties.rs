//! What must hold in every world that can be reached, and what must be reachable so that this says something.

use hotspare_cluster::{
    Epoch, NodeId, Offset, PartitionId,
    invariants::{self, Between, Violation},
};
use stateright::{Model, Property};

use crate::{
    recovery::recovers,
    steps::{Action, Rules},
    world::{NODES, Phase, Step, World},
};

// What must hold.

/// Epochs never fall, commits rise by one, no input offset comes back.
pub const LOG_SOUND: &str = "the log is that of one writer after the other";
/// Neither the log nor a replica counts an input record twice or leaves one out.
pub const EXACT: &str = "every input record is counted once";
/// Whoever can write and has nothing under way has applied all that is committed.
pub const COMPLETE: &str = "a promoted replica has every committed record";
/// At most one node is active and would not be refused.
pub const ONE_WRITER: &str = "one writer can commit";
/// At most one node is active in an epoch, also by its own belief.
pub const ONE_ACTIVE: &str = "one active an epoch";
/// The changelog is never taken to be above an active of the newest epoch that can write.
pub const NOT_DEPOSED: &str = "an active that works is not deposed by an old report";
/// With faults ended, some replica becomes active: searched from every world that safety leaves.
pub const RECOVERS: &str = "without faults somebody becomes active and commits";

// What must be reached.

/// An order that came late fences the node of the next one.
pub const OUTDATED_FENCES: &str = "an outdated promotion fences its successor";
/// It believes that it is active, and is up.
pub const ZOMBIE_WAKES: &str = "a frozen active wakes up when its successor has committed";
/// The node that gave up will find its own commit in the changelog.
pub const UNANSWERED_STANDS: &str = "a commit without an answer stands";
/// The request to commit was on its way.
pub const COMMITTED_AFTER_DEATH: &str = "a dead active's transaction is committed after its death";
/// It continues its own epoch.
pub const RENEWED: &str = "a tenure goes on after it was fenced";
/// The first order was too low.
pub const JUMPED: &str = "an order jumps above the changelog of an earlier control plane";
/// What the product aborts by a transaction of its own.
pub const LEFT_OPEN: &str = "a fence without the abort marker";

/// The model: bounds, and the worlds to begin with.
#[derive(Clone, Debug)]
pub struct Protocol {
    pub rules: Rules,
    pub begin: Vec<World>,
    /// Whether nodes keep their names on a way, for people to read; else worlds are visited once whatever the names are.
    pub names_matter: bool,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        self.begin.clone()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        self.rules.tries(world, actions);
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let next = self.rules.step(world, action)?;
        Some(if self.names_matter { next } else { next.canonical() })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::always(LOG_SOUND, |_, world: &World| is_log_sound(world).is_ok()),
            Property::always(EXACT, |_, world: &World| is_exact(world)),
            Property::always(COMPLETE, |_, world: &World| is_promoted_complete(world).is_ok()),
            Property::always(ONE_WRITER, |_, world: &World| writers(world) <= 1),
            Property::always(ONE_ACTIVE, |_, world: &World| is_one_active(world).is_ok()),
            Property::always(NOT_DEPOSED, |_, world: &World| {
                !(world.raft.newest().is_some() && world.raft.floor >= world.raft.epoch() && world.has_active())
            }),
            Property::always(RECOVERS, |model: &Self, world: &World| recovers(&model.rules, world)),
        ];
        all.extend(remarkable());
        all
    }
}

/// Worlds that a model which is too small, or wrong, would never reach.
#[must_use]
pub fn remarkable() -> Vec<Property<Protocol>> {
    vec![
        Property::sometimes(OUTDATED_FENCES, |_, world: &World| {
            let epoch = |node: usize| world.nodes[node].tenure.map_or(0, |tenure| tenure.epoch);
            let is_active = |node: usize| world.nodes[node].active_step().is_some();
            (0..NODES).any(|old| {
                world.broker.owners[old]
                    && (0..NODES).any(|new| is_active(new) && epoch(new) > epoch(old) && epoch(old) > 0)
            })
        }),
        Property::sometimes(ZOMBIE_WAKES, |_, world: &World| {
            let newest = world.broker.log.last().map_or(0, |entry| entry.epoch);
            world.nodes.iter().any(|node| {
                let is_zombie = node.tenure.is_some_and(|tenure| tenure.epoch < newest && tenure.step == Step::Idle);
                is_zombie && node.is_up()
            })
        }),
        Property::sometimes(UNANSWERED_STANDS, |_, world: &World| {
            let stands = |node: &crate::world::Node| {
                let behind = world.broker.log.get(usize::from(node.replica.next));
                node.renew && behind.is_some_and(|entry| entry.epoch == node.tried)
            };
            world.nodes.iter().any(stands)
        }),
        Property::sometimes(COMMITTED_AFTER_DEATH, |_, world: &World| {
            (0..NODES).any(|node| {
                let open = world.broker.open[node];
                !world.nodes[node].is_up() && open.is_some_and(|open| open.phase == Phase::Decided)
            })
        }),
        Property::sometimes(RENEWED, |_, world: &World| {
            let goes_on = |node: &crate::world::Node| {
                node.tenure.is_some_and(|tenure| tenure.renewed && tenure.epoch == node.replica.epoch_seen)
            };
            world.nodes.iter().any(|node| goes_on(node) && node.active_step().is_some())
        }),
        Property::sometimes(JUMPED, |_, world: &World| {
            world.raft.orders.len() == 2 && world.raft.epoch() > 2 && world.has_active()
        }),
        Property::sometimes(LEFT_OPEN, |_, world: &World| world.broker.leftover.is_some()),
    ]
}

/// Conditions P1 and P5 of the changelog, by the checks that the product uses.
pub fn is_log_sound(world: &World) -> Result<(), Violation> {
    let log = &world.broker.log;
    if let Some(first) = log.first() {
        invariants::commit_by_one(0, first.commit.into(), Between::Nothing)?;
    }
    log.windows(2).try_for_each(|pair| {
        let [before, after] = pair else { return Ok(()) };
        invariants::succession(&before.as_commit(), &after.as_commit(), Between::Nothing)
    })
}

/// In the log and in every replica.
fn is_exact(world: &World) -> bool {
    world.broker.log.iter().all(|entry| entry.counted == entry.next_input)
        && world.nodes.iter().all(|node| node.replica.counted == node.replica.next_input)
}

fn is_promoted_complete(world: &World) -> Result<(), Violation> {
    let end = Offset(world.log_end().into());
    (0..NODES).filter(|place| world.broker.owners[*place]).try_for_each(|place| {
        let node = &world.nodes[place];
        let is_idle = node.active_step() == Some(Step::Idle);
        let checked = invariants::promoted_at_log_end(Offset(node.replica.next.into()), end);
        if is_idle { checked } else { Ok(()) }
    })
}

fn writers(world: &World) -> usize {
    (0..NODES).filter(|place| world.broker.owners[*place] && world.nodes[*place].active_step().is_some()).count()
}

fn is_one_active(world: &World) -> Result<(), Violation> {
    let claims = (1..).zip(&world.nodes).filter_map(|(id, node)| {
        let tenure = node.tenure.filter(|tenure| tenure.step.is_active())?;
        Some((PartitionId(0), Epoch(tenure.epoch.into()), NodeId(id)))
    });
    invariants::one_active_per_epoch(claims)
}
