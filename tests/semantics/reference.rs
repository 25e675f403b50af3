//! Random messy records through this code and through the reference in Python: the same bytes.

use std::collections::BTreeSet;
use std::process::Command;

use crate::messy::Messy;
use crate::{beside, tried};

const RECORDS_PER_CONFIG: usize = 500;

/// Random configurations of each format.
const RANDOM_CONFIGS: usize = 20;
const DEFAULT_SEED: u64 = 1;

/// Configurations of JSON that together use everything.
const CONFIGS: [&str; 8] = [
    "[input]\ntopic = \"t\"\n",
    "[input]\ntopic = \"t\"\nrecords = \"/r\"\n[input.device]\nfrom = \"document\"\nsegment = 1\n[input.time]\nunit = \"ms\"\n\
     [[input.value]]\nname = \"v\"\npointer = \"/value\"\n[[input.value]]\nname = \"w\\\"\\n\"\npointer = \"/w/0\"\nbooleans = true\n\
     [window]\ngrace = \"30m\"\n[output]\ndead_letter = [\"late\", \"missing\", \"duplicate\", \"null_record\"]\n",
    "[input]\ntopic = \"t\"\ndecode = \"/p\"\nbooleans = true\n[input.time]\nzone = \"America/New_York\"\n\
     on_implausible = \"record_time\"\n[[input.value]]\nname = \"inner\"\npointer = \"/p/value\"\n[[input.value]]\nname = \"outer\"\n\
     pointer = \"/value\"\n[window]\nsize = \"7m\"\ngrace = \"1h\"\n[output]\ndead_letter = [\"rejected\", \"missing\"]\n",
    "[input]\ntopic = \"t\"\n[input.device]\nfrom = \"key\"\nsegment = 0\n[input.time]\nfrom = \"header:t\"\nunit = \"s\"\nzone = \"Asia/Kolkata\"\n\
     [window]\nsize = \"1d\"\n",
    "[input]\ntopic = \"t\"\nbooleans = true\nnumeric_strings = false\nmissing = [0, 1, -200, 999.9]\n\
     missing_text = [\"NA\", \"21.5\", \"nan\"]\n[input.device]\nfrom = \"header:d\"\n[input.time]\nfrom = \"record\"\n\
     [output]\ndead_letter = [\"late\", \"rejected\", \"missing\", \"duplicate\", \"null_record\"]\n",
    "[input]\ntopic = \"t\"\nrecords = \"\"\n[input.time]\nunit = \"us\"\n[input.limits]\nmax_future = \"off\"\n\
     min_time = \"1960-01-01T00:00:00Z\"\nmax_device_id = 2\nmax_readings_per_record = 3\n[[input.value]]\nname = \"v\"\npointer = \"/value\"\n\
     [[input.value]]\nname = \"w\"\npointer = \"/w\"\nnumeric_strings = false\n[window]\nsize = \"1s\"\n",
    "[input]\ntopic = \"t\"\nrecords = \"/r\"\ndecode = \"/r/0\"\n[input.time]\nfrom = \"document\"\npointer = \"/r/0/ts\"\nunit = \"ns\"\nzone = \"Europe/London\"\n\
     [window]\nsize = \"10m\"\n",
    "[input]\ntopic = \"t\"\ndecode = \"\"\n[input.device]\npointer = \"/w/0\"\n[input.time]\nfrom = \"key\"\n[input.limits]\nmin_time = \"0001-01-01T00:00:00Z\"\n\
     max_future = \"0s\"\n[[input.value]]\nname = \"v\"\npointer = \"/value\"\nmissing = [21.5]\n[[input.value]]\nname = \"all\"\npointer = \"\"\n\
     [window]\nsize = \"365d\"\ngrace = \"3650d\"\n",
];

/// What the reference prints for a configuration and a file of records.
fn referred(config: &str, records: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (config_path, records_path) = (folder.path().join("config.toml"), folder.path().join("records.jsonl"));
    std::fs::write(&config_path, config).expect("written");
    std::fs::write(&records_path, records).expect("written");
    let output = Command::new("python3")
        .arg(beside("reference/windows.py"))
        .args([&config_path, &records_path])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONIOENCODING", "utf-8")
        .output()
        .unwrap_or_else(|error| panic!("this test needs python3, 3.11 or later, to run the reference: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let needs =
        if errors.contains("tomllib") { "this test needs python3 3.11 or later: " } else { "the reference failed: " };
    assert!(output.status.success(), "{needs}{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Runs records through this code and through the reference; gives the result, which is the same.
pub fn compare_records(name: &str, config: &str, records: &str) -> String {
    let (found, wanted) = (tried(config, records), referred(config, records));
    for (index, (found, wanted)) in found.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(found, wanted, "{name}, line {} of the result, with\n{config}", index + 1);
    }
    let lengths = (found.len(), wanted.len());
    assert!(found == wanted, "{name}: the results have {lengths:?} bytes, with\n{config}");
    wanted
}

/// Runs records through this code and through the reference; adds the outcomes to the set.
fn compare(seed: u64, config: &str, messy: &mut Messy, outcomes: &mut BTreeSet<String>) {
    let records: String = (0..RECORDS_PER_CONFIG).map(|offset| messy.record(offset) + "\n").collect();
    let wanted = compare_records(&format!("seed {seed}"), config, &records);
    let counters = wanted.lines().find(|line| line.starts_with("{\"counters\"")).expect("counters");
    let words = counters.split(['"', ':', ',', '{', '}']).filter(|word| word.starts_with(char::is_alphabetic));
    outcomes.extend(words.map(str::to_owned));
    if wanted.contains("\"count\":") {
        outcomes.insert(format!("output {seed}"));
        outcomes.extend(
            ["hopping", "session", "idle_close", "retention", "calendar"]
                .into_iter()
                .filter(|it| config.contains(it))
                .map(str::to_owned),
        );
    }
}

/// The seed from which others follow; set `HOTSPARE_TEST_SEED` to try other records than those of every run.
fn first_seed() -> u64 {
    let text = std::env::var("HOTSPARE_TEST_SEED").unwrap_or_else(|_| DEFAULT_SEED.to_string());
    text.parse().unwrap_or_else(|error| panic!("HOTSPARE_TEST_SEED={text}: {error}"))
}

/// The records of every run must meet every reason; those of other seeds need not.
fn assert_met(outcomes: &BTreeSet<String>, reasons: &[&str]) {
    for reason in reasons.iter().filter(|_| first_seed() == DEFAULT_SEED) {
        assert!(outcomes.contains(*reason), "no record met {reason}: {outcomes:?}");
    }
}

/// Reasons that records of every format can have.
const REASONS: [&str; 11] = [
    "schema_registry_framing",
    "too_many_readings",
    "no_device",
    "bad_device",
    "device_too_long",
    "no_time",
    "bad_time",
    "before_min_time",
    "future",
    "no_value",
    "not_finite",
];

#[test]
fn messy_records_give_the_bytes_of_the_reference() {
    let mut outcomes = BTreeSet::new();
    for (seed, config) in (first_seed()..).zip(CONFIGS) {
        compare(seed, config, &mut Messy::new("json", seed), &mut outcomes);
        assert_met(&outcomes, &[&format!("output {seed}")]);
    }
    // Together they meet every reason that JSON records can have.
    assert_met(&outcomes, &REASONS);
    assert_met(&outcomes, &["bad_json", "no_records", "no_zone", "not_numeric"]);
}

/// Records of a format through random configurations; what they met.
fn compare_random(format: &'static str) -> BTreeSet<String> {
    let mut outcomes = BTreeSet::new();
    for seed in (first_seed()..).take(RANDOM_CONFIGS) {
        let mut messy = Messy::new(format, seed);
        let config = messy.config();
        compare(seed, &config, &mut messy, &mut outcomes);
    }
    let counted = outcomes.iter().filter(|outcome| outcome.starts_with("output ")).count();
    let is_enough = counted * 3 > RANDOM_CONFIGS || first_seed() != DEFAULT_SEED;
    assert!(is_enough, "too few configurations of {format} gave an output: {outcomes:?}");
    assert_met(&outcomes, &["hopping", "session", "idle_close", "duplicate"]);
    outcomes
}

#[test]
fn random_configurations_of_json_give_the_bytes_of_the_reference() {
    assert_met(&compare_random("json"), &["bad_json", "not_numeric", "no_records", "retention"]);
}

#[test]
fn random_configurations_of_senml_give_the_bytes_of_the_reference() {
    let outcomes = compare_random("senml");
    assert_met(&outcomes, &REASONS);
    assert_met(&outcomes, &["bad_senml", "metric_too_long", "not_numeric", "missing", "late", "retention"]);
}

#[test]
fn random_configurations_of_influx_give_the_bytes_of_the_reference() {
    let outcomes = compare_random("influx");
    assert_met(&outcomes, &REASONS);
    assert_met(&outcomes, &["bad_influx", "metric_too_long", "not_numeric", "no_zone", "missing", "late"]);
}
