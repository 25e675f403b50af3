//! What a demonstration found, for machines and for people.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

use serde::Serialize;

use super::{
    Options,
    outage::{Role, Summary},
    status::Failover,
};
use crate::{generate::feed::Fed, verify};

/// One kill.
#[derive(Clone, Debug, Serialize)]
pub struct Kill {
    /// The slot that was killed.
    pub slot: String,
    /// What it was.
    pub role: Role,
    /// Partitions whose active it was.
    pub partitions: Vec<u32>,
    /// By partition: from the SIGKILL to the arrival of the first output written after it.
    pub outages_ms: BTreeMap<u32, f64>,
    /// The longest of them; none if it was the active of no partition.
    pub outage_ms: Option<f64>,
    /// Longest time in which any partition gave no output, until all partitions were worked on again.
    pub gap_max_ms: f64,
    /// Until every standby was warm again, in milliseconds after the kill.
    pub healthy_ms: f64,
    /// The failovers, as the cluster's history tells them.
    pub failovers: Vec<Failover>,
}

/// How it was done.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Number of nodes.
    pub nodes: u32,
    /// Number of partitions.
    pub partitions: u32,
    /// Standbys of each.
    pub standbys: u32,
    /// Records a second.
    pub rate: f64,
    /// Readings that are counted of each record.
    pub readings_per_record: u32,
    /// Shortest time between two kills, in seconds.
    pub kill_every_s: f64,
    /// From which the choice of victims comes.
    pub seed: u64,
    /// Devices.
    pub devices: u32,
    /// How many times as fast as the clock event time goes.
    pub event_time_speed: f64,
    /// Size of the windows.
    pub window: String,
    /// What repeats it.
    pub command: String,
}

/// Where it was done.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// Operating system and kernel.
    pub os: String,
    /// Architecture.
    pub arch: &'static str,
    /// Version of hotspare.
    pub hotspare: &'static str,
    /// Whether it was built with debug assertions, which makes it slow.
    pub debug_build: bool,
}

impl Machine {
    pub(super) fn this() -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            os: format!("{} {}", std::env::consts::OS, kernel.trim()).trim_end().to_owned(),
            arch: std::env::consts::ARCH,
            hotspare: env!("CARGO_PKG_VERSION"),
            debug_build: cfg!(debug_assertions),
        }
    }
}

/// What a demonstration found.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `pass` or `fail`.
    pub verdict: &'static str,
    /// Why not, one sentence each.
    pub failures: Vec<String>,
    /// Outputs, dead letters and entries that are missing.
    pub lost: u64,
    /// Those that are there more than once.
    pub duplicated: u64,
    /// Those that differ.
    pub wrong: u64,
    /// One for each kill, as the reader of the output saw it; none if no partition lost its active.
    pub outages_ms: Vec<Option<f64>>,
    /// Role of each that was killed.
    pub killed: Vec<Role>,
    /// Phases of each failover.
    pub phases_ms: Vec<BTreeMap<String, f64>>,
    /// Outages by role, and `all`.
    pub outages: BTreeMap<&'static str, Summary>,
    /// Median of each phase, and of `total`.
    pub phases_median_ms: BTreeMap<String, f64>,
    /// Each kill with everything about it.
    pub kills: Vec<Kill>,
    /// The load.
    pub load: Fed,
    /// What verification found.
    pub verify: verify::Report,
    /// Exit codes of the nodes after SIGTERM, in the order of slots; none if one had to be killed.
    pub exit_codes: Vec<Option<i32>>,
    /// Folder with files and logs, if it is kept.
    pub kept: Option<PathBuf>,
    /// How it was done.
    pub settings: Settings,
    /// Where it was done.
    pub machine: Machine,
}

/// What is found out one after the other.
pub(super) struct Facts {
    pub(super) kills: Vec<Kill>,
    pub(super) load: Fed,
    pub(super) verify: verify::Report,
    pub(super) exit_codes: Vec<Option<i32>>,
}

impl Report {
    pub(super) fn of(facts: Facts, settings: Settings) -> Self {
        let Facts { kills, load, verify, exit_codes } = facts;
        let failures = failures(&load, &verify, &exit_codes);
        let failovers = || kills.iter().flat_map(|kill| &kill.failovers);
        Self {
            verdict: if failures.is_empty() { "pass" } else { "fail" },
            failures,
            lost: verify.lost,
            duplicated: verify.duplicated,
            wrong: verify.wrong,
            outages_ms: kills.iter().map(|kill| kill.outage_ms).collect(),
            killed: kills.iter().map(|kill| kill.role).collect(),
            phases_ms: failovers().map(|failover| failover.phases_ms.clone()).collect(),
            outages: outages(&kills),
            phases_median_ms: medians(failovers()),
            kills,
            load,
            verify,
            exit_codes,
            kept: None,
            settings,
            machine: Machine::this(),
        }
    }

    /// Whether nothing failed.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        self.failures.is_empty()
    }

    /// Shows it to people.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        self.show_outages(out)?;
        let phases = ["detect", "held", "elect", "decide", "fence", "catch_up", "first_output", "total"];
        let shown =
            phases.iter().filter_map(|phase| Some(format!("{phase} {:.1}", self.phases_median_ms.get(*phase)?)));
        writeln!(out, "median of each phase in ms: {}", shown.collect::<Vec<_>>().join(", "))?;
        let Fed { acknowledged, elapsed_s, .. } = self.load;
        writeln!(
            out,
            "load: {acknowledged} records in {elapsed_s:.1} s, {:.0} a second",
            acknowledged as f64 / elapsed_s.max(0.001)
        )?;
        crate::cli::verify::show(&self.verify, out)?;
        for failure in &self.failures {
            writeln!(out, "FAILED: {failure}")?;
        }
        if let Some(kept) = &self.kept {
            writeln!(out, "files and logs are kept in {}", kept.display())?;
        }
        writeln!(out, "again: {}", self.settings.command)
    }

    fn show_outages(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\noutage in ms, from the SIGKILL to the successor's first output at a read_committed reader")?;
        writeln!(out, "  {:<8} {:>4} {:>8} {:>8} {:>8} {:>8}", "KILLED", "N", "MIN", "MEDIAN", "P90", "MAX")?;
        for (role, summary) in &self.outages {
            let Summary { count, min, median, p90, max } = summary;
            writeln!(out, "  {role:<8} {count:>4} {min:>8.1} {median:>8.1} {p90:>8.1} {max:>8.1}")?;
        }
        let idle = self.outages_ms.iter().filter(|outage| outage.is_none()).count();
        if idle > 0 {
            writeln!(out, "  {idle} killed without an active: nothing had to be taken over")?;
        }
        Ok(())
    }
}

fn failures(load: &Fed, verify: &verify::Report, exit_codes: &[Option<i32>]) -> Vec<String> {
    let mut failures = Vec::new();
    if !verify.is_clean() {
        let verify::Report { lost, duplicated, wrong, .. } = verify;
        failures.push(format!("{lost} lost, {duplicated} duplicated, {wrong} wrong"));
    }
    if load.failed > 0 {
        failures.push(format!("{} records of the load were not acknowledged", load.failed));
    }
    let left: i64 = verify.partitions.iter().map(|part| part.input_end.0 - part.next_input_offset.0).sum();
    if left > 0 {
        failures.push(format!("{left} records of the input were not consumed"));
    }
    let input: i64 = verify.partitions.iter().map(|part| part.input_end.0).sum();
    if u64::try_from(input).unwrap_or(0) < load.acknowledged {
        failures
            .push(format!("the input holds {input} records, fewer than the {} acknowledged ones", load.acknowledged));
    }
    for (number, code) in exit_codes.iter().enumerate().filter(|(_, code)| **code != Some(0)) {
        let end = code.map_or("had to be killed".to_owned(), |code| format!("ended with exit code {code}"));
        failures.push(format!("hotspare-{number} {end} after SIGTERM"));
    }
    failures
}

fn outages(kills: &[Kill]) -> BTreeMap<&'static str, Summary> {
    let mut by_role: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for kill in kills {
        let Some(outage_ms) = kill.outage_ms else { continue };
        by_role.entry(kill.role.name()).or_default().push(outage_ms);
        by_role.entry("all").or_default().push(outage_ms);
    }
    by_role.into_iter().filter_map(|(role, outages)| Some((role, Summary::of(&outages)?))).collect()
}

fn medians<'a>(failovers: impl Iterator<Item = &'a Failover>) -> BTreeMap<String, f64> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for failover in failovers {
        for (phase, ms) in &failover.phases_ms {
            values.entry(phase.clone()).or_default().push(*ms);
        }
        if let Some(total_ms) = failover.total_ms {
            values.entry("total".to_owned()).or_default().push(total_ms);
        }
    }
    values.into_iter().filter_map(|(phase, values)| Some((phase, Summary::of(&values)?.median))).collect()
}

/// The command that does it again.
pub(super) fn command(options: &Options) -> String {
    format!(
        "deploy/demo --nodes {} --partitions {} --standbys {} --kills {} --kill-every {}s --rate {} --seed {}",
        options.nodes,
        options.partitions,
        options.standbys,
        options.kills,
        options.kill_every.as_secs(),
        options.rate,
        options.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kill(role: Role, outage_ms: Option<f64>, fence: f64) -> Kill {
        let failover = Failover { phases_ms: BTreeMap::from([("fence".to_owned(), fence)]), ..Failover::default() };
        Kill {
            slot: "a".to_owned(),
            role,
            partitions: vec![],
            outages_ms: BTreeMap::new(),
            outage_ms,
            gap_max_ms: 0.0,
            healthy_ms: 0.0,
            failovers: vec![failover],
        }
    }

    #[test]
    fn outages_are_summed_up_by_role_without_those_that_were_none() {
        let kills =
            [kill(Role::Active, Some(40.0), 1.0), kill(Role::Both, Some(60.0), 2.0), kill(Role::Leader, None, 9.0)];
        let outages = outages(&kills);
        assert_eq!(outages.keys().copied().collect::<Vec<_>>(), ["active", "all", "both"]);
        assert_eq!((outages["all"].count, outages["all"].median), (2, 50.0));
        let medians = medians(kills.iter().flat_map(|kill| &kill.failovers));
        assert_eq!(medians["fence"], 2.0);
    }

    #[test]
    fn every_kind_of_failure_is_named() {
        let verify = verify::Report {
            verdict: "fail",
            lost: 1,
            duplicated: 0,
            wrong: 0,
            examples: verify::Examples::default(),
            partitions: vec![],
        };
        let load = Fed { failed: 2, acknowledged: 3, ..Fed::default() };
        let found = failures(&load, &verify, &[Some(0), Some(1), None]);
        assert_eq!(found.len(), 5, "{found:?}");
        let clean = verify::Report { lost: 0, verdict: "pass", ..verify };
        assert_eq!(failures(&Fed::default(), &clean, &[Some(0)]), Vec::<String>::new());
    }
}
