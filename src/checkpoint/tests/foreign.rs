//! Sound files that belong elsewhere.

use super::*;

#[test]
fn one_of_a_recreated_topic_does_not_push_out_the_one_just_written() {
    let folder = tempfile::tempdir().unwrap();
    let directory = open(folder.path());
    let entries = some_entries(3, 5);
    for offset in [1000, 2000] {
        write(
            &directory,
            &Header { changelog_topic_id: "topic-old".to_owned(), ..header_of(&entries, offset) },
            &entries,
        )
        .unwrap();
    }
    write(&directory, &header_of(&entries, 7), &entries).unwrap();
    assert_eq!(offsets(&directory), [2000, 7]);
    write(&directory, &header_of(&entries, 8), &entries).unwrap();
    assert_eq!(offsets(&directory), [8, 7]);
}

#[test]
fn foreign_files_in_the_folder_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, ..) = one_small_checkpoint(folder.path());
    for name in ["README", "1.ckpt", "+1-2.ckpt", "1-.ckpt", "x-1.ckpt", "99999999999999999999999-1.ckpt"] {
        fs::write(directory.path().join(name), b"?").unwrap();
    }
    assert_eq!(offsets(&directory), [10]);
}

/// Headers that are refused, with the label and the words of the reason.
fn foreign_headers() -> Vec<(Header, &'static str, &'static str)> {
    let (now, h) = (1_700_000_000_000, header_of(&some_entries(3, 5), 20));
    let found = |change: fn(&mut Header)| {
        let mut header = h.clone();
        change(&mut header);
        header
    };
    vec![
        (
            found(|h| h.cluster = "other".into()),
            "cluster",
            "it is of the cluster \"other\", this node is of \"plant\": look at node.data_dir and cluster.name",
        ),
        (
            found(|h| h.kafka_cluster_id = "kafka-b".into()),
            "kafka_cluster_id",
            "it is of the Kafka cluster kafka-b, this node is connected to kafka-a: look at kafka.properties \"bootstrap.servers\"",
        ),
        (
            found(|h| h.changelog_topic_id = "topic-b".into()),
            "topic_id",
            "it is of the changelog topic with id topic-b, the topic has now id topic-a: the topic was deleted and created again",
        ),
        (
            found(|h| h.partition = PartitionId(4)),
            "partition",
            "it is of partition 4, wanted is partition 3: the file was moved between folders",
        ),
        (
            found(|h| h.semantics_hash = 0xab),
            "semantics",
            "it was made with semantics 00000000000000ab, this node has feedbeefdeadcafe: input, window or output were changed since",
        ),
        (
            Header { created_at_ms: now - 90_060_001, ..h.clone() },
            "age",
            "it is 1d 1h old, the changelog keeps tombstones for 1d (delete.retention.ms): deletions since may be lost to it",
        ),
        (
            Header { created_at_ms: now + 300_001, ..h.clone() },
            "age",
            "its time is 5m 1ms ahead of this machine's clock, so that its age is not known: check the clock",
        ),
        (
            Header { changelog_offset: Offset(501), ..h.clone() },
            "offset",
            "it belongs to changelog offset 501, the changelog ends at 500: the changelog lost records that were committed, or was created again",
        ),
    ]
}

#[test]
fn one_that_belongs_elsewhere_is_refused_with_the_reason_and_the_next_one_is_used() {
    for (header, label, text) in foreign_headers() {
        let folder = tempfile::tempdir().unwrap();
        let directory = open(folder.path());
        let entries = some_entries(3, 5);
        write(&directory, &header_of(&entries, 10), &entries).unwrap();
        let path = write(&directory, &header, &entries).unwrap().path;
        let (loaded, refused) = directory
            .newest_valid(&Expect { log_start: Some(Offset(5)), log_end: Some(Offset(500)), ..expect() })
            .unwrap();
        assert_eq!(loaded.unwrap().header.changelog_offset, Offset(10));
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].reason.label(), label);
        assert_eq!(refused[0].to_string(), format!("checkpoint \"{}\" refused: {text}", path.display()));
    }
}

#[test]
fn one_before_the_start_of_the_changelog_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, ..) = one_small_checkpoint(folder.path());
    let (loaded, refused) = directory.newest_valid(&Expect { log_start: Some(Offset(11)), ..expect() }).unwrap();
    assert!(loaded.is_none());
    assert_eq!(
        refused[0].reason.to_string(),
        "it belongs to changelog offset 10, the changelog begins at 11: the records between them are gone"
    );
}

#[test]
fn one_of_a_newer_format_is_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, path, mut bytes) = one_small_checkpoint(folder.path());
    bytes[8] = 9;
    fs::write(&path, bytes).unwrap();
    let (_, refused) = directory.newest_valid(&expect()).unwrap();
    assert_eq!(refused[0].reason, Reason::Format { found: 9, supported: 1 });
    assert_eq!(
        refused[0].reason.to_string(),
        "it has format 9, this version reads 1 to 1: it was written by another version of hotspare"
    );
}

#[test]
fn what_is_not_known_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, ..) = one_small_checkpoint(folder.path());
    let unknown = Expect {
        kafka_cluster_id: String::new(),
        changelog_topic_id: String::new(),
        age_max_ms: None,
        now_ms: i64::MAX,
        ..expect()
    };
    assert!(directory.newest_valid(&unknown).unwrap().0.is_some());
}
