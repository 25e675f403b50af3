//! The HTTP server: health, status, history, metrics. It answers from this node's memory, so it needs neither a quorum
//! nor Kafka, and it decides nothing.

mod actions;
mod auth;
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
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use hotspare_cluster::{ActError, ActRequest, Acted, Cluster, HistoryEvent, Operation, PartitionId, View};
use tokio::{net::TcpListener, sync::watch};

pub use actions::ActBody;
pub use health::{Check, Facts, Health, Probe, checks};
pub use readiness::ReadyLimits;
pub use rules::Rules;
pub use status::{Snapshot, status};

use crate::{
    config::{Config, sections::HttpSection},
    metrics::Meters,
    partition::{
        devices::Split,
        status::{ReplicaStatus, Statuses},
    },
};

/// How often health looks at cluster and replicas when nobody asks.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);
/// Longest wait for open requests at the end.
const DRAIN_TIME: Duration = Duration::from_secs(2);

/// An act that is being asked for.
pub type Acting<'a> = Pin<Box<dyn Future<Output = Result<Acted, ActError>> + Send + 'a>>;

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
    /// What threads have counted.
    fn meters(&self) -> &Meters;
    /// Devices on more than one partition of this node's replicas, and the first of them by name.
    fn devices_split(&self) -> (usize, Vec<Split>);
    /// Operators' acts that are kept, oldest first.
    fn operations(&self) -> Vec<Operation>;
    /// Asks the Raft leader for an act.
    fn act(&self, request: ActRequest) -> Acting<'_>;
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

    fn meters(&self) -> &Meters {
        self.statuses.meters()
    }

    fn devices_split(&self) -> (usize, Vec<Split>) {
        self.statuses.devices().split()
    }

    fn operations(&self) -> Vec<Operation> {
        self.cluster.operations()
    }

    fn act(&self, request: ActRequest) -> Acting<'_> {
        Box::pin(self.cluster.act(request))
    }
}

/// Shared by all requests.
struct Shared {
    source: Arc<dyn Source>,
    rules: Rules,
    auth: auth::Auth,
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

/// An address that cannot be listened at.
#[derive(Debug, thiserror::Error)]
#[error("{key} \"{address}\": {error}. Repair: end the process that uses it, or set another address")]
pub struct BindError {
    /// The setting.
    pub key: &'static str,
    /// The address.
    pub address: String,
    /// What the system says: in use, no permission, no such address.
    pub error: io::Error,
}

/// Bound addresses.
#[derive(Debug)]
pub struct Listeners {
    /// For everything.
    pub all: TcpListener,
    /// For metrics and health alone, where they have an address of their own.
    pub watched: Option<TcpListener>,
}

/// Binds the addresses, so that an error shows before anything else is started.
///
/// # Errors
/// One of them cannot be used.
pub async fn bind(http: &HttpSection) -> Result<Listeners, BindError> {
    let bind = async |key, address: &String| {
        let error = |error| BindError { key, address: address.clone(), error };
        TcpListener::bind(address).await.map_err(error)
    };
    let all = bind("http.listen", &http.listen).await?;
    let watched = match http.metrics_listen == http.listen {
        true => None,
        false => Some(bind("http.metrics_listen", &http.metrics_listen).await?),
    };
    Ok(Listeners { all, watched })
}

/// Serves everything until `shutdown` ends, then waits a moment for open requests.
pub async fn run(listeners: Listeners, app: App, shutdown: impl Future<Output = ()> + Send + 'static) {
    let rules = Rules::new(&app.config);
    run_source(listeners, Arc::new(app), rules, shutdown).await;
}

/// Serves any source.
pub async fn run_source(
    listeners: Listeners,
    source: Arc<dyn Source>,
    rules: Rules,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let bounded = connection::Bounded::new(listeners.all, &rules);
    // Scrapes and probes have places of their own there.
    let watched = listeners.watched.map(|listener| connection::Bounded::new(listener, &rules));
    let requests = tokio::sync::Semaphore::new(rules.requests_max);
    let auth = auth::Auth::new(&rules.tokens_file, rules.failures_per_s_max);
    let shared = Arc::new(Shared { source, rules, auth, requests });
    let (ending, mut ended) = watch::channel(false);
    let mut watched_ended = ending.subscribe();
    let watched_router = routes::watched_router(&shared).into_make_service_with_connect_info::<connection::Caller>();
    let router = routes::router(&shared).into_make_service_with_connect_info::<connection::Caller>();
    let server = axum::serve(bounded, router).with_graceful_shutdown(async move {
        shutdown.await;
        ending.send_replace(true);
    });
    let watched = watched.map(|bounded| {
        axum::serve(bounded, watched_router).with_graceful_shutdown(async move {
            // The sender is only dropped when the server has ended.
            watched_ended.wait_for(|ending| *ending).await.ok();
        })
    });
    let servers = async {
        match watched {
            None => server.into_future().await,
            Some(watched) => tokio::try_join!(server.into_future(), watched.into_future()).map(|_| ()),
        }
    };
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
        result = servers => {
            if let Err(error) = result {
                tracing::error!(%error, "http server ended badly");
            }
        }
        () = observer => {}
        () = drained => {}
    }
}
