//! `hotspare history`.

use std::{
    fmt::Write as _,
    io::{self, Write},
    path::{Path, PathBuf},
};

use hotspare_cluster::{CandidateReason, EventKind, EventResult, HistoryEvent, Phases};
use serde::Deserialize;

use super::{
    client::{Client, ClientArgs, EXIT_DONE, EXIT_ERROR, Format},
    history_report,
};
use crate::http::document::StatusDoc;

/// Events of one request for the report.
const PAGE: u32 = 1000;

/// What to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// First actives.
    Initial,
    /// Failovers.
    Failover,
    /// Switchovers.
    Switchover,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Failover => "failover",
            Self::Switchover => "switchover",
        }
    }
}

/// `hotspare history`.
#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// Whom to ask.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Only this partition.
    #[arg(long, value_name = "P")]
    pub partition: Option<u32>,
    /// Only this kind.
    #[arg(long, value_enum)]
    pub kind: Option<Kind>,
    /// So many, the newest.
    #[arg(short, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub n: u32,
    /// Writes recovery times of the whole history as an HTML file without external parts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["n", "verbose"])]
    pub report: Option<PathBuf>,
    /// With evidence, phases and candidates passed over.
    #[arg(short, long)]
    pub verbose: bool,
}

#[derive(Deserialize)]
struct History {
    events: Vec<HistoryEvent>,
}

/// Runs the command: results to `out`, errors to `err`. Returns the exit code. Blocks.
///
/// # Errors
/// Only if nothing can be written to `out` or `err`.
pub fn run(args: &HistoryArgs, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    if let Some(file) = &args.report {
        return report(args, file, out, err);
    }
    let path = path(args, args.n);
    let answer = Client::new(&args.client).get(&path);
    match answer.and_then(|answer| Ok((answer.document::<History>()?, answer))) {
        Ok((_, answer)) if args.client.format == Format::Json => writeln!(out, "{}", answer.body)?,
        Ok((history, _)) if history.events.is_empty() => writeln!(out, "no events")?,
        Ok((history, _)) => out.write_all(render(&history.events, args.verbose).as_bytes())?,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(error.exit_code());
        }
    }
    Ok(EXIT_DONE)
}

/// The query for so many events.
fn path(args: &HistoryArgs, limit: u32) -> String {
    let mut path = format!("/v1/history?limit={limit}");
    if let Some(partition) = args.partition {
        path.push_str(&format!("&partition={partition}"));
    }
    if let Some(kind) = args.kind {
        path.push_str(&format!("&kind={}", kind.name()));
    }
    path
}

/// Reads the whole history, page by page, and writes the report.
fn report(args: &HistoryArgs, file: &Path, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let client = Client::new(&args.client);
    let mut events: Vec<HistoryEvent> = Vec::new();
    let status = loop {
        let before = events.last().map_or_else(String::new, |last| format!("&before={}", last.seq));
        let page = client.get(&(path(args, PAGE) + &before)).and_then(|answer| answer.document::<History>());
        match page {
            Ok(page) if page.events.is_empty() => break client.get("/v1/status"),
            Ok(page) => events.extend(page.events),
            Err(error) => break Err(error),
        }
    };
    let status: StatusDoc = match status.and_then(|answer| answer.document()) {
        Ok(status) => status,
        Err(error) => {
            writeln!(err, "{error}")?;
            return Ok(error.exit_code());
        }
    };
    let html = history_report::page(&status.cluster, &status.at.to_string(), &events);
    if let Err(error) = std::fs::write(file, html) {
        writeln!(err, "cannot write {}: {error}", file.display())?;
        return Ok(EXIT_ERROR);
    }
    writeln!(out, "{} events: {}", events.len(), file.display())?;
    Ok(EXIT_DONE)
}

/// Events as text, a line each, in the order given; `verbose` adds what each decision rests on.
#[must_use]
pub fn render(events: &[HistoryEvent], verbose: bool) -> String {
    let mut text = String::new();
    for event in events {
        line(&mut text, event);
        if verbose {
            details(&mut text, event);
        }
    }
    text
}

fn line(text: &mut String, event: &HistoryEvent) {
    let kind = match event.kind {
        EventKind::Initial => "initial",
        EventKind::Failover => "failover",
        EventKind::Switchover => "switchover",
    };
    let result = match event.result {
        EventResult::Pending => "pending",
        EventResult::Success => "success",
        EventResult::Failed => "failed",
        EventResult::Superseded => "superseded",
        EventResult::Withheld => "withheld",
    };
    let from = event.from.as_ref().map_or("none", |from| &from.slot.0);
    let total = event.total_ms.map_or_else(|| "?".to_owned(), |ms| format!("{ms:.1}ms"));
    let false_one = if event.false_positive { "  false positive" } else { "" };
    writeln!(
        text,
        "{:>5}  {}  {kind:<10}  partition {}  epoch {}  {from} → {}  {}  {result}  {total}{false_one}",
        event.seq,
        event.at,
        event.partition,
        event.epoch,
        event.to.slot,
        reason(event),
    )
    .ok();
}

/// The name that the JSON has.
fn reason(event: &HistoryEvent) -> String {
    let name = serde_json::to_value(event.reason).ok();
    name.as_ref().and_then(|name| name.as_str()).unwrap_or("?").to_owned()
}

fn details(text: &mut String, event: &HistoryEvent) {
    let mut detail = |what: &str, value: String| writeln!(text, "       {what}: {value}").ok();
    if let Some(by) = &event.by {
        detail("by", by.clone());
    }
    if let Some(operation) = event.operation {
        detail("operation", operation.to_string());
    }
    if let Some(why) = &event.withheld {
        detail("withheld", why.clone());
    }
    if let Some(pause) = event.pause_ms {
        detail("pause", format!("{pause:.1}ms"));
    }
    if !event.evidence.is_empty() {
        let one = |e: &hotspare_cluster::Evidence| format!("{} seen by {} at {:.1}ms", e.what, e.seen_by, e.at_ms);
        detail("evidence", event.evidence.iter().map(one).collect::<Vec<_>>().join(", "));
    }
    detail("phases", phases(&event.phases_ms));
    detail(
        "caught up",
        format!("{} changelog records, {} input records read again", event.records_caught_up, event.readings_replayed),
    );
    if !event.passed_over.is_empty() {
        let one = |p: &hotspare_cluster::PassedOver| format!("{} {}", p.slot, candidate(&p.reason));
        detail("passed over", event.passed_over.iter().map(one).collect::<Vec<_>>().join(", "));
    }
    if let Some(error) = &event.error {
        detail("error", error.clone());
    }
    if let Some(note) = &event.note {
        detail("note", note.clone());
    }
}

/// Those that take part in every change, and the others where they took time.
pub(crate) fn phases(phases: &Phases) -> String {
    let Phases { prepare, last_commit, detect, held, elect, decide, fence, catch_up, first_output } = *phases;
    let planned = [("prepare", prepare), ("last commit", last_commit)];
    let found = [("detect", detect), ("held", held), ("elect", elect)];
    let sometimes = planned.into_iter().chain(found).filter(|(_, ms)| *ms > 0.0);
    let always = [("decide", decide), ("fence", fence), ("catch up", catch_up), ("first output", first_output)];
    sometimes.chain(always).map(|(name, ms)| format!("{name} {ms:.1}ms")).collect::<Vec<_>>().join("  ")
}

fn candidate(reason: &CandidateReason) -> String {
    match reason {
        CandidateReason::Behind { applied, best } => {
            format!("behind (applied {applied}, best {best})")
        }
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> HistoryEvent {
        serde_json::from_str(
            r#"{"seq":118,"kind":"failover","reason":"process_dead","partition":3,"epoch":43,"result":"success","by":null,
             "at":"2026-03-01T14:02:11.532Z","from":{"slot":"hotspare-1","node_id":4},"from_incarnation":7,
             "to":{"slot":"hotspare-0","node_id":3},
             "evidence":[{"seen_by":"hotspare-0","what":"connection_reset","at_ms":0.0},
                         {"seen_by":"hotspare-2","what":"reconnect_refused","at_ms":1.1}],
             "phases_ms":{"detect":1.3,"held":0,"elect":0,"decide":3.9,"fence":14.2,"catch_up":2.0,"first_output":22.7},
             "total_ms":45.9,"records_caught_up":212,"readings_replayed":940,
             "passed_over":[{"slot":"hotspare-2","node_id":57,"reason":"behind","applied":5,"best":9}],
             "false_positive":true,"error":null,"note":"rack 4"}"#,
        )
        .unwrap()
    }

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(
            render(&[event()], false),
            "  118  2026-03-01T14:02:11.532Z  failover    partition 3  epoch 43  hotspare-1 → hotspare-0  process_dead  \
             success  45.9ms  false positive\n"
        );
    }

    #[test]
    fn verbose_adds_what_the_decision_rests_on() {
        let text = render(&[event()], true);
        let details: Vec<&str> = text.lines().skip(1).map(str::trim).collect();
        assert_eq!(
            details,
            [
                "evidence: connection_reset seen by hotspare-0 at 0.0ms, reconnect_refused seen by hotspare-2 at 1.1ms",
                "phases: detect 1.3ms  decide 3.9ms  fence 14.2ms  catch up 2.0ms  first output 22.7ms",
                "caught up: 212 changelog records, 940 input records read again",
                "passed over: hotspare-2 behind (applied 5, best 9)",
                "note: rack 4",
            ]
        );
    }

    #[test]
    fn what_is_not_known_yet_is_a_question_mark() {
        let event = HistoryEvent { total_ms: None, result: EventResult::Pending, from: None, ..event() };
        let line = render(&[event], false);
        assert!(line.contains("none → hotspare-0  process_dead  pending  ?"), "{line}");
    }
}
