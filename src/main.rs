//! The `hotspare` command.

use std::{
    io::{self, IsTerminal as _, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use hotspare::{
    cli,
    config::{self, Config, sections::LogFormat},
    node,
};

/// Hot-standby replication cluster for windowed sensor aggregation on Kafka.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Args)]
struct ConfigArguments {
    /// The configuration file.
    #[arg(long, default_value = config::DEFAULT_PATH)]
    config: PathBuf,
    /// Sets a key over file and environment, for example `failover.suspect_after=400ms`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a node until SIGTERM.
    Node(ConfigArguments),
    /// Runs the readings of a file through the windows of a configuration, without Kafka.
    Try {
        /// The configuration; only its [input], [window] and [output] are looked at.
        #[arg(long)]
        config: PathBuf,
        /// Instead of the results, write one line for each reading: what became of it, why, and what was looked at.
        ///
        /// The lines are in the order of the file:
        ///
        /// `p0 o17 body 2: device "a1" from /device_id; metric "temp" from /value; time 1577898000300 from
        /// "2020-01-01T17:00:00.3Z" at /ts; rejected not_numeric: "n/a" is text and no number`
        ///
        /// p is the partition, o the offset, body the position in the record (left out for a record as a whole). What
        /// follows is parted by "; " and ends where a check failed; the outcome and its reason are last: `counted: in
        /// [START, END)` (each window), `late` (watermark, end and grace of each window), `missing` (by which rule),
        /// `duplicate` (of which identity), `null_record`, or `rejected REASON`. Times are milliseconds since 1970. Texts
        /// of the data are JSON strings, cut after 120 characters.
        #[arg(long, verbatim_doc_comment)]
        explain: bool,
        /// Records, one JSON object a line: partition, offset, timestamp, key or key_base64, value or value_base64,
        /// perhaps headers.
        records: PathBuf,
    },
    /// Works on configurations.
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// Shows the whole on a real Kafka: nodes with an active are killed, nothing is lost.
    Demo(cli::demo::DemoArgs),
    /// Sends a synthetic fleet, or a replay of a file, to the input topic.
    Generate(cli::generate::GenerateArgs),
    /// Shows the cluster as the nodes see it.
    Status(cli::status::StatusArgs),
    /// Shows the members of the Raft group.
    Members(cli::members::MembersArgs),
    #[command(flatten)]
    Operate(cli::operate::OperateCommand),
    /// Shows failovers and switchovers, the newest first.
    History(cli::history::HistoryArgs),
    /// Computes everything again from the input and compares it with what was published.
    Verify(cli::verify::VerifyArgs),
    /// Compares the topics with what exactness needs, and creates ours.
    Topics {
        #[command(flatten)]
        config: ConfigArguments,
        #[command(subcommand)]
        command: cli::topics::TopicsCommand,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Proposes `[input]` from sample records of any format, with how sure each line is, and tries it on them.
    Init(cli::config_init::InitArgs),
}

const EXIT_ERROR: u8 = 1;
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(EXIT_ERROR)
        }
    }
}

fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Node(arguments) => with_config(&arguments, run_node),
        Command::Try { config, explain, records } => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            if explain {
                cli::try_::explain(&config, &records, &mut out)?;
            } else {
                cli::try_::run(&config, &records, &mut out)?;
            }
            out.flush()?;
            Ok(0)
        }
        Command::Config { command: ConfigCommand::Init(arguments) } => {
            cli::config_init::run(&arguments, &mut io::stdout())?;
            Ok(0)
        }
        Command::Status(arguments) => Ok(cli::status::run(&arguments, &mut io::stdout(), &mut io::stderr())?),
        Command::Members(arguments) => Ok(cli::members::run(&arguments, &mut io::stdout(), &mut io::stderr())?),
        Command::Operate(command) => Ok(cli::operate::run(&command, &mut io::stdout(), &mut io::stderr())?),
        Command::History(arguments) => Ok(cli::history::run(&arguments, &mut io::stdout(), &mut io::stderr())?),
        Command::Verify(arguments) => {
            let (mut out, mut err) = (io::stdout(), io::stderr());
            Ok(runtime()?.block_on(cli::verify::run(&arguments, &mut out, &mut err))?)
        }
        Command::Demo(arguments) => {
            let (mut out, mut err) = (io::stdout(), io::stderr());
            Ok(runtime()?.block_on(cli::demo::run(&arguments, &mut out, &mut err))?)
        }
        Command::Generate(arguments) => {
            let (mut out, mut err) = (io::stdout(), io::stderr());
            Ok(runtime()?.block_on(cli::generate::run(&arguments, &mut out, &mut err))?)
        }
        Command::Topics { config, command } => with_config(&config, |config| {
            let (mut out, mut err, mut ask) = (io::stdout(), io::stderr(), ask);
            let run = cli::topics::run(&command, &config, &mut out, &mut err, &mut ask);
            Ok(runtime()?.block_on(run)?)
        }),
    }
}

fn with_config(arguments: &ConfigArguments, then: impl FnOnce(Config) -> anyhow::Result<u8>) -> anyhow::Result<u8> {
    match config::load(Some(&arguments.config), std::env::vars(), &arguments.sets) {
        Ok(config) => then(config),
        Err(errors) => {
            writeln!(io::stderr(), "{errors}")?;
            Ok(EXIT_USAGE)
        }
    }
}

fn run_node(config: Config) -> anyhow::Result<u8> {
    log_to_stderr(&config);
    if std::env::var_os(hotspare::demo::DIE_WITH_PARENT).is_some() {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
    if let Err(error) = runtime()?.block_on(node::run(config)) {
        // The last line says what to do.
        tracing::error!(%error, "node ends");
        return Ok(EXIT_ERROR);
    }
    Ok(0)
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

fn log_to_stderr(config: &Config) {
    let level = config.log.level.clone();
    let filter = tracing_subscriber::EnvFilter::try_new(format!("{level},openraft=error"))
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,openraft=error"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match config.log.format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.with_ansi(io::stderr().is_terminal()).init(),
    }
}

fn ask(question: &str) -> bool {
    let mut answer = String::new();
    let asked = write!(io::stderr(), "{question} [y/N] ").and_then(|()| io::stdin().read_line(&mut answer));
    asked.is_ok() && answer.trim().eq_ignore_ascii_case("y")
}
