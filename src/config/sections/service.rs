//! Sections of what is around the data: http, auth, tls, log, metrics, drill.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::section;
use crate::config::units::{ByteSize, Timespan};

section! {
    /// `[http]`: the HTTP server.
    pub struct HttpSection {
        /// Address of API and status page.
        pub listen: String = "127.0.0.1:7401".to_owned(),
        /// Address of metrics and health. Default: `listen`.
        pub metrics_listen: String = String::new(),
        /// Largest body of a request.
        pub body_bytes_max: ByteSize = ByteSize::from_kib(64),
        /// Largest head of a request.
        pub header_bytes_max: ByteSize = ByteSize::from_kib(16),
        /// Longest request, event streams aside.
        pub request_timeout: Timespan = Timespan::from_secs(10),
        /// Longest wait for the head of a request.
        pub header_timeout: Timespan = Timespan::from_secs(5),
        /// Connections at a time; health has places of its own.
        pub connections_max: u32 = 512,
        /// Requests at a time.
        pub requests_max: u32 = 128,
        /// Window queries at a time.
        pub queries_max: u32 = 16,
        /// Event streams at a time.
        pub events_max: u32 = 32,
        /// Windows in one answer.
        pub query_windows_max: u32 = 10_000,
        /// Host names under which requests are answered; empty: any.
        pub allowed_hosts: Vec<String> = Vec::new(),
        /// Serve the status page.
        pub page: bool = true,
    }
}

/// Who may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Everyone.
    Open,
    /// Whoever has a token.
    Token,
}

/// Who may change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteAccess {
    /// Whoever has a token of enough rights.
    Token,
    /// Whoever has a certificate of enough rights.
    Certificate,
    /// Either of them.
    Either,
}

/// One of `auth.certificates`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// Subject of the certificate.
    pub name: String,
    /// `read`, `operate` or `admin`.
    pub role: String,
}

section! {
    /// `[auth]`, **R**: who may do what over HTTP.
    pub struct AuthSection {
        /// `open` or `token`.
        pub read: Access = Access::Open,
        /// `open` or `token`.
        pub metrics: Access = Access::Open,
        /// `token`, `certificate` or `either`; there is no `open`.
        pub write: WriteAccess = WriteAccess::Token,
        /// File with lines `name role token`; empty: none.
        pub tokens_file: PathBuf = PathBuf::new(),
        /// Certificates with their roles.
        pub certificates: Vec<Certificate> = Vec::new(),
        /// Failed logins per second and address; beyond it 429.
        pub failures_per_s_max: u32 = 10,
    }
}

section! {
    /// `[tls]`, **R**: files with certificates and keys; empty: none.
    pub struct TlsSection {
        /// Certificate of the HTTP server.
        pub http_cert: PathBuf = PathBuf::new(),
        /// Its key.
        pub http_key: PathBuf = PathBuf::new(),
        /// Authority of the certificates of HTTP clients.
        pub http_client_ca: PathBuf = PathBuf::new(),
        /// Certificate towards peers; it names the slot.
        pub peer_cert: PathBuf = PathBuf::new(),
        /// Its key.
        pub peer_key: PathBuf = PathBuf::new(),
        /// Authority of the peers' certificates.
        pub peer_ca: PathBuf = PathBuf::new(),
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

section! {
    /// `[log]`: logging.
    pub struct LogSection {
        /// **R** `error`, `warn`, `info`, `debug`, `trace`, or a list such as `info,rdkafka=warn`.
        pub level: String = "info".to_owned(),
        /// `json` or `text`.
        pub format: LogFormat = LogFormat::Json,
    }
}

section! {
    /// `[metrics]`: metrics.
    pub struct MetricsSection {
        /// One series a partition; false: maximum or sum over a node's partitions.
        pub per_partition: bool = true,
    }
}

section! {
    /// `[traces]`: failovers as OpenTelemetry traces.
    pub struct TracesSection {
        /// Where a collector takes OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`; empty: nothing is sent.
        pub endpoint: String = String::new(),
    }
}

section! {
    /// `[drill]`, **C**: drills.
    pub struct DrillSection {
        /// Failpoints may be armed.
        pub enabled: bool = false,
        /// Probe readings may be written to the input topic.
        pub probe: bool = false,
    }
}
