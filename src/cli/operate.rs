//! `hotspare switchover`, `failover`, `drain`, `undrain`, `pause`, `resume`, `can-stop`: what operators ask for.

use std::{
    fmt::Write as _,
    io::{self, Write},
    time::{Duration, Instant},
};

use hotspare_cluster::{
    Candidate, Operation, OperationId, OperationState, PartitionId, PartitionPreflight, Preflight, Slot, Step,
    StepState,
};
use serde::Deserialize;

use super::{
    client::{Client, ClientArgs, ClientError, EXIT_DONE, EXIT_ERROR, EXIT_GOES_ON, EXIT_REFUSED, Format},
    history::phases,
};
use crate::{config::Timespan, http::ActBody};

/// One look at an operation lasts at most so long.
const LOOK: Duration = Duration::from_secs(2);
/// Between looks where no node answers.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Flags of every command that changes something.
#[derive(Clone, Debug, clap::Args)]
pub struct ActArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Why; it is kept in the history.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub reason: String,
    /// The same id gives the same operation; by default each run has its own.
    #[arg(long, value_name = "ID")]
    pub request_id: Option<String>,
    /// Only say what would happen, with every candidate.
    #[arg(long)]
    pub dry_run: bool,
    /// So long the end is waited for; then it goes on by itself, and the exit code is 4.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pub wait: Timespan,
}

/// Which partitions.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct WhichArgs {
    /// Partitions by number.
    #[arg(value_name = "P")]
    pub partitions: Vec<u32>,
    /// All partitions whose active is on this node.
    #[arg(long, value_name = "SLOT")]
    pub node: Option<String>,
    /// All partitions.
    #[arg(long)]
    pub all: bool,
}

/// A command that changes something.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum OperateCommand {
    /// Gives partitions to other nodes as planned: the old active works until its successor is ready.
    Switchover {
        /// Which.
        #[command(flatten)]
        which: WhichArgs,
        /// The node that takes them; by default the best one.
        #[arg(long, value_name = "SLOT")]
        to: Option<String>,
        /// Takes a successor that is far behind, too.
        #[arg(long)]
        allow_cold: bool,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// Gives partitions to other nodes now, without the old active, in spite of pause and anti-flap. Loses nothing.
    Failover {
        /// Which.
        #[command(flatten)]
        which: WhichArgs,
        /// The node that takes them; by default the best one.
        #[arg(long, value_name = "SLOT")]
        to: Option<String>,
        /// Takes a successor that is far behind, too.
        #[arg(long)]
        allow_cold: bool,
        /// Takes a node with `node.nofailover`, too.
        #[arg(long)]
        allow_nofailover: bool,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// Takes the actives off a node, and no role to it; its replicas keep tailing. One node at a time.
    Drain {
        /// The node.
        slot: String,
        /// Its replicas leave too.
        #[arg(long)]
        evacuate: bool,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// Ends a drain.
    Undrain {
        /// The node.
        slot: String,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// No automatic failover, move or replacement for a while; what would have been done is recorded.
    Pause {
        /// Only of this partition.
        #[arg(long, value_name = "P")]
        partition: Option<u32>,
        /// How long; at most 24h.
        #[arg(long = "for", value_name = "DURATION")]
        lasts: Timespan,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// Ends a pause.
    Resume {
        /// That of this partition; by default that of the whole cluster.
        #[arg(long, value_name = "P")]
        partition: Option<u32>,
        /// Common flags.
        #[command(flatten)]
        common: ActArgs,
    },
    /// Whether nodes may be stopped now; exit code 3 with what would break.
    CanStop {
        /// The nodes.
        #[arg(required = true)]
        slots: Vec<String>,
        /// Whom to ask.
        #[command(flatten)]
        client: ClientArgs,
    },
}

/// Runs a command: results to `out`, progress and errors to `err`. Returns the exit code. Blocks.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub fn run(command: &OperateCommand, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let (name, common, body) = match command {
        OperateCommand::CanStop { slots, client } => return can_stop(slots, client, out, err),
        OperateCommand::Switchover { which, to, allow_cold, common } => {
            let to = to.clone().map(Slot);
            ("switchover", common, ActBody { to, allow_cold: *allow_cold, ..which.body() })
        }
        OperateCommand::Failover { which, to, allow_cold, allow_nofailover, common } => {
            let (to, allow_cold, allow_nofailover) = (to.clone().map(Slot), *allow_cold, *allow_nofailover);
            ("failover", common, ActBody { to, allow_cold, allow_nofailover, ..which.body() })
        }
        OperateCommand::Drain { slot, evacuate, common } => {
            let slot = Some(Slot(slot.clone()));
            ("drain", common, ActBody { slot, evacuate: *evacuate, ..ActBody::default() })
        }
        OperateCommand::Undrain { slot, common } => {
            ("undrain", common, ActBody { slot: Some(Slot(slot.clone())), ..ActBody::default() })
        }
        OperateCommand::Pause { partition, lasts, common } => {
            let partition = partition.map(PartitionId);
            ("pause", common, ActBody { partition, lasts: Some(*lasts), ..ActBody::default() })
        }
        OperateCommand::Resume { partition, common } => {
            ("resume", common, ActBody { partition: partition.map(PartitionId), ..ActBody::default() })
        }
    };
    let body = ActBody { reason: common.reason.clone(), dry_run: common.dry_run, ..body };
    act(name, common, &body, out, err)
}

impl WhichArgs {
    fn body(&self) -> ActBody {
        ActBody {
            partitions: self.partitions.iter().copied().map(PartitionId).collect(),
            node: self.node.clone().map(Slot),
            all: self.all,
            ..ActBody::default()
        }
    }
}

#[derive(Deserialize)]
struct Begun {
    operation: OperationId,
}

fn act(name: &str, args: &ActArgs, body: &ActBody, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let client = Client::new(&args.client);
    let request_id = args.request_id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let answer = client.post(&format!("/v1/{name}"), &serde_json::to_string(body)?, &request_id);
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return refused(&error, args.client.format, out, err),
    };
    if body.dry_run {
        return match answer.document::<Preflight>() {
            Ok(_) if args.client.format == Format::Json => writeln!(out, "{}", answer.body).map(|()| EXIT_DONE),
            Ok(preflight) => {
                writeln!(out, "allowed: {}", preflight.detail)?;
                out.write_all(candidates(&preflight.partitions).as_bytes())?;
                Ok(EXIT_DONE)
            }
            Err(error) => refused(&error, args.client.format, out, err),
        };
    }
    match answer.document::<Begun>() {
        Ok(begun) => watch(&client, args, begun.operation, out, err),
        Err(error) => refused(&error, args.client.format, out, err),
    }
}

fn refused(error: &ClientError, format: Format, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    #[derive(Deserialize)]
    struct Refusal {
        detail: String,
        #[serde(default)]
        partitions: Vec<PartitionPreflight>,
    }
    if let ClientError::Refused { status: 409, body, .. } = error {
        match serde_json::from_str::<Refusal>(body) {
            Ok(_) if format == Format::Json => writeln!(out, "{body}")?,
            Ok(refusal) => {
                writeln!(out, "refused: {}", refusal.detail)?;
                out.write_all(candidates(&refusal.partitions).as_bytes())?;
            }
            Err(_) => writeln!(err, "{error}")?,
        }
        return Ok(EXIT_REFUSED);
    }
    writeln!(err, "{error}")?;
    Ok(error.exit_code())
}

/// Every candidate with its reason and its numbers.
fn candidates(partitions: &[PartitionPreflight]) -> String {
    let mut text = String::new();
    for part in partitions {
        let name =
            |node: &Option<hotspare_cluster::NodeRef>| node.as_ref().map_or("none", |node| &node.slot.0).to_owned();
        let predicted = part.predicted_ms.map_or_else(|| "?".to_owned(), |ms| format!("{ms:.0} ms"));
        let (from, to) = (name(&part.from), name(&part.to));
        writeln!(text, "  partition {}  {from} → {to}  predicted pause {predicted}", part.partition).ok();
        for Candidate { slot, reason, detail, .. } in &part.candidates {
            writeln!(text, "    {slot}  {:<16}  {detail}", reason.as_deref().unwrap_or("good")).ok();
        }
    }
    text
}

/// Looks at an operation until it has ended; a node that is gone does not end the looking.
fn watch(client: &Client, args: &ActArgs, id: OperationId, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let begin = Instant::now();
    let mut said = None;
    loop {
        let rest = args.wait.get().saturating_sub(begin.elapsed()).min(LOOK);
        let answer = client.get(&format!("/v1/operations/{id}?wait={}ms", rest.as_millis()));
        match answer.and_then(|answer| Ok((answer.document::<Operation>()?, answer))) {
            Ok((operation, answer)) if !operation.is_running() => {
                match args.client.format {
                    Format::Json => writeln!(out, "{}", answer.body)?,
                    Format::Table => out.write_all(render(&operation).as_bytes())?,
                }
                return Ok(if operation.state == OperationState::Done { EXIT_DONE } else { EXIT_ERROR });
            }
            Ok((operation, _)) => {
                let now = progress(&operation);
                if said.as_ref() != Some(&now) {
                    writeln!(err, "{now}")?;
                    said = Some(now);
                }
            }
            Err(_) => std::thread::sleep(LOOK_AGAIN.min(rest)),
        }
        if begin.elapsed() >= args.wait.get() {
            writeln!(err, "still running, {id}")?;
            return Ok(EXIT_GOES_ON);
        }
    }
}

fn progress(operation: &Operation) -> String {
    let Operation { id, act, steps, detail, .. } = operation;
    let done = steps.iter().filter(|step| step.state == StepState::Done).count();
    let steps = if steps.is_empty() { String::new() } else { format!("  {done} of {} done", steps.len()) };
    let detail = detail.as_ref().map(|detail| format!("  {detail}")).unwrap_or_default();
    format!("{id}  {}{steps}{detail}", act.name())
}

/// What became of an operation.
#[must_use]
pub fn render(operation: &Operation) -> String {
    let mut text = String::new();
    let name = |node: &Option<hotspare_cluster::NodeRef>| node.as_ref().map_or("?", |node| &node.slot.0).to_owned();
    for Step { partition, from, to, epoch_before, epoch, state, phases_ms, pause_ms, detail } in &operation.steps {
        let epoch = epoch.map_or_else(|| "?".to_owned(), |epoch| epoch.to_string());
        let (from, to) = (name(from), name(to));
        let head = format!("{}  partition {partition}  {from} → {to}  epoch {epoch_before} → {epoch}", operation.id);
        writeln!(text, "{head}").ok();
        if *state == StepState::Done {
            let pause = pause_ms.map(|ms| format!("  pause {ms:.0} ms")).unwrap_or_default();
            writeln!(text, "  {}{pause}", phases(phases_ms)).ok();
        } else {
            writeln!(text, "  not done: {}", detail.as_deref().unwrap_or("?")).ok();
        }
    }
    let longest = operation.steps.iter().filter_map(|step| step.pause_ms).max_by(f64::total_cmp);
    let end = match (operation.state, longest, &operation.detail) {
        (OperationState::Failed, _, detail) => format!("failed: {}", detail.as_deref().unwrap_or("?")),
        (_, Some(ms), _) => format!("done: pause {ms:.0} ms"),
        // The old active did not say when it stopped.
        _ if operation.act.name() == "switchover" => "done: pause ?".to_owned(),
        (_, None, Some(detail)) => format!("done: {detail}"),
        (_, None, None) => "done".to_owned(),
    };
    writeln!(text, "{}{end}", if operation.steps.is_empty() { format!("{}  ", operation.id) } else { String::new() })
        .ok();
    text
}

fn can_stop(slots: &[String], client: &ClientArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    match Client::new(client).get(&format!("/v1/can-stop/{}", slots.join(","))) {
        Ok(answer) if client.format == Format::Json => writeln!(out, "{}", answer.body)?,
        Ok(_) => writeln!(out, "yes: {} may stop now", slots.join(", "))?,
        Err(ClientError::Refused { status: 409, detail, body, .. }) => {
            let shown = if client.format == Format::Json { body } else { format!("no: {detail}") };
            writeln!(out, "{shown}")?;
            return Ok(EXIT_REFUSED);
        }
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(error.exit_code());
        }
    }
    Ok(EXIT_DONE)
}
