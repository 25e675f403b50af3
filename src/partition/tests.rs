use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};

use super::machine::{Replica, Worth};
use crate::{
    changelog::Progress,
    log::{Committed, Message, Topic},
    reading::InputRecord,
    semantics::Semantics,
};

const BASE_MS: i64 = 1_704_067_200_000;

fn replica() -> Replica {
    let rules = "[input]\ntopic = \"iot\"\n[[input.value]]\nname = \"a\"\npointer = \"/a\"\n";
    let rules = Arc::new(Semantics::from_toml(rules).expect("a configuration"));
    Replica::empty(&rules, PartitionId(0), Offset(0))
}

/// An active, its changelog, and a standby that follows it.
struct Pair {
    active: Replica,
    standby: Replica,
    log: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    inputs: i64,
}

impl Pair {
    fn new() -> Self {
        Self { active: replica(), standby: replica(), log: Vec::new(), inputs: 0 }
    }

    /// One reading of each of these devices, in one commit. Gives the messages for the changelog.
    fn commit(&mut self, devices: &[&str]) -> Vec<Message> {
        for device in devices {
            let value = format!("{{\"device_id\":\"{device}\",\"ts\":{BASE_MS},\"a\":{}}}", self.inputs);
            let record = InputRecord {
                offset: Offset(self.inputs),
                timestamp_ms: BASE_MS,
                key: Some(device.as_bytes()),
                value: Some(value.as_bytes()),
                headers: Vec::new(),
            };
            self.active.read(&record, Offset(0)).expect("no panic");
            self.inputs += 1;
        }
        let transaction = self.active.transaction(Epoch(1), Offset(self.inputs));
        let messages = transaction.messages.iter().filter(|message| message.topic == Topic::Changelog).cloned();
        let messages: Vec<Message> = messages.collect();
        for message in &messages {
            self.log.push((message.key.clone().unwrap().to_vec(), message.value.clone().map(|value| value.to_vec())));
        }
        let changelog_next = Offset(i64::try_from(self.log.len()).unwrap());
        self.active.committed(&transaction, Committed { changelog_next });
        messages
    }

    fn write(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.log.push((key.to_vec(), value.map(<[u8]>::to_vec)));
    }

    /// Follows to the end.
    fn follow(&mut self) -> Worth {
        follow(&mut self.standby, &self.log)
    }

    /// What a replica that is built from the changelog is worth, once compaction has left the newest of each key only.
    fn restored(&self) -> (Replica, Worth) {
        let newest = |place: usize| self.log[place + 1..].iter().all(|(key, _)| *key != self.log[place].0);
        let compacted: Vec<_> = (0..self.log.len()).filter(|place| newest(*place)).collect();
        let mut replica = replica();
        for place in compacted {
            let (key, value) = &self.log[place];
            replica.follow(Offset(i64::try_from(place).unwrap()), Some(key), value.as_deref()).expect("same rules");
        }
        let worth = replica.reached_end(Offset(i64::try_from(self.log.len()).unwrap()));
        (replica, worth)
    }
}

fn follow(replica: &mut Replica, log: &[(Vec<u8>, Option<Vec<u8>>)]) -> Worth {
    let from = usize::try_from(replica.next().0).unwrap();
    for (place, (key, value)) in log.iter().enumerate().skip(from) {
        replica.follow(Offset(i64::try_from(place).unwrap()), Some(key), value.as_deref()).expect("same rules");
    }
    replica.reached_end(Offset(i64::try_from(log.len()).unwrap()))
}

fn lacking(worth: &Worth) -> &str {
    match worth {
        Worth::Lacking(problem) => problem,
        other => panic!("not lacking: {other:?}"),
    }
}

#[test]
fn an_unreadable_record_harms_only_who_lacks_what_it_replaced() {
    let mut pair = Pair::new();
    let messages = pair.commit(&["d1", "d2"]);
    assert_eq!(pair.follow(), Worth::Level);
    let key = messages[0].key.clone().unwrap();
    pair.write(&key, Some(b"\x07garbage"));
    // It has the entry from before; a replica that is built from what compaction leaves has not.
    assert_eq!(pair.follow(), Worth::Level);
    let warning = pair.standby.warning().expect("a warning");
    let (restored, worth) = pair.restored();
    for said in [&warning, lacking(&worth)] {
        for part in ["offset 3", "version 7", "device \"d1\", metric \"a\"", "Repair: "] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    assert!(!restored.is_following() && restored.unreadable_records() == 1);
    pair.commit(&["d2"]);
    assert!(pair.standby.warning().is_some());
    lacking(&pair.restored().1);
    // The next record of the key repairs both.
    pair.commit(&["d1"]);
    assert_eq!((pair.follow(), pair.standby.warning()), (Worth::Level, None));
    assert_eq!(pair.restored().1, Worth::Level);
}

#[test]
fn who_is_promoted_beside_unreadable_records_writes_their_keys_anew() {
    let mut pair = Pair::new();
    let messages = pair.commit(&["d1", "d2"]);
    let key = messages[0].key.clone().unwrap();
    pair.write(&key, Some(b""));
    pair.write(b"\x01 no key of a window", Some(b"garbage"));
    assert_eq!(pair.follow(), Worth::Level);
    std::mem::swap(&mut pair.active, &mut pair.standby);
    let written = pair.commit(&[]);
    let of = |key: &[u8]| written.iter().find(|message| message.key.as_deref() == Some(key)).map(|m| m.value.clone());
    assert_eq!(of(&key), Some(messages[0].value.clone()), "what the active had");
    assert_eq!(of(b"\x01 no key of a window"), Some(None), "a tombstone for what is none of ours");
    assert_eq!((pair.active.warning(), pair.restored().1), (None, Worth::Level));
    assert_eq!(pair.commit(&["d2"]).len(), 2, "once is enough");
}

#[test]
fn without_a_readable_progress_record_nobody_knows_how_far_the_input_is_consumed() {
    let mut pair = Pair::new();
    pair.commit(&["d1"]);
    assert_eq!(pair.follow(), Worth::Level);
    pair.write(Progress::key(), Some(b"\x01garbage"));
    let worth = pair.follow();
    assert!(lacking(&worth).contains("progress record"), "{worth:?}");
    assert_eq!(pair.standby.digest_equal(), Some(true), "the digest tells nothing of it");
    pair.commit(&["d2"]);
    assert_eq!(pair.follow(), Worth::Level);
}

#[test]
fn a_record_that_no_active_wrote_is_seen_even_after_the_last_commit() {
    let mut pair = Pair::new();
    let messages = pair.commit(&["d1", "d2"]);
    assert_eq!(pair.follow(), Worth::Level);
    pair.write(&messages[0].key.clone().unwrap(), None);
    assert!(matches!(pair.follow(), Worth::Diverged(found) if found.sound), "an entry is gone");
}
