//! What a reading, a window and an output mean: the cases of the page, real data, and the reference in Python.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

#[path = "semantics/cases.rs"]
mod cases;
#[path = "semantics/data.rs"]
mod data;
#[path = "semantics/explain.rs"]
mod explain;
#[path = "semantics/formats.rs"]
mod formats;
#[path = "semantics/golden.rs"]
mod golden;
#[path = "semantics/messy.rs"]
mod messy;
#[path = "semantics/propose.rs"]
mod propose;
#[path = "semantics/reference.rs"]
mod reference;

use std::path::{Path, PathBuf};

/// A file or folder beside this one.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// What `hotspare try` prints for a configuration and a file of records.
fn tried(config: &str, records: &str) -> String {
    with_files(config, records, hotspare::cli::try_::run)
}

/// What `hotspare try --explain` prints.
fn explained(config: &str, records: &str) -> String {
    with_files(config, records, hotspare::cli::try_::explain)
}

fn with_files(
    config: &str,
    records: &str,
    run: impl Fn(&Path, &Path, &mut Vec<u8>) -> Result<(), hotspare::cli::try_::TryError>,
) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (config_path, records_path) = (folder.path().join("config.toml"), folder.path().join("records.jsonl"));
    std::fs::write(&config_path, config).expect("written");
    std::fs::write(&records_path, records).expect("written");
    let mut out = Vec::new();
    run(&config_path, &records_path, &mut out).unwrap_or_else(|error| panic!("{error}\n{config}"));
    String::from_utf8(out).expect("UTF-8")
}
