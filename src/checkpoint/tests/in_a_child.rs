//! Tests that need a process of their own: they change what holds for the whole process.

use super::*;
use std::process::Command;

const FOLDER: &str = "HOTSPARE_TEST_CHECKPOINT_FOLDER";

/// Runs the test `name` of this file alone, in another process started through `sh -c "<before>; exec ..."`.
fn run(name: &str, before: &str, folder: &Path, failpoints: &str) -> std::process::Output {
    Command::new("sh")
        .args(["-c", &format!("{before}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("checkpoint::tests::in_a_child::{name}"), "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .env("FAILPOINTS", failpoints)
        .output()
        .unwrap()
}

#[test]
#[ignore = "the second process of the tests below"]
fn writes_a_large_one_and_fails() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let _failpoints = fail::FailScenario::setup();
    let directory = open(Path::new(&folder));
    let entries = some_entries(2000, 1000);
    let error = write(&directory, &header_of(&entries, 20), &entries).unwrap_err();
    assert!(matches!(error, CheckpointError::Io { action: "write", .. }), "{error}");
    assert_eq!(offsets(&directory), [10]);
}

#[test]
#[ignore = "the second process of the tests below"]
fn writes_one_and_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let _failpoints = fail::FailScenario::setup();
    let entries = some_entries(3, 5);
    let _ = write(&open(Path::new(&folder)), &header_of(&entries, 20), &entries);
}

#[test]
fn a_write_that_the_system_refuses_leaves_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, bytes) = one_small_checkpoint(folder.path());
    // A file may grow to 64 blocks of at most 1 KiB, and the signal that tells so is ignored: write(2) fails.
    let child = run("writes_a_large_one_and_fails", "trap '' XFSZ; ulimit -f 64", folder.path(), "");
    assert!(
        child.status.success() && String::from_utf8_lossy(&child.stdout).contains("1 passed"),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    assert_eq!(only_file(&directory), path);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn a_write_that_a_failpoint_refuses_leaves_the_old_one() {
    if !fail::has_failpoints() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, bytes) = one_small_checkpoint(folder.path());
    let failpoints = "checkpoint_write_error=3*off->return";
    let child = run("writes_a_large_one_and_fails", ":", folder.path(), failpoints);
    assert!(
        child.status.success() && String::from_utf8_lossy(&child.stdout).contains("1 passed"),
        "{}",
        String::from_utf8_lossy(&child.stdout)
    );
    assert_eq!(only_file(&directory), path);
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn killed_before_the_rename_the_old_one_is_used_and_after_it_the_new_one() {
    if !fail::has_failpoints() {
        return;
    }
    for (failpoints, newest) in [("checkpoint_before_rename=panic", 10), ("checkpoint_after_rename=panic", 20)] {
        let folder = tempfile::tempdir().unwrap();
        let (directory, ..) = one_small_checkpoint(folder.path());
        let child = run("writes_one_and_is_killed", ":", folder.path(), failpoints);
        assert!(!child.status.success(), "{failpoints}");
        let loaded = directory.newest_valid(&expect()).unwrap().0.unwrap();
        assert_eq!(loaded.header.changelog_offset, Offset(newest), "{failpoints}");
    }
}
