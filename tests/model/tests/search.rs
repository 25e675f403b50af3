//! Searches the model within bounds: the protocol as it is keeps every property, and each piece that is taken out of it
//! breaks one. `HOTSPARE_MODEL_MORE=1` adds one to each bound and each fault; that takes minutes and gigabytes.
#![allow(missing_docs, clippy::print_stdout)]

use std::{collections::BTreeSet, time::Instant};

use hotspare_model::{
    properties::{self, Protocol},
    steps::{Mutation, Rules},
    world::{Faults, World},
};
use stateright::{Checker, HasDiscoveries, Model as _};

/// The page that tells what was found. Its numbers must be those of this search.
const PAGE: &str = include_str!("../../../docs/MODEL.md");

/// What may go wrong, and what must be reached by it.
struct Scenario {
    title: &'static str,
    faults: Faults,
    /// The last epoch of a changelog that an earlier control plane left.
    old_epoch: Option<u8>,
    reaches: &'static [&'static str],
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        title: "a crash and a freeze",
        faults: Faults { crashes: 1, freezes: 1, ..Faults::NONE },
        old_epoch: None,
        reaches: &[
            properties::OUTDATED_FENCES,
            properties::ZOMBIE_WAKES,
            properties::UNANSWERED_STANDS,
            properties::COMMITTED_AFTER_DEATH,
            properties::RENEWED,
        ],
    },
    Scenario {
        title: "a crash and a false suspicion",
        faults: Faults { crashes: 1, suspicions: 1, ..Faults::NONE },
        old_epoch: None,
        reaches: &[properties::OUTDATED_FENCES, properties::RENEWED],
    },
    Scenario {
        title: "a freeze and a transaction timeout",
        faults: Faults { freezes: 1, timeouts: 1, ..Faults::NONE },
        old_epoch: None,
        reaches: &[properties::ZOMBIE_WAKES, properties::RENEWED],
    },
    Scenario {
        title: "a crash, a lost answer, a missing marker",
        faults: Faults { crashes: 1, lost_answers: 1, missing_markers: 1, ..Faults::NONE },
        old_epoch: None,
        reaches: &[properties::UNANSWERED_STANDS, properties::LEFT_OPEN, properties::COMMITTED_AFTER_DEATH],
    },
    Scenario {
        title: "a false suspicion, a lost answer, a missing marker",
        faults: Faults { suspicions: 1, lost_answers: 1, missing_markers: 1, ..Faults::NONE },
        old_epoch: None,
        reaches: &[properties::UNANSWERED_STANDS, properties::LEFT_OPEN],
    },
    Scenario {
        title: "an old changelog and a freeze",
        faults: Faults { freezes: 1, ..Faults::NONE },
        old_epoch: Some(2),
        reaches: &[properties::JUMPED, properties::OUTDATED_FENCES],
    },
];

/// What is added to each bound.
fn more() -> u8 {
    std::env::var("HOTSPARE_MODEL_MORE").map_or(0, |more| more.parse().expect("HOTSPARE_MODEL_MORE is a number"))
}

fn model(faults: Faults, old_epoch: Option<u8>, mutation: Option<Mutation>, more: u8) -> Protocol {
    let rules = Rules { orders_max: 2 + usize::from(more), commits_max: 2 + usize::from(more), mutation };
    let add = |budget: u8| if budget > 0 { budget + more } else { 0 };
    let Faults { crashes, freezes, suspicions, timeouts, lost_answers, missing_markers } = faults;
    let faults = Faults {
        crashes: add(crashes),
        freezes: add(freezes),
        suspicions: add(suspicions),
        timeouts: add(timeouts),
        lost_answers: add(lost_answers),
        missing_markers: add(missing_markers),
    };
    Protocol { rules, begin: vec![World::new(faults, old_epoch)], names_matter: false }
}

/// In breadth and by one thread: ways are the shortest, and numbers are the same each time.
fn search(model: Protocol) -> impl Checker<Protocol> {
    model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join()
}

fn page_tells(line: &str) {
    println!("{line}");
    assert!(more() > 0 || PAGE.contains(line), "docs/MODEL.md does not have this line: {line}");
}

fn holds(index: usize) {
    let Scenario { title, faults, old_epoch, reaches } = &SCENARIOS[index];
    let began = Instant::now();
    let checker = search(model(*faults, *old_epoch, None, more()));
    checker.assert_properties_hold();
    for name in *reaches {
        assert!(checker.discovery(name).is_some(), "never reached: {name}");
    }
    println!("{title}: {} worlds generated, {:?}", checker.state_count(), began.elapsed());
    page_tells(&format!("| {title} | {} | {} |", checker.unique_state_count(), checker.max_depth()));
}

trait Holds {
    fn assert_properties_hold(&self);
}

impl<C: Checker<Protocol>> Holds for C {
    fn assert_properties_hold(&self) {
        for (name, path) in self.discoveries() {
            let is_broken = self
                .model()
                .properties()
                .iter()
                .any(|property| property.name == name && property.expectation.discovery_is_failure());
            assert!(!is_broken, "{name}: does not hold after {:#?}", path.into_actions());
        }
    }
}

#[test]
fn the_protocol_stands_a_crash_and_a_freeze() {
    holds(0);
}

#[test]
fn the_protocol_stands_a_crash_and_a_false_suspicion() {
    holds(1);
}

#[test]
fn the_protocol_stands_a_freeze_and_a_transaction_timeout() {
    holds(2);
}

#[test]
fn the_protocol_stands_a_crash_and_a_broker_that_leaves_commits_in_doubt() {
    holds(3);
}

#[test]
fn the_protocol_stands_a_false_suspicion_and_a_broker_that_leaves_commits_in_doubt() {
    holds(4);
}

#[test]
fn the_protocol_stands_a_control_plane_made_anew_and_a_freeze() {
    holds(5);
}

#[test]
fn every_remarkable_world_is_reached_by_some_scenario() {
    let reached: BTreeSet<_> = SCENARIOS.iter().flat_map(|scenario| scenario.reaches).copied().collect();
    let all: BTreeSet<_> = properties::remarkable().iter().map(|property| property.name).collect();
    assert_eq!(reached, all);
}

/// A counterexample is looked for up to this length.
const STEPS_MAX: usize = 30;

/// Takes a piece out of the protocol: the search must find that this property does not hold any more.
fn breaks(mutation: Mutation, faults: Faults, old_epoch: Option<u8>, property: &'static str) {
    let steps = |steps: usize, names_matter: bool| {
        let model = Protocol { names_matter, ..model(faults, old_epoch, Some(mutation), 0) };
        // A way of so many steps has one world more.
        let search = model.checker().target_max_depth(steps + 1).finish_when(HasDiscoveries::AnyFailures);
        Some(search.spawn_bfs().join().discovery(property)?.into_actions())
    };
    let shortest = (1..STEPS_MAX).find(|length| steps(*length, false).is_some());
    let shortest = shortest.unwrap_or_else(|| panic!("{mutation:?} breaks nothing within {STEPS_MAX} steps"));
    let actions = steps(shortest, true).expect("the same way with names");
    println!("{mutation:?}: {actions:?}");
    page_tells(&format!("| `{mutation:?}` | {property} | {} |", actions.len()));
}

const CRASH: Faults = Faults { crashes: 1, ..Faults::NONE };
const FREEZE: Faults = Faults { freezes: 1, ..Faults::NONE };
const LOST_ANSWER: Faults = Faults { lost_answers: 1, ..Faults::NONE };
const TIMEOUT: Faults = Faults { timeouts: 1, ..Faults::NONE };

#[test]
fn without_fencing_two_can_commit() {
    breaks(Mutation::NoFencing, FREEZE, None, properties::ONE_WRITER);
}

#[test]
fn without_catching_up_commits_are_missed() {
    breaks(Mutation::NoCatchUp, CRASH, None, properties::COMPLETE);
}

#[test]
fn a_stable_offset_read_before_the_fence_misses_commits() {
    breaks(Mutation::StableOffsetBeforeFence, FREEZE, None, properties::COMPLETE);
}

#[test]
fn markers_that_are_not_waited_for_hide_commits() {
    breaks(Mutation::NoWaitForMarkers, CRASH, None, properties::COMPLETE);
}

#[test]
fn leftovers_are_committed_by_the_successor() {
    let faults = Faults { crashes: 1, missing_markers: 1, ..Faults::NONE };
    breaks(Mutation::LeftoversStay, faults, None, properties::LOG_SOUND);
}

#[test]
fn a_tenure_below_the_changelog_writes_behind_its_successor() {
    breaks(Mutation::LowerEpochAccepted, FREEZE, None, properties::LOG_SOUND);
}

#[test]
fn state_that_is_not_undone_counts_twice() {
    breaks(Mutation::StateBeforeChangelog, TIMEOUT, None, properties::EXACT);
}

#[test]
fn a_lost_answer_taken_for_a_failure_commits_twice() {
    breaks(Mutation::LostAnswerMeansFailure, LOST_ANSWER, None, properties::LOG_SOUND);
}

#[test]
fn a_lost_answer_taken_for_a_success_leaves_a_hole() {
    breaks(Mutation::LostAnswerMeansSuccess, LOST_ANSWER, None, properties::LOG_SOUND);
}

#[test]
fn without_renewal_a_fenced_active_is_never_replaced() {
    breaks(Mutation::NoRenewal, TIMEOUT, None, properties::RECOVERS);
}

#[test]
fn an_overtaken_node_that_is_silent_is_never_replaced() {
    breaks(Mutation::OvertakenInSilence, Faults::NONE, Some(2), properties::RECOVERS);
}

#[test]
fn late_orders_that_are_followed_leave_nobody_active() {
    breaks(Mutation::LateOrdersFollowed, CRASH, None, properties::RECOVERS);
}

#[test]
fn reports_of_an_outdated_tenure_depose_an_active_that_works() {
    breaks(Mutation::StaleReportsCount, FREEZE, None, properties::NOT_DEPOSED);
}
