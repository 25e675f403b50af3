//! The one harness of the tests that need a real Kafka and real processes.
//!
//! Use it by `mod harness;` in a file of `tests/`. [`broker`] runs Kafka brokers, [`records`] writes and reads topics,
//! [`node`] runs `hotspare node` processes, [`cluster`] a whole cluster of them. Everything that is started here ends with
//! the test process, however that ends: each child has a watcher that reads a pipe from the test and kills the child when
//! the pipe breaks. Nothing here returns errors: what goes wrong fails the test, with the facts in the message.
//!
//! `HOTSPARE_TEST_KEEP=1` keeps the folders of clusters, with configurations and logs. `HOTSPARE_TEST_NODE` names another
//! program to run as nodes than the one that was built with the test.
#![allow(dead_code, reason = "each test binary uses a part of the harness")]
#![allow(unreachable_pub, reason = "the items are public to the test files that include this module")]
#![allow(clippy::print_stderr, reason = "the reader of a failed test looks there")]

pub mod broker;
pub mod brokers;
pub mod clock;
pub mod cluster;
pub mod collector;
pub mod disk;
pub mod network;
pub mod node;
pub mod ports;
pub mod records;
pub mod verdict;
pub mod workload;

use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a condition is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Waits until `check` gives a value, and returns it. Fails the test after `within`, naming `what` was waited for.
pub fn wait_until<T>(what: &str, within: Duration, check: impl FnMut() -> Option<T>) -> T {
    wait_until_or_tell(what, within, check, String::new)
}

/// Like [`wait_until`], with `tell` giving the facts that the failure text ends with.
pub fn wait_until_or_tell<T>(
    what: &str,
    within: Duration,
    mut check: impl FnMut() -> Option<T>,
    tell: impl FnOnce() -> String,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = check() {
            return value;
        }
        if begin.elapsed() >= within {
            panic!("waited {} ms in vain until {what}\n{}", begin.elapsed().as_millis(), tell());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Says that a test, or a part of it, cannot be done on this machine: past the capture of the test runner, and to the file
/// `HOTSPARE_TEST_SKIPPED`, whose lines `tests/run` puts into its summary.
pub fn skip(what: &str, reason: &str) {
    let line = format!("SKIPPED: {what}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os("HOTSPARE_TEST_SKIPPED") {
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the file of skipped tests can be written");
    }
}

/// A name that no other test of this or of another process has: `prefix-<time and process>-<count>`; letters, digits and
/// dashes, at most 18 characters more than the prefix.
pub fn unique_name(prefix: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    format!("{prefix}-{:05x}{:x}-{count}", now_s & 0xf_ffff, std::process::id())
}

/// The last `lines` lines of a file, or why it cannot be read.
pub fn tail_of(path: &std::path::Path, lines: usize) -> String {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let all: Vec<&str> = text.lines().collect();
            all[all.len().saturating_sub(lines)..].join("\n")
        }
        Err(error) => format!("({} cannot be read: {error})", path.display()),
    }
}
