use std::io::Write as _;

use hotspare_cluster::{Act, Liveness, OperationState, PartitionId, Slot, Which};

use super::{Rules, Server, fixture};

const ALICE: &str = "alice-0123456789-0123456789-0123456789";
const BOB: &str = "bob---0123456789-0123456789-0123456789";

fn server() -> (Server, tempfile::NamedTempFile) {
    let mut tokens = tempfile::NamedTempFile::new().unwrap();
    write!(tokens, "alice operate {ALICE}\nbob read {BOB}\n").unwrap();
    let server = Server::start(Rules { tokens_file: tokens.path().to_owned(), ..fixture::rules() });
    (server, tokens)
}

fn headers(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\nIdempotency-Key: r1\r\n")
}

#[test]
fn an_act_is_asked_of_the_leader_with_name_reason_and_request_id() {
    let (server, _tokens) = server();
    let body = r#"{"partitions":[0],"to":"hotspare-1","reason":"rack 4"}"#;
    let answer = server.post("/v1/switchover", &headers(ALICE), body);
    assert_eq!((answer.status, answer.json()["operation"].as_str()), (202, Some("op-812")), "{}", answer.body);
    assert!(answer.head.contains("location: /v1/operations/op-812"), "{}", answer.head);
    let asked = server.source.asked.lock().unwrap()[0].clone();
    assert_eq!(
        (asked.by.as_str(), asked.reason.as_str(), asked.request_id.as_deref()),
        ("alice", "rack 4", Some("r1"))
    );
    let which = Which::Partitions(vec![PartitionId(0)]);
    assert_eq!(asked.act, Act::Switchover { which, to: Some(Slot("hotspare-1".into())), allow_cold: false });
}

#[test]
fn who_may_not_changes_nothing() {
    let (server, _tokens) = server();
    let json = "Content-Type: application/json\r\n";
    let body = r#"{"all":true}"#;
    for (headers, status, kind) in [
        (json.to_owned(), 401, "unauthorized"),
        (headers(&ALICE[1..]), 401, "unauthorized"),
        (headers(BOB), 403, "forbidden"),
    ] {
        let answer = server.post("/v1/switchover", &headers, body);
        assert_eq!((answer.status, answer.json()["type"].as_str()), (status, Some(kind)), "{headers}");
    }
    assert!(server.source.asked.lock().unwrap().is_empty());
    let open = Server::start(fixture::rules());
    let answer = open.post("/v1/switchover", &headers(ALICE), body);
    assert_eq!((answer.status, answer.json()["type"].as_str()), (403, Some("auth_not_configured")));
}

#[test]
fn a_token_may_read_where_reading_needs_one() {
    let (_, tokens) = server();
    let server = Server::start(Rules { tokens_file: tokens.path().to_owned(), read_open: false, ..fixture::rules() });
    assert_eq!(server.get("/v1/status").status, 401);
    let request =
        format!("GET /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {BOB}\r\n\r\n");
    assert!(server.raw(&request).starts_with("HTTP/1.1 200"));
    assert_eq!(server.get("/readyz").status, 200, "health is open");
}

#[test]
fn what_is_not_understood_is_refused_before_anybody_is_asked() {
    let (server, _tokens) = server();
    for (path, body) in [
        ("switchover", "{}"),
        ("switchover", "no json"),
        ("switchover", r#"{"all":true,"partitions":[0]}"#),
        ("switchover", r#"{"all":true,"slot":"x"}"#),
        ("switchover", r#"{"al":true}"#),
        ("failover", r#"{"partitions":[0]}"#),
        ("failover", r#"{"all":true,"reason":"x"}"#),
        ("drain", r#"{"reason":"x"}"#),
        ("drain", r#"{"slot":"x"}"#),
        ("pause", r#"{"reason":"x"}"#),
        ("pause", r#"{"reason":"x","for":"soon"}"#),
    ] {
        let answer = server.post(&format!("/v1/{path}"), &headers(ALICE), body);
        assert_eq!((answer.status, answer.json()["type"].as_str()), (400, Some("bad_request")), "{path} {body}");
    }
    let headers = format!("Authorization: Bearer {ALICE}\r\nContent-Type: text/plain\r\n");
    assert_eq!(server.post("/v1/switchover", &headers, r#"{"all":true}"#).status, 415);
    assert!(server.source.asked.lock().unwrap().is_empty());
    assert_eq!(server.get("/v1/switchover").status, 405, "no GET changes anything");
}

#[test]
fn a_refusal_a_dry_run_and_a_missing_leader_have_their_codes() {
    let (server, _tokens) = server();
    let post = |body| server.post("/v1/switchover", &headers(ALICE), body);
    let refused = post(r#"{"partitions":[1]}"#);
    assert_eq!((refused.status, refused.json()["type"].as_str()), (409, Some("refused")));
    let dry = post(r#"{"partitions":[0],"dry_run":true}"#);
    assert_eq!((dry.status, dry.json()["allowed"].as_bool()), (200, Some(true)));
    let nobody = post(r#"{"partitions":[2]}"#);
    assert_eq!((nobody.status, nobody.json()["type"].as_str()), (503, Some("no_leader")));
    assert!(nobody.head.contains("retry-after: 1"));
    assert_eq!(server.get("/v1/preflight/switchover?partition=0").status, 200);
    assert_eq!(server.get("/v1/preflight/switchover?partition=1").status, 409);
    assert_eq!(server.get("/v1/preflight/switchover").status, 400);
    assert_eq!(server.get("/v1/preflight/nonsense").status, 404);
}

#[test]
fn an_operation_is_shown_and_waited_for() {
    let (server, _tokens) = server();
    let operation = serde_json::json!({"id":"op-7","kind":"resume","partition":null,"by":"alice","reason":"",
        "request_id":null,"at":"2026-03-01T14:02:11.532Z","ended_at":null,"state":"running","detail":null,"steps":[]});
    server.source.operations.lock().unwrap().push(serde_json::from_value(operation).unwrap());
    assert_eq!(server.get("/v1/operations/op-7").json()["state"], "running");
    assert_eq!(server.get("/v1/operations/op-8").status, 404);
    assert_eq!(server.get("/v1/operations/7").status, 404);
    let source = std::sync::Arc::clone(&server.source);
    let changer = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        source.operations.lock().unwrap()[0].state = OperationState::Done;
    });
    assert_eq!(server.get("/v1/operations/op-7?wait=4s").json()["state"], "done");
    changer.join().unwrap();
}

#[test]
fn can_stop_names_what_would_break() {
    let server = Server::start(fixture::rules());
    *server.source.view.lock().unwrap() = fixture::healthy_view();
    assert_eq!(server.get("/v1/can-stop/hotspare-1").status, 200);
    assert_eq!(server.get("/v1/can-stop/hotspare-9").status, 404);
    let both = server.get("/v1/can-stop/hotspare-1,hotspare-2");
    assert_eq!(both.status, 409);
    let detail = both.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("1 of 3 voters would be left") && detail.contains("no other copy of partition 1"),
        "{detail}"
    );
    *server.source.view.lock().unwrap() = fixture::view();
    let detail = server.get("/v1/can-stop/hotspare-2").json()["detail"].as_str().unwrap().to_owned();
    assert_eq!(detail, "the only other copy of partition 1: hotspare-1 is restoring (0 %)");
    server.source.view.lock().unwrap().nodes[0].state = Liveness::Dead;
    let detail = server.get("/v1/can-stop/hotspare-1").json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("1 of 3 voters"), "{detail}");
}
