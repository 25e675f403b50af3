//! Records that cannot be handled as they are do not hold up their partition.

use std::sync::Arc;

use hotspare::reading::{InputRecord, Reason};
use hotspare::store::Store;
use hotspare::{Offset, PartitionId};
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::WITHIN;
use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::records::Rec;
use crate::harness::workload::{MESSY, Workload};

fn header(record: &Rec, wanted: &str) -> Option<String> {
    let found = record.headers.iter().rev().find(|(name, _)| name == wanted)?;
    Some(String::from_utf8_lossy(found.1.as_deref()?).into_owned())
}

#[test]
fn a_dead_letter_that_is_too_large_goes_without_its_value() {
    let mut cluster = TestCluster::of(Broker::shared(), 1, 1).config(MESSY).prepare();
    let topic = cluster.dead_letter_topic();
    cluster.broker.create_topic(&topic, 1, &[("max.message.bytes", "3000")]);
    cluster.nodes[0].start();
    cluster.wait_ready();
    let mut workload = Workload::new(41, 1);
    let mut records = workload.chunk(100);
    // Bytes that no compression makes smaller.
    let mut random = ChaCha8Rng::seed_from_u64(43);
    let mut noise = |bytes: usize| {
        let mut noise = vec![0; bytes];
        random.fill_bytes(&mut noise);
        noise
    };
    records.push(Rec::new(0, "large", noise(4000)));
    records.extend((0..40).map(|number| Rec::new(0, format!("small-{number}"), noise(300))));
    let keyed = noise(4000);
    records.push(Rec::new(0, keyed.clone(), "{"));
    let mut headed = Rec::new(0, "headed", "{");
    headed.headers = vec![("note".to_owned(), Some(noise(4000)))];
    records.push(headed);
    records.extend(workload.chunk(100));
    cluster.broker.produce(&cluster.topic, &records);
    let report = cluster.wait_clean();
    assert!(report.partitions[0].dead_letters > 43, "{report:?}");
    let letters = cluster.broker.read_committed(&topic);
    let large = letters.iter().find(|letter| letter.key.as_deref() == Some(b"large")).expect("its dead letter");
    assert_eq!((&large.value, header(large, "hotspare.value_omitted")), (&None, Some("4000".to_owned())));
    assert_eq!(header(large, "hotspare.reasons").as_deref(), Some("bad_json=1"));
    assert!(!letters.iter().any(|letter| letter.key.as_deref() == Some(&keyed[..])));
    for (name, count) in [("hotspare.key_omitted", "4000"), ("hotspare.headers_omitted", "1")] {
        let shortened: Vec<_> =
            letters.iter().filter(|letter| header(letter, name).as_deref() == Some(count)).collect();
        assert_eq!(shortened.len(), 1, "{name}");
        assert!(header(shortened[0], "hotspare.offset").is_some() && header(shortened[0], "note").is_none());
    }
    let small: Vec<_> =
        letters.iter().filter(|letter| letter.key.as_deref().is_some_and(|key| key.starts_with(b"small-"))).collect();
    assert_eq!(small.len(), 40);
    assert!(small.iter().all(|letter| letter.value.is_some()), "only what is too large is shortened");
}

#[test]
fn a_record_on_which_our_own_code_panics_goes_to_dead_letters() {
    let mut cluster = TestCluster::of(Broker::shared(), 1, 1)
        .config(MESSY)
        .config("[drill]\nenabled = true")
        .env("HOTSPARE_FAILPOINTS", "apply_panic=error@150")
        .start();
    let records = Workload::new(42, 1).chunk(400);
    cluster.broker.produce(&cluster.topic, &records);
    let newest = cluster.wait_until("all is consumed", WITHIN, |cluster| {
        cluster.progress(0).pop().filter(|progress| progress.next_input_offset == Offset(400))
    });
    assert_eq!(newest.counters.records, 400);
    assert_eq!(newest.counters.rejected.get(Reason::InternalError), 1);
    let letters = cluster.broker.read_committed(&cluster.dead_letter_topic());
    let ours: Vec<_> = letters
        .iter()
        .filter(|letter| header(letter, "hotspare.reasons").as_deref() == Some("internal_error=1"))
        .collect();
    let [letter] = ours[..] else { panic!("{} dead letters of internal errors", ours.len()) };
    let poisoned: i64 = header(letter, "hotspare.offset").expect("an offset").parse().expect("a number");
    let place = usize::try_from(poisoned).expect("an offset");
    assert_eq!((&letter.key, &letter.value), (&records[place].key, &records[place].value));
    // All the rest is as if only that record were bad.
    let mut clean = Store::new(Arc::clone(cluster.loaded_config().semantics()), PartitionId(0));
    for (offset, record) in (0..).zip(&records) {
        let input = InputRecord {
            offset: Offset(offset),
            timestamp_ms: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: Vec::new(),
        };
        if offset == poisoned {
            clean.reject_internal(&input);
        } else {
            clean.apply(&input);
        }
    }
    let batch = clean.batch(newest.epoch, Offset(400));
    let expected = hotspare::changelog::Progress { commit: newest.commit, ..batch.progress };
    assert_eq!(newest, expected);
    assert_eq!(letters.len(), batch.dead_letters.len());
    let outputs: Vec<_> =
        cluster.broker.read_committed(&cluster.output_topic()).into_iter().map(|record| record.value).collect();
    let wanted: Vec<_> = batch.outputs.into_iter().map(|output| Some(output.value.to_vec())).collect();
    assert_eq!(outputs, wanted);
    assert!(cluster.nodes[0].is_running());
}
