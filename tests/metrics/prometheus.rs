//! A real Prometheus scrapes a cluster whose nodes are killed: every expression gives data, and the kills fire the alerts
//! that they should and no others.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::expressions::{check, read, records, rule_expressions};
use crate::harness::broker::Broker;
use crate::harness::cluster::TestCluster;
use crate::harness::node::Node;
use crate::harness::ports::Port;
use crate::harness::workload::{MESSY, Workload};
use crate::harness::{skip, wait_until};

const WITHIN: Duration = Duration::from_secs(90);

/// A Prometheus with our rules that scrapes a cluster once a second. Ends when dropped.
struct Prometheus {
    process: Node,
    _port: Port,
}

impl Prometheus {
    fn start(cluster: &TestCluster<'_>) -> Prometheus {
        let (dir, port) = (cluster.dir().join("prometheus"), Port::reserve());
        std::fs::create_dir(&dir).expect("a folder");
        // As often as it scrapes, so that the test need not wait.
        let rules = read("prometheus/hotspare.yml").replace("interval: 10s", "interval: 1s");
        std::fs::write(dir.join("hotspare.yml"), rules).expect("a file");
        let targets: Vec<String> = cluster.nodes.iter().map(|node| format!("{:?}", node.http)).collect();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [hotspare.yml]\nscrape_configs:\n\
             - job_name: hotspare\n  static_configs: [{{targets: [{}]}}]\n",
            targets.join(", ")
        );
        let file = dir.join("prometheus.yml");
        std::fs::write(&file, config).expect("a file");
        let program = vec![
            "prometheus".to_owned(),
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", dir.join("data").display()),
            format!("--web.listen-address={}", port.address()),
        ];
        let mut process = Node::of_program("prometheus", &file, &dir.join("log"), &port.address(), program);
        process.start();
        wait_until("Prometheus is ready", WITHIN, || {
            process.http_get("/-/ready").ok().filter(|answer| answer.status == 200)
        });
        Prometheus { process, _port: port }
    }

    /// The samples that an expression gives: labels and value. A time in seconds from now, for what comes later.
    fn query(&self, expression: &str, later_s: f64) -> Vec<(Value, f64)> {
        let now_s =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let encoded: String = expression.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={encoded}&time={}", now_s + later_s);
        let answer = self.process.http_get(&path).expect("Prometheus answers");
        let json = answer.json();
        assert_eq!(json["status"], "success", "{expression}: {}", answer.body);
        let samples = json["data"]["result"].as_array().expect("samples").iter();
        let value = |sample: &Value| sample["value"][1].as_str().and_then(|text| text.parse().ok()).expect("a number");
        samples.map(|sample| (sample["metric"].clone(), value(sample))).collect()
    }

    fn alerts(&self, expression: &str) -> BTreeSet<String> {
        let name = |(labels, _): (Value, f64)| labels["alertname"].as_str().expect("a name").to_owned();
        self.query(expression, 0.0).into_iter().map(name).collect()
    }
}

/// The expression without what it is compared with: what must give data even if nothing is wrong.
fn compared(expression: &str) -> String {
    let mut words: Vec<&str> = expression.split_whitespace().collect();
    let compares = |pair: &[&str]| ["<", ">", ">=", "=="].contains(&pair[0]) && pair[1].parse::<f64>().is_ok();
    while let Some(place) = words.windows(2).position(compares) {
        words.drain(place..place + 2);
    }
    words.join(" ")
}

/// All expressions of the dashboards' panels and annotations, with their title.
fn panels() -> Vec<(String, String)> {
    let folder = crate::expressions::folder().join("grafana");
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).expect("dashboards").map(|entry| entry.expect("an entry").path()) {
        if file.extension().is_some_and(|end| end == "json") {
            let text = std::fs::read_to_string(&file).expect("a dashboard");
            collect(&serde_json::from_str(&text).expect("JSON"), "", &mut found);
        }
    }
    assert!(found.len() > 20, "dashboards have expressions");
    found
}

fn collect(value: &Value, title: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let title = fields.get("title").or(fields.get("name")).and_then(Value::as_str).unwrap_or(title);
            found.extend(fields.get("expr").and_then(Value::as_str).map(|expr| (title.to_owned(), expr.to_owned())));
            fields.values().for_each(|field| collect(field, title, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, title, found)),
        _ => {}
    }
}

#[test]
fn dashboards_speak_of_metrics_and_labels_that_there_are() {
    let records = records(&read("prometheus/hotspare.yml"));
    for (title, expression) in panels() {
        assert!(check(&expression, &records) > 0, "{title}: {expression}");
    }
}

/// The alerts without waiting time that events of the history must have fired.
fn expected(history: &[Value]) -> BTreeSet<&'static str> {
    let failovers = history.iter().filter(|event| event["kind"] == "failover");
    let mut expected = BTreeSet::new();
    for event in failovers {
        let objective_ms = if event["reason"] == "process_dead" { 250.0 } else { 600.0 };
        let checks = [
            ("HotspareUnplannedFailover", event["result"] != "pending"),
            ("HotspareFailoverSlow", event["total_ms"].as_f64().is_some_and(|ms| ms > objective_ms)),
            ("HotspareFailoverFailed", event["result"] == "failed"),
            ("HotspareFalseFailover", event["false_positive"] == true),
        ];
        expected.extend(checks.into_iter().filter(|(_, fires)| *fires).map(|(name, _)| name));
    }
    expected
}

#[test]
fn kills_fire_the_alerts_that_they_should_and_every_expression_gives_data() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        return skip("alerts and dashboards on a real Prometheus", "prometheus is missing");
    }
    let mut cluster = TestCluster::of(Broker::shared(), 3, 2)
        .config(MESSY)
        .config("[replication]\nstandbys = 2\n[checkpoint]\ninterval = \"1s\"")
        .start();
    let mut workload = Workload::new(12, 2);
    let prometheus = Prometheus::start(&cluster);
    let feed = |cluster: &TestCluster<'_>, workload: &mut Workload| {
        cluster.broker.produce(&cluster.topic, &workload.chunk(50))
    };
    let fired = r#"max_over_time(ALERTS{alertstate="firing"}[1h])"#;
    wait_until("three nodes are scraped twice", WITHIN, || {
        feed(&cluster, &mut workload);
        (prometheus.query(r#"count_over_time(up{job="hotspare"}[1m]) > 1"#, 0.0).len() == 3).then_some(())
    });
    assert_eq!(prometheus.alerts(fired), BTreeSet::new(), "nothing has happened yet");
    for partition in [0, 1] {
        let active = cluster.wait_active(partition, WITHIN);
        let down = format!(r#"up{{job="hotspare",instance="{}"}} == 0"#, cluster.nodes[active].http);
        cluster.nodes[active].kill9();
        wait_until("Prometheus sees the dead node, and an alert waits for it to last", WITHIN, || {
            feed(&cluster, &mut workload);
            let pending = prometheus.alerts(r#"ALERTS{alertstate="pending"}"#).contains("HotspareNodeDown");
            (pending && !prometheus.query(&down, 0.0).is_empty()).then_some(())
        });
        cluster.nodes[active].start();
        cluster.wait_ready();
        wait_until("the alert waits no longer", WITHIN, || {
            feed(&cluster, &mut workload);
            (!prometheus.alerts("ALERTS").contains("HotspareNodeDown")).then_some(())
        });
    }
    cluster.wait_clean();
    let wanted = expected(&cluster.history());
    let found = cluster.wait_until("the alerts of the kills have fired", WITHIN, |_| {
        let found = prometheus.alerts(fired);
        wanted.iter().all(|name| found.contains(*name)).then_some(found)
    });
    assert_eq!(found.iter().map(String::as_str).collect::<BTreeSet<_>>(), wanted);
    let unplanned = rule_expressions(&read("prometheus/hotspare.yml"));
    let unplanned =
        unplanned.iter().find(|text| text.contains("reason!=\"operator\"")).expect("the alert's expression");
    assert!(!prometheus.query(unplanned, 0.0).is_empty());
    assert!(prometheus.query(unplanned, 660.0).is_empty(), "it resolves ten minutes later");
    every_expression_gives_data(&prometheus, &cluster, &mut workload);
    history_gives_a_report(&cluster);
}

/// `hotspare history --report`, from the same cluster.
fn history_gives_a_report(cluster: &TestCluster<'_>) {
    let file = cluster.dir().join("report.html");
    let run = Command::new(env!("CARGO_BIN_EXE_hotspare"))
        .args(["history", "--server", &format!("http://{}", cluster.nodes[0].http), "--report"])
        .arg(&file)
        .output()
        .expect("the program runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let html = std::fs::read_to_string(&file).expect("a report");
    assert!(html.contains(&format!("Recovery times of {}", cluster.name)));
    for event in cluster.history().iter().filter(|event| event["total_ms"].is_number() && event["kind"] == "failover") {
        let shown = format!(
            ">{}: {}, partition {}<",
            event["seq"],
            event["reason"].as_str().expect("a reason"),
            event["partition"]
        );
        assert!(html.contains(&shown), "{shown}");
    }
}

fn every_expression_gives_data(prometheus: &Prometheus, cluster: &TestCluster<'_>, workload: &mut Workload) {
    let rules = rule_expressions(&read("prometheus/hotspare.yml"));
    let mut expressions: Vec<(String, String)> =
        rules.iter().map(|text| ("a rule".to_owned(), compared(text))).collect();
    for (title, text) in panels() {
        let text = compared(&text).replace("$cluster", ".*").replace("$slot", ".*");
        expressions.push((
            title,
            text.replace("$__rate_interval", "30s").replace("$__interval", "30s").replace("$__range", "10m"),
        ));
    }
    for (title, expression) in expressions {
        wait_until(&format!("data come for {title}: {expression}"), Duration::from_secs(30), || {
            cluster.broker.produce(&cluster.topic, &workload.chunk(20));
            prometheus.query(&expression, 0.0).iter().any(|(_, value)| !value.is_nan()).then_some(())
        });
    }
}
