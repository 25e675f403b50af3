//! Fuzzing on the stable compiler: kept inputs, spliced and mutated, for `HOTSPARE_FUZZ_SECONDS` a target (2 if it is
//! not set). The targets are those of `cargo fuzz`; see `fuzz/README.md`.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

#[path = "fuzz/seeds.rs"]
mod seeds;
#[path = "fuzz/targets.rs"]
mod targets;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mutatis::{check::Check, mutators};
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Mutations pile up on an input until a round ends, so rounds are short: about as many for each input.
const MUTATIONS_PER_INPUT: usize = 4;

fn corpus_folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// The kept inputs of a target and those that the cases of the page give.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = seeds::of(target);
    let mut paths: Vec<_> = std::fs::read_dir(corpus_folder(target))
        .expect("a corpus")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no kept inputs");
    inputs.extend(paths.iter().map(|path| std::fs::read(path).expect("an input")));
    inputs
}

/// The beginning of one input and the end of another.
fn spliced(random: &mut ChaCha8Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut part = |is_head: bool| {
        let input = inputs.choose(random).expect("inputs");
        let at = random.random_range(0..=input.len());
        if is_head { input[..at].to_vec() } else { input[at..].to_vec() }
    };
    [part(true), part(false)].concat()
}

fn fuzz(target: &str) {
    let (_, check) = targets::TARGETS.into_iter().find(|(name, _)| *name == target).expect("a target");
    let inputs = corpus(target);
    inputs.iter().for_each(|input| check(input));
    let seconds = std::env::var("HOTSPARE_FUZZ_SECONDS").unwrap_or_else(|_| "2".to_owned());
    let seconds = seconds.parse().unwrap_or_else(|error| panic!("HOTSPARE_FUZZ_SECONDS={seconds}: {error}"));
    let seed = std::env::var("HOTSPARE_FUZZ_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (began, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || began.elapsed() < Duration::from_secs(seconds) {
        let some = (0..40).map(|_| match random.random_range(0..4) {
            0 => spliced(&mut random, &inputs),
            _ => inputs.choose(&mut random).expect("inputs").clone(),
        });
        let some: Vec<_> = some.collect();
        let iterations = some.len() * MUTATIONS_PER_INPUT;
        let checked = Check::new().iters(iterations).max_shrink_iters(2000).seed(random.random()).run_with(
            mutators::default::<Vec<u8>>(),
            some,
            |input| {
                check(input);
                Ok::<(), String>(())
            },
        );
        if let Err(error) = checked {
            let failure = error.unwrap_failed();
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
            let path = folder.join(format!("fuzz-{target}-{seed}"));
            std::fs::write(&path, &failure.value).expect("written");
            panic!(
                "seed {seed}: the target {target} failed on {}; keep it in fuzz/corpus/{target}: {:?}",
                path.display(),
                String::from_utf8_lossy(&failure.value)
            );
        }
        rounds += 1;
    }
}

#[test]
fn json_of_any_kind() {
    fuzz("json");
}

#[test]
fn senml_of_any_kind() {
    fuzz("senml");
}

#[test]
fn line_protocol_of_any_kind() {
    fuzz("influx");
}

#[test]
fn changelog_records_of_any_kind() {
    fuzz("changelog");
}

#[test]
fn checkpoint_files_of_any_kind() {
    fuzz("checkpoint");
}

#[test]
fn configurations_of_any_kind() {
    fuzz("config");
}
