//! Failovers as OpenTelemetry traces: one span for the whole and one for each phase, sent over OTLP/HTTP.
//!
//! Spans are made from the replicated history, not from clocks of those who took part: the successor sends the whole and its
//! own phases, the Raft leader those that passed before the order. The ids follow from cluster, partition and epoch, so
//! that the spans of both nodes are one trace.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use hotspare_cluster::{Cluster, EventId, EventKind, EventResult, HistoryEvent};
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

const LOOK_EVERY: Duration = Duration::from_millis(500);
const SEND_WITHIN: Duration = Duration::from_secs(5);

/// Who tells of what: its own part of each event.
#[derive(Clone, Debug)]
struct Teller {
    cluster_id: String,
    slot: String,
    is_leader: bool,
}

/// Sends spans of the events that end from now on.
pub(super) struct Traces {
    processor: BatchSpanProcessor,
    /// Numbers of the events that are done with.
    told: Option<BTreeSet<u64>>,
}

impl Traces {
    /// Towards the collector at a URL such as `http://127.0.0.1:4318/v1/traces`.
    ///
    /// # Errors
    /// The URL is none.
    pub(super) fn new(endpoint: &str, cluster: &str, slot: &str) -> Result<Self, ExporterBuildError> {
        let exporter =
            SpanExporter::builder().with_http().with_http_client(Sender::new()).with_endpoint(endpoint).build()?;
        let mut processor = BatchSpanProcessor::builder(exporter).build();
        processor.set_resource(
            &Resource::builder_empty()
                .with_attributes([
                    KeyValue::new("service.name", "hotspare"),
                    KeyValue::new("service.namespace", cluster.to_owned()),
                    KeyValue::new("service.instance.id", slot.to_owned()),
                    KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
                ])
                .build(),
        );
        Ok(Self { processor, told: None })
    }

    /// Looks at the history now and then until `ended` is set, then sends what is left.
    pub(super) async fn run(mut self, cluster: Cluster, mut ended: watch::Receiver<bool>) {
        let mut tick = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                _ = ended.wait_for(|ended| *ended) => break,
                _ = tick.tick() => self.look(&cluster),
            }
        }
        self.look(&cluster);
        let flush = tokio::task::spawn_blocking(move || self.processor.shutdown_with_timeout(SEND_WITHIN));
        if let Ok(Err(error)) = flush.await {
            tracing::warn!(%error, "traces are lost");
        }
    }

    fn look(&mut self, cluster: &Cluster) {
        let (view, events) = (cluster.view(), cluster.history());
        let teller = Teller { cluster_id: view.cluster_id, slot: view.slot, is_leader: view.is_leader };
        let ended = events.iter().filter(|event| event.result != EventResult::Pending);
        let Some(told) = &mut self.told else {
            // What ended before this process began was told by others, or by nobody.
            self.told = Some(ended.map(|event| event.seq).collect());
            return;
        };
        for event in ended {
            if told.insert(event.seq) {
                teller.spans(event).into_iter().for_each(|span| self.processor.on_end(span));
            }
        }
        if let Some(oldest) = events.first() {
            *told = told.split_off(&oldest.seq);
        }
    }
}

impl Teller {
    /// The spans of an event that this node sends.
    fn spans(&self, event: &HistoryEvent) -> Vec<SpanData> {
        if event.kind == EventKind::Initial {
            return Vec::new();
        }
        let phases = event.phases_ms;
        let before = [
            ("prepare", phases.prepare),
            ("last_commit", phases.last_commit),
            ("detect", phases.detect),
            ("held", phases.held),
            ("elect", phases.elect),
            ("decide", phases.decide),
        ];
        let after = [("fence", phases.fence), ("catch_up", phases.catch_up), ("first_output", phases.first_output)];
        let is_successor = event.to.slot.0 == self.slot;
        // `at` is when the leader decided: what came before it ends there.
        let decided_ms = millis(event.at.0);
        let begin_ms = decided_ms - phases.prepare - phases.last_commit - phases.detect - phases.held - phases.elect;
        let mut spans = Vec::new();
        let mut at_ms = begin_ms;
        for (is_mine, phases) in [(self.is_leader, &before[..]), (is_successor, &after[..])] {
            for (name, took_ms) in phases {
                if is_mine && *took_ms > 0.0 {
                    spans.push(self.span(event, name, at_ms, at_ms + took_ms));
                }
                at_ms += took_ms;
            }
        }
        if is_successor {
            let end_ms = event.total_ms.map_or(at_ms, |total_ms| begin_ms + total_ms);
            spans.push(self.span(event, "", begin_ms, end_ms));
        }
        spans
    }

    /// A phase, or the whole if the name is empty.
    fn span(&self, event: &HistoryEvent, phase: &str, begin_ms: f64, end_ms: f64) -> SpanData {
        let event_id = EventId(event.partition, event.epoch).to_string();
        let id = |name: &str| Sha256::digest(format!("{}/{event_id}/{name}", self.cluster_id));
        let (trace, whole, own) = (id("trace"), id(""), id(phase));
        let span_id = |digest: &[u8]| SpanId::from_bytes(first(digest));
        let is_whole = phase.is_empty();
        let kind = word(&event.kind);
        let mut attributes = vec![KeyValue::new("hotspare.event_id", event_id)];
        if is_whole {
            attributes.extend([
                KeyValue::new("hotspare.partition", i64::from(event.partition.0)),
                KeyValue::new("hotspare.epoch", event.epoch.0.cast_signed()),
                KeyValue::new("hotspare.reason", word(&event.reason)),
                KeyValue::new("hotspare.result", word(&event.result)),
                KeyValue::new("hotspare.from", event.from.as_ref().map_or(String::new(), |from| from.slot.0.clone())),
                KeyValue::new("hotspare.to", event.to.slot.0.clone()),
                KeyValue::new("hotspare.records_caught_up", event.records_caught_up.cast_signed()),
                KeyValue::new("hotspare.readings_replayed", event.readings_replayed.cast_signed()),
            ]);
        }
        let status = match (&event.result, is_whole) {
            (EventResult::Failed, true) => Status::error(event.error.clone().unwrap_or_default()),
            _ => Status::Unset,
        };
        SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(first(&trace)),
                span_id(&own),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: if is_whole { SpanId::INVALID } else { span_id(&whole) },
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: if is_whole { kind.into() } else { format!("{kind} {phase}").into() },
            start_time: time(begin_ms),
            end_time: time(end_ms),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: InstrumentationScope::builder("hotspare").build(),
        }
    }
}

/// The first bytes of a digest; it is longer than any id.
fn first<const N: usize>(digest: &[u8]) -> [u8; N] {
    digest.first_chunk().copied().unwrap_or([1; N])
}

/// The name that a value has in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.as_ref().and_then(serde_json::Value::as_str).unwrap_or("unknown").to_owned()
}

#[allow(clippy::cast_precision_loss, reason = "milliseconds of this age are far below 2^53")]
fn millis(time_ms: i64) -> f64 {
    time_ms as f64
}

fn time(time_ms: f64) -> SystemTime {
    UNIX_EPOCH + Duration::try_from_secs_f64(time_ms / 1000.0).unwrap_or_default()
}

/// HTTP by the client that the command line uses. It blocks the thread of the processor, which has nothing else to do.
#[derive(Debug)]
struct Sender(ureq::Agent);

impl Sender {
    fn new() -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(SEND_WITHIN)).http_status_as_error(false);
        Self(config.build().into())
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.0.run(Request::from_parts(parts, body.to_vec()))?.into_parts();
        Ok(Response::from_parts(parts, body.read_to_vec()?.into()))
    }
}

#[cfg(test)]
mod tests;
