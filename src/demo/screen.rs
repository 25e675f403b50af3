//! What is seen while it runs: a page that is drawn anew on a terminal, a line an event elsewhere.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    io::{IsTerminal as _, Write},
    time::{Duration, Instant},
};

use super::{
    nodes::Nodes,
    outage::Summary,
    report::Kill,
    status::{Partition, Status},
};

const EVENTS_SHOWN: usize = 10;
const REDRAW: Duration = Duration::from_millis(250);

/// The screen.
pub(super) struct Screen {
    is_terminal: bool,
    begin: Instant,
    drawn_at: Option<Instant>,
    events: VecDeque<String>,
}

/// What is shown besides the events.
pub(super) struct Scene<'a> {
    pub(super) title: String,
    pub(super) nodes: &'a Nodes,
    pub(super) status: Option<&'a Status>,
    pub(super) kills: &'a [Kill],
}

impl Screen {
    pub(super) fn new() -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { is_terminal, begin: Instant::now(), drawn_at: None, events: VecDeque::new() }
    }

    /// Something happened.
    pub(super) fn event(&mut self, text: impl AsRef<str>) {
        let line = format!("{:>7.2} s  {}", self.begin.elapsed().as_secs_f64(), text.as_ref());
        if self.is_terminal {
            self.events.push_back(line);
            while self.events.len() > EVENTS_SHOWN {
                self.events.pop_front();
            }
            self.drawn_at = None;
        } else {
            // Whoever reads may be gone; the run goes on.
            let _ = writeln!(std::io::stdout(), "{line}");
        }
    }

    /// Draws the page, unless it was drawn just now.
    pub(super) fn draw(&mut self, scene: &Scene<'_>) {
        if !self.is_terminal || self.drawn_at.is_some_and(|at| at.elapsed() < REDRAW) {
            return;
        }
        self.drawn_at = Some(Instant::now());
        let mut page = self.page(scene);
        for line in &self.events {
            page.push_str(line);
            page.push('\n');
        }
        // Home; each line is cleared to its end, and what is below the page too: no flicker.
        let page = page.replace('\n', "\x1b[K\n");
        let mut out = std::io::stdout().lock();
        let _ = write!(out, "\x1b[H{page}\x1b[J").and_then(|()| out.flush());
    }

    fn page(&self, scene: &Scene<'_>) -> String {
        let mut page = format!("{}   {:.0} s\n\n", scene.title, self.begin.elapsed().as_secs_f64());
        let _ = writeln!(page, "{:<12} {:<9} {:<12} {:<8} STANDBY", "NODE", "STATE", "", "ACTIVE");
        for node in &scene.nodes.all {
            let _ = writeln!(page, "{}", node_line(&node.slot, scene.status));
        }
        let _ = writeln!(
            page,
            "\n{:>3} {:>6}  {:<12} {:>5} {:>9} {:>11}",
            "P", "EPOCH", "ACTIVE", "WARM", "LAG REC", "INPUT LAG"
        );
        for partition in scene.status.map_or(&[][..], |status| &status.partitions) {
            let active = partition.active.as_deref().unwrap_or("-");
            let working = if partition.is_working { active.to_owned() } else { format!("({active})") };
            let input = partition.input_lag_records.map_or("-".to_owned(), |lag| lag.to_string());
            let _ = writeln!(
                page,
                "{:>3} {:>6}  {working:<12} {:>5} {:>9} {input:>11}",
                partition.partition, partition.epoch, partition.warm, partition.lag_records
            );
        }
        if let Some(kill) = scene.kills.last() {
            let _ = writeln!(page, "\nlast: {}", describe(kill));
        }
        let outages: Vec<f64> = scene.kills.iter().filter_map(|kill| kill.outage_ms).collect();
        if let Some(Summary { count, min, median, p90, max }) = Summary::of(&outages) {
            let _ = writeln!(
                page,
                "outages: {count}, min {min:.0} ms, median {median:.0} ms, p90 {p90:.0} ms, max {max:.0} ms"
            );
        }
        page.push('\n');
        page
    }
}

fn node_line(slot: &str, status: Option<&Status>) -> String {
    let Some(status) = status else { return format!("{slot:<12} starting") };
    let state = status.nodes.get(slot).map_or("unknown", String::as_str);
    let leader = if status.leader.as_deref() == Some(slot) { "Raft leader" } else { "" };
    let of = |has: &dyn Fn(&Partition) -> bool| {
        let has = status.partitions.iter().filter(|partition| has(partition));
        has.map(|partition| partition.partition.to_string()).collect::<Vec<_>>().join(",")
    };
    let actives = of(&|partition| partition.active.as_deref() == Some(slot));
    let standbys = of(&|partition| partition.standbys.iter().any(|standby| standby == slot));
    format!("{slot:<12} {state:<9} {leader:<12} {actives:<8} {standbys}")
}

/// A kill in one line.
pub(super) fn describe(kill: &Kill) -> String {
    let mut text = format!("killed {} ({})", kill.slot, kill.role.name());
    match kill.outage_ms {
        Some(outage_ms) => {
            let _ = write!(text, ": outage {outage_ms:.1} ms for partitions {:?}", kill.partitions);
        }
        None => text.push_str(": no partition lost its active"),
    }
    let slowest = kill
        .failovers
        .iter()
        .max_by(|one, other| one.total_ms.unwrap_or(0.0).total_cmp(&other.total_ms.unwrap_or(0.0)));
    if let Some(failover) = slowest {
        let phases = ["detect", "held", "elect", "decide", "fence", "catch_up", "first_output"];
        let shown = phases.iter().filter_map(|phase| Some(format!("{phase} {:.1}", failover.phases_ms.get(*phase)?)));
        let _ = write!(text, "; partition {}: {}", failover.partition, shown.collect::<Vec<_>>().join(", "));
    }
    text
}
