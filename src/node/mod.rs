//! A node: wires replicas, control plane and servers together, and ends them in order.

mod kafka_watch;
mod options;
mod supervisor;
mod traces;

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use hotspare_cluster::{Cluster, NodeReport, Replicas, StartError};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    config::Config,
    failpoints,
    http::{self, App, Health},
    log::{
        Log, LogError,
        kafka::{KafkaLog, KafkaOptions},
    },
    partition::status::Statuses,
};
use kafka_watch::KafkaWatch;
use supervisor::{Parts, Supervisor};

const TICK: Duration = Duration::from_millis(100);
/// So long a node that ends waits at least for its last commits.
const LAST_COMMIT: Duration = Duration::from_secs(1);

/// Why a node ends with an error. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Failpoints that cannot be armed.
    #[error(transparent)]
    Failpoints(#[from] failpoints::BadFailpoint),
    /// The Kafka client cannot be made.
    #[error("{0}. Repair: correct [kafka.properties]")]
    Kafka(#[from] LogError),
    /// The collector's address is none.
    #[error("traces.endpoint: {0}. Repair: write a URL such as http://127.0.0.1:4318/v1/traces")]
    Traces(#[from] opentelemetry_otlp::ExporterBuildError),
    /// A topic is not as exactness needs it.
    #[error("{0}")]
    Topics(String),
    /// The control plane cannot start.
    #[error(transparent)]
    Cluster(#[from] StartError),
    /// An HTTP address cannot be used.
    #[error(transparent)]
    Http(#[from] http::BindError),
    /// The system refuses a signal handler or a thread.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// What the node tells its peers of its replicas.
struct Reporter {
    statuses: Statuses,
    watch: Arc<KafkaWatch>,
    health: Arc<Health>,
    semantics_hash: u64,
    config_hash: u64,
}

impl Replicas for Reporter {
    fn report(&self) -> NodeReport {
        NodeReport {
            partitions_of_input: self.watch.partitions(),
            kafka_ok: self.watch.is_ok(),
            kafka_age_ms: self.watch.age_ms(),
            kafka_heard_ms: self.watch.heard_ms(),
            replicas: self.statuses.reports(),
            stopping: self.health.is_stopping(),
            semantics_hash: self.semantics_hash,
            config_hash: self.config_hash,
        }
    }
}

/// Runs a node until SIGTERM or SIGINT, which hand its roles over first.
///
/// # Errors
/// See [`NodeError`].
pub async fn run(config: Config) -> Result<(), NodeError> {
    if config.drill.enabled
        && let Ok(text) = std::env::var(failpoints::VARIABLE)
    {
        failpoints::arm(&text)?;
    }
    let config = Arc::new(config);
    let (mut term, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let asked_to_stop = async move {
        tokio::select! { _ = term.recv() => {}, _ = interrupt.recv() => {} }
    };
    let listeners = http::bind(&config.http).await?;
    let log: Arc<dyn Log> = Arc::new(KafkaLog::new(KafkaOptions::from_config(&config))?);
    let health = Arc::new(Health::default());
    let parts = begin(&config, log, &health).await?;
    let cluster = parts.cluster.clone();
    let app = App {
        cluster: cluster.clone(),
        statuses: parts.statuses.clone(),
        config: Arc::clone(&config),
        health: Arc::clone(&health),
    };
    let (end_http, http_ended) = watch::channel(false);
    let traces = match config.traces.endpoint.as_str() {
        "" => None,
        endpoint => Some(traces::Traces::new(endpoint, &config.cluster.name, &config.node.slot)?),
    };
    let traces = traces.map(|traces| tokio::spawn(traces.run(cluster.clone(), http_ended.clone())));
    let server = tokio::spawn(http::run(listeners, app, until(http_ended.clone())));
    tokio::spawn(beat(Arc::clone(&health), http_ended));
    health.set_started();
    tracing::info!(slot = config.node.slot, version = env!("CARGO_PKG_VERSION"), "node started");
    let result = work(&config, parts, &health, asked_to_stop).await;
    end_http.send_replace(true);
    if let Some(traces) = traces
        && let Err(error) = traces.await
    {
        tracing::error!(%error, "traces ended badly");
    }
    cluster.shutdown().await;
    if let Err(error) = server.await {
        tracing::error!(%error, "http server ended badly");
    }
    result
}

/// Starts the control plane, with all that it tells of this node.
async fn begin(config: &Config, log: Arc<dyn Log>, health: &Arc<Health>) -> Result<Parts, NodeError> {
    let statuses = Statuses::default();
    let reporter = Reporter {
        statuses: statuses.clone(),
        watch: KafkaWatch::start(Arc::clone(&log), Arc::clone(health), statuses.meters().clone())?,
        health: Arc::clone(health),
        semantics_hash: config.semantics().hash(),
        config_hash: config.cluster_wide_hash(),
    };
    let cluster = Cluster::start(options::cluster(config), Arc::new(reporter)).await?;
    Ok(Parts {
        cluster,
        restore: options::restore(config, &log, &statuses),
        rules: options::active(config),
        log,
        statuses,
        handover_within: config.node.shutdown_timeout.get() / 2,
    })
}

/// Runs a node on these topics, which are not looked at, until `stop` resolves: no servers, no signals, no hand-over. Tells the
/// control plane and the status of the replicas when they have started.
///
/// # Errors
/// The control plane or a thread does not start.
#[cfg(feature = "simulated-system")]
pub async fn run_simulated(
    config: &Config,
    log: Arc<dyn Log>,
    started: impl FnOnce(&Cluster, &Statuses),
    stop: impl Future<Output = ()>,
) -> Result<(), NodeError> {
    let parts = begin(config, log, &Arc::default()).await?;
    started(&parts.cluster, &parts.statuses);
    let cluster = parts.cluster.clone();
    Supervisor::new(parts)?.run(stop).await;
    cluster.shutdown().await;
    Ok(())
}

/// Waits for usable topics, works until it is asked to stop, and hands over.
async fn work(
    config: &Arc<Config>,
    parts: Parts,
    health: &Arc<Health>,
    asked_to_stop: impl Future<Output = ()>,
) -> Result<(), NodeError> {
    tokio::pin!(asked_to_stop);
    let cluster = parts.cluster.clone();
    let mut supervisor = None;
    let (end_work, work_ended) = watch::channel(false);
    if config.node.replicas {
        health.set_topics(Some("the topics were not looked at yet".to_owned()));
        tokio::select! {
            usable = kafka_watch::usable_topics(config, health, parts.statuses.meters()) => usable?,
            () = &mut asked_to_stop => return Ok(()),
        }
        let meters = parts.statuses.meters().clone();
        tokio::spawn(kafka_watch::check_topics(Arc::clone(config), Arc::clone(health), meters, work_ended.clone()));
        let running = Supervisor::new(parts)?;
        supervisor = Some(tokio::spawn(running.run(until(work_ended))));
    }
    asked_to_stop.await;
    tracing::info!("stopping: handing over");
    let begin = Instant::now();
    health.set_stopping();
    let left = cluster.hand_over(config.node.shutdown_timeout.get()).await;
    if !left.actives_left.is_empty() {
        tracing::warn!(partitions = ?left.actives_left, "no other node could take these over");
    }
    end_work.send_replace(true);
    if let Some(supervisor) = supervisor {
        // A commit waits for Kafka as long as that takes, a node that ends does not.
        let rest = config.node.shutdown_timeout.get().saturating_sub(begin.elapsed()).max(LAST_COMMIT);
        match tokio::time::timeout(rest, supervisor).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, "supervisor ended badly"),
            Err(_) => tracing::warn!("kafka does not answer, ending without its word on the last transactions"),
        }
    }
    tokio::time::sleep(config.node.shutdown_linger.get()).await;
    tracing::info!(took_ms = left.took.as_millis(), "stopped");
    Ok(())
}

async fn until(mut flag: watch::Receiver<bool>) {
    // A sender that is gone means the same.
    let _ = flag.wait_for(|set| *set).await;
}

/// The runtime's own sign of life.
async fn beat(health: Arc<Health>, ended: watch::Receiver<bool>) {
    let mut tick = tokio::time::interval(TICK);
    while !*ended.borrow() {
        tick.tick().await;
        health.beat();
    }
}
