//! An OpenTelemetry collector that keeps what it is sent.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

/// A span and the `service.instance.id` of the process that sent it.
pub type Sent = (String, Span);

/// The collector; it ends with the test.
pub struct Collector {
    endpoint: String,
    spans: Arc<Mutex<Vec<Sent>>>,
    _runtime: tokio::runtime::Runtime,
}

impl Collector {
    /// Listens on a free port of this host.
    pub fn start() -> Collector {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let endpoint = format!("http://{}/v1/traces", listener.local_addr().expect("an address"));
        let spans: Arc<Mutex<Vec<Sent>>> = Arc::default();
        let app = axum::Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&spans));
        runtime.spawn(async { axum::serve(listener, app).await });
        Collector { endpoint, spans, _runtime: runtime }
    }

    /// Where it takes traces.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// All spans until now.
    pub fn spans(&self) -> Vec<Sent> {
        self.spans.lock().expect("unpoisoned").clone()
    }
}

async fn take(State(spans): State<Arc<Mutex<Vec<Sent>>>>, body: Bytes) {
    let request = ExportTraceServiceRequest::decode(body).expect("an OTLP request");
    let mut spans = spans.lock().expect("unpoisoned");
    for resource in request.resource_spans {
        let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
        let instance = attributes.into_iter().find(|attribute| attribute.key == "service.instance.id");
        let instance = format!("{:?}", instance.and_then(|attribute| attribute.value).and_then(|value| value.value));
        spans.extend(
            resource.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| (instance.clone(), span)),
        );
    }
}
