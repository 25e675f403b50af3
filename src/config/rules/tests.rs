use crate::config::tests::{MINIMAL, errors_of, load_with};

#[track_caller]
fn refused(lines: &str, error: &str) {
    assert_eq!(errors_of(lines), format!("hotspare.toml:11: {error}"));
}

#[test]
fn timers_that_do_not_fit_together_are_refused_with_numbers_and_repair() {
    refused(
        "[failover]\nsuspect_after = \"150ms\"\n",
        "failover.suspect_after: 150ms is below 4 × failover.heartbeat_interval = 200ms; set it to at least 200ms, or \
         failover.heartbeat_interval to at most 37ms",
    );
    refused(
        "[active]\ntransaction_timeout = \"1s\"\n",
        "active.transaction_timeout: 1s is below 20 × active.commit_interval = 2s; set it to at least 2s, or \
         active.commit_interval to at most 50ms",
    );
    refused(
        "[active]\ntransaction_timeout = \"16m\"\n",
        "active.transaction_timeout: 16m is above 15m, which brokers permit by default (transaction.max.timeout.ms); set it lower",
    );
    refused(
        "[raft]\nquorum_loss_probe_interval = \"299ms\"\n",
        "raft.quorum_loss_probe_interval: 299ms is below 2 × raft.election_timeout_max = 300ms; set it to at least 300ms, or \
         raft.election_timeout_max to at most 149ms",
    );
    refused(
        "[raft]\nelection_timeout_min = \"99ms\"\n",
        "raft.election_timeout_min: 99ms is below 10 × raft.fsync_warn = 100ms; set it to at least 100ms, or raft.fsync_warn \
         to at most 9ms",
    );
    refused(
        "[raft]\nelection_timeout_min = \"151ms\"\n",
        "raft.election_timeout_max: 150ms is below raft.election_timeout_min = 151ms; set it to at least 151ms, or \
         raft.election_timeout_min to at most 150ms",
    );
    refused(
        "[topics]\nchangelog_delete_retention = \"5m\"\n",
        "topics.changelog_delete_retention: 5m is below 10 × checkpoint.interval = 10m; set it to at least 10m, or \
         checkpoint.interval to at most 30s",
    );
    refused("[active]\ncommit_interval = \"0ms\"\n", "active.commit_interval: it is 0; set a time above 0");
}

#[test]
fn the_members_of_the_cluster_are_checked() {
    let check = |from: &str, to: &str, line: usize, error: &str| {
        let text = MINIMAL.replace(from, to);
        let errors = load_with(&text, &[], &[]).unwrap_err().to_string();
        assert_eq!(errors, format!("hotspare.toml:{line}: {error}"));
    };
    check(
        "\"plant\"",
        "\"Plant_1\"",
        2,
        "cluster.name: \"Plant_1\" (7 characters) is no name; it must be 1 to 40 of a-z, 0-9 and -",
    );
    check(
        "[\"a\", \"b\", \"c\"]",
        "[\"a\"]",
        3,
        "cluster.expected_slots: 1 slots are too few for cluster.voters = 3; name at least 3 slots, or set voters to 1",
    );
    check(
        "\"b\", \"c\"",
        "\"b\", \"a\"",
        3,
        "cluster.expected_slots: a slot is empty or named twice; name each voter once",
    );
    check("[kafka", "voters = 2\n[kafka", 5, "cluster.voters: it is 2; it must be 1 (trial without failover), 3 or 5");
    check(
        "[kafka",
        "seeds = [\"a\", \"b:1\"]\n[kafka",
        5,
        "cluster.seeds: \"a\" is no address; write HOST:PORT, such as hotspare-0:7400",
    );
}

#[test]
fn an_address_beyond_this_host_needs_tls_or_consent() {
    refused(
        "[peers]\nlisten = \"0.0.0.0:7400\"\n",
        "peers.listen: \"0.0.0.0:7400\" is reachable from other hosts without peer TLS; set tls.peer_cert, tls.peer_key and \
         tls.peer_ca, or peers.plaintext = true if the network is trusted",
    );
    let load = |sets: &[&str]| load_with(MINIMAL, &[], sets);
    load(&["peers.listen=0.0.0.0:7500", "peers.plaintext=true"]).unwrap();
    load(&["peers.listen=0.0.0.0:7500", "tls.peer_cert=/c", "tls.peer_key=/k", "tls.peer_ca=/a"]).unwrap();
    refused(
        "[http]\nlisten = \"localhost\"\nmetrics_listen = \"127.0.0.1:7402\"\n",
        "http.listen: \"localhost\" is no address to listen at; write IP:PORT",
    );
}

#[test]
fn topics_and_counts_are_checked() {
    refused(
        "[topics]\nreplication_factor = 1\n[node]\n",
        "topics.min_insync_replicas: it is 2; it must be 1 to topics.replication_factor = 1, or nothing could be written",
    );
    refused("[topics]\noutput = \"iot\"\n", "topics.output: \"iot\" is input.topic too; each needs a topic of its own");
    refused(
        "[topics]\nchangelog = \"a b\"\n",
        "topics.changelog: \"a b\" is no topic name; use 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'",
    );
    refused(
        "[topics]\nchangelog_min_cleanable_dirty_ratio = 1.5\n",
        "topics.changelog_min_cleanable_dirty_ratio: it is 1.5; it must be 0 to 1",
    );
    refused("[checkpoint]\nkeep = 0\n", "checkpoint.keep: it is 0; it must be 1 to 100");
    refused("[replication]\nstandbys = 11\n", "replication.standbys: it is 11; it must be 0 to 10");
    refused(
        "[auth]\nread = \"token\"\n",
        "auth.read: it is token, but auth.tokens_file is empty, so nobody could; name a file, or set open",
    );
    refused(
        "[tls]\npeer_key = \"/k\"\npeer_ca = \"/a\"\n",
        "tls.peer_cert: it is empty, but tls.peer_key is set; set both or neither",
    );
    for key in ["http_cert", "http_key", "http_client_ca"] {
        refused(
            &format!("[tls]\n{key} = \"/f\"\n"),
            &format!(
                "tls.{key}: it is \"/f\", but this version serves HTTP without TLS; leave it out and listen on a loopback \
                 address, or behind a proxy that does TLS"
            ),
        );
    }
}
