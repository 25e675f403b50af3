use std::{borrow::Cow, sync::Arc};

use hotspare_cluster::{Offset, PartitionId};

use super::{Findings, letters::Letters, outputs::Outputs, partition::CleanRun, state};
use crate::{
    reading::InputRecord,
    semantics::Semantics,
    store::{DeadLetter, Output},
};

const PARTITION: PartitionId = PartitionId(0);
/// In the order of offsets: three windows of ten seconds, one late reading, one that is no number.
const READINGS: [(&str, u64, &str); 8] = [
    ("a", 1_700_000_000, "1"),
    ("b", 1_700_000_001, "2.5"),
    ("a", 1_700_000_004, "-3"),
    ("a", 1_700_000_011, "4"),
    ("a", 1_700_000_002, "5"),
    ("b", 1_700_000_013, "6"),
    ("b", 1_700_000_014, "\"?\""),
    ("a", 1_700_000_013, "7"),
];

struct Clean {
    outputs: Vec<Output>,
    letters: Vec<Arc<DeadLetter>>,
    run: CleanRun,
}

fn semantics() -> Arc<Semantics> {
    let text = "[input]\ntopic = \"iot\"\n[window]\nsize = \"10s\"\n[output]\nemit = \"changes\"\n";
    Arc::new(Semantics::from_toml(text).expect("a configuration"))
}

fn clean(mut each: impl FnMut(&[Output], &[Arc<DeadLetter>])) -> Clean {
    let mut run = CleanRun::new(&semantics(), PARTITION, std::iter::empty());
    let (mut outputs, mut letters) = (Vec::new(), Vec::new());
    for (offset, (device, ts, value)) in (0..).zip(READINGS) {
        let value = format!("{{\"device_id\":\"{device}\",\"ts\":{ts},\"value\":{value}}}");
        let record = InputRecord {
            offset: Offset(offset),
            timestamp_ms: 1_700_000_100_000,
            key: Some(device.as_bytes()),
            value: Some(value.as_bytes()),
            headers: vec![],
        };
        let batch = run.step(&record);
        each(&batch.outputs, &batch.dead_letters);
        outputs.extend(batch.outputs);
        letters.extend(batch.dead_letters);
    }
    Clean { outputs, letters, run }
}

/// Holds these outputs against the clean run.
fn compare(topic: &[Output]) -> Findings {
    let (mut outputs, mut findings) = (Outputs::new(PARTITION), Findings::default());
    for (offset, output) in (0..).zip(topic) {
        outputs.read(offset, Some(&output.key), Some(&output.value), &mut findings);
    }
    let clean = clean(|given, _| {
        for output in given {
            outputs.expect(&output.key, &output.value, true, &mut findings);
        }
    });
    for open in clean.run.store.open_windows() {
        outputs.expect_current(open.as_bytes(), &mut findings);
    }
    outputs.finish(i64::MAX, &mut findings);
    findings
}

fn counts(findings: &Findings) -> (u64, u64, u64) {
    (findings.lost, findings.duplicated, findings.wrong)
}

fn is_final(output: &Output) -> bool {
    output.value.ends_with(b"\"final\":true}")
}

fn edited(output: &Output, from: &str, to: &str) -> Output {
    let text = String::from_utf8(output.value.to_vec()).expect("UTF-8");
    assert!(text.contains(from), "{text}");
    Output { key: output.key.clone(), value: text.replace(from, to).into() }
}

#[test]
fn an_exact_topic_has_no_findings() {
    assert_eq!(compare(&clean(|_, _| ()).outputs), Findings::default());
}

#[test]
fn changes_that_no_commit_gave_are_not_missed_but_the_current_state_is() {
    let all = clean(|_, _| ()).outputs;
    // The first state of a's first window was in no commit.
    let some: Vec<_> = all.iter().skip(1).cloned().collect();
    assert!(!is_final(&all[0]));
    assert_eq!(compare(&some), Findings::default());
    let mut some = all;
    let newest = some.pop().expect("outputs");
    assert!(!is_final(&newest));
    let findings = compare(&some);
    assert_eq!(counts(&findings), (1, 0, 0));
    assert_eq!(findings.examples.lost[0].note, "the newest state of the open window is not in the topic");
}

#[test]
fn a_lost_a_doubled_and_a_wrong_final_are_found() {
    let all = clean(|_, _| ()).outputs;
    let at = all.iter().position(is_final).expect("a final output");
    let mut topic = all.clone();
    topic.remove(at);
    let findings = compare(&topic);
    assert_eq!(counts(&findings), (1, 0, 0));
    assert_eq!(findings.examples.lost[0].expected.as_deref(), std::str::from_utf8(&all[at].value).ok());

    let mut topic = all.clone();
    topic.push(all[at].clone());
    let findings = compare(&topic);
    assert_eq!(counts(&findings), (0, 1, 0));
    assert_eq!(findings.examples.duplicated[0].offset, Some(all.len() as i64));

    let mut topic = all.clone();
    topic[at] = edited(&all[at], "\"sum\":-2", "\"sum\":-1");
    let findings = compare(&topic);
    assert_eq!(counts(&findings), (0, 0, 1));
    assert_eq!(findings.examples.wrong[0].offset, Some(at as i64));

    let mut topic = all.clone();
    topic.push(edited(&all[at], "\"device\":\"a\"", "\"device\":\"zz\""));
    assert_eq!(counts(&compare(&topic)), (0, 0, 1), "a window that is not in the input");
    topic.pop();
    topic.push(Output { key: "a".into(), value: "what?".into() });
    assert_eq!(counts(&compare(&topic)), (0, 0, 1), "something else");
}

#[test]
fn a_final_with_the_key_of_another_device_is_wrong() {
    let mut topic = clean(|_, _| ()).outputs;
    let at = topic.iter().position(is_final).expect("a final output");
    topic[at].key = "b".into();
    assert_eq!(counts(&compare(&topic)), (0, 0, 1));
}

#[test]
fn a_doubled_a_wrong_and_an_old_change_are_found() {
    let all = clean(|_, _| ()).outputs;
    let mut topic = all.clone();
    topic.insert(1, all[0].clone());
    assert_eq!(counts(&compare(&topic)), (0, 1, 0));

    let mut topic = all.clone();
    topic[0] = edited(&all[0], "\"min\":1", "\"min\":0");
    assert_eq!(counts(&compare(&topic)), (0, 0, 1));

    // a's first window: after one reading, after two, final.
    let second =
        all.iter().position(|output| output.value.windows(11).any(|part| part == b"\"count\":2,\"")).expect("two");
    let mut topic = all.clone();
    let first = topic.remove(0);
    topic.insert(second, first);
    let findings = compare(&topic);
    assert_eq!(counts(&findings), (0, 0, 1));
    assert_eq!(findings.examples.wrong[0].note, "a newer state of the window stands before it");

    let mut topic = all.clone();
    topic.push(edited(&all[0], "\"count\":1", "\"count\":9"));
    assert_eq!(counts(&compare(&topic)), (0, 0, 2), "no such state, and after the final output");
}

#[test]
fn what_may_be_of_a_later_commit_is_not_judged() {
    let (mut outputs, mut findings) = (Outputs::new(PARTITION), Findings::default());
    outputs.read(0, None, Some(br#"{"device":"a","count":1,"final":true}"#), &mut findings);
    outputs.read(7, None, Some(br#"{"device":"b","count":1,"final":true}"#), &mut findings);
    outputs.finish(7, &mut findings);
    assert_eq!(counts(&findings), (0, 0, 1));
    assert_eq!(findings.examples.wrong[0].offset, Some(0));
}

fn compare_letters(topic: &[DeadLetter]) -> Findings {
    let (mut letters, mut findings) = (Letters::new(PARTITION), Findings::default());
    for (offset, letter) in (0..).zip(topic) {
        let headers: Vec<_> =
            letter.headers.iter().map(|(name, value)| (Cow::from(name.as_str()), value.as_deref())).collect();
        letters.read(offset, (letter.key.as_deref(), letter.value.as_deref()), &headers, &mut findings);
    }
    clean(|_, given| given.iter().for_each(|letter| letters.expect(letter, true, &mut findings)));
    letters.finish(READINGS.len() as i64, &mut findings);
    findings
}

#[test]
fn dead_letters_are_compared_by_their_record() {
    let all: Vec<DeadLetter> = clean(|_, _| ()).letters.iter().map(|letter| (**letter).clone()).collect();
    assert_eq!(all.len(), 2);
    assert_eq!(compare_letters(&all), Findings::default());
    let without: Vec<_> = all.iter().map(DeadLetter::without_value).collect();
    assert_eq!(compare_letters(&without), Findings::default());
    assert_eq!(counts(&compare_letters(&all[1..])), (1, 0, 0));
    assert_eq!(counts(&compare_letters(&[all.clone(), all.clone()].concat())), (0, 2, 0));
    let mut other = all.clone();
    other[0].value = Some(b"{}".to_vec());
    assert_eq!(counts(&compare_letters(&other)), (0, 0, 1));
    let mut more = all;
    let mut extra = more[0].clone();
    for (name, value) in &mut extra.headers {
        if name == "hotspare.offset" {
            *value = Some(b"0".to_vec());
        }
    }
    more.push(extra);
    assert_eq!(counts(&compare_letters(&more)), (0, 0, 1));
}

#[test]
fn a_state_that_misses_a_reading_is_found() {
    let (whole, mut short) = (clean(|_, _| ()), CleanRun::new(&semantics(), PARTITION, std::iter::empty()));
    let mut findings = Findings::default();
    state::compare(PARTITION, &whole.run.store, &clean(|_, _| ()).run.store, &mut findings);
    assert_eq!(findings, Findings::default());
    let record = InputRecord {
        offset: Offset(0),
        timestamp_ms: 1_700_000_100_000,
        key: None,
        value: Some(br#"{"device_id":"a","ts":1700000011,"value":4}"#),
        headers: vec![],
    };
    short.step(&record);
    state::compare(PARTITION, &short.store, &whole.run.store, &mut findings);
    // a's window differs, b's is missing, and the counters differ.
    assert_eq!(counts(&findings), (1, 0, 2));
}

#[test]
fn a_progress_record_that_does_not_follow_from_the_one_before_is_wrong() {
    let mut run = CleanRun::new(&semantics(), PARTITION, std::iter::empty());
    let first = run.finish(Offset(0)).progress;
    let second = run.finish(Offset(0)).progress;
    let mut findings = Findings::default();
    state::check_succession(PARTITION, 7, None, &second, &mut findings);
    state::check_succession(PARTITION, 8, Some(&first.as_commit()), &second, &mut findings);
    assert!(findings.is_clean(), "{findings:?}");
    state::check_succession(PARTITION, 9, Some(&second.as_commit()), &first, &mut findings);
    assert_eq!((findings.wrong, findings.examples.wrong[0].offset), (1, Some(9)));
    let found = findings.examples.wrong[0].found.as_deref().unwrap_or_default();
    assert!(found.starts_with("invariant commit_by_one (P1) is violated: commit 1 after commit 2"), "{found}");
}
