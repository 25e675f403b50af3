use std::{
    io::{Read, Write},
    net::TcpListener,
};

use hotspare_cluster::Liveness;

use super::{EXIT_DEGRADED, EXIT_DONE, EXIT_OUTAGE, StatusArgs, render, run};
use crate::{
    cli::client::{ClientArgs, EXIT_UNREACHABLE, EXIT_USAGE, Format},
    config::Timespan,
    http::{
        Snapshot,
        document::StatusDoc,
        fixture::{healthy_view, snapshot, view},
        status,
    },
};

fn document(change: impl FnOnce(&mut Snapshot)) -> StatusDoc {
    let mut snapshot = snapshot(view());
    change(&mut snapshot);
    status(&snapshot)
}

#[test]
fn the_status_is_shown_as_tables() {
    let expected = "\
plant-a 7f3c  DEGRADED: no promotable standby for 1; survives 0 failures
NODE          ID  STATE  ACTIVE  STANDBY  LAG REC  LAG S  SEEN
hotspare-0     3  live        1        0        0   0.00  21ms
hotspare-1 *   4  live        0        1     912k  41.20  34ms
hotspare-2    57  live        1        1        2  41.20     -
P  EPOCH  ACTIVE      SINCE  STANDBYS (lag)                PROMOTABLE  COMMIT AGE
0     42  hotspare-0  3d04h  hotspare-2 (2)                    1 of 1        33ms
1      9  hotspare-2  11m    hotspare-1 (912k, restoring)      0 of 1        12ms
* Raft leader, term 12.  Values are as old as SEEN says.
";
    assert_eq!(render(&document(|_| {})), expected);
}

#[test]
fn what_is_not_known_is_a_question_mark() {
    let text = render(&document(|snapshot| {
        let view = &mut snapshot.view;
        view.leader = None;
        view.cluster_id.clear();
        view.partitions[1].active = None;
        let node = &mut view.nodes[0];
        (node.state, node.last_heard_ms, node.report) = (Liveness::Unknown, None, None);
    }));
    for line in [
        "plant-a ?  OUTAGE: no active for 1; survives 0 failures",
        "hotspare-0   3  ?           1        0        ?      ?     ?",
        "0     42  hotspare-0 (?)  3d04h  hotspare-2 (2)                    1 of 1           ?",
        "1      9  none            ?      hotspare-1 (912k, restoring)      0 of 1           ?",
        "Raft leader: ?, term 12.",
        "! node hotspare-0 is not heard of yet",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn a_node_that_knows_nothing_yet_can_be_shown() {
    let text = render(&document(|snapshot| {
        snapshot.view.nodes.clear();
        snapshot.view.partitions.clear();
    }));
    assert!(text.starts_with("plant-a 7f3c  OUTAGE: no partition is known here"), "{text}");
}

/// Serves a document to one client and runs the command against it.
fn command(document: &StatusDoc, change: impl FnOnce(&mut StatusArgs)) -> (u8, String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let body = serde_json::to_string(document).unwrap();
    let mut args = StatusArgs {
        client: ClientArgs {
            servers: vec![listener.local_addr().unwrap().to_string()],
            timeout: Timespan::from_secs(5),
            token_file: None,
            format: Format::Table,
        },
        watch: None,
        partition: None,
        check: false,
    };
    change(&mut args);
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _length = stream.read(&mut [0; 1024]).unwrap();
        let length = body.len();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}").unwrap();
    });
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&args, &mut out, &mut err).unwrap();
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn check_tells_health_by_its_exit_code() {
    let healthy = status(&snapshot(healthy_view()));
    let outage = document(|snapshot| snapshot.view.partitions[0].active = None);
    for (document, code) in [(healthy, EXIT_DONE), (document(|_| {}), EXIT_DEGRADED), (outage, EXIT_OUTAGE)] {
        let (found, out, _) = command(&document, |args| args.check = true);
        assert_eq!(found, code, "{out}");
        assert!(!out.contains("NODE"), "{out}");
        assert_eq!(command(&document, |_| {}).0, EXIT_DONE, "only --check judges");
    }
}

#[test]
fn json_is_the_answer_of_the_node() {
    let document = document(|_| {});
    let (code, out, _) = command(&document, |args| args.client.format = Format::Json);
    assert_eq!(code, EXIT_DONE);
    assert_eq!(serde_json::from_str::<StatusDoc>(&out).unwrap(), document);
}

#[test]
fn one_partition_can_be_asked_for() {
    let (code, out, _) = command(&document(|_| {}), |args| args.partition = Some(1));
    assert!(code == EXIT_DONE && !out.contains("3d04h") && out.contains("912k, restoring"), "{out}");
    let (code, _, err) = command(&document(|_| {}), |args| args.partition = Some(9));
    assert_eq!((code, err.as_str()), (EXIT_USAGE, "there is no partition 9; 2 are known\n"));
}

#[test]
fn nobody_there_is_exit_code_5() {
    let (code, out, err) = command(&document(|_| {}), |args| {
        args.client.servers = vec!["127.0.0.1:1".to_owned()];
    });
    assert_eq!((code, out.as_str()), (EXIT_UNREACHABLE, ""));
    assert!(err.starts_with("no node answered:\n  127.0.0.1:1: "), "{err}");
}
