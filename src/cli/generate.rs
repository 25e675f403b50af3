//! `hotspare generate`: a synthetic fleet, or a replay of a file, into the input topic.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use crate::{
    config::{self, Config, Timespan},
    generate::{
        Source,
        feed::{Fed, FeedError, FeedOptions, feed, wall_clock_ms},
        fleet::{Fleet, FleetOptions},
        replay::{Mapping, Pace, Readings, Replay},
        shape::Shape,
    },
};

/// Exit code: all records are acknowledged.
pub const EXIT_DONE: u8 = 0;
/// Exit code: some are not, or another error.
pub const EXIT_ERROR: u8 = 1;
/// Exit code: wrong usage, configuration or file.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: Kafka cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 5;

/// Arguments of `hotspare generate`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("to").required(true).args(["kafka", "config"]))]
pub struct GenerateArgs {
    /// Address of a broker, HOST:PORT; records are written for the defaults of `[input]`.
    #[arg(long, value_name = "ADDR", requires = "topic")]
    pub kafka: Option<String>,
    /// The input topic.
    #[arg(long, value_name = "T")]
    pub topic: Option<String>,
    /// A node's configuration instead: its broker, its input topic, records as its `[input]` reads them.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Number of devices.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub devices: u32,
    /// Records a second.
    #[arg(long, value_name = "R", value_parser = positive)]
    pub rate: Option<f64>,
    /// For so long, such as 30s or 5m; without it until Ctrl-C, or the end of the file.
    #[arg(long, value_name = "D")]
    pub duration: Option<Timespan>,
    /// From which all chance comes.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Share of late records.
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, value_parser = ratio)]
    pub late: f64,
    /// How far late records are behind, to twice that.
    #[arg(long, value_name = "D", default_value = "10m")]
    pub late_by: Timespan,
    /// Share of records that come twice.
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, value_parser = ratio)]
    pub duplicates: f64,
    /// Share of records that must be rejected.
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, value_parser = ratio)]
    pub bad: f64,
    /// Share of records that are a little behind their device.
    #[arg(long, value_name = "RATIO", default_value_t = 0.0, value_parser = ratio)]
    pub out_of_order: f64,
    /// How far they are behind at most.
    #[arg(long, value_name = "D", default_value = "5s")]
    pub disorder: Timespan,
    /// Notes every acknowledged record, one JSON line each; `hotspare try` computes from it what must come out.
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Replays files instead: a JSON array, one JSON object a line, or CSV (time,value). May be given several times.
    #[arg(long, value_name = "FILE")]
    pub replay: Vec<PathBuf>,
    /// Replay so many times as fast as the readings were measured; 1 without --rate.
    #[arg(long, value_name = "X", value_parser = positive, conflicts_with = "rate", requires = "replay")]
    pub speed: Option<f64>,
    /// Replay again and again; event time goes on.
    #[arg(long = "loop", requires = "replay")]
    pub is_endless: bool,
    /// Replay each reading by so many devices, with names of their own.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "replay")]
    pub copies: u32,
}

fn ratio(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "write a share from 0 to 1, such as 0.01".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "write a number above 0".to_owned())
}

/// Records a second of a fleet if nothing is said.
const RATE: f64 = 1000.0;

struct Job {
    source: Box<dyn Source>,
    options: FeedOptions,
}

/// Runs the command: the summary to `out`, errors to `err`. Returns the exit code.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub async fn run(args: &GenerateArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let Job { mut source, options } = match job(args) {
        Ok(job) => job,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(EXIT_USAGE);
        }
    };
    let (stop, counts) = (Arc::clone(&options.stop), Arc::clone(&options.counts));
    let mut work = tokio::task::spawn_blocking(move || feed(source.as_mut(), &options));
    let mut tick = tokio::time::interval(Duration::from_secs(10));
    tick.tick().await;
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            _ = tick.tick() => {
                let (sent, acknowledged) = (counts.sent.load(Ordering::Relaxed), counts.acknowledged.load(Ordering::Relaxed));
                writeln!(err, "{sent} records sent, {acknowledged} acknowledged")?;
            }
            _ = tokio::signal::ctrl_c() => stop.store(true, Ordering::Relaxed),
        }
    };
    match done {
        Ok(Ok(fed)) => {
            show(&fed, out)?;
            Ok(if fed.failed == 0 { EXIT_DONE } else { EXIT_ERROR })
        }
        Ok(Err(error)) => {
            writeln!(err, "{error}")?;
            Ok(match error {
                FeedError::Unreachable { .. } => EXIT_UNREACHABLE,
                FeedError::NoTopic(_) | FeedError::Client(_) => EXIT_USAGE,
                FeedError::Ledger { .. } | FeedError::Broken(_) => EXIT_ERROR,
            })
        }
        Err(error) => {
            writeln!(err, "{error}")?;
            Ok(EXIT_ERROR)
        }
    }
}

fn job(args: &GenerateArgs) -> Result<Job, String> {
    if args.late + args.duplicates + args.bad + args.out_of_order > 1.0 {
        return Err(
            "--late, --duplicates, --bad and --out-of-order are shares of all records: together at most 1".to_owned()
        );
    }
    let config = match &args.config {
        None => None,
        Some(path) => Some(config::load(Some(path), std::env::vars(), &[]).map_err(|errors| errors.to_string())?),
    };
    let shape = match &config {
        None => Shape::default(),
        Some(config) => Shape::of(&config.input).map_err(|error| error.to_string())?,
    };
    let mut options = options(args, config.as_ref())?;
    options.duration = args.duration.map(Timespan::get);
    options.ledger.clone_from(&args.ledger);
    let source: Box<dyn Source> = if args.replay.is_empty() {
        Box::new(Fleet::new(FleetOptions {
            devices: args.devices,
            rate: args.rate.unwrap_or(RATE),
            seed: args.seed,
            begin_ms: wall_clock_ms(),
            late: args.late,
            late_by: args.late_by.get(),
            duplicates: args.duplicates,
            bad: args.bad,
            out_of_order: args.out_of_order,
            disorder: args.disorder.get(),
            shape,
        }))
    } else {
        let mapping = config.as_ref().map_or_else(Mapping::default, |config| Mapping::of(&config.input, shape));
        let readings = Readings::load(&args.replay, &mapping).map_err(|error| error.to_string())?;
        let pace = args.rate.map_or(Pace::Speed(args.speed.unwrap_or(1.0)), Pace::Rate);
        Box::new(Replay::new(readings, pace, args.copies, args.is_endless))
    };
    Ok(Job { source, options })
}

fn options(args: &GenerateArgs, config: Option<&Config>) -> Result<FeedOptions, String> {
    let Some(config) = config else {
        let servers = args.kafka.clone().unwrap_or_default();
        return Ok(FeedOptions {
            properties: vec![("bootstrap.servers".to_owned(), servers)],
            topic: args.topic.clone().unwrap_or_default(),
            ..FeedOptions::default()
        });
    };
    let kafka = &config.kafka;
    let read = kafka.properties.iter().chain(kafka.producer.iter());
    let read = read.map(|(name, property)| Ok((name.to_owned(), property.read(name)?)));
    let properties: Result<Vec<_>, config::SecretError> = read.collect();
    Ok(FeedOptions {
        properties: properties.map_err(|error| error.to_string())?,
        topic: args.topic.clone().unwrap_or_else(|| config.input.topic.clone()),
        ..FeedOptions::default()
    })
}

fn show(fed: &Fed, out: &mut dyn Write) -> io::Result<()> {
    let rate = if fed.elapsed_s > 0.0 { fed.sent as f64 / fed.elapsed_s } else { 0.0 };
    writeln!(
        out,
        "{} records sent in {:.1} s ({rate:.0} a second), {} acknowledged, {} failed, at most {} ms behind",
        fed.sent, fed.elapsed_s, fed.acknowledged, fed.failed, fed.behind_ms_max
    )?;
    let kinds: Vec<_> = fed.kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    writeln!(out, "{}", kinds.join(" "))?;
    match &fed.error {
        Some(error) => writeln!(out, "first failure: {error}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: GenerateArgs,
    }

    fn parse(line: &str) -> Result<GenerateArgs, clap::Error> {
        let args = std::iter::once("generate").chain(line.split_whitespace());
        <Cli as clap::Parser>::try_parse_from(args).map(|cli| cli.args)
    }

    #[test]
    fn a_topic_or_a_configuration_is_needed() {
        assert!(parse("--kafka a:1 --topic t --devices 3 --rate 5e4 --late 0.1").is_ok());
        assert!(parse("--config x.toml --replay a.json --speed 60 --loop").is_ok());
        for wrong in ["", "--kafka a:1", "--topic t", "--kafka a:1 --topic t --config x", "--config x --speed 2"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_from_0_to_1_also_together() {
        for wrong in ["--bad 1.5", "--bad -1", "--bad NaN", "--rate 0"] {
            assert!(parse(&format!("--kafka a:1 --topic t {wrong}")).is_err(), "{wrong}");
        }
        let args = parse("--kafka a:1 --topic t --bad 0.6 --late 0.6").unwrap();
        assert!(job(&args).is_err());
    }
}
