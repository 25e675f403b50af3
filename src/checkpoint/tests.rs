use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hotspare_cluster::{Offset, PartitionId};
use xxhash_rust::xxh3::xxh3_128;

use super::format::BLOCK_BYTES;
use super::*;

mod damage;
mod foreign;
mod in_a_child;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

const HOUR_MS: u64 = 3_600_000;

fn some_entries(count: u32, value_bytes: usize) -> Entries {
    (0..count).map(|n| (format!("key-{n}").into_bytes(), vec![n.to_le_bytes()[0]; value_bytes])).collect()
}

fn digest_of(entries: &Entries) -> u128 {
    entries
        .iter()
        .fold(0, |sum: u128, (key, value)| sum.wrapping_add(xxh3_128(&[key.as_slice(), value.as_slice()].concat())))
}

fn header_of(entries: &Entries, offset: i64) -> Header {
    Header {
        cluster: "plant".to_owned(),
        kafka_cluster_id: "kafka-a".to_owned(),
        changelog_topic_id: "topic-a".to_owned(),
        partition: PartitionId(3),
        semantics_hash: 0xfeed_beef_dead_cafe,
        changelog_offset: Offset(offset),
        progress: vec![1, 0, 255],
        entries: entries.len() as u64,
        digest: digest_of(entries),
        created_at_ms: 1_700_000_000_000 + offset,
    }
}

fn expect() -> Expect {
    Expect {
        cluster: "plant".to_owned(),
        kafka_cluster_id: "kafka-a".to_owned(),
        changelog_topic_id: "topic-a".to_owned(),
        partition: PartitionId(3),
        semantics_hash: 0xfeed_beef_dead_cafe,
        age_max_ms: Some(24 * HOUR_MS),
        now_ms: 1_700_000_000_000,
        log_start: None,
        log_end: None,
    }
}

fn write(directory: &Directory, header: &Header, entries: &Entries) -> Result<Written, CheckpointError> {
    directory.write(header, |sink| entries.iter().for_each(|(key, value)| sink.entry(key, value)))
}

fn read(loaded: &mut Loaded) -> Entries {
    let mut entries = Entries::new();
    loaded
        .for_each_entry(|key, value| assert!(entries.insert(key.to_vec(), value.to_vec()).is_none(), "a key twice"))
        .unwrap();
    entries
}

fn open(folder: &Path) -> Directory {
    Directory::open(folder.join("3"), Settings { bytes_per_s_max: 0, ..Settings::default() }).unwrap()
}

fn offsets(directory: &Directory) -> Vec<i64> {
    directory.list().unwrap().iter().map(|listed| listed.changelog_offset.0).collect()
}

fn only_file(directory: &Directory) -> PathBuf {
    let files: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

/// A folder that holds one small checkpoint, and that checkpoint's file and bytes.
fn one_small_checkpoint(folder: &Path) -> (Directory, PathBuf, Vec<u8>) {
    let directory = open(folder);
    let entries = some_entries(3, 5);
    write(&directory, &header_of(&entries, 10), &entries).unwrap();
    let path = only_file(&directory);
    let bytes = fs::read(&path).unwrap();
    (directory, path, bytes)
}

#[test]
fn what_was_written_is_read_again_entry_for_entry() {
    let folder = tempfile::tempdir().unwrap();
    // None, one block, several blocks, entries larger than a block.
    for (offset, entries) in
        [some_entries(0, 0), some_entries(7, 20), some_entries(5000, 300), some_entries(3, 2 * BLOCK_BYTES)]
            .into_iter()
            .enumerate()
    {
        let directory = open(folder.path());
        let header = header_of(&entries, offset as i64);
        let written = write(&directory, &header, &entries).unwrap();
        assert_eq!(written.bytes, fs::metadata(&written.path).unwrap().len());
        let (loaded, refused) = directory.newest_valid(&expect()).unwrap();
        let mut loaded = loaded.unwrap();
        assert_eq!(refused, []);
        assert_eq!(loaded.header, header);
        assert_eq!(read(&mut loaded), entries);
        assert_eq!(read(&mut loaded), entries, "a second time");
    }
}

#[test]
fn a_copy_of_the_state_gives_the_same_file_as_a_walk_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let entries = some_entries(3000, 200);
    let header = header_of(&entries, 5);
    let (walked, copied) = (open(&folder.path().join("a")), open(&folder.path().join("b")));
    write(&walked, &header, &entries).unwrap();
    let mut snapshot = Snapshot::new();
    entries.iter().for_each(|(key, value)| snapshot.entry(key, value));
    assert_eq!((snapshot.entries(), snapshot.digest()), (header.entries, header.digest));
    copied.write_snapshot(&header, snapshot).unwrap();
    assert_eq!(fs::read(only_file(&walked)).unwrap(), fs::read(only_file(&copied)).unwrap());
}

#[test]
fn the_name_tells_offset_and_time() {
    let folder = tempfile::tempdir().unwrap();
    let (_, path, _) = one_small_checkpoint(folder.path());
    assert!(path.ends_with("3/00000000000000000010-1700000000010.ckpt"), "{path:?}");
}

#[test]
fn two_are_kept_and_the_newest_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = some_entries(3, 5);
    for offset in [10, 20, 30, 40] {
        write(&directory, &header_of(&entries, offset), &entries).unwrap();
    }
    assert_eq!(offsets(&directory), [40, 30]);
    assert_eq!(directory.newest_valid(&expect()).unwrap().0.unwrap().header.changelog_offset, Offset(40));
    assert_eq!(directory.prune(1).len(), 1);
    assert_eq!(offsets(&directory), [40]);
    directory.clear().unwrap();
    assert_eq!(offsets(&directory), [0; 0]);
}

#[test]
fn leftovers_of_a_crash_are_removed_when_the_folder_is_opened_for_writing_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = open(folder.path()).path().to_path_buf();
    let leftover = path.join("00000000000000000010-17.ckpt.tmp");
    fs::write(&leftover, b"half").unwrap();
    let looking = Directory::open_to_read(&path);
    assert_eq!(looking.list().unwrap(), []);
    assert!(leftover.exists());
    assert_eq!(open(folder.path()).list().unwrap(), []);
    assert!(!leftover.exists());
}

#[test]
fn one_that_is_deleted_while_in_use_can_still_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, ..) = one_small_checkpoint(folder.path());
    let mut loaded = directory.newest_valid(&expect()).unwrap().0.unwrap();
    directory.clear().unwrap();
    assert_eq!(read(&mut loaded), some_entries(3, 5));
}

/// Bytes of format 1, for ever: a later version must read them.
#[test]
fn golden_bytes_of_format_1_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, bytes) = one_small_checkpoint(folder.path());
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, include_str!("golden-format-1.hex").trim());
    assert_eq!(Loaded::open(&path).unwrap().header, header_of(&some_entries(3, 5), 10));
    drop(directory);
}
