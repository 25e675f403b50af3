//! The HTTP server: health, status, history, metrics. It answers from this node's memory, so it needs neither a quorum
//! nor Kafka, and it decides nothing.

mod connection;
pub mod document;
mod guard;
mod health;
mod metrics;
mod probes;
mod problem;
mod query;
mod readiness;
mod routes;
mod rules;
mod status;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    future::Future,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use hotspare_cluster::{Cluster, HistoryEvent, PartitionId, View};
use tokio::{net::TcpListener, sync::watch};

pub use health::{Check, Facts, Health, Probe, checks};
pub use readiness::ReadyLimits;
pub use rules::Rules;
pub use status::{Snapshot, status};

use crate::{
    config::Config,
    partition::status::{ReplicaStatus, Statuses},
};

/// How often health looks at cluster and replicas when nobody asks.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for open requests at the end.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// What the server shows.
pub trait Source: Send + Sync + 'static {
    /// The cluster as this node sees it.
    fn view(&self) -> View;
    /// The replicated history, newest last.
    fn history(&self) -> Vec<HistoryEvent>;
    /// This node's replicas.
    fn replicas(&self) -> BTreeMap<PartitionId, ReplicaStatus>;
    /// Facts about this process.
    fn health(&self) -> &Health;
}

/// A node's parts, as the server shows them.
#[derive(Clone)]
pub struct App {
    /// The control plane.
    pub cluster: Cluster,
    /// What the replicas are doing.
    pub statuses: Statuses,
    /// The configuration.
    pub config: Arc<Config>,
    /// Facts about this process.
    pub health: Arc<Health>,
}

impl Source for App {
    fn view(&self) -> View {
        self.cluster.view()
    }

    fn history(&self) -> Vec<HistoryEvent> {
        self.cluster.history()
    }

    fn replicas(&self) -> BTreeMap<PartitionId, ReplicaStatus> {
        self.statuses.all()
    }

    fn health(&self) -> &Health {
        &self.health
    }
}

/// Shared by all requests.
struct Shared {
    source: Arc<dyn Source>,
    rules: Rules,
    requests: tokio::sync::Semaphore,
}

impl Shared {
    /// Takes in what is seen now, so that readiness knows for how long something has been so.
    fn observe(&self) -> (View, BTreeMap<PartitionId, ReplicaStatus>, Instant) {
        let (view, replicas, now) = (self.source.view(), self.source.replicas(), Instant::now());
        self.source.health().observe(&view, &replicas, &self.rules.ready, now);
        (view, replicas, now)
    }
}

/// Binds the address, so that an error shows before anything else is started.
///
/// # Errors
/// What the system says: in use, no permission, no such address.
pub async fn bind(listen: &str) -> io::Result<TcpListener> {
    TcpListener::bind(listen).await
}

/// Serves everything until `shutdown` ends, then waits a moment for open requests.
pub async fn run(listener: TcpListener, app: App, shutdown: impl Future<Output = ()> + Send + 'static) {
    let rules = Rules::new(&app.config);
    run_source(listener, Arc::new(app), rules, shutdown).await;
}

/// Binds and serves; [`bind`] and [`run`] in one.
///
/// # Errors
/// See [`bind`].
pub async fn serve(listen: &str, app: App, shutdown: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let listener = bind(listen).await?;
    run(listener, app, shutdown).await;
    Ok(())
}

/// Serves any source.
pub async fn run_source(
    listener: TcpListener,
    source: Arc<dyn Source>,
    rules: Rules,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let bounded = connection::Bounded::new(listener, &rules);
    let requests = tokio::sync::Semaphore::new(rules.requests_max);
    let shared = Arc::new(Shared { source, rules, requests });
    let (ending, mut ended) = watch::channel(false);
    let server = axum::serve(bounded, routes::router(&shared)).with_graceful_shutdown(async move {
        shutdown.await;
        ending.send_replace(true);
    });
    let observer = async {
        loop {
            shared.observe();
            tokio::time::sleep(OBSERVE_EVERY).await;
        }
    };
    let drained = async {
        // The sender is only dropped when the server has ended.
        ended.wait_for(|ending| *ending).await.ok();
        tokio::time::sleep(DRAIN_TIME).await;
    };
    tokio::select! {
        result = server.into_future() => {
            if let Err(error) = result {
                tracing::error!(%error, "http server ended badly");
            }
        }
        () = observer => {}
        () = drained => {}
    }
}
