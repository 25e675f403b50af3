//! Whether Kafka answers, how many partitions the input has, and whether the topics are as exactness needs them.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use hotspare_system::thread;
use tokio::sync::watch;

use super::NodeError;
use crate::{
    config::Config,
    http::Health,
    log::{Log, Topic},
    metrics::{
        Meters,
        catalogue::{KAFKA_ERRORS, TOPIC_SETTING_WRONG},
    },
    topics::{self, Severity, TopicProblem},
};

const ASK_EVERY: Duration = Duration::from_millis(250);
const OK_WITHIN: Duration = Duration::from_secs(3);
/// A longer time without an answer is a gap.
const GAP: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Asks Kafka four times a second, so that a node that is cut off from it is known soon, on a thread of its own because the question blocks.
pub(super) struct KafkaWatch {
    partitions: AtomicU32,
    answered: Mutex<Answered>,
}

/// When Kafka answered.
#[derive(Clone, Copy)]
struct Answered {
    last: Instant,
    /// The first answer after the last gap.
    first: Instant,
}

impl KafkaWatch {
    pub(super) fn start(log: Arc<dyn Log>, health: Arc<Health>, meters: Meters) -> std::io::Result<Arc<Self>> {
        let long_ago = Instant::now() - OK_WITHIN;
        let answered = Mutex::new(Answered { last: long_ago, first: long_ago });
        let watch = Arc::new(Self { partitions: AtomicU32::new(0), answered });
        let this = Arc::downgrade(&watch);
        thread::Builder::new().name("kafka-watch".to_owned()).spawn(move || ask(&this, &log, &health, &meters))?;
        Ok(watch)
    }

    pub(super) fn partitions(&self) -> Option<u32> {
        Some(self.partitions.load(Ordering::Relaxed)).filter(|count| *count > 0)
    }

    fn answered(&self) -> MutexGuard<'_, Answered> {
        self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_answer(&self) {
        let now = Instant::now();
        let mut answered = self.answered();
        if now.duration_since(answered.last) > GAP {
            answered.first = now;
        }
        answered.last = now;
    }

    fn age(&self) -> Duration {
        self.answered().last.elapsed()
    }

    /// Milliseconds from the first answer after the last gap to the last answer.
    pub(super) fn heard_ms(&self) -> u64 {
        let Answered { last, first } = *self.answered();
        last.duration_since(first).as_millis().try_into().unwrap_or(u64::MAX)
    }

    pub(super) fn is_ok(&self) -> bool {
        self.age() < OK_WITHIN
    }

    pub(super) fn age_ms(&self) -> u64 {
        self.age().as_millis().try_into().unwrap_or(u64::MAX)
    }
}

fn ask(watch: &Weak<KafkaWatch>, log: &Arc<dyn Log>, health: &Health, meters: &Meters) {
    let mut silent = false;
    while let Some(watch) = watch.upgrade() {
        match log.partitions(Topic::Input) {
            Ok(count) => {
                watch.note_answer();
                watch.partitions.store(count.unwrap_or(0), Ordering::Relaxed);
                health.kafka_answered();
                if std::mem::take(&mut silent) {
                    tracing::info!("kafka answers again");
                }
            }
            Err(error) => {
                meters.count(&KAFKA_ERRORS, &["queries", error.class()]);
                if !std::mem::replace(&mut silent, true) {
                    tracing::warn!(%error, "kafka does not answer, trying on");
                }
            }
        }
        drop(watch);
        thread::sleep(ASK_EVERY);
    }
}

/// Waits until the topics can be used, and creates ours where that is allowed.
///
/// # Errors
/// A topic has settings with which the result would be wrong; waiting does not help.
pub(super) async fn usable_topics(config: &Config, health: &Health, meters: &Meters) -> Result<(), NodeError> {
    let mut said = String::new();
    loop {
        let ensured = topics::ensure(config, config.topics.create).await;
        if let Ok(ready) = &ensured {
            show_topics(config, &ready.problems, meters);
        }
        let problem = match ensured {
            Ok(ready) if ready.is_usable() => {
                health.set_topics(None);
                for problem in &ready.problems {
                    tracing::warn!(%problem, "topic setting");
                }
                return Ok(());
            }
            Ok(ready) => {
                let texts: Vec<_> = ready.problems.iter().map(ToString::to_string).collect();
                let text = texts.join("; ");
                // A missing topic may come, and another node may be creating ours just now; a wrong setting stays.
                if ready
                    .problems
                    .iter()
                    .any(|problem| problem.severity == Severity::Fatal && problem.setting != "exists")
                {
                    return Err(NodeError::Topics(text));
                }
                text
            }
            Err(error) => error.to_string(),
        };
        if said != problem {
            tracing::warn!(problem, "waiting for usable topics");
            health.set_topics(Some(problem.clone()));
            said = problem;
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// Looks at the topics again and again while the node works.
pub(super) async fn check_topics(
    config: Arc<Config>,
    health: Arc<Health>,
    meters: Meters,
    mut ended: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = ended.wait_for(|set| *set) => return,
            () = tokio::time::sleep(config.topics.check_interval.get()) => {}
        }
        let ensured = topics::ensure(&config, false).await;
        if let Ok(ready) = &ensured {
            show_topics(&config, &ready.problems, &meters);
        }
        match ensured {
            Ok(ready) if ready.is_usable() => health.set_topics(None),
            Ok(ready) => {
                let texts: Vec<_> = ready.problems.iter().map(ToString::to_string).collect();
                tracing::error!(problems = texts.join("; "), "a topic was changed");
                health.set_topics(Some(texts.join("; ")));
            }
            // Whether Kafka answers is watched elsewhere.
            Err(error) => tracing::debug!(%error, "topics not checked"),
        }
    }
}

/// Sets the gauge of each setting that is checked: 1 where it is wrong.
fn show_topics(config: &Config, problems: &[TopicProblem], meters: &Meters) {
    for wanted in topics::wanted(config, None) {
        let settings = wanted.settings.iter().map(|setting| setting.name);
        for setting in settings.chain(["exists", "partitions", "replication.factor", "message.timestamp.type"]) {
            meters.set(&TOPIC_SETTING_WRONG, &[&wanted.name, setting], 0.0);
        }
    }
    for problem in problems {
        meters.set(&TOPIC_SETTING_WRONG, &[&problem.topic, problem.setting], 1.0);
    }
}
