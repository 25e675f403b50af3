//! `hotspare topics`: check, create, repair.

use std::io::{self, Write};

use crate::config::Config;
use crate::topics::{Found, Role, Severity, TopicProblem, TopicsError, create, ensure, plan_repair, repair, wanted};

/// Exit code: done.
pub const EXIT_DONE: u8 = 0;
/// Exit code: an error that is none of the others.
pub const EXIT_ERROR: u8 = 1;
/// Exit code: wrong usage.
pub const EXIT_USAGE: u8 = 2;
/// Exit code: refused, reasons printed.
pub const EXIT_REFUSED: u8 = 3;
/// Exit code: Kafka cannot be reached.
pub const EXIT_UNREACHABLE: u8 = 5;

/// Commands about topics.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum TopicsCommand {
    /// Compares the topics with what exactness needs; exit code 3 if a node would refuse to work with them.
    Check,
    /// Creates those of our topics that are missing; never the input.
    Create {
        /// Only show what would be created; the broker checks it.
        #[arg(long)]
        dry_run: bool,
    },
    /// Sets what is wrong with one of our topics as it must be.
    Repair {
        /// Name of the topic.
        name: String,
    },
}

/// Runs a command: results to `out`, errors to `err`; `ask` shows a question and tells whether the answer was yes.
/// Returns the exit code.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub async fn run(
    command: &TopicsCommand,
    config: &Config,
    out: &mut dyn Write,
    err: &mut dyn Write,
    ask: &mut dyn FnMut(&str) -> bool,
) -> io::Result<u8> {
    let result = match command {
        TopicsCommand::Check => check(config, out).await,
        TopicsCommand::Create { dry_run } => run_create(config, *dry_run, out).await,
        TopicsCommand::Repair { name } => run_repair(config, name, out, ask).await,
    };
    match result {
        Ok(code) => Ok(code),
        Err(Failure::Output(error)) => Err(error),
        Err(Failure::Topics(error)) => {
            writeln!(err, "{error}")?;
            Ok(match error {
                TopicsError::Unreachable { .. } => EXIT_UNREACHABLE,
                TopicsError::Refused { .. } => EXIT_REFUSED,
                TopicsError::Secret(_) => EXIT_USAGE,
                TopicsError::Client(_) | TopicsError::BrokenOff(_) => EXIT_ERROR,
            })
        }
    }
}

enum Failure {
    Output(io::Error),
    Topics(TopicsError),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<TopicsError> for Failure {
    fn from(error: TopicsError) -> Failure {
        Failure::Topics(error)
    }
}

async fn check(config: &Config, out: &mut dyn Write) -> Result<u8, Failure> {
    let ready = ensure(config, false).await?;
    Ok(report(config, &ready.found, &ready.problems, out)?)
}

async fn run_create(config: &Config, dry_run: bool, out: &mut dyn Write) -> Result<u8, Failure> {
    let (created, ready) = if dry_run {
        let ready = ensure(config, false).await?;
        let all_wanted = wanted(config, ready.input_partitions(config));
        let client = config.kafka.client_config().map_err(TopicsError::from)?;
        let timeout = config.kafka.operation_timeout.get();
        (create(&client, &all_wanted, &ready.found, true, timeout).await?, ready)
    } else {
        let ready = ensure(config, true).await?;
        (ready.created.clone(), ready)
    };
    let verb = if dry_run { "would create" } else { "created" };
    for topic in &created {
        let partitions = if topic.partitions == 1 { "partition" } else { "partitions" };
        writeln!(out, "{verb} {} \"{}\" with {} {partitions}", topic.role, topic.name, topic.partitions)?;
    }
    // In a dry run those that would be created are still missing, which is no problem then.
    let is_planned =
        |problem: &TopicProblem| problem.setting == "exists" && created.iter().any(|c| c.name == problem.topic);
    let left: Vec<TopicProblem> = ready.problems.iter().filter(|problem| !is_planned(problem)).cloned().collect();
    Ok(report(config, &ready.found, &left, out)?)
}

async fn run_repair(
    config: &Config,
    name: &str,
    out: &mut dyn Write,
    ask: &mut dyn FnMut(&str) -> bool,
) -> Result<u8, Failure> {
    let ready = ensure(config, false).await?;
    let all_wanted = wanted(config, ready.input_partitions(config));
    let Some(this) = all_wanted.iter().find(|wanted| wanted.name == name) else {
        let names: Vec<&str> = all_wanted.iter().skip(1).map(|wanted| wanted.name.as_str()).collect();
        writeln!(out, "refused: \"{name}\" is none of this cluster's topics, which are {}", names.join(", "))?;
        return Ok(EXIT_REFUSED);
    };
    if this.role == Role::Input {
        writeln!(out, "refused: \"{name}\" is the input topic; it is yours and never altered by hotspare")?;
        return Ok(EXIT_REFUSED);
    }
    let Some(found) = ready.found.topics.get(name) else {
        writeln!(out, "refused: {} \"{name}\" does not exist. Repair: hotspare topics create", this.role)?;
        return Ok(EXIT_REFUSED);
    };
    let plan = plan_repair(name, &ready.problems);
    for (setting, before, after) in &plan.settings {
        writeln!(out, "{name}: {setting}  {before} → {after}")?;
    }
    if let Some((before, after)) = plan.partitions {
        writeln!(out, "{name}: partitions  {before} → {after}")?;
    }
    if plan.settings.is_empty() && plan.partitions.is_none() {
        let left: Vec<TopicProblem> = ready.problems.iter().filter(|problem| problem.topic == name).cloned().collect();
        writeln!(out, "nothing that could be repaired here")?;
        return Ok(report(config, &ready.found, &left, out)?);
    }
    if !ask(&format!("Change {} \"{name}\" so?", this.role)) {
        writeln!(out, "refused: not confirmed; nothing was changed")?;
        return Ok(EXIT_REFUSED);
    }
    let client = config.kafka.client_config().map_err(TopicsError::from)?;
    repair(&client, &plan, found, config.kafka.operation_timeout.get()).await?;
    writeln!(out, "repaired {} \"{name}\"", this.role)?;
    Ok(EXIT_DONE)
}

/// Prints the topics as a table and below it what is wrong; returns the exit code.
fn report(config: &Config, found: &Found, problems: &[TopicProblem], out: &mut dyn Write) -> io::Result<u8> {
    let mut rows = vec![["TOPIC", "ROLE", "PARTITIONS", "REPLICAS", "STATE"].map(str::to_owned)];
    for wanted in wanted(config, None) {
        let (fatal, warnings) = count(problems, &wanted.name);
        let topic = found.topics.get(&wanted.name);
        let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
        let state = match (topic, fatal, warnings) {
            (None, 0, _) => "to be created".to_owned(),
            (None, ..) => "missing".to_owned(),
            (_, 0, 0) => "ok".to_owned(),
            (_, 0, warnings) => format!("{warnings} warning{}", plural(warnings)),
            (_, fatal, _) => format!("{fatal} fatal"),
        };
        let role = wanted.role.to_string().trim_end_matches(" topic").to_owned();
        rows.push([
            wanted.name,
            role,
            number(topic.map(|topic| topic.partitions)),
            number(topic.map(|topic| topic.replication_factor)),
            state,
        ]);
    }
    table(&rows, out)?;
    for problem in problems {
        writeln!(out, "{}: {problem}", problem.severity)?;
    }
    let is_refused = problems.iter().any(|problem| problem.severity == Severity::Fatal);
    Ok(if is_refused { EXIT_REFUSED } else { EXIT_DONE })
}

fn count(problems: &[TopicProblem], topic: &str) -> (usize, usize) {
    let of =
        |severity| problems.iter().filter(|problem| problem.topic == topic && problem.severity == severity).count();
    (of(Severity::Fatal), of(Severity::Warning))
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn table<const N: usize>(rows: &[[String; N]], out: &mut dyn Write) -> io::Result<()> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
