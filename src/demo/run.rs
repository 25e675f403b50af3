//! The run: start, kill, measure, restart, and in the end verify.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    DemoError, Options,
    load::{Load, Plan},
    nodes::Nodes,
    outage::{Victim, choose},
    reader::OutputReader,
    report::{Facts, Kill, Report, Settings, command},
    screen::{Scene, Screen, describe},
    status::{Client, Failover, Partition, Status},
};
use crate::{
    config::{self, Config},
    generate::feed::wall_clock_ms,
    log::kafka::{KafkaLog, KafkaOptions},
    verify,
};

const STEP: Duration = Duration::from_millis(2);
const LOOK_EVERY: Duration = Duration::from_millis(200);
const START_WITHIN: Duration = Duration::from_secs(60);
const HEALTHY_WITHIN: Duration = Duration::from_secs(90);
const OUTPUT_WITHIN: Duration = Duration::from_secs(60);
const HISTORY_WITHIN: Duration = Duration::from_secs(10);
const CONSUMED_WITHIN: Duration = Duration::from_secs(120);
const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(40);
const LOG_LINES: usize = 15;

struct Run<'a> {
    options: &'a Options,
    nodes: Nodes,
    client: Client,
    screen: Screen,
    status: Option<Status>,
    looked_at: Option<Instant>,
    kills: Vec<Kill>,
}

/// Runs the demonstration. Blocks; must be called from a thread that lives until it is over.
///
/// # Errors
/// There is no verdict; see [`DemoError`].
pub fn run(options: &Options) -> Result<Report, DemoError> {
    let (readings, plan) = Load::read(options)?;
    let nodes = Nodes::prepare(options, plan.window())?;
    let mut run = Run {
        options,
        nodes,
        client: Client::new(),
        screen: Screen::new(),
        status: None,
        looked_at: None,
        kills: Vec::new(),
    };
    let devices = plan.copies.saturating_mul(3);
    let config = run.start()?;
    let log = KafkaLog::new(KafkaOptions::from_config(&config)).map_err(|error| DemoError::Kafka(error.to_string()))?;
    let reader = OutputReader::start(&log, options.partitions)?;
    let load = Load::start(options, readings, plan)?;
    run.screen.event(format!("load: {} records a second by about {devices} devices", options.rate));
    run.wait("every partition gives outputs", OUTPUT_WITHIN, |run| {
        run.check_load(&load)?;
        Ok((0..options.partitions).all(|partition| reader.watch(|watch| watch.outputs(partition)) > 0).then_some(()))
    })?;
    run.kill_all(&reader, &load)?;
    let sent = load.acknowledged();
    run.screen.event(format!("ending the load after {sent} records, waiting until all is consumed"));
    let load = load.finish()?;
    let verify = run.verify(&config)?;
    run.screen
        .event(format!("verified: {} lost, {} duplicated, {} wrong", verify.lost, verify.duplicated, verify.wrong));
    drop(reader);
    run.screen.event("SIGTERM to all nodes");
    run.draw();
    let exit_codes = run.nodes.shut_down(SHUT_DOWN_WITHIN);
    let facts = Facts { kills: std::mem::take(&mut run.kills), load, verify, exit_codes };
    let mut report = Report::of(facts, settings(options, plan, devices));
    if options.keep || !report.is_pass() {
        report.kept = run.nodes.keep();
    }
    Ok(report)
}

fn settings(options: &Options, plan: Plan, devices: u32) -> Settings {
    Settings {
        nodes: options.nodes,
        partitions: options.partitions,
        standbys: options.standbys,
        rate: options.rate,
        readings_per_record: 2,
        kill_every_s: options.kill_every.as_secs_f64(),
        seed: options.seed,
        devices,
        event_time_speed: plan.speed,
        window: plan.window().to_owned(),
        command: command(options),
    }
}

impl Run<'_> {
    /// Starts all nodes and waits until they are ready.
    fn start(&mut self) -> Result<Config, DemoError> {
        for node in &mut self.nodes.all {
            node.start()?;
        }
        self.screen.event(format!("started {} nodes of cluster {}", self.options.nodes, self.options.name));
        if self.options.prometheus {
            let url = self.nodes.watch()?.to_owned();
            self.screen.event(format!("prometheus with the shipped rules: {url}/alerts"));
        }
        self.wait_healthy(START_WITHIN)?;
        self.screen.event("all nodes are ready, all partitions have an active and warm standbys");
        let path = self.nodes.all.first().map(|node| node.config.clone());
        config::load(path.as_deref(), std::iter::empty(), &[]).map_err(|errors| DemoError::Other(errors.to_string()))
    }

    /// Standbys that each partition can have.
    fn standbys(&self) -> u32 {
        self.options.standbys.min(self.options.nodes.saturating_sub(1))
    }

    /// Waits until `check` gives something.
    fn wait<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut check: impl FnMut(&mut Self) -> Result<Option<T>, DemoError>,
    ) -> Result<T, DemoError> {
        let begin = Instant::now();
        loop {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err(DemoError::Interrupted);
            }
            if let Some(found) = check(self)? {
                return Ok(found);
            }
            if begin.elapsed() > within {
                let facts = self.facts();
                return Err(DemoError::Stuck { what: what.to_owned(), waited_s: within.as_secs(), facts });
            }
            self.draw();
            std::thread::sleep(STEP);
        }
    }

    fn facts(&mut self) -> String {
        let mut facts = String::new();
        for node in &mut self.nodes.all {
            let process = if node.is_running() { "running" } else { "not running" };
            facts.push_str(&format!("{}: {process}, {}\n", node.slot, self.client.why_not_ready(&node.http)));
        }
        if let Some(status) = &self.status {
            facts.push_str(&format!("leader {:?}, nodes {:?}\n", status.leader, status.nodes));
            for partition in &status.partitions {
                facts.push_str(&format!("{partition:?}\n"));
            }
        }
        facts + &self.nodes.log_tails(LOG_LINES)
    }

    fn draw(&mut self) {
        let options = self.options;
        let title = format!(
            "hotspare demo: {} nodes, {} partitions, {} records/s, kill {} of {}",
            options.nodes,
            options.partitions,
            options.rate,
            self.kills.len(),
            options.kills
        );
        let scene = Scene { title, nodes: &self.nodes, status: self.status.as_ref(), kills: &self.kills };
        self.screen.draw(&scene);
    }

    /// Asks the nodes how they are, now and then; the leader's answer counts, else any.
    fn look(&mut self) -> bool {
        if self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return false;
        }
        let leader = self.status.as_ref().and_then(|status| self.nodes.by_slot(status.leader.as_deref()?));
        let order = leader.into_iter().chain(0..self.nodes.all.len());
        for node in order.filter_map(|number| self.nodes.all.get(number)) {
            if let Some(status) = self.client.status(&node.http) {
                self.status = Some(status);
                break;
            }
        }
        self.looked_at = Some(Instant::now());
        true
    }

    fn wait_healthy(&mut self, within: Duration) -> Result<(), DemoError> {
        self.wait("all nodes are ready, with an active and warm standbys for every partition", within, |run| {
            Ok((run.look() && run.is_healthy()?).then_some(()))
        })
    }

    fn is_healthy(&mut self) -> Result<bool, DemoError> {
        for node in &mut self.nodes.all {
            if !node.is_running() {
                let slot = node.slot.clone();
                let facts = self.nodes.log_tails(LOG_LINES);
                return Err(DemoError::Other(format!("{slot} ended by itself\n{facts}")));
            }
        }
        let standbys = self.standbys();
        let Some(status) = &self.status else { return Ok(false) };
        let is_whole = |partition: &Partition| partition.is_working && partition.warm >= standbys;
        let is_live = |slot: &str| status.nodes.get(slot).is_some_and(|state| state == "live");
        Ok(status.leader.is_some()
            && status.partitions.len() == self.options.partitions as usize
            && status.partitions.iter().all(is_whole)
            && self.nodes.all.iter().all(|node| is_live(&node.slot))
            && self.nodes.all.iter().all(|node| self.client.is_ready(&node.http)))
    }

    fn check_load(&self, load: &Load) -> Result<(), DemoError> {
        if load.is_over() { Err(DemoError::Other("the load ended before its time".to_owned())) } else { Ok(()) }
    }

    fn kill_all(&mut self, reader: &OutputReader, load: &Load) -> Result<(), DemoError> {
        let mut random = ChaCha8Rng::seed_from_u64(self.options.seed);
        let mut killed_at = Instant::now();
        for turn in 0..self.options.kills as usize {
            let pause = self.options.kill_every.saturating_sub(killed_at.elapsed());
            let until = Instant::now() + pause;
            self.wait("the next kill is due", pause + OUTPUT_WITHIN, |run| {
                run.look();
                run.check_load(load)?;
                Ok((Instant::now() >= until).then_some(()))
            })?;
            // A kill within a commit interval of the last look, so that the view of who does what is fresh.
            self.looked_at = None;
            self.wait_healthy(HEALTHY_WITHIN)?;
            killed_at = Instant::now();
            self.kill(turn, random.random(), reader)?;
        }
        Ok(())
    }

    fn victim(&self, turn: usize, chance: u64) -> Option<Victim> {
        let status = self.status.as_ref()?;
        let leader = status.leader.as_deref().and_then(|slot| self.nodes.by_slot(slot));
        let actives_of = |slot: &str| {
            let of = status.partitions.iter().filter(|partition| partition.active.as_deref() == Some(slot));
            of.map(|partition| partition.partition).collect::<Vec<_>>()
        };
        let actives: Vec<Vec<u32>> = self.nodes.all.iter().map(|node| actives_of(&node.slot)).collect();
        choose(turn, leader, &actives, chance)
    }

    /// Kills one node, measures, and starts it again.
    fn kill(&mut self, turn: usize, chance: u64, reader: &OutputReader) -> Result<(), DemoError> {
        let victim = self.victim(turn, chance).ok_or_else(|| DemoError::Other("there is nobody to kill".to_owned()))?;
        let status = self.status.clone().unwrap_or_default();
        let before: BTreeMap<u32, u64> =
            status.partitions.iter().map(|partition| (partition.partition, partition.epoch)).collect();
        let Some(node) = self.nodes.all.get(victim.node) else {
            return Err(DemoError::Other("the victim is no node".to_owned()));
        };
        let slot = node.slot.clone();
        let killed_at = reader.watch(|watch| {
            let now = Instant::now();
            watch.kill(now, wall_clock_ms());
            node.kill();
            now
        });
        self.screen.event(format!("SIGKILL to {slot} ({}), active of {:?}", victim.role.name(), victim.partitions));
        let outages = self.wait("every partition of the killed node gives outputs again", OUTPUT_WITHIN, |_| {
            let outage = |partition: &u32| Some((*partition, reader.watch(|watch| watch.outage(*partition))?));
            Ok(victim.partitions.iter().map(outage).collect::<Option<BTreeMap<u32, Duration>>>())
        })?;
        let gap_max = reader.watch(|watch| watch.gap_max(Instant::now()));
        let failovers = self.failovers(&victim, &before)?;
        if let Some(node) = self.nodes.all.get_mut(victim.node) {
            node.end();
            node.start()?;
        }
        self.status = None;
        self.looked_at = None;
        self.wait_healthy(HEALTHY_WITHIN)?;
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        let kill = Kill {
            slot,
            role: victim.role,
            partitions: victim.partitions,
            outage_ms: outages.values().max().map(|outage| ms(*outage)),
            outages_ms: outages.into_iter().map(|(partition, outage)| (partition, ms(outage))).collect(),
            gap_max_ms: ms(gap_max),
            healthy_ms: ms(killed_at.elapsed()),
            failovers,
        };
        self.screen.event(describe(&kill));
        self.kills.push(kill);
        Ok(())
    }

    /// The failovers that the kill caused, from the history of a node that lives.
    fn failovers(&mut self, victim: &Victim, before: &BTreeMap<u32, u64>) -> Result<Vec<Failover>, DemoError> {
        if victim.partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut asked_at: Option<Instant> = None;
        self.wait("the history tells of the failovers", HISTORY_WITHIN, |run| {
            if asked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return Ok(None);
            }
            asked_at = Some(Instant::now());
            let others = run.nodes.all.iter().enumerate().filter(|(number, _)| *number != victim.node);
            let Some(all) = others.map(|(_, node)| run.client.failovers(&node.http)).find(|all| !all.is_empty()) else {
                return Ok(None);
            };
            let is_new = |failover: &Failover| {
                victim.partitions.contains(&failover.partition)
                    && before.get(&failover.partition).is_none_or(|epoch| failover.epoch > *epoch)
            };
            let found: Vec<Failover> = all.into_iter().filter(is_new).collect();
            let has_ended = |partition: &u32| {
                found.iter().any(|failover| failover.partition == *partition && failover.result == "success")
            };
            Ok(victim.partitions.iter().all(has_ended).then_some(found))
        })
    }

    /// Waits until all input is consumed, and verifies.
    fn verify(&mut self, config: &Config) -> Result<verify::Report, DemoError> {
        let mut calm = 0;
        self.wait("all input is consumed", CONSUMED_WITHIN, |run| {
            if run.look() {
                let is_done = |partition: &Partition| partition.is_working && partition.input_lag_records == Some(0);
                let all = run.status.as_ref().map_or(&[][..], |status| &status.partitions);
                calm = if !all.is_empty() && all.iter().all(is_done) { calm + 1 } else { 0 };
            }
            Ok((calm >= 5).then_some(()))
        })?;
        let options = verify::Options { stop: Arc::clone(&self.options.stop), ..verify::Options::default() };
        let begin = Instant::now();
        loop {
            let report = verify::run(config, &options)?;
            // What the nodes tell of their input may be a second old.
            let is_whole = report.partitions.iter().all(|part| part.next_input_offset >= part.input_end);
            if is_whole || begin.elapsed() > CONSUMED_WITHIN {
                return Ok(report);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
