//! What the configuration says about the server, as plain numbers.

use std::{path::PathBuf, time::Duration};

use super::readiness::ReadyLimits;
use crate::config::{Config, sections::Access};

/// Bounds and settings of the server.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Name of the cluster, for metrics.
    pub cluster: String,
    /// Name of this node, for metrics.
    pub slot: String,
    /// When replicas are near enough for readiness.
    pub ready: ReadyLimits,
    /// Largest body of a request.
    pub body_bytes_max: u64,
    /// Largest head of a request.
    pub header_bytes_max: u64,
    /// Longest request.
    pub request_timeout: Duration,
    /// Longest wait for the head of a request.
    pub header_timeout: Duration,
    /// Connections at a time.
    pub connections_max: usize,
    /// Requests at a time; health is not counted.
    pub requests_max: usize,
    /// Host names under which requests are answered, without port; empty: any.
    pub allowed_hosts: Vec<String>,
    /// File with the tokens; empty: none.
    pub tokens_file: PathBuf,
    /// Wrong tokens a second from one address.
    pub failures_per_s_max: u32,
    /// Whether everyone may read, not only who has a token.
    pub read_open: bool,
    /// Whether everyone may read metrics.
    pub metrics_open: bool,
    /// One series a partition, or one for all of a node.
    pub per_partition: bool,
    /// What metrics show of the configuration.
    pub shown: Shown,
}

/// What metrics show of the configuration.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Failure zone of this node.
    pub zone: String,
    /// Whether this node never takes over.
    pub nofailover: bool,
    /// Standbys that each partition is to have.
    pub standbys: u32,
    /// Hash of the settings that must be the same on all nodes.
    pub config_hash: u64,
    /// Hash of the rules of aggregation.
    pub semantics_hash: u64,
}

impl Rules {
    /// As configured.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let (http, replication) = (&config.http, &config.replication);
        let count = |count: u32| usize::try_from(count).unwrap_or(usize::MAX).max(1);
        Self {
            cluster: config.cluster.name.clone(),
            slot: config.node.slot.clone(),
            ready: ReadyLimits {
                lag: replication.ready_lag.get(),
                lag_records: replication.ready_lag_records,
                unready_after: replication.unready_after.get(),
            },
            body_bytes_max: http.body_bytes_max.get(),
            header_bytes_max: http.header_bytes_max.get(),
            request_timeout: http.request_timeout.get(),
            header_timeout: http.header_timeout.get(),
            connections_max: count(http.connections_max).min(tokio::sync::Semaphore::MAX_PERMITS),
            requests_max: count(http.requests_max).min(tokio::sync::Semaphore::MAX_PERMITS),
            allowed_hosts: http.allowed_hosts.clone(),
            tokens_file: config.auth.tokens_file.clone(),
            failures_per_s_max: config.auth.failures_per_s_max,
            read_open: config.auth.read == Access::Open,
            metrics_open: config.auth.metrics == Access::Open,
            per_partition: config.metrics.per_partition,
            shown: Shown {
                zone: config.node.zone.clone(),
                nofailover: config.node.nofailover,
                standbys: replication.standbys,
                config_hash: config.cluster_wide_hash(),
                semantics_hash: config.semantics().hash(),
            },
        }
    }
}
