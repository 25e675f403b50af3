//! What must hold for any bytes: used by `tests/fuzz.rs` and by the targets of `cargo fuzz`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use hotspare::checkpoint::{Directory, Header, Loaded, Settings};
use hotspare::config;
use hotspare::reading::InputRecord;
use hotspare::semantics::Semantics;
use hotspare::store::{Applied, Store};
use hotspare::{Epoch, Offset, PartitionId};

const TIMESTAMP_MS: i64 = 1_704_067_200_000;
const READINGS_MAX: u64 = 50;
/// A reading's line of `--explain` has at most about so many bytes, however long the record is.
const EXPLANATION_BYTES_MAX: usize = 4096;

/// The name of a target and what it checks of an input.
pub type Target = (&'static str, fn(&[u8]));

pub const TARGETS: [Target; 6] = [
    ("json", json),
    ("senml", senml),
    ("influx", influx),
    ("changelog", changelog),
    ("checkpoint", checkpoint),
    ("config", config_file),
];

const JSON: [&str; 3] = [
    "[input.dedup]\nby = \"reading\"\n[window]\nsize = \"7m\"\n",
    "records = \"/r\"\ndecode = \"/p\"\nbooleans = true\nmissing = [-200]\n[input.device]\nfrom = \"document\"\n[input.time]\nzone = \"Europe/Berlin\"\n\
     on_implausible = \"record_time\"\n[input.dedup]\nby = \"id:/id\"\n[[input.value]]\nname = \"a\"\npointer = \"/value\"\n[[input.value]]\nname = \"b\"\n\
     pointer = \"/w/0\"\n",
    "records = \"\"\n[input.device]\nfrom = \"key\"\nsegment = 1\n[input.time]\nfrom = \"header:t\"\n",
];
const SENML: [&str; 2] = ["[input.dedup]\nby = \"reading\"\n", "booleans = true\n[input.senml]\nsplit = \":\"\n"];
const INFLUX: [&str; 2] = [
    "booleans = true\n",
    "[input.device]\npointer = \"/name\"\n[input.time]\nunit = \"auto\"\nzone = \"UTC\"\n[[input.value]]\nname = \"f\"\npointer = \"/fields/f\"\n",
];

fn semantics(format: &str, rest: &str) -> Arc<Semantics> {
    let limits = "[input.limits]\nmax_readings_per_record = 50\n";
    let text = format!("[input]\ntopic = \"t\"\nformat = \"{format}\"\n{rest}{limits}");
    Arc::new(Semantics::from_toml(&text).expect("a configuration"))
}

pub fn json(bytes: &[u8]) {
    static RULES: LazyLock<Vec<Arc<Semantics>>> = LazyLock::new(|| JSON.map(|it| semantics("json", it)).into());
    RULES.iter().for_each(|rules| record(rules, bytes));
}

pub fn senml(bytes: &[u8]) {
    static RULES: LazyLock<Vec<Arc<Semantics>>> = LazyLock::new(|| SENML.map(|it| semantics("senml", it)).into());
    RULES.iter().for_each(|rules| record(rules, bytes));
}

pub fn influx(bytes: &[u8]) {
    static RULES: LazyLock<Vec<Arc<Semantics>>> = LazyLock::new(|| INFLUX.map(|it| semantics("influx", it)).into());
    RULES.iter().for_each(|rules| record(rules, bytes));
}

/// A record of these bytes, twice: each candidate has an outcome, and nothing grows beyond the limits.
fn record(semantics: &Arc<Semantics>, bytes: &[u8]) {
    let (mut store, mut lines) = (Store::new(Arc::clone(semantics), PartitionId(0)), 0);
    for offset in 0..2 {
        let headers = vec![(Cow::Borrowed("t"), Some(&b"2024-01-01T00:00:00Z"[..]))];
        let (key, value) = (Some(&b"site/a/t"[..]), Some(bytes));
        let record = InputRecord { offset: Offset(offset), timestamp_ms: TIMESTAMP_MS, key, value, headers };
        store.apply_explained(&record, |_, text| {
            assert!(text.len() <= EXPLANATION_BYTES_MAX && !text.contains('\n'), "{text}");
            lines += 1;
        });
    }
    assert_eq!(store.consumed(), lines);
    assert_eq!(store.counters().consumed(), lines, "an outcome is missing or was counted twice");
    assert!((2..=2 * READINGS_MAX).contains(&lines), "{lines} candidates of two records");
    assert!(store.windows_open() <= store.counters().counted);
    let batch = store.batch(Epoch(1), Offset(2));
    assert!(batch.dead_letters.len() <= 2 && batch.outputs.len() as u64 <= lines);
    store.committed();
    assert_eq!(store.digest(), store.recompute_digest());
}

/// The first byte is the length of the key, the rest key and value. What is taken has no other encoding.
pub fn changelog(bytes: &[u8]) {
    static RULES: LazyLock<Arc<Semantics>> = LazyLock::new(|| {
        semantics("json", "[input.dedup]\nby = \"reading\"\n[window]\nsize = \"1h\"\nretention = \"7d\"\n")
    });
    let Some((&key_bytes, rest)) = bytes.split_first() else { return };
    let (key, value) = rest.split_at(rest.len().min(usize::from(key_bytes)));
    let mut store = Store::new(Arc::clone(&RULES), PartitionId(0));
    match store.apply_changelog(key, Some(value)) {
        Ok(Applied::Entry) => {
            let mut entries = Vec::new();
            store.for_each_entry(|key, value| entries.push((key.to_vec(), value.to_vec())));
            assert_eq!(entries, [(key.to_vec(), value.to_vec())]);
            assert_eq!((store.entries(), store.digest()), (1, store.recompute_digest()));
            assert_eq!(store.apply_changelog(key, None), Ok(Applied::Tombstone));
            assert_eq!((store.entries(), store.digest(), store.recompute_digest()), (0, 0, 0));
        }
        Ok(Applied::Progress(progress)) => assert_eq!(progress.encode(), value),
        Ok(Applied::Tombstone) => panic!("a value was taken for a tombstone"),
        Ok(Applied::Unknown) => assert!(key.first().is_some_and(|kind| *kind > 4), "a known kind was passed over"),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert_eq!((store.entries(), store.series(), store.digest()), (0, 0, 0), "{error}");
        }
    }
}

/// As a checkpoint file: refused, or written again with the same bytes. Then as entries: they are read as they were written.
pub fn checkpoint(bytes: &[u8]) {
    let folder = new_folder();
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).expect("written");
    match Loaded::open(&path) {
        Err(refused) => assert!(!refused.to_string().is_empty()),
        Ok(mut loaded) => {
            let (header, entries) = (loaded.header.clone(), entries_of(&mut loaded));
            let (_, written) = written(folder.path(), &header, &entries);
            assert_eq!(std::fs::read(written).expect("read"), bytes, "the same state in other bytes");
        }
    }
    let mut entries = BTreeMap::new();
    for (index, piece) in bytes.chunks(64).enumerate() {
        let (key, value) = piece.split_at(usize::from(piece[0]) % (piece.len() + 1));
        entries.insert([&index.to_be_bytes()[..], key].concat(), value.to_vec());
    }
    let header = Header {
        cluster: String::from_utf8_lossy(bytes.get(..9).unwrap_or(bytes)).into_owned(),
        kafka_cluster_id: "kafka".to_owned(),
        changelog_topic_id: "topic".to_owned(),
        partition: PartitionId(u32::try_from(bytes.len()).expect("short")),
        semantics_hash: u64::MAX,
        changelog_offset: Offset(7),
        progress: bytes.to_vec(),
        entries: entries.len() as u64,
        digest: 0,
        created_at_ms: TIMESTAMP_MS,
    };
    let (header, path) = written(folder.path(), &header, &entries);
    let mut loaded = Loaded::open(&path).expect("sound");
    assert_eq!(entries_of(&mut loaded), entries);
    assert_eq!(loaded.header, header);
}

/// In memory where the system has it: these targets would wait for the disk otherwise.
fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn entries_of(loaded: &mut Loaded) -> Entries {
    let mut entries = Entries::new();
    loaded
        .for_each_entry(|key, value| {
            entries.insert(key.to_vec(), value.to_vec());
        })
        .expect("it was checked");
    entries
}

/// Writes a checkpoint of these entries, with their digest in its header.
fn written(folder: &Path, header: &Header, entries: &Entries) -> (Header, std::path::PathBuf) {
    let sum = |digest: u128, (key, value): (&Vec<u8>, &Vec<u8>)| {
        digest.wrapping_add(xxhash_rust::xxh3::xxh3_128(&[key.as_slice(), value].concat()))
    };
    let header = Header { digest: entries.iter().fold(0, sum), ..header.clone() };
    let settings = Settings { bytes_per_s_max: 0, read_back: false, ..Settings::default() };
    let name = format!("{}", header.partition);
    let directory = Directory::open(folder.join(name), settings).expect("a folder");
    let written = directory.write(&header, |sink| entries.iter().for_each(|(key, value)| sink.entry(key, value)));
    (header, written.expect("written").path)
}

/// As a configuration: taken, the same each time, or refused with the name of each setting.
pub fn config_file(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let folder = new_folder();
    let path = folder.path().join("hotspare.toml");
    std::fs::write(&path, text.as_bytes()).expect("written");
    let load = || config::load(Some(&path), std::iter::empty(), &[]);
    match (load(), load()) {
        (Ok(one), Ok(two)) => {
            assert_eq!(one.cluster_wide_hash(), two.cluster_wide_hash());
            assert_eq!(one.semantics().hash(), two.semantics().hash());
        }
        (Err(one), Err(two)) => {
            assert_eq!(one, two);
            assert!(!one.errors.is_empty());
            for error in &one.errors {
                let is_of_the_file = error.message.contains("TOML") || text.parse::<toml::Table>().is_err();
                assert!(!error.message.is_empty() && (!error.key.is_empty() || is_of_the_file), "{error}");
            }
        }
        _ => panic!("taken and refused"),
    }
}
