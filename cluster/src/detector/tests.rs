use super::*;

fn slot(name: &str) -> Slot {
    Slot(name.into())
}

fn ms(n: u64) -> Moment {
    Duration::from_millis(n)
}

fn detector() -> Detector {
    Detector::new(slot("a"), Settings::default())
}

/// A detector that has heard of `b` (process 7) and `c` (process 8) at time 0.
fn connected() -> Detector {
    let mut d = detector();
    let _ = d.see(&slot("b"), Seen::Connected { incarnation: 7 }, ms(0));
    let _ = d.see(&slot("c"), Seen::Connected { incarnation: 8 }, ms(0));
    d
}

/// Ticks every 10 ms up to `to`, with heartbeats of the peers named.
fn run(d: &mut Detector, from: u64, to: u64, beating: &[(&str, u64)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for now in (from..=to).step_by(10) {
        if now.is_multiple_of(50) {
            for (name, incarnation) in beating {
                findings.extend(d.see(&slot(name), Seen::Heard { incarnation: *incarnation }, ms(now)));
            }
        }
        findings.extend(d.tick(ms(now)));
    }
    findings
}

fn told(age_ms: u64, incarnation: u64) -> Seen {
    Seen::ToldBy { teller: slot("c"), view: PeerView { age_ms, proved: false, incarnation } }
}

#[test]
fn a_reset_and_a_refused_reconnect_prove_death_at_once() {
    let mut d = connected();
    assert!(d.see(&slot("b"), Seen::Reset { incarnation: 7 }, ms(1000)).is_empty());
    assert_eq!(d.liveness(&slot("b")), Liveness::Live);
    assert_eq!(d.see(&slot("b"), Seen::Refused, ms(1001)), vec![Finding::Gone(slot("b"))]);
    let verdict = d.verdict(&slot("b"), 7).unwrap();
    assert_eq!((verdict.cause, verdict.last_sign, verdict.at), (Cause::ProcessDead, ms(1000), ms(1001)));
    assert_eq!(verdict.evidence.iter().map(|e| e.at_ms).collect::<Vec<_>>(), [0.0, 1.0]);
    assert!(d.view_of(&slot("b"), ms(1001)).unwrap().proved);
}

#[test]
fn a_refused_connection_alone_or_a_reset_alone_proves_nothing() {
    let mut d = connected();
    assert!(d.see(&slot("b"), Seen::Refused, ms(10)).is_empty());
    let _ = d.see(&slot("b"), Seen::Reset { incarnation: 7 }, ms(20));
    let _ = d.see(&slot("b"), Seen::Connected { incarnation: 7 }, ms(22));
    assert!(d.see(&slot("b"), Seen::Refused, ms(30)).is_empty());
    assert_eq!(d.liveness(&slot("b")), Liveness::Live);
    // The reset of an older process's connection says nothing of the present one.
    let _ = d.see(&slot("b"), Seen::Reset { incarnation: 3 }, ms(40));
    assert!(d.see(&slot("b"), Seen::Refused, ms(41)).is_empty());
}

#[test]
fn silence_needs_the_confirmation_of_another_node() {
    let mut d = connected();
    let findings = run(&mut d, 0, 290, &[("c", 8)]);
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(run(&mut d, 300, 300, &[("c", 8)]), vec![Finding::Ask(slot("b"))]);
    assert_eq!(d.liveness(&slot("b")), Liveness::Suspect);
    assert_eq!(d.see(&slot("b"), told(280, 7), ms(302)), vec![Finding::Gone(slot("b"))]);
    assert_eq!(d.verdict(&slot("b"), 7).unwrap().cause, Cause::Silent);
    assert_eq!(d.suspicions(), Suspicions { confirmed: 1, refuted: 0, cleared: 0 });
}

#[test]
fn a_node_that_another_one_hears_is_not_deposed() {
    let mut d = connected();
    let _ = run(&mut d, 0, 300, &[("c", 8)]);
    assert!(d.see(&slot("b"), told(30, 7), ms(302)).is_empty());
    assert_eq!(d.liveness(&slot("b")), Liveness::Suspect);
    assert_eq!(run(&mut d, 310, 360, &[("c", 8)]), vec![Finding::Ask(slot("b"))], "asked again");
    let _ = d.see(&slot("b"), Seen::Heard { incarnation: 7 }, ms(370));
    assert_eq!(d.liveness(&slot("b")), Liveness::Live);
    assert_eq!(d.suspicions(), Suspicions { confirmed: 0, refuted: 1, cleared: 0 });
}

#[test]
fn a_node_that_was_held_up_itself_accuses_nobody() {
    let mut d = connected();
    let _ = run(&mut d, 0, 200, &[("b", 7), ("c", 8)]);
    assert!(d.tick(ms(5_000)).is_empty());
    assert!(run(&mut d, 5_010, 5_290, &[]).is_empty());
    assert_eq!(run(&mut d, 5_300, 5_300, &[]).len(), 2);
}

#[test]
fn a_new_process_in_the_slot_proves_that_the_old_one_is_gone() {
    let mut d = connected();
    let _ = d.see(&slot("b"), Seen::Reset { incarnation: 7 }, ms(1000));
    let findings = d.see(&slot("b"), Seen::Connected { incarnation: 9 }, ms(1003));
    let back = Finding::Back { slot: slot("b"), incarnation: 9, falsely_deposed: false };
    assert_eq!(findings, vec![Finding::Gone(slot("b")), back]);
    assert_eq!(d.liveness(&slot("b")), Liveness::Live);
    let verdict = d.verdict(&slot("b"), 7).unwrap();
    assert_eq!((verdict.cause, verdict.last_sign), (Cause::ProcessDead, ms(1000)));
    assert!(d.verdict(&slot("b"), 9).is_none());
    assert!(d.see(&slot("b"), Seen::Heard { incarnation: 7 }, ms(1004)).is_empty(), "a late message of the old one");
    assert_eq!(d.incarnation(&slot("b")), Some(9));
}

#[test]
fn a_goodbye_is_no_failure() {
    let mut d = connected();
    assert_eq!(d.see(&slot("b"), Seen::Goodbye { incarnation: 7 }, ms(50)), vec![Finding::Gone(slot("b"))]);
    let _ = d.see(&slot("b"), Seen::Reset { incarnation: 7 }, ms(51));
    assert!(d.see(&slot("b"), Seen::Refused, ms(52)).is_empty());
    assert!(run(&mut d, 60, 1000, &[("c", 8)]).is_empty());
    assert_eq!(d.liveness(&slot("b")), Liveness::Stopped);
    assert_eq!(d.suspicions(), Suspicions::default());
}

#[test]
fn a_deposed_process_heard_again_was_deposed_falsely() {
    let mut d = connected();
    let _ = run(&mut d, 0, 300, &[("c", 8)]);
    let _ = d.see(&slot("b"), told(280, 7), ms(302));
    let back = Finding::Back { slot: slot("b"), incarnation: 7, falsely_deposed: true };
    assert_eq!(d.see(&slot("b"), Seen::Heard { incarnation: 7 }, ms(900)), vec![back]);
    assert_eq!(d.liveness(&slot("b")), Liveness::Live);
}

#[test]
fn a_node_never_heard_of_is_suspected_only_after_a_longer_while() {
    let mut d = detector();
    d.expect(&slot("b"), ms(0));
    assert!(run(&mut d, 0, 3_200, &[]).is_empty());
    assert_eq!(d.liveness(&slot("b")), Liveness::Unknown);
    assert_eq!(run(&mut d, 3_210, 3_300, &[]), vec![Finding::Ask(slot("b"))]);
    assert_eq!(d.see(&slot("b"), told(5_000, 7), ms(3_310)), vec![Finding::Gone(slot("b"))]);
    assert!(d.verdict(&slot("b"), 0).is_some());
}
