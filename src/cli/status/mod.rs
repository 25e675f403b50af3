//! `hotspare status`.

mod render;
pub(crate) mod show;

#[cfg(test)]
mod tests;

use std::{
    io::{self, IsTerminal, Write},
    thread,
    time::Duration,
};

use hotspare_cluster::PartitionId;

use super::client::{Client, ClientArgs, ClientError, EXIT_DONE, EXIT_USAGE, Format};
use crate::http::document::{HealthState, StatusDoc};

pub use render::{headline, render};

/// Exit code of `--check`: degraded.
pub const EXIT_DEGRADED: u8 = 10;
/// Exit code of `--check`: outage.
pub const EXIT_OUTAGE: u8 = 11;

/// Cursor home, and everything after it away.
const CLEAR: &str = "\x1b[H\x1b[J";

/// `hotspare status`.
#[derive(Clone, Debug, clap::Args)]
pub struct StatusArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Again every so many seconds, until Ctrl-C.
    #[arg(short, long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2")]
    pub watch: Option<f64>,
    /// Only this partition.
    #[arg(long, value_name = "P")]
    pub partition: Option<u32>,
    /// Print one line and the problems; exit code 10 if degraded, 11 at an outage.
    #[arg(long)]
    pub check: bool,
}

/// Runs the command: results to `out`, errors to `err`. Returns the exit code. Blocks.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub fn run(args: &StatusArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let client = Client::new(&args.client);
    let Some(seconds) = args.watch else {
        return once(args, &client, out, err);
    };
    let Some(pause) = Duration::try_from_secs_f64(seconds).ok().filter(|pause| *pause >= Duration::from_millis(100))
    else {
        writeln!(err, "--watch is {seconds}; write seconds, 0.1 or more")?;
        return Ok(EXIT_USAGE);
    };
    let clears = io::stdout().is_terminal() && args.client.format == Format::Table;
    loop {
        let mut page = Vec::new();
        let mut errors = Vec::new();
        let code = once(args, &client, &mut page, &mut errors)?;
        if code == EXIT_USAGE {
            err.write_all(&errors)?;
            return Ok(code);
        }
        // What was there before would look as if it were still so.
        if clears {
            out.write_all(CLEAR.as_bytes())?;
        }
        out.write_all(&page)?;
        out.flush()?;
        err.write_all(&errors)?;
        thread::sleep(pause);
    }
}

fn once(args: &StatusArgs, client: &Client, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let answer = client.get("/v1/status").and_then(|answer| Ok((answer.document::<StatusDoc>()?, answer)));
    let (mut status, answer) = match answer {
        Ok(answer) => answer,
        Err(error) => return fail(&error, err),
    };
    if let Some(partition) = args.partition.map(PartitionId) {
        if !status.partitions.iter().any(|known| known.partition == partition) {
            writeln!(err, "there is no partition {partition}; {} are known", status.partitions.len())?;
            return Ok(EXIT_USAGE);
        }
        status.partitions.retain(|known| known.partition == partition);
        status.local.retain(|known| known.partition == partition);
    }
    match args.client.format {
        Format::Json if args.partition.is_none() => writeln!(out, "{}", answer.body)?,
        Format::Json => writeln!(out, "{}", serde_json::to_string(&status)?)?,
        Format::Table if args.check => {
            out.write_all(headline(&status).as_bytes())?;
            for problem in &status.problems {
                writeln!(out, "! {problem}")?;
            }
        }
        Format::Table => out.write_all(render(&status).as_bytes())?,
    }
    Ok(if args.check { check(status.health) } else { EXIT_DONE })
}

fn fail(error: &ClientError, err: &mut dyn Write) -> io::Result<u8> {
    writeln!(err, "{error}")?;
    Ok(error.exit_code())
}

fn check(health: HealthState) -> u8 {
    match health {
        HealthState::Ok => EXIT_DONE,
        HealthState::Degraded => EXIT_DEGRADED,
        HealthState::Outage => EXIT_OUTAGE,
    }
}
