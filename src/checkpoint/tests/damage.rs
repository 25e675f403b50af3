//! Files that are cut off, changed or not finished.

use super::*;
use crate::atomic_file::disk;

#[test]
fn a_file_cut_off_at_any_byte_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, bytes) = one_small_checkpoint(folder.path());
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        let (loaded, refused) = directory.newest_valid(&expect()).unwrap();
        assert!(loaded.is_none(), "cut off at {length} of {}", bytes.len());
        assert!(
            matches!(&refused[..], [Refused { reason: Reason::Truncated { length: at, .. }, .. }] if *at == length as u64),
            "{refused:?}"
        );
    }
}

#[test]
fn a_file_with_any_bit_flipped_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, bytes) = one_small_checkpoint(folder.path());
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            fs::write(&path, &damaged).unwrap();
            let (loaded, refused) = directory.newest_valid(&expect()).unwrap();
            assert!(loaded.is_none(), "bit {bit} of byte {at}");
            assert_eq!(refused.len(), 1);
        }
    }
    fs::write(&path, &bytes).unwrap();
    assert!(directory.newest_valid(&expect()).unwrap().0.is_some());
}

#[test]
fn bytes_after_the_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, mut bytes) = one_small_checkpoint(folder.path());
    let length = bytes.len();
    bytes.push(0);
    fs::write(&path, &bytes).unwrap();
    let (_, refused) = directory.newest_valid(&expect()).unwrap();
    assert_eq!(
        refused[0].reason.to_string(),
        format!("not a checkpoint's layout at byte {length}: 1 bytes follow the end")
    );
}

#[test]
fn a_block_taken_out_or_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = some_entries(2, 2 * BLOCK_BYTES);
    write(&directory, &header_of(&entries, 1), &entries).unwrap();
    let path = only_file(&directory);
    let bytes = fs::read(&path).unwrap();
    let header_bytes = 16 + u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize + 4;
    let block_bytes = 12 + 8 + 5 + 2 * BLOCK_BYTES + 4;
    let (start, blocks) = bytes.split_at(header_bytes);
    let (first, rest) = blocks.split_at(block_bytes);
    for changed in [[start, rest].concat(), [start, first, first, rest].concat()] {
        fs::write(&path, changed).unwrap();
        let (loaded, refused) = directory.newest_valid(&expect()).unwrap();
        assert!(loaded.is_none());
        assert_eq!(
            refused[0].reason.to_string(),
            "the whole file beginning at byte 0 fails its checksum: the file is damaged; check the disk"
        );
    }
}

#[test]
fn a_truncated_checkpoint_never_replaces_a_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = some_entries(3, 5);
    write(&directory, &header_of(&entries, 10), &entries).unwrap();
    let newer = write(&directory, &header_of(&entries, 20), &entries).unwrap().path;
    let bytes = fs::read(&newer).unwrap();
    fs::write(&newer, &bytes[..bytes.len() / 2]).unwrap();

    let (loaded, refused) = directory.newest_valid(&expect()).unwrap();
    assert_eq!(loaded.unwrap().header.changelog_offset, Offset(10));
    assert_eq!(refused.iter().map(|r| r.path.clone()).collect::<Vec<_>>(), [newer]);

    // The next one takes the place of the damaged one, not of the good one.
    write(&directory, &header_of(&entries, 30), &entries).unwrap();
    assert_eq!(offsets(&directory), [30, 10]);
}

#[test]
fn a_disk_that_is_full_at_any_byte_leaves_the_old_checkpoints_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, old_path, old_bytes) = one_small_checkpoint(folder.path());
    let entries = some_entries(3, 5);
    let header = header_of(&entries, 20);
    for room in 0..=old_bytes.len() {
        let error = disk::with_room_for(room, || write(&directory, &header, &entries)).unwrap_err();
        assert!(matches!(error, CheckpointError::Io { .. }), "room for {room}: {error}");
        assert_eq!(only_file(&directory), old_path);
        assert_eq!(fs::read(&old_path).unwrap(), old_bytes);
    }
    write(&directory, &header, &entries).unwrap();
    assert_eq!(offsets(&directory), [20, 10]);
}

#[test]
fn entries_that_are_not_those_of_the_header_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = some_entries(3, 5);
    for header in [
        Header { entries: 4, ..header_of(&entries, 1) },
        Header { digest: header_of(&entries, 1).digest ^ 1, ..header_of(&entries, 1) },
    ] {
        let error = write(&directory, &header, &entries).unwrap_err();
        assert!(matches!(error, CheckpointError::EntriesDiffer { .. }), "{error}");
        assert_eq!(error.stage(), "verify");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}

#[test]
fn an_entry_beyond_the_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = Entries::from([(vec![1], vec![0; 64 * 1024 * 1024])]);
    let header = header_of(&entries, 1);
    let error = write(&directory, &header, &entries).unwrap_err();
    assert!(matches!(error, CheckpointError::EntryTooLarge { bytes: 67_108_873, .. }), "{error}");
    let mut snapshot = Snapshot::new();
    entries.iter().for_each(|(key, value)| snapshot.entry(key, value));
    assert!(matches!(directory.write_snapshot(&header, snapshot), Err(CheckpointError::EntryTooLarge { .. })));
}

#[test]
fn a_file_that_changes_between_check_and_use_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, mut bytes) = one_small_checkpoint(folder.path());
    let mut loaded = directory.newest_valid(&expect()).unwrap().0.unwrap();
    let at = bytes.len() - 60;
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(loaded.for_each_entry(|_, _| {}).unwrap_err().reason.is_damage());
}
