use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{net::TcpListener, sync::oneshot};

use super::{Rules, bind, fixture, run_source};
use crate::config::sections::HttpSection;

mod actions;

struct Server {
    address: SocketAddr,
    watched: SocketAddr,
    source: Arc<fixture::Fake>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start(rules: Rules) -> Self {
        let source = Arc::new(fixture::Fake { view: Mutex::new(fixture::view()), ..Default::default() });
        source.health.set_started();
        source.health.kafka_answered();
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let served = Arc::clone(&source);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let section = |listen: &str, metrics_listen: &str| HttpSection {
                    listen: listen.to_owned(),
                    metrics_listen: metrics_listen.to_owned(),
                    ..HttpSection::default()
                };
                // Two ports that are free; by default there is one listener for all.
                let listeners = bind(&section("127.0.0.1:0", "[::ffff:127.0.0.1]:0")).await.unwrap();
                let one = bind(&section("127.0.0.1:0", "127.0.0.1:0")).await.unwrap();
                assert!(one.watched.is_none());
                let address = |listener: &TcpListener| listener.local_addr().unwrap();
                tell.send((address(&listeners.all), listeners.watched.as_ref().map(address))).unwrap();
                run_source(listeners, served, rules, async {
                    ended.await.ok();
                })
                .await;
            });
        });
        let (address, watched) = told.recv().unwrap();
        Self { address, watched: watched.unwrap(), source, end: Some(end), thread: Some(thread) }
    }

    /// Sends bytes and reads until the server closes.
    fn raw(&self, request: &str) -> String {
        Self::raw_at(self.address, request)
    }

    fn raw_at(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8(answer).unwrap()
    }

    fn ask(&self, method: &str, path: &str) -> Answer {
        Self::ask_at(self.address, method, path)
    }

    fn ask_at(address: SocketAddr, method: &str, path: &str) -> Answer {
        let text =
            Self::raw_at(address, &format!("{method} {path} HTTP/1.1\r\nHost: node:1\r\nConnection: close\r\n\r\n"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: node:1\r\nConnection: close\r\nContent-Length: {length}\r\n");
        let text = self.raw(&format!("{head}{headers}\r\n{body}"));
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

/// Method, path, code and type.
const ANSWERS: [(&str, &str, u16, &str); 30] = [
    ("GET", "/livez", 200, TEXT),
    ("GET", "/startupz", 200, TEXT),
    ("GET", "/readyz", 200, TEXT),
    ("GET", "/active", 200, TEXT),
    ("GET", "/active?partition=1", 200, TEXT),
    ("GET", "/active?partition=0", 503, PROBLEM),
    ("GET", "/active?partition=x", 400, PROBLEM),
    ("GET", "/standby?partition=0", 200, TEXT),
    ("GET", "/standby?partition=0&max_age=1s", 200, TEXT),
    ("GET", "/standby?partition=0&max_age=200ms", 503, PROBLEM),
    ("GET", "/standby?partition=1", 503, PROBLEM),
    ("GET", "/standby", 400, PROBLEM),
    ("GET", "/v1/status", 200, JSON),
    ("GET", "/v1/nodes", 200, JSON),
    ("GET", "/v1/partitions", 200, JSON),
    ("GET", "/v1/partitions/1", 200, JSON),
    ("GET", "/v1/partitions/2", 404, PROBLEM),
    ("GET", "/v1/partitions/-1", 404, PROBLEM),
    ("GET", "/v1/history", 200, JSON),
    ("GET", "/v1/history?kind=nonsense", 400, PROBLEM),
    ("GET", "/v1/history?limit=0", 400, PROBLEM),
    ("GET", "/v1/history?limit=1001", 400, PROBLEM),
    ("GET", "/v1/history?partitoin=1", 400, PROBLEM),
    ("GET", "/v1/history?partition=1&partition=2", 400, PROBLEM),
    ("GET", "/metrics", 200, "text/plain; version=0.0.4"),
    ("GET", "/nothing", 404, PROBLEM),
    ("POST", "/v1/status", 405, PROBLEM),
    ("DELETE", "/nothing", 404, PROBLEM),
    ("HEAD", "/v1/status", 200, JSON),
    ("HEAD", "/livez", 200, TEXT),
];

#[test]
fn every_answer_has_its_code_type_and_is_not_stored() {
    let server = Server::start(fixture::rules());
    for (method, path, status, kind) in ANSWERS {
        let answer = server.ask(method, path);
        assert_eq!(answer.status, status, "{method} {path}: {}", answer.body);
        assert!(answer.head.contains(&format!("content-type: {kind}")), "{method} {path}: {}", answer.head);
        assert!(answer.head.contains("cache-control: no-store"), "{method} {path}");
        assert_eq!(method == "HEAD", answer.body.is_empty(), "{method} {path}");
        if kind == PROBLEM {
            let problem = answer.json();
            assert_eq!(problem["status"], status, "{path}");
            assert!(problem["type"].is_string() && problem["detail"].is_string(), "{path}");
        }
    }
    assert!(server.ask("POST", "/v1/status").head.contains("allow: get,head"));
}

#[test]
fn history_is_newest_first_and_filtered() {
    let server = Server::start(fixture::rules());
    for (query, expected) in [
        ("", vec![3, 2, 1]),
        ("?limit=2", vec![3, 2]),
        ("?before=3", vec![2, 1]),
        ("?before=3&limit=1", vec![2]),
        ("?kind=failover", vec![2]),
        ("?kind=initial", vec![1]),
        ("?partition=1", vec![3, 2]),
        ("?partition=7", vec![]),
    ] {
        let json = server.get(&format!("/v1/history{query}")).json();
        let found: Vec<u64> = json["events"].as_array().unwrap().iter().filter_map(|e| e["seq"].as_u64()).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn readiness_names_what_is_wrong_and_can_leave_it_out() {
    let server = Server::start(fixture::rules());
    server.source.health.set_topics(Some("topic \"x\" has cleanup.policy=delete".to_owned()));
    let answer = server.get("/readyz");
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json()["type"], "not_ready");
    assert_eq!(answer.json()["checks"][0]["name"], "topics");
    let answer = server.get("/readyz?verbose");
    assert_eq!(answer.status, 503);
    assert_eq!(
        answer.body,
        "[+]identity ok\n[+]leader_seen ok\n[+]raft ok\n[+]not_stopping ok\n[+]not_removed ok\n[+]kafka_client ok\n\
         [-]topics topic \"x\" has cleanup.policy=delete\n[+]replicas ok\n"
    );
    assert_eq!(server.get("/readyz?exclude=topics").status, 200);
    let answer = server.get("/readyz?verbose&exclude=topics&exclude=other");
    assert_eq!(answer.status, 200);
    assert!(
        answer.body.contains("[+]topics excluded\n") && answer.body.contains("no check \"other\""),
        "{}",
        answer.body
    );
    server.source.health.set_stopping();
    assert_eq!(server.get("/readyz?exclude=topics").json()["checks"][0]["name"], "not_stopping");
    assert_eq!(server.get("/livez").status, 200);
}

#[test]
fn losing_quorum_changes_the_status_and_not_readiness() {
    let server = Server::start(fixture::rules());
    assert_eq!(server.get("/readyz").status, 200);
    server.source.view.lock().unwrap().leader = None;
    assert_eq!(server.get("/readyz").status, 200);
    assert_eq!(server.get("/v1/status").json()["leader"], Value::Null);
}

#[test]
fn a_deposed_active_does_not_say_that_it_is_active() {
    let server = Server::start(fixture::rules());
    {
        let mut view = server.source.view.lock().unwrap();
        view.partitions[1].epoch.0 = 43;
        view.partitions[1].active = Some(view.node_id);
    }
    assert_eq!(server.get("/active?partition=1").status, 200, "promoted again after a fence");
    server.source.view.lock().unwrap().partitions[1].active = None;
    assert_eq!(server.get("/active?partition=1").status, 503);
}

#[test]
fn host_names_that_are_not_allowed_are_refused() {
    let server = Server::start(Rules { allowed_hosts: vec!["node".to_owned()], ..fixture::rules() });
    assert_eq!(server.get("/v1/status").status, 200);
    let server = Server::start(Rules { allowed_hosts: vec!["other".to_owned()], ..fixture::rules() });
    assert_eq!(server.get("/v1/status").status, 421);
    assert_eq!(server.get("/livez").status, 200);
}

#[test]
fn what_only_tokens_may_read_nobody_reads_yet() {
    let server = Server::start(Rules { read_open: false, metrics_open: true, ..fixture::rules() });
    assert_eq!(server.get("/v1/status").status, 403);
    assert_eq!(server.get("/metrics").status, 200);
    let server = Server::start(Rules { metrics_open: false, ..fixture::rules() });
    assert_eq!(server.get("/metrics").status, 403);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn a_request_too_large_or_too_slow_is_cut_off() {
    let rules = Rules {
        header_bytes_max: 2000,
        body_bytes_max: 1000,
        header_timeout: Duration::from_millis(200),
        request_timeout: Duration::from_millis(100),
        ..fixture::rules()
    };
    let server = Server::start(rules);
    let long = "x".repeat(2000);
    let answer = server.raw(&format!("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nLong: {long}\r\n\r\n"));
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let longer = "x".repeat(9000);
    let answer = server.raw(&format!("GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\nLong: {longer}\r\n\r\n"));
    assert!(!answer.contains("200 OK"), "{answer}");
    let started = std::time::Instant::now();
    let answer = server.raw("GET /livez HTTP/1.1\r\nHost: a\r\n");
    assert!(answer.is_empty() && started.elapsed() < Duration::from_secs(10), "{answer}");
}

#[test]
fn the_server_ends_though_a_client_holds_on() {
    let mut server = Server::start(fixture::rules());
    let mut held = TcpStream::connect(server.address).unwrap();
    held.write_all(b"GET /livez HTTP/1.1\r\n").unwrap();
    assert_eq!(server.get("/livez").status, 200);
    let started = std::time::Instant::now();
    server.end.take().unwrap().send(()).unwrap();
    server.thread.take().unwrap().join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
}

#[test]
fn metrics_and_health_have_a_listener_of_their_own_without_the_rest() {
    let server = Server::start(fixture::rules());
    for (path, status) in
        [("/metrics", 200), ("/livez", 200), ("/startupz", 200), ("/v1/status", 404), ("/v1/history", 404)]
    {
        assert_eq!(Server::ask_at(server.watched, "GET", path).status, status, "{path}");
    }
    assert_eq!(server.get("/metrics").status, 200, "the main listener has them too");
}

#[test]
fn requests_are_counted_by_route_and_code() {
    let server = Server::start(fixture::rules());
    for path in ["/v1/partitions/0", "/v1/partitions/1", "/v1/partitions/9", "/nowhere"] {
        server.get(path);
    }
    let text = server.get("/metrics").body;
    for (route, code, count) in
        [("/v1/partitions/{partition}", "200", 2), ("/v1/partitions/{partition}", "404", 1), ("other", "404", 1)]
    {
        let line = format!("route=\"{route}\",code=\"{code}\"}} {count}");
        let has = |name: &str| text.lines().any(|found| found.starts_with(name) && found.ends_with(&line));
        assert!(has("hotspare_http_requests_total") && has("hotspare_http_request_seconds_count"), "{line}\n{text}");
    }
}
