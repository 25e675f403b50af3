//! `hotspare demo`: the way through, on a real Kafka, with kills.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{
    config::Timespan,
    demo::{self, DemoError, Options, find_data, unique_name},
};

/// Exit code: nothing lost, doubled or wrong.
pub const EXIT_DONE: u8 = 0;
/// Exit code: something does not work.
pub const EXIT_ERROR: u8 = 1;
/// Exit code: wrong usage, or no readings.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: Kafka cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 5;
/// Exit code: the verdict is fail.
pub const EXIT_FAILED: u8 = 6;
/// Exit code: interrupted, no verdict.
pub const EXIT_UNKNOWN: u8 = 7;

/// Arguments of `hotspare demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Address of a broker, HOST:PORT.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9092")]
    pub kafka: String,
    /// Number of nodes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=9))]
    pub nodes: u32,
    /// Partitions of the input.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub partitions: u32,
    /// Standbys of each partition.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=8))]
    pub standbys: u32,
    /// Shortest time between two kills.
    #[arg(long, value_name = "D", default_value = "5s")]
    pub kill_every: Timespan,
    /// Number of kills.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub kills: u32,
    /// Records a second.
    #[arg(long, value_name = "R", default_value_t = 2000.0)]
    pub rate: f64,
    /// From which the choice of victims comes.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Writes what was found, as JSON.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Readings to replay, a JSON array as in data/iot-telemetry; without it those that are shipped.
    #[arg(long, value_name = "FILE", env = "HOTSPARE_DEMO_DATA")]
    pub data: Option<PathBuf>,
    /// Runs a Prometheus with the shipped rules beside it, which must be installed.
    #[arg(long)]
    pub prometheus: bool,
    /// Keeps topics, files and logs.
    #[arg(long)]
    pub keep: bool,
}

impl DemoArgs {
    fn options(&self) -> Result<Options, &'static str> {
        let data = self.data.clone().or_else(find_data);
        if self.nodes == 2 {
            return Err("two nodes cannot decide anything when one is dead: use --nodes 3 (or 1, without failover)");
        }
        if self.nodes == 1 && self.kills > 0 {
            return Err("with one node nobody can take over: use --nodes 3, or --kills 0");
        }
        if self.standbys == 0 && self.kills > 0 {
            return Err("without standbys nobody can take over: use --standbys 1 or more, or --kills 0");
        }
        if !(self.rate.is_finite() && self.rate >= 1.0) {
            return Err("--rate must be 1 or more");
        }
        Ok(Options {
            kafka: self.kafka.clone(),
            nodes: self.nodes,
            partitions: self.partitions,
            standbys: self.standbys,
            kill_every: self.kill_every.get(),
            kills: self.kills,
            rate: self.rate,
            seed: self.seed,
            data: data.ok_or("the shipped readings are not found from here; name a file with --data FILE")?,
            prometheus: self.prometheus,
            keep: self.keep,
            name: unique_name(),
            stop: Arc::new(AtomicBool::new(false)),
        })
    }
}

/// Runs the command: events go to standard output as they come, the result to `out`, errors to `err`. Returns the exit
/// code.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub async fn run(args: &DemoArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let options = match args.options() {
        Ok(options) => options,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(EXIT_USAGE);
        }
    };
    let result = match demo::create_input(&options).await {
        Err(error) => Err(error),
        Ok(()) => {
            let result = run_until_signal(&options).await;
            let keeps = args.keep || result.as_ref().is_ok_and(|report| !report.is_pass());
            if !keeps {
                demo::delete_topics(&options).await;
            }
            result
        }
    };
    match result {
        Ok(report) => {
            report.show(out)?;
            if let Some(path) = &args.report
                && let Err(error) = std::fs::write(path, serde_json::to_string_pretty(&report)?)
            {
                writeln!(err, "cannot write {}: {error}", path.display())?;
                return Ok(EXIT_ERROR);
            }
            Ok(if report.is_pass() { EXIT_DONE } else { EXIT_FAILED })
        }
        Err(error) => {
            writeln!(err, "{error}")?;
            Ok(match error {
                DemoError::Interrupted => EXIT_UNKNOWN,
                DemoError::Unreachable { .. } => EXIT_UNREACHABLE,
                DemoError::Data(_) => EXIT_USAGE,
                _ => EXIT_ERROR,
            })
        }
    }
}

/// Runs it on a thread of its own, which ends everything it started before it ends; a signal makes it do so.
async fn run_until_signal(options: &Options) -> Result<demo::Report, DemoError> {
    let failed = DemoError::io("wait for signals");
    let signals = signal(SignalKind::terminate()).and_then(|terminate| Ok((terminate, signal(SignalKind::hangup())?)));
    let (mut terminate, mut hangup) = signals.map_err(failed)?;
    let owned = options.clone();
    let mut work = tokio::task::spawn_blocking(move || demo::run(&owned));
    loop {
        tokio::select! {
            done = &mut work => return done.unwrap_or_else(|error| Err(DemoError::Other(error.to_string()))),
            _ = tokio::signal::ctrl_c() => options.stop.store(true, Ordering::Relaxed),
            _ = terminate.recv() => options.stop.store(true, Ordering::Relaxed),
            _ = hangup.recv() => options.stop.store(true, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: DemoArgs,
    }

    fn options(line: &str) -> Result<Options, String> {
        let args = std::iter::once("demo").chain(line.split_whitespace());
        let cli = <Cli as clap::Parser>::try_parse_from(args).map_err(|error| error.to_string())?;
        cli.args.options().map_err(str::to_owned)
    }

    #[test]
    fn by_default_there_are_three_nodes_four_partitions_and_two_standbys() {
        let options = options("").unwrap();
        assert_eq!((options.nodes, options.partitions, options.standbys), (3, 4, 2));
        assert!(options.data.is_file());
        assert!(options.topics()[0].starts_with(&options.name));
    }

    #[test]
    fn what_cannot_end_well_is_refused() {
        for wrong in ["--nodes 2", "--nodes 1", "--standbys 0", "--rate 0", "--nodes 0"] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
        assert!(options("--nodes 1 --kills 0").is_ok());
    }
}
