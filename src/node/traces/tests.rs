use hotspare_cluster::{
    Epoch, EventKind, EventResult, HistoryEvent, NodeId, NodeRef, PartitionId, Phases, Reason, Slot, WallTime,
};
use opentelemetry::trace::SpanId;
use opentelemetry_sdk::trace::SpanData;

use super::Teller;

fn event() -> HistoryEvent {
    let node = |number| NodeRef { slot: Slot(format!("n-{number}")), node_id: NodeId(number) };
    HistoryEvent {
        seq: 7,
        kind: EventKind::Failover,
        reason: Reason::ProcessDead,
        partition: PartitionId(3),
        epoch: Epoch(43),
        result: EventResult::Success,
        by: None,
        at: WallTime(1_000_000),
        from: Some(node(1)),
        from_incarnation: 5,
        to: node(2),
        evidence: Vec::new(),
        phases_ms: Phases {
            prepare: 0.0,
            last_commit: 0.0,
            detect: 2.0,
            held: 0.0,
            elect: 1.0,
            decide: 4.0,
            fence: 8.0,
            catch_up: 1.0,
            first_output: 16.0,
        },
        total_ms: Some(40.0),
        pause_ms: None,
        records_caught_up: 1,
        readings_replayed: 2,
        passed_over: Vec::new(),
        false_positive: false,
        withheld: None,
        operation: None,
        error: None,
        note: None,
    }
}

fn spans(slot: &str, is_leader: bool, event: &HistoryEvent) -> Vec<SpanData> {
    Teller { cluster_id: "c".to_owned(), slot: slot.to_owned(), is_leader }.spans(event)
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_ref()).collect()
}

#[test]
fn leader_and_successor_send_their_phases_as_one_trace() {
    let (leader, successor) = (spans("n-3", true, &event()), spans("n-2", false, &event()));
    assert_eq!(names(&leader), ["failover detect", "failover elect", "failover decide"]);
    assert_eq!(names(&successor), ["failover fence", "failover catch_up", "failover first_output", "failover"]);
    let whole = &successor[3];
    assert_eq!(whole.parent_span_id, SpanId::INVALID);
    for span in leader.iter().chain(&successor[..3]) {
        assert_eq!(span.span_context.trace_id(), whole.span_context.trace_id());
        assert_eq!(span.parent_span_id, whole.span_context.span_id());
    }
    // One after the other, and inside of the whole.
    let phases: Vec<_> = leader.iter().chain(&successor[..3]).collect();
    for pair in phases.windows(2) {
        assert_eq!(pair[0].end_time, pair[1].start_time, "{} {}", pair[0].name, pair[1].name);
    }
    assert!(whole.start_time == phases[0].start_time && whole.end_time > phases[5].end_time);
    let took = whole.end_time.duration_since(whole.start_time).expect("not negative");
    assert_eq!(took.as_millis(), 40);
    assert_eq!(names(&spans("n-1", false, &event())), [""; 0]);
}

#[test]
fn another_tenure_is_another_trace() {
    let mut other = event();
    other.epoch = Epoch(44);
    let trace = |event| spans("n-2", true, event)[0].span_context.trace_id();
    assert_ne!(trace(&other), trace(&event()));
    other.kind = EventKind::Initial;
    assert_eq!(names(&spans("n-2", true, &other)), [""; 0]);
}
