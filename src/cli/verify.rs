//! `hotspare verify`: recomputes everything from the input and compares.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
};

use hotspare_cluster::{Offset, PartitionId};

use crate::{
    config::{self, DEFAULT_PATH},
    verify::{self, Against, Example, Options, Report, VerifyError},
};

/// Exit code: nothing is lost, doubled or wrong.
pub const EXIT_DONE: u8 = 0;
/// Exit code: wrong usage or configuration.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: Kafka cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 5;
/// Exit code: there is a difference.
pub const EXIT_DIFFERENT: u8 = 6;
/// Exit code: no verdict can be given.
pub const EXIT_UNKNOWN: u8 = 7;

/// How the result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
}

/// What can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Part {
    /// The output topic.
    Output,
    /// The state in the changelog.
    Changelog,
    /// The dead-letter topic.
    DeadLetters,
}

/// Arguments of `hotspare verify`.
#[derive(Clone, Debug, clap::Args)]
pub struct VerifyArgs {
    /// The configuration of the nodes.
    #[arg(long, default_value = DEFAULT_PATH)]
    pub config: PathBuf,
    /// A setting over that of the file: SECTION.KEY=VALUE.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub sets: Vec<String>,
    /// Only this partition; may be given several times.
    #[arg(long, value_name = "P")]
    pub partition: Vec<u32>,
    /// Judge what came of input from this offset on; everything is computed from the start all the same.
    #[arg(long, value_name = "start|OFFSET", default_value = "start", value_parser = from)]
    pub from: Bound,
    /// Judge what came of input before this offset; the changelog is then not compared.
    #[arg(long, value_name = "now|OFFSET", default_value = "now", value_parser = to)]
    pub to: Bound,
    /// What is compared.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "output,changelog,dead-letters")]
    pub against: Vec<Part>,
    /// How the result is shown.
    #[arg(short, long, value_enum, default_value = "table")]
    pub output: Format,
}

/// An end of a range of offsets; none: not bounded.
pub type Bound = Option<Offset>;

fn from(text: &str) -> Result<Bound, String> {
    bound(text, "start")
}

fn to(text: &str) -> Result<Bound, String> {
    bound(text, "now")
}

fn bound(text: &str, open: &str) -> Result<Bound, String> {
    if text == open {
        return Ok(None);
    }
    let offset = text.parse().ok().filter(|offset| *offset >= 0).map(Offset);
    offset.map(Some).ok_or_else(|| format!("write {open} or an offset of the input, 0 or more"))
}

impl VerifyArgs {
    fn options(&self) -> Options {
        let partitions: Vec<_> = self.partition.iter().copied().map(PartitionId).collect();
        let has = |part| self.against.contains(&part);
        Options {
            partitions: (!partitions.is_empty()).then_some(partitions),
            from: self.from,
            to: self.to,
            against: Against {
                output: has(Part::Output),
                changelog: has(Part::Changelog),
                dead_letters: has(Part::DeadLetters),
            },
            stop: Arc::default(),
        }
    }
}

/// Runs the command: the result to `out`, errors to `err`. Returns the exit code.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub async fn run(args: &VerifyArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let config = match config::load(Some(&args.config), std::env::vars(), &args.sets) {
        Ok(config) => config,
        Err(errors) => {
            writeln!(err, "{errors}")?;
            return Ok(EXIT_USAGE);
        }
    };
    let options = args.options();
    let stop = Arc::clone(&options.stop);
    let mut work = tokio::task::spawn_blocking(move || verify::run(&config, &options));
    let done = tokio::select! {
        done = &mut work => done,
        _ = tokio::signal::ctrl_c() => {
            stop.store(true, Ordering::Relaxed);
            work.await
        }
    };
    match done.unwrap_or(Err(VerifyError::Interrupted)) {
        Ok(report) => {
            match args.output {
                Format::Json => writeln!(out, "{}", serde_json::to_string_pretty(&report)?)?,
                Format::Table => show(&report, out)?,
            }
            Ok(if report.is_clean() { EXIT_DONE } else { EXIT_DIFFERENT })
        }
        Err(error) => {
            writeln!(err, "{error}")?;
            Ok(exit_code(&error))
        }
    }
}

fn exit_code(error: &VerifyError) -> u8 {
    match error {
        VerifyError::Log { .. } | VerifyError::Stalled { .. } => EXIT_UNREACHABLE,
        VerifyError::NoTopic(_) | VerifyError::NoPartition { .. } | VerifyError::OtherSemantics { .. } => EXIT_USAGE,
        VerifyError::Deleted { .. } | VerifyError::Changelog { .. } | VerifyError::Interrupted => EXIT_UNKNOWN,
    }
}

/// Shows a report to people.
///
/// # Errors
/// If it cannot be written.
pub fn show(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{:>3} {:>6} {:>9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>6} {:>6} {:>6}",
        "P", "EPOCH", "COMMIT", "RECORDS", "COUNTED", "FINAL", "OUTPUTS", "LETTERS", "LOST", "TWICE", "WRONG"
    )?;
    for part in &report.partitions {
        writeln!(
            out,
            "{:>3} {:>6} {:>9} {:>10} {:>10} {:>9} {:>9} {:>8} {:>6} {:>6} {:>6}",
            part.partition,
            part.epoch,
            part.commit,
            part.records,
            part.counted,
            part.windows_final,
            part.outputs,
            part.dead_letters,
            part.lost,
            part.duplicated,
            part.wrong
        )?;
    }
    let examples = &report.examples;
    for (name, examples) in [("lost", &examples.lost), ("twice", &examples.duplicated), ("wrong", &examples.wrong)] {
        for example in examples {
            show_example(name, example, out)?;
        }
    }
    let Report { verdict, lost, duplicated, wrong, .. } = report;
    writeln!(out, "verdict: {verdict} ({lost} lost, {duplicated} duplicated, {wrong} wrong)")
}

fn show_example(name: &str, example: &Example, out: &mut dyn Write) -> io::Result<()> {
    let place = example.offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
    writeln!(out, "{name}: {} of partition {}{place}: {}", example.what, example.partition, example.note)?;
    for (what, text) in [("expected", &example.expected), ("found", &example.found)] {
        if let Some(text) = text {
            writeln!(out, "  {what}: {text}")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: VerifyArgs,
    }

    fn parse(args: &[&str]) -> Result<VerifyArgs, clap::Error> {
        <Cli as clap::Parser>::try_parse_from([&["verify"], args].concat()).map(|cli| cli.args)
    }

    #[test]
    fn by_default_everything_is_compared_from_the_start_to_now() {
        let options = parse(&[]).unwrap().options();
        assert_eq!((options.from, options.to), (None, None));
        assert_eq!((options.partitions, options.against), (None, Against::default()));
    }

    #[test]
    fn parts_and_bounds_are_taken_and_others_refused() {
        let args =
            parse(&["--against", "output,dead-letters", "--from", "7", "--to", "9", "--partition", "3"]).unwrap();
        let options = args.options();
        assert_eq!((options.from, options.to), (Some(Offset(7)), Some(Offset(9))));
        assert_eq!(options.partitions, Some(vec![PartitionId(3)]));
        assert_eq!(options.against, Against { output: true, changelog: false, dead_letters: true });
        for wrong in [["--from", "now"], ["--to", "-1"], ["--against", "input"]] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }
}
