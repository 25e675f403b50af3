//! `hotspare history --report`: recovery times as one HTML file without external parts.

use std::{collections::BTreeMap, fmt::Write as _};

use hotspare_cluster::{EventKind, EventResult, HistoryEvent, TOTAL_BOUNDS_S, phases_by_name};

/// Width of drawings.
const WIDTH: f64 = 960.0;
/// Left of drawings, for names.
const LEFT: f64 = 170.0;
const ROW: f64 = 18.0;
/// Changes of which each is drawn; the newest.
const DRAWN_MAX: usize = 60;
/// Fewer samples than these have no 95th or 99th percentile.
const P95_FROM: usize = 20;
const P99_FROM: usize = 100;
/// One for each phase.
const COLOURS: [&str; 9] =
    ["#8c564b", "#e377c2", "#9aa0a6", "#c58af9", "#fcad70", "#78d9ec", "#8ab4f8", "#81c995", "#f28b82"];
const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#202124}\
    table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #dadce0;text-align:right}\
    td:first-child,th:first-child{text-align:left}svg text{font:11px system-ui,sans-serif;fill:#3c4043}";

/// The page; `events` in any order, `shown_at` and the cluster's name for its head.
#[must_use]
pub fn page(cluster: &str, shown_at: &str, events: &[HistoryEvent]) -> String {
    let mut events: Vec<&HistoryEvent> = events.iter().collect();
    events.sort_by_key(|event| event.seq);
    let is_timed = |event: &&&HistoryEvent| event.kind != EventKind::Initial && event.result == EventResult::Success;
    let timed: Vec<&HistoryEvent> =
        events.iter().filter(is_timed).copied().filter(|event| event.total_ms.is_some()).collect();
    let title = format!("Recovery times of {}", escaped(cluster));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n<p>{} events of the history, shown {}.",
        events.len(),
        escaped(shown_at)
    );
    let untimed = events.iter().filter(is_timed).filter(|event| event.total_ms.is_none()).count();
    if untimed > 0 {
        write!(html, " {untimed} succeeded without a known time: the deciding leader was gone before the report came.")
            .ok();
    }
    html.push_str("</p>\n");
    percentiles(&mut html, &timed);
    histogram(&mut html, &timed);
    phases(&mut html, &timed);
    timeline(&mut html, &events);
    html.push_str("</body></html>\n");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The smallest sample that at least this share of all is not above.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a small place"
)]
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

fn percentiles(html: &mut String, timed: &[&HistoryEvent]) {
    html.push_str(
        "<h2>From the last sign of life to the first commit</h2>\n<table><tr><th>kind and reason</th><th>N</th><th>min</th>\
         <th>median</th><th>p95</th><th>p99</th><th>max</th></tr>\n",
    );
    let mut by_reason: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for event in timed {
        let key = format!("{}, {}", event.kind.name(), event.reason.name());
        by_reason.entry(key).or_default().extend(event.total_ms);
    }
    for (key, mut ms) in by_reason {
        ms.sort_by(f64::total_cmp);
        let shown = |share, from| match percentile(&ms, share) {
            Some(value) if ms.len() >= from => format!("{value:.1} ms"),
            _ => format!("N &lt; {from}"),
        };
        let [least, median, p95, p99, most] =
            [shown(0.0, 1), shown(0.5, 1), shown(0.95, P95_FROM), shown(0.99, P99_FROM), shown(1.0, 1)];
        writeln!(
            html,
            "<tr><td>{key}</td><td>{}</td><td>{least}</td><td>{median}</td><td>{p95}</td><td>{p99}</td><td>{most}</td></tr>",
            ms.len()
        )
        .ok();
    }
    html.push_str("</table>\n");
    if timed.is_empty() {
        html.push_str("<p>No failover or switchover with a known time yet.</p>\n");
    }
}

fn bar(html: &mut String, (x, y, width): (f64, f64, f64), colour: &str, tip: &str) {
    let height = ROW - 4.0;
    writeln!(
        html,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height}\" fill=\"{colour}\"><title>{tip}</title></rect>",
        width.max(0.5)
    )
    .ok();
}

fn label(html: &mut String, x: f64, y: f64, text: &str) {
    writeln!(html, "<text x=\"{x:.1}\" y=\"{:.1}\">{text}</text>", y + ROW - 7.0).ok();
}

fn open(html: &mut String, title: &str, rows: usize) {
    let height = ROW * f64::from(u32::try_from(rows).unwrap_or(u32::MAX)) + 6.0;
    writeln!(html, "<h2>{title}</h2>\n<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"100%\" role=\"img\">").ok();
}

fn place(row: usize) -> f64 {
    ROW * f64::from(u32::try_from(row).unwrap_or(u32::MAX))
}

fn histogram(html: &mut String, timed: &[&HistoryEvent]) {
    let bounds: Vec<f64> = TOTAL_BOUNDS_S.iter().map(|bound| bound * 1000.0).chain([f64::INFINITY]).collect();
    let mut counts = vec![0_u32; bounds.len()];
    for ms in timed.iter().filter(|event| event.kind == EventKind::Failover).filter_map(|event| event.total_ms) {
        let bound = bounds.iter().position(|bound| ms <= *bound);
        if let Some(count) = bound.and_then(|bound| counts.get_mut(bound)) {
            *count += 1;
        }
    }
    let most = f64::from(counts.iter().copied().max().unwrap_or(0).max(1));
    open(html, "Failovers by duration", counts.len());
    for (row, (bound, count)) in bounds.iter().zip(&counts).enumerate() {
        let name = if bound.is_finite() { format!("up to {bound} ms") } else { "longer".to_owned() };
        label(html, 0.0, place(row), &name);
        let width = (WIDTH - LEFT - 60.0) * f64::from(*count) / most;
        bar(html, (LEFT, place(row), width), "#8ab4f8", &format!("{name}: {count}"));
        label(html, LEFT + width + 6.0, place(row), &count.to_string());
    }
    html.push_str("</svg>\n");
}

fn phases(html: &mut String, timed: &[&HistoryEvent]) {
    let drawn = &timed[timed.len().saturating_sub(DRAWN_MAX)..];
    let longest = drawn.iter().filter_map(|event| event.total_ms).fold(1.0, f64::max);
    open(html, "Where the time went, newest first", drawn.len() + 1);
    let names = phases_by_name(&hotspare_cluster::Phases::default());
    let (mut x, colours) = (LEFT, COLOURS.iter());
    for ((name, _), colour) in names.iter().zip(colours) {
        bar(html, (x, 0.0, 10.0), colour, name);
        label(html, x + 14.0, 0.0, name);
        x += 84.0;
    }
    for (row, event) in drawn.iter().rev().enumerate() {
        let y = place(row + 1);
        label(html, 0.0, y, &format!("{}: {}, partition {}", event.seq, event.reason.name(), event.partition));
        let mut x = LEFT;
        for ((name, ms), colour) in phases_by_name(&event.phases_ms).into_iter().zip(COLOURS) {
            let width = (WIDTH - LEFT - 70.0) * ms.max(0.0) / longest;
            if ms > 0.0 {
                bar(html, (x, y, width), colour, &format!("{name} {ms:.1} ms"));
            }
            x += width;
        }
        label(html, x + 6.0, y, &format!("{:.1} ms", event.total_ms.unwrap_or_default()));
    }
    html.push_str("</svg>\n");
}

/// From where to where an active is drawn.
struct Tenure {
    begin: f64,
    end: f64,
    tip: String,
}

#[expect(clippy::cast_precision_loss, reason = "for a drawing")]
fn timeline(html: &mut String, events: &[&HistoryEvent]) {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
    // The newest tenures are drawn a little beyond the last event.
    let span = ((last.at.0 - first.at.0) as f64).max(1000.0) * 1.05;
    let x = |at: i64| LEFT + (WIDTH - LEFT) * ((at - first.at.0) as f64 / span).clamp(0.0, 1.0);
    let mut lanes: BTreeMap<(&str, u32), Vec<Tenure>> = BTreeMap::new();
    for (place, event) in events.iter().enumerate() {
        let next = events.iter().skip(place + 1).find(|later| later.partition == event.partition);
        let end = next.map_or(WIDTH, |next| x(next.at.0));
        let tip = format!("{}: epoch {}, {}, {}", event.at, event.epoch, event.reason.name(), event.result.name());
        lanes.entry((&event.to.slot.0, event.partition.0)).or_default().push(Tenure { begin: x(event.at.0), end, tip });
    }
    open(html, "Who was active", lanes.len() + 1);
    for (row, ((slot, partition), tenures)) in lanes.iter().enumerate() {
        label(html, 0.0, place(row), &format!("{}, partition {partition}", escaped(slot)));
        for Tenure { begin, end, tip } in tenures {
            bar(html, (*begin, place(row), end - begin), "#81c995", tip);
        }
    }
    label(html, LEFT, place(lanes.len()), &format!("{} to {}", first.at, last.at));
    html.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fixture::events;

    fn failovers(count: u64) -> Vec<HistoryEvent> {
        let (mut all, one) = (events(), events().remove(1));
        all.extend((0..count).map(|seq| {
            #[expect(clippy::cast_precision_loss, reason = "small")]
            let total_ms = Some(20.0 + seq as f64);
            HistoryEvent { seq: 10 + seq, total_ms, ..one.clone() }
        }));
        all
    }

    #[test]
    fn percentiles_need_enough_samples() {
        let few = page("a", "now", &failovers(3));
        assert!(
            few.contains("<td>failover, process_dead</td><td>4</td><td>20.0 ms</td><td>21.0 ms</td><td>N &lt; 20</td>"),
            "{few}"
        );
        let many = page("a", "now", &failovers(99));
        // 20 to 118, and 45.9 of the fixture: of 100 samples the 95th and the 99th.
        assert!(
            many.contains(
                "<td>100</td><td>20.0 ms</td><td>68.0 ms</td><td>113.0 ms</td><td>117.0 ms</td><td>118.0 ms</td>"
            ),
            "{many}"
        );
    }

    #[test]
    fn the_file_is_whole_without_anything_from_elsewhere() {
        let html = page("<b>&", "now", &failovers(70));
        for foreign in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(foreign), "{foreign}");
        }
        assert!(html.contains("Recovery times of &lt;b&gt;&amp;") && !html.contains("<b>"));
        for (open, close) in
            [("<svg ", "</svg>"), ("<table>", "</table>"), ("<rect ", "</rect>"), ("<text ", "</text>")]
        {
            assert_eq!(html.matches(open).count(), html.matches(close).count(), "{open}");
        }
        assert!(html.contains("hotspare-2, partition 1") && html.contains("catch_up 2.0 ms"));
        let numbers = |text: &str| text.contains("NaN") || text.contains("inf\"");
        assert!(!numbers(&html) && !numbers(&page("a", "now", &[])));
    }
}
