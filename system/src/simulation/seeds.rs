//! Runs a scenario for many seeds, each in a process of its own, and sums up.

use std::{
    collections::VecDeque,
    process::{Command, ExitCode, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use clap::Parser;

/// A seed takes a second or so; one that takes longer than this hangs.
const SEED_TIMEOUT: Duration = Duration::from_secs(120);
/// Marks the line of a process that tells how its seed ended.
const MARK: &str = "seed-ended ";

/// One seed's course.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Course {
    /// Hash of all steps.
    pub trace: u64,
    /// What did not hold.
    pub failure: Option<String>,
}

/// What a program that simulates is asked for.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 20)]
    pub seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 1)]
    pub first_seed: u64,
    /// No new seed is begun after so many minutes.
    #[arg(long)]
    pub minutes: Option<f64>,
    /// Seeds at a time; as many as there are processors, if not given.
    #[arg(long)]
    pub jobs: Option<usize>,
    /// Runs this seed alone, in this process.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Puts back each mistake that the scenario knows, and tells how many seeds find it.
    #[arg(long)]
    pub bugs: bool,
    /// A mistake to be put back, by its name.
    #[arg(long)]
    pub bug: Option<String>,
}

/// What panicked. In tasks and threads nobody else would hear of it.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs one seed here and tells how it ended. Whatever panics is a failure.
pub fn run_here(seed: u64, scenario: impl FnOnce(u64) -> Course) -> ExitCode {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        print(panic);
    }));
    let mut course = scenario(seed);
    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    if !panics.is_empty() {
        course.failure = Some(course.failure.into_iter().chain(panics.iter().cloned()).collect::<Vec<_>>().join("; "));
    }
    let failure = course.failure.as_deref().unwrap_or_default();
    say(&format!("{MARK}{:016x} {}", course.trace, failure.replace('\n', " | ")));
    if course.failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one seed in a process of its own.
#[must_use]
pub fn run_apart(seed: u64, bug: Option<&str>) -> Course {
    let failed = |why: String| Course { trace: 0, failure: Some(why) };
    let Ok(program) = std::env::current_exe() else { return failed("this program does not know its own path".into()) };
    let mut command = Command::new(program);
    command.args(["--seed", &seed.to_string()]).args(bug.into_iter().flat_map(|bug| ["--bug", bug]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return failed(format!("no process: {error}")),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || read(stderr));
    let output = std::thread::spawn(move || read(stdout));
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(None) if begin.elapsed() < SEED_TIMEOUT => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) => {
                let _killed = child.kill().and_then(|()| child.wait());
                return failed(format!("does not end within {} s", SEED_TIMEOUT.as_secs()));
            }
            Ok(Some(_)) | Err(_) => break,
        }
    }
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    let Some(line) = output.lines().rev().find_map(|line| line.strip_prefix(MARK)) else {
        let tail: Vec<_> = errors.lines().rev().take(5).collect();
        return failed(format!("ended without a word: {}", tail.into_iter().rev().collect::<Vec<_>>().join(" | ")));
    };
    let (trace, failure) = line.split_once(' ').unwrap_or((line, ""));
    let trace = u64::from_str_radix(trace, 16).unwrap_or(0);
    Course { trace, failure: Some(failure.to_owned()).filter(|failure| !failure.is_empty()) }
}

fn read(from: Option<impl std::io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // What came until then is enough to tell.
        let _cut_off = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Runs the seeds that are asked for, the first of them twice, and sums up. `replay` is the command by which a seed is
/// run alone, without the seed.
#[must_use]
pub fn run_all(arguments: &Arguments, replay: &str) -> ExitCode {
    let begin = Instant::now();
    let until = arguments.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0));
    let last = arguments.first_seed.saturating_add(arguments.seeds);
    let left: Mutex<VecDeque<u64>> = Mutex::new((arguments.first_seed..last).collect());
    let ended: Mutex<Vec<(u64, Option<String>)>> = Mutex::default();
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.unwrap_or(processors) {
            scope.spawn(|| {
                while until.is_none_or(|until| Instant::now() < until) {
                    let next = left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(seed) = next else { return };
                    let failure = judge(seed, arguments, seed == arguments.first_seed);
                    if let Some(failure) = &failure {
                        say(&format!("seed {seed} failed: {failure}\n  replay: {replay} --seed {seed}"));
                    }
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((seed, failure));
                }
            });
        }
    });
    let ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    let failed: Vec<_> =
        ended.iter().filter(|(_, failure)| failure.is_some()).map(|(seed, _)| seed.to_string()).collect();
    let listed = if failed.is_empty() { String::new() } else { format!(" ({})", failed.join(", ")) };
    let seconds = begin.elapsed().as_secs();
    say(&format!("{} seeds, {} failed{listed}, {seconds} s", ended.len(), failed.len()));
    if failed.is_empty() && !ended.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn judge(seed: u64, arguments: &Arguments, twice: bool) -> Option<String> {
    let course = run_apart(seed, arguments.bug.as_deref());
    if twice {
        let again = run_apart(seed, arguments.bug.as_deref());
        if again != course {
            return Some(format!("runs differently the second time: {course:?}, then {again:?}"));
        }
    }
    course.failure
}

/// Writes a line for who started the program.
#[expect(clippy::print_stdout, reason = "this is a program's output")]
pub fn say(line: &str) {
    println!("{line}");
}
