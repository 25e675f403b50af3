//! Every expression of rules and dashboards speaks of metrics and labels that there are.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use hotspare::metrics::{Kind, Metric, catalogue};

/// Alerts of the operations specification whose metrics come later.
const LATER: [(&str, &str); 5] = [
    ("HotsparePredictedFailoverSlow", "nothing predicts yet"),
    ("HotspareInvariantViolated", "there is no module of invariants yet"),
    ("HotspareStateMemory", "the store does not count its bytes"),
    ("HotsparePausedTooLong", "comes with pause"),
    ("HotspareDrillOverdue", "comes with drills"),
];
const WANTED: &str = "NoActive NodeDown NoPromotableStandby RedundancyReduced UnplannedFailover FalseFailover FailoverSlow \
    FailoverFailed FailoverFlapping PredictedFailoverSlow StateDivergence InvariantViolated ReadingsUnaccounted \
    TwoActiveClaims StandbyLag InputLag ReadingsRefused KafkaUnreachable TopicSettingWrong NoQuorum RaftLeaderChanges \
    RaftFsyncSlow CheckpointOld StateMemory IdentityRejected ConfigMismatch PausedTooLong DrillOverdue";

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("deploy")
}

pub fn read(path: &str) -> String {
    let path = folder().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names of alerts, each once.
fn alerts(rules: &str) -> BTreeSet<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

/// The expressions of the rules.
pub fn rule_expressions(rules: &str) -> Vec<String> {
    let mut expressions = Vec::new();
    let mut lines = rules.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "expr: |" {
            let depth = line.len() - line.trim_start().len();
            let mut expression = String::new();
            while let Some(more) = lines.next_if(|more| more.len() - more.trim_start().len() > depth) {
                expression.push_str(more.trim());
                expression.push('\n');
            }
            expressions.push(expression);
        }
    }
    expressions
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == ':'
}

/// The metric of a name in an expression.
fn metric(name: &str) -> Option<&'static Metric> {
    let name = name.strip_prefix("hotspare_")?;
    catalogue::ALL.iter().copied().find(|metric| match metric.kind {
        Kind::Histogram(_) => {
            name.strip_prefix(metric.name).is_some_and(|end| ["_bucket", "_sum", "_count"].contains(&end))
        }
        _ => name == metric.name,
    })
}

/// Checks the selectors of an expression and the labels in `by (…)`; gives how many selectors it has.
pub fn check(expression: &str, records: &BTreeSet<String>) -> usize {
    let mut selectors = 0;
    let mut known: BTreeSet<&str> = ["cluster", "slot", "instance", "job", "le"].into();
    let mut at = 0;
    while let Some(found) = expression[at..].find("hotspare_") {
        let begin = expression[..at + found].rfind(|letter| !is_word(letter)).map_or(0, |before| before + 1);
        let end = expression[begin..].find(|letter| !is_word(letter)).map_or(expression.len(), |length| begin + length);
        let name = &expression[begin..end];
        at = end;
        selectors += 1;
        if name.contains(':') {
            assert!(records.contains(name), "{name} is no recording rule: {expression}");
            known.extend(name.split(':').next().unwrap_or_default().split('_'));
            continue;
        }
        let metric = metric(name).unwrap_or_else(|| panic!("{name} is not in the catalogue: {expression}"));
        let labels: Vec<&str> = metric.labels.iter().map(|label| label.name).collect();
        known.extend(&labels);
        if let Some(matchers) = expression[end..].strip_prefix('{') {
            let matchers = &matchers[..matchers.find('}').expect("a closed selector")];
            for matcher in matchers.split(',').filter(|matcher| !matcher.is_empty()) {
                check_matcher(matcher, metric, expression);
            }
        }
    }
    for by in expression.split("by (").skip(1) {
        for label in by[..by.find(')').expect("a closed list")].split(',').map(str::trim) {
            assert!(known.contains(label), "{label} is no label here: {expression}");
        }
    }
    selectors
}

fn check_matcher(matcher: &str, metric: &Metric, expression: &str) {
    let name: String = matcher.chars().take_while(|letter| is_word(*letter)).collect();
    let values = matcher.split('"').nth(1).unwrap_or_default();
    if ["cluster", "slot", "instance", "job"].contains(&name.as_str()) {
        return;
    }
    if let ("le", Kind::Histogram(bounds)) = (name.as_str(), metric.kind) {
        assert!(bounds.iter().any(|bound| bound.to_string() == values), "no bucket {values}: {expression}");
        return;
    }
    let label = metric.labels.iter().find(|label| label.name == name);
    let label = label.unwrap_or_else(|| panic!("{} has no label {name}: {expression}", metric.name));
    for value in values.split('|').filter(|value| !value.contains('$') && !label.values.is_empty()) {
        assert!(label.values.contains(&value), "{name} is never {value}: {expression}");
    }
}

/// Names of the recording rules.
pub fn records(rules: &str) -> BTreeSet<String> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).map(str::to_owned).collect()
}

#[test]
fn the_alerts_are_the_specified_ones_and_each_has_a_runbook() {
    let (rules, runbooks) = (read("prometheus/hotspare.yml"), read("RUNBOOKS.md"));
    let mut wanted: BTreeSet<String> = WANTED.split_whitespace().map(|name| format!("Hotspare{name}")).collect();
    for (later, _) in LATER {
        assert!(wanted.remove(later), "{later}");
    }
    let found = alerts(&rules);
    assert_eq!(found.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), wanted);
    for name in found {
        assert!(runbooks.contains(&format!("\n## {name}\n")), "{name} has no runbook");
        assert!(rules.contains(&format!("RUNBOOKS.md#{}\n", name.to_lowercase())), "{name} has no link to it");
        assert!(read("prometheus/hotspare.test.yml").contains(name), "{name} has no test");
    }
}

#[test]
fn rules_speak_of_metrics_and_labels_that_there_are() {
    let rules = read("prometheus/hotspare.yml");
    let (expressions, records) = (rule_expressions(&rules), records(&rules));
    assert_eq!(expressions.len(), rules.matches("expr:").count());
    for expression in &expressions {
        assert!(check(expression, &records) > 0, "{expression}");
    }
    for wrong in [
        "hotspare_nothing",
        "hotspare_nodes{stat=\"dead\"}",
        "hotspare_nodes{state=\"ill\"}",
        "max by (x) (hotspare_nodes)",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong, &BTreeSet::new())).is_err(), "{wrong}");
    }
}

#[test]
fn the_dashboards_are_those_that_their_builders_give() {
    let run = Command::new(folder().join("grafana/generate")).arg("--check").output().expect("the script runs");
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    if text.contains("cannot be fetched") {
        return crate::harness::skip("whether dashboards are as generated", text.trim());
    }
    assert!(run.status.success(), "{text}");
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    if Command::new("promtool").arg("--version").output().is_err() {
        return crate::harness::skip("rules of Prometheus", "promtool is missing");
    }
    for arguments in [["check", "rules", "hotspare.yml"], ["test", "rules", "hotspare.test.yml"]] {
        let run = Command::new("promtool")
            .args(arguments)
            .current_dir(folder().join("prometheus"))
            .output()
            .expect("promtool");
        let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "promtool {}:\n{text}", arguments.join(" "));
    }
}
