//! The harness itself: what the other tests rely on.

mod harness;

use std::process::{Command, Stdio};
use std::time::Duration;

use harness::broker::Broker;
use harness::cluster::TestCluster;
use harness::node::Node;
use harness::records::{Isolation, Rec, send};
use harness::wait_until;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::Producer;

const SECONDS_5: Duration = Duration::from_secs(5);
const SECONDS_30: Duration = Duration::from_secs(30);

/// Is this process there, and no zombie?
fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_topic_keeps_what_was_written_to_it() {
    let broker = Broker::shared();
    let topic = harness::unique_name("kept");
    broker.create_topic(&topic, 2, &[("cleanup.policy", "compact")]);
    assert_eq!(broker.topic_config(&topic)["cleanup.policy"], "compact");
    let mut first = Rec::new(1, "key", "value");
    first.timestamp = 1_700_000_000_123;
    first.headers = vec![("a".to_owned(), Some(b"1".to_vec())), ("b".to_owned(), None)];
    let mut tombstone = Rec::new(0, "key", "");
    tombstone.value = None;
    tombstone.timestamp = 1_700_000_000_456;
    broker.produce(&topic, &[first.clone(), tombstone.clone()]);
    first.offset = 0;
    tombstone.offset = 0;
    assert_eq!(broker.read_committed(&topic), [tombstone, first]);
    broker.delete_topic(&topic);
}

#[test]
fn a_committed_reader_sees_committed_records_only() {
    let broker = Broker::shared();
    let topic = broker.new_topic("transactions", 1);
    let producer = broker.transactional_producer(&topic);
    for (value, commit) in [("committed", true), ("aborted", false)] {
        producer.begin_transaction().expect("a transaction begins");
        send(&producer, &topic, &Rec::new(0, "k", value));
        producer.flush(SECONDS_30).expect("the record is written");
        if commit { producer.commit_transaction(SECONDS_30) } else { producer.abort_transaction(SECONDS_30) }
            .expect("the transaction ends");
    }
    producer.begin_transaction().expect("a transaction begins");
    send(&producer, &topic, &Rec::new(0, "k", "open"));
    producer.flush(SECONDS_30).expect("the record is written");
    let values = |records: Vec<Rec>| records.iter().map(Rec::text).collect::<Vec<_>>();
    assert_eq!(values(broker.read_committed(&topic)), ["committed"]);
    assert_eq!(values(broker.read(&topic, Isolation::Uncommitted)), ["committed", "aborted", "open"]);
    // committed, its marker, aborted, its marker; then the open one, before which the last stable offset stays.
    assert_eq!(broker.end_offsets(&topic, Isolation::Committed), [4]);
    assert_eq!(broker.end_offsets(&topic, Isolation::Uncommitted), [5]);
}

#[test]
fn a_second_producer_of_a_transactional_id_fences_the_first() {
    let broker = Broker::shared();
    let topic = broker.new_topic("fenced", 1);
    let first = broker.transactional_producer(&topic);
    first.begin_transaction().expect("a transaction begins");
    send(&first, &topic, &Rec::new(0, "k", "of the first"));
    first.flush(SECONDS_30).expect("the record is written");
    let _second = broker.transactional_producer(&topic);
    let error = first.commit_transaction(SECONDS_30).expect_err("a fenced producer cannot commit");
    assert_eq!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::Fenced), "{error}");
    assert!(broker.read_committed(&topic).is_empty());
}

#[test]
fn a_restarted_broker_has_its_port_and_its_data() {
    let broker = Broker::start(&[("message.max.bytes", "100000")]);
    let address = broker.bootstrap().to_owned();
    let topic = broker.new_topic("restart", 1);
    broker.produce(&topic, &[Rec::new(0, "k", "before")]);
    broker.restart();
    assert_eq!(broker.bootstrap(), address);
    broker.produce(&topic, &[Rec::new(0, "k", "after a stop")]);
    broker.kill9();
    broker.start_again();
    let values: Vec<String> = broker.read_committed(&topic).iter().map(Rec::text).collect();
    assert_eq!(values, ["before", "after a stop"]);
}

#[test]
fn a_paused_broker_goes_on() {
    let broker = Broker::start(&[]);
    let topic = broker.new_topic("pause", 1);
    broker.pause();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| broker.produce(&topic, &[Rec::new(0, "k", "written")]));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!writer.is_finished(), "a paused broker answers nobody");
        broker.resume();
    });
    assert_eq!(broker.read_committed(&topic).len(), 1);
}

#[test]
fn a_broker_has_further_listeners() {
    let login = "org.apache.kafka.common.security.plain.PlainLoginModule required user_alice=\"secret\";";
    let broker = Broker::start_with_listeners(
        &[
            ("listener.name.login.sasl.enabled.mechanisms", "PLAIN"),
            ("listener.name.login.plain.sasl.jaas.config", login),
        ],
        &["LOGIN:SASL_PLAINTEXT"],
    );
    assert_ne!(broker.listener("LOGIN"), broker.bootstrap());
    assert!(std::net::TcpStream::connect(broker.listener("LOGIN")).is_ok());
}

/// Not a test: a victim for the next one, which runs it in a process of its own.
#[test]
#[ignore = "run by what_a_killed_test_started_ends_with_it"]
fn victim() {
    let dir = tempfile::tempdir().expect("a folder");
    let program = vec!["/bin/sleep".to_owned(), "600".to_owned()];
    let mut node = Node::of_program("victim", dir.path(), &dir.path().join("log"), "127.0.0.1:1", program);
    node.start();
    let broker = Broker::start(&[]);
    let told = format!("{} {} {}", node.pid().unwrap_or(0), broker.pid().unwrap_or(0), broker.data_dir().display());
    let file = std::env::var("VICTIM_FILE").expect("where to write what was started");
    std::fs::write(format!("{file}.new"), told).expect("can be written");
    std::fs::rename(format!("{file}.new"), &file).expect("can be renamed");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn what_a_killed_test_started_ends_with_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("started");
    let mut test = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "victim"])
        .env("VICTIM_FILE", &file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program can be run");
    let started =
        wait_until("the victim has started its processes", SECONDS_30, || std::fs::read_to_string(&file).ok());
    let [node, broker, data] = started.split(' ').collect::<Vec<_>>()[..] else { panic!("unexpected: {started}") };
    let (node, broker) = (node.parse().expect("a number"), broker.parse().expect("a number"));
    assert!(is_alive(node) && is_alive(broker));
    test.kill().expect("the victim can be killed");
    test.wait().expect("the victim can be waited for");
    wait_until("node and broker have ended", SECONDS_5, || (!is_alive(node) && !is_alive(broker)).then_some(()));
    wait_until("the broker's data are removed", SECONDS_5, || (!std::path::Path::new(data).exists()).then_some(()));
}

#[test]
fn a_node_takes_signals_and_its_exit_code_is_seen() {
    let dir = tempfile::tempdir().expect("a folder");
    let script = "trap 'echo ended; exit 7' TERM; echo started $WORD; while :; do sleep 0.02; done";
    let program = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let mut node = Node::of_program("stub", dir.path(), &dir.path().join("log"), "127.0.0.1:1", program);
    node.start_with_env(&[("WORD", "with-word")]);
    wait_until("it runs", SECONDS_5, || node.log_text().contains("started with-word").then_some(()));
    node.sigstop();
    node.sigterm();
    std::thread::sleep(Duration::from_millis(100));
    assert!(node.is_running(), "a stopped process does not act on signals");
    node.sigcont();
    node.wait_exit_code(7, SECONDS_5);
    assert!(node.log_text().ends_with("ended"));
    assert!(node.http_get("/readyz").is_err());
    node.start();
    node.kill9();
    assert!(!node.is_running() && node.pid().is_none());
}

#[test]
fn a_cluster_has_a_configuration_for_each_node() {
    let cluster = TestCluster::of(Broker::shared(), 3, 4)
        .config("[active]\ncommit_interval = \"20ms\"\n[window]\nsize = \"1m\"")
        .node_config(2, "[node]\nnofailover = true")
        .prepare();
    let read = |node: usize| -> toml::Table {
        std::fs::read_to_string(&cluster.nodes[node].config).expect("a file").parse().expect("TOML")
    };
    let (first, last) = (read(0), read(2));
    assert_eq!(first["cluster"], last["cluster"]);
    assert_eq!(first["window"]["size"].as_str(), Some("1m"));
    assert_eq!(first["window"]["kind"].as_str(), Some("tumbling"));
    assert_eq!(first["cluster"]["seeds"][2], last["peers"]["advertise"]);
    assert_eq!(first["kafka"]["properties"]["bootstrap.servers"].as_str(), Some(cluster.broker.bootstrap()));
    assert_eq!(last["node"]["nofailover"].as_bool(), Some(true));
    assert!(first["node"].get("nofailover").is_none());
    assert_eq!(cluster.broker.topics()[&cluster.topic], 4);
}
