//! Whole nodes on simulated hosts and a modelled Kafka, from a seed: storms of faults, then everything is checked. See
//! `docs/SIMULATION.md`.
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod checks;
mod input;
mod kafka;
#[path = "../semantics/messy.rs"]
mod messy;
mod mistakes;
mod world;

use std::process::ExitCode;

use clap::{Parser as _, ValueEnum as _};
use hotspare_system::simulation::seeds::{self, Arguments};
use mistakes::Mistake;

/// Within so many seeds each mistake must be found.
const FOUND_WITHIN: u64 = 20;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mistake = arguments.bug.as_deref().map(|name| Mistake::from_str(name, true).expect("a mistake"));
    match arguments.seed {
        _ if arguments.bugs => find_mistakes(&arguments),
        Some(seed) => {
            // Nothing unless RUST_LOG says so; in virtual time.
            let filter = tracing_subscriber::EnvFilter::from_default_env();
            tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
            seeds::run_here(seed, |seed| world::World::new(seed, mistake).run())
        }
        None => seeds::run_all(&arguments, "tests/simulate"),
    }
}

/// Makes each mistake, and tells how many seeds it took to find it.
fn find_mistakes(arguments: &Arguments) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for mistake in Mistake::value_variants() {
        let name = mistake.to_possible_value().expect("it has a name").get_name().to_owned();
        let seeds = arguments.first_seed..arguments.first_seed + FOUND_WITHIN;
        let found = seeds.clone().find_map(|seed| Some((seed, seeds::run_apart(seed, Some(&name)).failure?)));
        match found {
            Some((seed, failure)) => {
                let failure: String = failure.chars().take(140).collect();
                seeds::say(&format!("{name}: found after {} seeds: {failure}", seed + 1 - seeds.start));
            }
            None => {
                seeds::say(&format!("{name}: NOT FOUND by {FOUND_WITHIN} seeds"));
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
