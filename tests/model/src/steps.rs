//! What may happen, and what the world is like afterwards.

use crate::world::{Entry, NODES, Node, Open, Order, Phase, Process, Replica, Step, Tenure, World};

/// A piece of the protocol that is taken out, to see that the model notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mutation {
    /// A new owner does not end the rights of the earlier ones.
    NoFencing,
    /// A promoted replica does not apply the changelog to the last stable offset.
    NoCatchUp,
    /// The last stable offset is read before the fence.
    StableOffsetBeforeFence,
    /// Fence and reading of the last stable offset do not wait for a decided transaction to become visible.
    NoWaitForMarkers,
    /// What a fenced owner left open is not aborted.
    LeftoversStay,
    /// A tenure begins whatever epochs stand in the changelog.
    LowerEpochAccepted,
    /// The state keeps what was not committed.
    StateBeforeChangelog,
    /// A commit without an answer is taken for a failed one, and written again.
    LostAnswerMeansFailure,
    /// A commit without an answer is taken for a success.
    LostAnswerMeansSuccess,
    /// A node that was fenced waits for another order.
    NoRenewal,
    /// A node that was overtaken tells nobody.
    OvertakenInSilence,
    /// A node follows the order that came last, also a late copy of an older one.
    LateOrdersFollowed,
    /// The epoch of a later tenure, met by an outdated one, is held against the later one.
    StaleReportsCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    // Control plane.
    Order(usize),
    /// The node sees the order of this number.
    Deliver(usize, u8),
    Report(usize),
    // A node.
    Apply(usize),
    Begin(usize),
    StopTenure(usize),
    Fence(usize),
    Settle(usize),
    CaughtUp(usize),
    Write(usize),
    AskCommit(usize),
    Answered(usize),
    Refused(usize),
    // The broker, for the transaction of a node.
    Decide(usize),
    MakeVisible(usize),
    // Faults.
    Crash(usize),
    Restart(usize),
    Freeze(usize),
    Thaw(usize),
    Suspect(usize),
    TimeOut,
    LoseAnswer(usize),
    FenceWithoutMarker(usize),
}

/// Bounds of the search, and what is taken out of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub orders_max: usize,
    pub commits_max: usize,
    pub mutation: Option<Mutation>,
}

impl Rules {
    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// All that may be tried, without what the step of a tenure rules out; [`Rules::step`] says whether it can happen.
    pub fn tries(&self, world: &World, out: &mut Vec<Action>) {
        for (place, node) in world.nodes.iter().enumerate() {
            if node.process == Process::Up {
                out.extend([Action::Order(place), Action::Report(place), Action::Apply(place)]);
                out.extend([Action::Suspect(place), Action::Freeze(place)]);
                let orders = u8::try_from(world.raft.orders.len()).expect("a bounded number of orders");
                out.extend((1..=orders).map(|number| Action::Deliver(place, number)));
                out.extend(next_of_tenure(node.tenure.map(|tenure| tenure.step)).iter().map(|action| action(place)));
            } else {
                out.extend([Action::Restart(place), Action::Thaw(place)]);
            }
            out.push(Action::Crash(place));
            if world.broker.open[place].is_some() {
                out.extend([Action::Decide(place), Action::MakeVisible(place)]);
            }
        }
        out.push(Action::TimeOut);
    }

    /// Does it; None where it cannot happen.
    pub fn step(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        self.act(&mut next, action).filter(|()| next != *world).map(|()| next)
    }

    fn act(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Order(node) => {
                let is_needed = self.is_order_needed(world, node);
                is_needed.then(|| order(world, node))
            }
            Action::Suspect(node) => {
                // Any other than the one ordered; who that is, the planner knows.
                let newest = world.raft.newest()?;
                let is_other = usize::from(newest.node) != node && world.raft.orders.len() < self.orders_max;
                (is_other && world.nodes[node].is_up()).then_some(())?;
                spend(&mut world.faults.suspicions)?;
                order(world, node);
                Some(())
            }
            Action::Deliver(node, number) => {
                let known = &mut world.nodes[node];
                (known.is_up() && (number > known.board || self.has(Mutation::LateOrdersFollowed))).then_some(())?;
                known.board = number;
                Some(())
            }
            Action::Report(node) => self.report(world, node),
            Action::Decide(node) => decide(world, node),
            Action::MakeVisible(node) => make_visible(world, node),
            Action::Crash(_)
            | Action::Restart(_)
            | Action::Freeze(_)
            | Action::Thaw(_)
            | Action::TimeOut
            | Action::LoseAnswer(_)
            | Action::FenceWithoutMarker(_) => self.fail(world, action),
            Action::Apply(node) => up(world, node).and_then(|()| apply(world, node)),
            Action::Begin(node) => up(world, node).and_then(|()| self.begin(world, node)),
            Action::StopTenure(node) => up(world, node).and_then(|()| self.stop(world, node)),
            Action::Fence(node) => up(world, node).and_then(|()| self.fence(world, node, false)),
            Action::Settle(node) => up(world, node).and_then(|()| self.settle(world, node)),
            Action::CaughtUp(node) => up(world, node).and_then(|()| self.caught_up(world, node)),
            Action::Write(node) => up(world, node).and_then(|()| self.write(world, node)),
            Action::AskCommit(node) => up(world, node).and_then(|()| ask_commit(world, node)),
            Action::Answered(node) => up(world, node).and_then(|()| answered(world, node)),
            Action::Refused(node) => up(world, node).and_then(|()| self.refused(world, node)),
        }
    }

    // --- control plane

    /// `planner::need` and `planner::candidates`: any live replica may be chosen, for all that a report says may be old.
    fn is_order_needed(&self, world: &World, target: usize) -> bool {
        if !world.nodes[target].is_up() || world.raft.orders.len() >= self.orders_max {
            return false;
        }
        let Some(newest) = world.raft.newest() else { return true };
        let place = usize::from(newest.node);
        if world.nodes[place].process != Process::Up || !world.is_for(newest, place) {
            return true;
        }
        world.raft.needs_jump() && target == place
    }

    /// `Command::Outcome`, `Command::EpochSeen` and `Command::Fenced`.
    fn report(&self, world: &mut World, place: usize) -> Option<()> {
        up(world, place)?;
        let newest = world.raft.newest()?;
        let is_newest = |epoch| newest.epoch == epoch && world.is_for(newest, place);
        let node = &world.nodes[place];
        if let Some((ordered, seen)) = node.tells {
            let is_own = is_newest(ordered);
            world.nodes[place].tells = None;
            world.raft.superseded |= is_own;
            if is_own || seen > newest.epoch || self.has(Mutation::StaleReportsCount) {
                world.raft.floor = world.raft.floor.max(seen);
            }
            return Some(());
        }
        // Of a fence it tells until it is active again.
        (node.renew && is_newest(node.tried)).then_some(())?;
        world.raft.superseded = true;
        Some(())
    }

    // --- a node: supervisor

    /// `Supervisor::advance`: a new order, or the old one again after a fence.
    fn begin(&self, world: &mut World, place: usize) -> Option<()> {
        let order = world.seen_by(&world.nodes[place]).filter(|order| world.is_for(*order, place))?;
        let node = &mut world.nodes[place];
        let is_new = order.epoch > node.tried;
        (node.tenure.is_none() && (is_new || node.renew)).then_some(())?;
        let first = if self.has(Mutation::StableOffsetBeforeFence) { Step::Settling } else { Step::Fencing(None) };
        node.tenure = Some(Tenure { epoch: order.epoch, renewed: !is_new, step: first });
        (node.tried, node.renew) = (order.epoch, false);
        Some(())
    }

    /// The tenure is somebody else's by now, or has another number. It is noticed between transactions.
    fn stop(&self, world: &mut World, place: usize) -> Option<()> {
        let tenure = world.nodes[place].tenure?;
        let order = world.seen_by(&world.nodes[place])?;
        let is_over = !world.is_for(order, place) || order.epoch > tenure.epoch;
        let can = matches!(tenure.step, Step::Idle | Step::CatchingUp(_));
        (is_over && can).then(|| self.stand_by(&mut world.nodes[place], false))
    }

    /// `Running::hand_back`: back to the last commit that is known; what stands in the changelog is read from there.
    fn stand_by(&self, node: &mut Node, was_fenced: bool) {
        let wrote = node.tenure.is_some_and(|tenure| matches!(tenure.step, Step::Written | Step::Asked(_)));
        if wrote && self.has(Mutation::StateBeforeChangelog) {
            node.replica.counted += 1;
        }
        node.tenure = None;
        node.renew = was_fenced && !self.has(Mutation::NoRenewal);
    }

    // --- a node: promotion

    /// `InitProducerId`: waits for a decided transaction, aborts an open one, and ends all earlier rights to write.
    fn fence(&self, world: &mut World, place: usize, without_marker: bool) -> Option<()> {
        let tenure = world.nodes[place].tenure?;
        let Step::Fencing(stable) = tenure.step else { return None };
        let broker = &mut world.broker;
        let is_decided = |open: &Option<Open>| open.is_some_and(|open| open.phase == Phase::Decided);
        if broker.open.iter().any(is_decided) && !self.has(Mutation::NoWaitForMarkers) {
            return None;
        }
        if without_marker {
            let open = broker.open.iter().flatten().next()?;
            broker.leftover = Some(open.entry);
        }
        if !self.has(Mutation::NoFencing) {
            for open in broker.open.iter_mut().filter(|open| !is_decided(open)) {
                *open = None;
            }
            broker.owners = [false; NODES];
        }
        broker.owners[place] = true;
        let step = stable.map_or(Step::Settling, Step::CatchingUp);
        world.nodes[place].tenure = Some(Tenure { step, ..tenure });
        Some(())
    }

    /// `KafkaLog::settle`: nothing may be undecided when the last stable offset is read; what is, is aborted, and that fails
    /// where somebody else has fenced meanwhile.
    fn settle(&self, world: &mut World, place: usize) -> Option<()> {
        let tenure = world.nodes[place].tenure.filter(|tenure| tenure.step == Step::Settling)?;
        let end = world.log_end();
        let broker = &mut world.broker;
        let is_undecided = broker.open.iter().any(Option::is_some);
        let step = if self.has(Mutation::StableOffsetBeforeFence) {
            Step::Fencing(Some(end))
        } else if self.has(Mutation::NoFencing) || self.has(Mutation::NoWaitForMarkers) {
            Step::CatchingUp(end)
        } else if is_undecided || (broker.leftover.is_some() && !broker.owners[place]) {
            Step::Fencing(None)
        } else {
            if !self.has(Mutation::LeftoversStay) {
                broker.leftover = None;
            }
            Step::CatchingUp(end)
        };
        world.nodes[place].tenure = Some(Tenure { step, ..tenure });
        Some(())
    }

    /// `Tenure::promote`, from where the replica is handed over.
    fn caught_up(&self, world: &mut World, place: usize) -> Option<()> {
        let node = &mut world.nodes[place];
        let tenure = node.tenure?;
        let Step::CatchingUp(stable) = tenure.step else { return None };
        (node.replica.next >= stable || self.has(Mutation::NoCatchUp)).then_some(())?;
        let seen = node.replica.epoch_seen;
        let may_begin = seen < tenure.epoch || (tenure.renewed && seen == tenure.epoch);
        if may_begin || self.has(Mutation::LowerEpochAccepted) {
            node.tenure = Some(Tenure { step: Step::Idle, ..tenure });
        } else {
            node.tenure = None;
            node.tells = Some((tenure.epoch, seen)).filter(|_| !self.has(Mutation::OvertakenInSilence));
        }
        Some(())
    }

    // --- a node: the active's loop

    fn write(&self, world: &mut World, place: usize) -> Option<()> {
        let (node, broker) = (&mut world.nodes[place], &mut world.broker);
        let tenure = node.tenure.filter(|tenure| tenure.step == Step::Idle)?;
        if !broker.owners[place] {
            self.stand_by(node, true);
            return Some(());
        }
        // The marker of the transaction before is waited for by the coordinator.
        (broker.log.len() < self.commits_max && broker.open[place].is_none()).then_some(())?;
        let Replica { commit, next_input, counted, .. } = node.replica;
        let entry = Entry { epoch: tenure.epoch, commit: commit + 1, next_input: next_input + 1, counted: counted + 1 };
        broker.open[place] = Some(Open { entry, phase: Phase::Written });
        node.tenure = Some(Tenure { step: Step::Written, ..tenure });
        Some(())
    }

    fn refused(&self, world: &mut World, place: usize) -> Option<()> {
        let node = &mut world.nodes[place];
        let step = node.tenure?.step;
        let is_waiting = matches!(step, Step::Written | Step::Asked(_));
        (is_waiting && !world.broker.owners[place]).then(|| self.stand_by(node, true))
    }

    // --- faults

    fn fail(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Crash(place) => {
                let node = &mut world.nodes[place];
                (node.process != Process::Down).then_some(())?;
                spend(&mut world.faults.crashes)?;
                *node = Node { process: Process::Down, ..Node::new(node.incarnation) };
            }
            Action::Restart(place) => {
                let node = &mut world.nodes[place];
                (node.process == Process::Down).then_some(())?;
                *node = Node::new(node.incarnation + 1);
            }
            Action::Freeze(place) => {
                up(world, place)?;
                spend(&mut world.faults.freezes)?;
                world.nodes[place].process = Process::Frozen;
            }
            Action::Thaw(place) => {
                (world.nodes[place].process == Process::Frozen).then_some(())?;
                world.nodes[place].process = Process::Up;
            }
            Action::TimeOut => {
                let broker = &mut world.broker;
                let undecided = |open: &&mut Option<Open>| open.is_some_and(|open| open.phase != Phase::Decided);
                let open = broker.open.iter_mut().find(undecided)?;
                spend(&mut world.faults.timeouts)?;
                *open = None;
                broker.owners = [false; NODES];
            }
            Action::LoseAnswer(place) => {
                up(world, place)?;
                return self.lose_answer(world, place);
            }
            Action::FenceWithoutMarker(place) => {
                up(world, place)?;
                spend(&mut world.faults.missing_markers)?;
                return self.fence(world, place, true);
            }
            _ => return None,
        }
        Some(())
    }

    /// After twice the transaction timeout the writer gives up without knowing; the log will tell.
    fn lose_answer(&self, world: &mut World, place: usize) -> Option<()> {
        let tenure = world.nodes[place].tenure?;
        let Step::Asked(entry) = tenure.step else { return None };
        spend(&mut world.faults.lost_answers)?;
        let next = world.log_end() + 1;
        let node = &mut world.nodes[place];
        if self.has(Mutation::LostAnswerMeansFailure) {
            node.tenure = Some(Tenure { step: Step::Idle, ..tenure });
        } else if self.has(Mutation::LostAnswerMeansSuccess) {
            node.replica = applied(entry, next, node.replica);
            node.tenure = Some(Tenure { step: Step::Idle, ..tenure });
            // The request itself may have been lost, not only its answer.
            world.broker.open[place] = world.broker.open[place].filter(|open| open.phase == Phase::Decided);
        } else {
            self.stand_by(node, true);
        }
        Some(())
    }
}

/// What a node may do next at this step of a tenure.
fn next_of_tenure(step: Option<Step>) -> &'static [fn(usize) -> Action] {
    match step {
        None => &[Action::Begin],
        Some(Step::Fencing(_)) => &[Action::Fence, Action::FenceWithoutMarker],
        Some(Step::Settling) => &[Action::Settle],
        Some(Step::CatchingUp(_)) => &[Action::CaughtUp, Action::StopTenure],
        Some(Step::Idle) => &[Action::Write, Action::StopTenure],
        Some(Step::Written) => &[Action::AskCommit, Action::Refused],
        Some(Step::Asked(_)) => &[Action::Answered, Action::Refused, Action::LoseAnswer],
    }
}

fn up(world: &World, place: usize) -> Option<()> {
    world.nodes[place].is_up().then_some(())
}

fn spend(budget: &mut u8) -> Option<()> {
    *budget = budget.checked_sub(1)?;
    Some(())
}

/// `planner::order`: above all that was ordered, reported, or told by a live replica.
fn order(world: &mut World, target: usize) {
    let told = world.nodes.iter().filter(|node| node.is_up());
    let told = told.map(|node| node.replica.epoch_seen.max(node.tenure.map_or(0, |tenure| tenure.epoch)));
    let epoch = told.chain([world.raft.floor, world.raft.epoch()]).max().unwrap_or(0) + 1;
    let node = u8::try_from(target).expect("few nodes");
    world.raft.orders.push(Order { epoch, node, incarnation: world.nodes[target].incarnation });
    world.raft.superseded = false;
}

fn applied(entry: Entry, next: u8, before: Replica) -> Replica {
    let Entry { epoch, commit, next_input, counted } = entry;
    Replica { next, commit, next_input, counted, epoch_seen: before.epoch_seen.max(epoch) }
}

/// The standby thread, which has the replica until it is handed over.
fn apply(world: &mut World, place: usize) -> Option<()> {
    let node = &mut world.nodes[place];
    node.active_step().is_none().then_some(())?;
    let entry = world.broker.log.get(usize::from(node.replica.next))?;
    node.replica = applied(*entry, node.replica.next + 1, node.replica);
    Some(())
}

fn ask_commit(world: &mut World, place: usize) -> Option<()> {
    let tenure = world.nodes[place].tenure.filter(|tenure| tenure.step == Step::Written)?;
    let open = world.broker.open[place].as_mut()?;
    open.phase = Phase::Asked;
    world.nodes[place].tenure = Some(Tenure { step: Step::Asked(open.entry), ..tenure });
    Some(())
}

fn decide(world: &mut World, place: usize) -> Option<()> {
    let broker = &mut world.broker;
    let open = broker.open[place].as_mut().filter(|open| open.phase == Phase::Asked)?;
    open.phase = Phase::Decided;
    Some(())
}

fn make_visible(world: &mut World, place: usize) -> Option<()> {
    let broker = &mut world.broker;
    let open = broker.open[place].filter(|open| open.phase == Phase::Decided)?;
    // One marker for all that stands open under the producer id.
    broker.log.extend(broker.leftover.take());
    broker.log.push(open.entry);
    broker.open[place] = None;
    Some(())
}

/// The answer comes when the coordinator has decided, perhaps before the marker is in the log.
fn answered(world: &mut World, place: usize) -> Option<()> {
    let tenure = world.nodes[place].tenure?;
    let Step::Asked(entry) = tenure.step else { return None };
    let is_decided = world.broker.open[place].is_some_and(|open| open.phase == Phase::Decided && open.entry == entry);
    let position = world.broker.log.iter().rposition(|logged| *logged == entry);
    let next = match position {
        Some(position) => u8::try_from(position + 1).expect("a bounded log"),
        None if is_decided => world.log_end() + 1,
        None => return None,
    };
    // Who lost the right to write is told so instead.
    world.broker.owners[place].then_some(())?;
    let node = &mut world.nodes[place];
    node.replica = applied(entry, next, node.replica);
    node.tenure = Some(Tenure { step: Step::Idle, ..tenure });
    Some(())
}
