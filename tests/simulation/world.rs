//! One seed: the nodes, their Kafka, a storm, and the calm after it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hotspare::config::Config;
use hotspare::log::{Log, model::Kafka};
use hotspare::partition::status::Statuses;
use hotspare_cluster::Cluster;
use hotspare_system::simulation::{
    HostId, Simulation,
    faults::{Dice, Fault, Storm},
    seeds::Course,
};

use crate::{
    checks::Checks,
    input::{self, Input},
    kafka::{self, Weather},
    mistakes::{Mistake, Mistaken},
};

pub const NAMES: [&str; 3] = ["a", "b", "c"];
const FEED_BEGIN: Duration = Duration::from_secs(1);
const STORM_BEGIN: Duration = Duration::from_secs(3);
const STORM_END: Duration = Duration::from_secs(13);
const FEED_END: Duration = Duration::from_millis(13_500);
const FEED_EVERY: Duration = Duration::from_millis(40);
/// After all faults have ended, all is consumed and all replicas are level within this time.
const BACK_WITHIN: Duration = Duration::from_secs(15);
const LOOK_EVERY: u32 = 5;

/// A running node, to look at.
#[derive(Clone)]
pub struct Seen {
    pub cluster: Cluster,
    pub statuses: Statuses,
}

/// The nodes as they are to be looked at; none where no process has started.
pub type Nodes = Vec<Arc<Mutex<Option<Seen>>>>;

pub struct World {
    seed: u64,
    mistake: Option<Mistake>,
    simulation: Simulation,
    folder: tempfile::TempDir,
    configs: Vec<Arc<Config>>,
    kafka: Arc<Mutex<Kafka>>,
    weather: Arc<Mutex<Weather>>,
    begin: Instant,
    input: Input,
    sent: usize,
    fed_at: Duration,
    nodes: Nodes,
    /// What processes told at their end.
    ends: Arc<Mutex<Vec<String>>>,
    checks: Checks,
}

impl World {
    pub fn new(seed: u64, mistake: Option<Mistake>) -> Self {
        mistake.inspect(|mistake| mistake.arm());
        let folder = tempfile::tempdir().expect("a folder");
        let simulation = Simulation::new(seed, &input::ADDRESSES);
        let mut input = Input::new(seed);
        let semantics = input.semantics();
        let configs: Vec<_> =
            NAMES.iter().map(|name| Arc::new(input::config(&NAMES, name, folder.path(), &semantics))).collect();
        let kafka = kafka::broker(&configs[0]);
        let weather = Weather { dice: Dice::new(seed, 3), cut_off: [].into(), stalled: [].into(), trouble_permille: 0 };
        Self {
            seed,
            mistake,
            simulation,
            folder,
            configs,
            kafka: Arc::new(Mutex::new(kafka)),
            weather: Arc::new(Mutex::new(weather)),
            begin: Instant::now(),
            input,
            sent: 0,
            fed_at: FEED_BEGIN,
            nodes: NAMES.iter().map(|_| Arc::default()).collect(),
            ends: Arc::default(),
            checks: Checks::default(),
        }
    }

    pub fn run(mut self) -> Course {
        let hosts: Vec<_> = (0..NAMES.len()).map(HostId).collect();
        hosts.iter().for_each(|host| self.start(*host));
        let storm = Storm { hosts: NAMES.len(), begin: STORM_BEGIN, end: STORM_END, faults: 12, with_kafka: true };
        let mut faults = storm.draw(self.seed).into_iter().peekable();
        while self.simulation.now() < STORM_END && self.checks.failures.is_empty() {
            while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= self.simulation.now()) {
                self.befall(fault);
            }
            self.go_on();
        }
        faults.for_each(|(_, fault)| self.befall(fault));
        for host in hosts {
            self.simulation.set_frozen(host, false);
            if !self.simulation.is_running(host) {
                self.start(host);
            }
        }
        while self.checks.failures.is_empty() {
            self.go_on();
            let kafka = self.kafka.lock().expect("nobody panics with it");
            let is_level =
                self.simulation.now() > FEED_END && self.checks.is_level(&self.nodes, &kafka, &self.configs[0]);
            drop(kafka);
            if is_level {
                break;
            }
            if self.simulation.now() > STORM_END + BACK_WITHIN {
                let missing = self.checks.missing.clone();
                self.checks.failures.push(format!("not level {BACK_WITHIN:?} after the storm: {missing}"));
            }
        }
        self.judge()
    }

    fn judge(mut self) -> Course {
        if self.checks.failures.is_empty() {
            let log = kafka::log_outside(&self.kafka, &self.configs[0]);
            self.checks.verify(&self.configs[0], &log);
            self.checks.history(&self.nodes);
        }
        let failure = (!self.checks.failures.is_empty()).then(|| self.checks.failures.join("; "));
        Course { trace: self.simulation.trace(), failure }
    }

    /// A millisecond.
    fn go_on(&mut self) {
        self.feed();
        self.simulation.step();
        let now = self.simulation.now();
        if u32::try_from(now.as_millis()).expect("a short simulation") % LOOK_EVERY == 0 {
            let kafka = self.kafka.lock().expect("nobody panics with it");
            self.checks.look(&self.nodes, &kafka, &self.configs[0]);
        }
        for (index, name) in NAMES.iter().enumerate() {
            if self.simulation.has_ended(HostId(index)) {
                let why = self.ends.lock().expect("nobody panics with it").join(", ");
                self.checks.failures.push(format!("{name} has ended: {why}"));
            }
        }
    }

    fn feed(&mut self) {
        let now = self.simulation.now();
        if now < self.fed_at || now > FEED_END {
            return;
        }
        self.fed_at = now + FEED_EVERY;
        let mut kafka = self.kafka.lock().expect("nobody panics with it");
        let now_ms = u64::try_from(now.as_millis()).expect("a short simulation");
        kafka.advance_to(kafka::BEGIN_MS + i64::try_from(now_ms).expect("a short simulation"));
        let topic = &self.configs[0].input.topic;
        for _ in 0..3 {
            self.sent += 1;
            let Some((partition, record)) = self.input.next(self.sent) else { continue };
            // What a broker refuses is not in the input.
            let _refused = match self.sent % 7 {
                0 => kafka::append_in_transaction(&mut kafka, topic, partition, record, self.sent.is_multiple_of(2)),
                _ => kafka.append(topic, partition, &[record]).map(drop),
            };
        }
    }

    fn disk(&self, host: HostId) -> PathBuf {
        self.folder.path().join(NAMES[host.0])
    }

    fn start(&mut self, host: HostId) {
        let config = Arc::clone(&self.configs[host.0]);
        let log = self.log(host);
        let (seen, ends) = (Arc::clone(&self.nodes[host.0]), Arc::clone(&self.ends));
        self.simulation.start(host, async move {
            let started = |cluster: &Cluster, statuses: &Statuses| {
                let node = Seen { cluster: cluster.clone(), statuses: statuses.clone() };
                *seen.lock().expect("nobody panics with it") = Some(node);
            };
            let result = hotspare::node::run_simulated(&config, log, started, std::future::pending()).await;
            ends.lock().expect("nobody panics with it").push(format!("{result:?}"));
        });
    }

    fn log(&self, host: HostId) -> Arc<dyn Log> {
        // Each node has a transactional id of its own, so that nobody is fenced.
        let owner = if self.mistake == Some(Mistake::NoFencing) { NAMES[host.0] } else { "plant" };
        let way = |follows| kafka::Way { host, follows, begin: self.begin, weather: Arc::clone(&self.weather) };
        let log: Arc<dyn Log> = Arc::new(kafka::NodeLog::new(owner, way, &self.kafka, &self.configs[host.0]));
        match self.mistake {
            Some(mistake) => Arc::new(Mistaken { log, mistake }),
            None => log,
        }
    }

    fn befall(&mut self, fault: Fault) {
        self.simulation.note(&format!("{fault:?}"));
        tracing::info!(?fault);
        let weather = Arc::clone(&self.weather);
        let mut weather = weather.lock().expect("nobody panics with it");
        match fault {
            Fault::Crash(host, how) => {
                *self.nodes[host.0].lock().expect("nobody panics with it") = None;
                self.simulation.crash(host, how);
            }
            Fault::Start { host, .. } if self.simulation.is_running(host) => {}
            Fault::Start { host, without_disk } => {
                let disk = self.disk(host);
                if without_disk && disk.exists() {
                    std::fs::remove_dir_all(disk).expect("it is ours");
                }
                self.start(host);
            }
            Fault::Frozen(host, frozen) => self.simulation.set_frozen(host, frozen),
            Fault::Cut(cut, is_cut) => self.simulation.set_cut(cut, is_cut),
            Fault::Delay(most) => self.simulation.set_delay_max(most),
            Fault::Clock(host, offset_ms) => self.simulation.set_wall_offset_ms(host, offset_ms),
            Fault::SlowDisk(host, delay) => self.simulation.set_disk_delay(host, delay),
            Fault::KafkaTrouble(permille) => weather.trouble_permille = permille,
            Fault::KafkaSilent(is_silent) => {
                self.kafka.lock().expect("nobody panics with it").set_available(!is_silent);
            }
            Fault::KafkaStall(host, true) => drop(weather.stalled.insert(host)),
            Fault::KafkaStall(host, false) => drop(weather.stalled.remove(&host)),
            Fault::KafkaCut(host, true) => drop(weather.cut_off.insert(host)),
            Fault::KafkaCut(host, false) => drop(weather.cut_off.remove(&host)),
        }
    }
}
