use super::sections::{Fencing, Section};
use super::*;

pub(super) const MINIMAL: &str = r#"[cluster]
name = "plant"
expected_slots = ["a", "b", "c"]

[kafka.properties]
"bootstrap.servers" = "kafka:9092"

[input]
topic = "iot"
"#;

pub(super) fn load_with(text: &str, env: &[(&str, &str)], sets: &[&str]) -> Result<Config, ConfigErrors> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hotspare.toml");
    std::fs::write(&path, text).unwrap();
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
    load(Some(&path), env, &sets).map_err(|mut errors| {
        for error in &mut errors.errors {
            if let Origin::File { path, .. } = &mut error.origin {
                *path = "hotspare.toml".into();
            }
        }
        errors
    })
}

/// The errors of the minimal configuration with lines added at its end, from line 10 on.
pub(super) fn errors_of(lines: &str) -> String {
    load_with(&format!("{MINIMAL}{lines}"), &[], &[]).unwrap_err().to_string()
}

#[test]
fn a_minimal_configuration_has_the_documented_defaults_and_derived_names() {
    let config = load_with(
        MINIMAL,
        &[("HOSTNAME", "ignored"), ("HOSTSPARE__X", "y"), ("HOTSPARE_SERVER", "z")],
        &["node.slot=hotspare-1"],
    )
    .unwrap();
    assert_eq!(config.topics.changelog(), "plant-changelog");
    assert_eq!(config.topics.output(), "plant-windows");
    assert_eq!(config.topics.dead_letters(), "plant-dead-letters");
    assert_eq!(config.kafka.group_id, "plant");
    assert_eq!(config.transactional_id(PartitionId(7)), "plant-7");
    assert_eq!(config.cluster.seeds, ["a:7400", "b:7400", "c:7400"]);
    assert_eq!(config.peers.advertise, "hotspare-1:7400");
    assert_eq!(config.http.metrics_listen, "127.0.0.1:7401");
    assert_eq!(config.failover.suspect_after, Timespan::from_ms(300));
    assert_eq!(config.failover.fencing, Fencing::Auto);
    assert_eq!(config.checkpoint.bytes_per_s_max, ByteSize::from_mib(50));
    assert_eq!(config.semantics().topic(), "iot");
}

#[test]
fn without_a_host_name_set_the_slot_is_that_of_the_machine() {
    assert!(!load_with(MINIMAL, &[], &[]).unwrap().node.slot.is_empty());
}

#[test]
fn a_flag_stands_above_the_environment_and_that_above_the_file() {
    let text = format!("{MINIMAL}[failover]\nsuspect_after = \"301ms\"\nstuck_after = \"2s\"\nobjective = \"200ms\"\n");
    let env = [("HOTSPARE_FAILOVER__SUSPECT_AFTER", "302ms"), ("HOTSPARE_FAILOVER__STUCK_AFTER", "3s")];
    let config = load_with(&text, &env, &["failover.suspect_after=303ms"]).unwrap();
    assert_eq!(config.failover.suspect_after, Timespan::from_ms(303));
    assert_eq!(config.failover.stuck_after, Timespan::from_secs(3));
    assert_eq!(config.failover.objective, Timespan::from_ms(200));
    let origin = |key: &str| config.shown().iter().find(|shown| shown.key == key).unwrap().origin.clone();
    assert_eq!(origin("failover.suspect_after"), Origin::Flag("failover.suspect_after".to_owned()));
    assert_eq!(origin("failover.stuck_after"), Origin::Variable("HOTSPARE_FAILOVER__STUCK_AFTER".to_owned()));
    assert!(matches!(origin("failover.objective"), Origin::File { line: 13, .. }));
    assert_eq!(origin("failover.promote_timeout"), Origin::Default);
}

#[test]
fn what_comes_from_outside_takes_the_type_of_its_key() {
    let env = [
        ("HOTSPARE_CLUSTER__NAME", "123"),
        ("HOTSPARE_CLUSTER__EXPECTED_SLOTS", "x, y,z"),
        ("HOTSPARE_NODE__REPLICAS", "false"),
        ("HOTSPARE_NODE__ZONE", "true"),
        ("HOTSPARE_NODE__STATE_BYTES_MAX", "0"),
        ("HOTSPARE_REPLICATION__STANDBYS", "2"),
        ("HOTSPARE_TOPICS__CHANGELOG_MIN_CLEANABLE_DIRTY_RATIO", "0.5"),
        ("HOTSPARE_INPUT__DEVICE__POINTER", "/id"),
        ("HOTSPARE_INPUT__MISSING", "-200,999.9"),
    ];
    let sets = [
        r#"auth.certificates=[{ name = "ops", role = "admin" }]"#,
        "kafka.properties.client.id=[1]",
        "kafka.producer.linger.ms=3",
    ];
    let config = load_with(MINIMAL, &env, &sets).unwrap();
    assert_eq!(config.cluster.name, "123");
    assert_eq!(config.cluster.expected_slots, ["x", "y", "z"]);
    assert!(!config.node.replicas);
    assert_eq!(config.node.zone, "true");
    assert_eq!(config.replication.standbys, 2);
    assert_eq!(config.topics.changelog_min_cleanable_dirty_ratio, 0.5);
    assert_eq!(config.auth.certificates[0].role, "admin");
    assert_eq!(config.input.device.pointer.as_deref(), Some("/id"));
    assert_eq!(config.input.missing, [-200.0, 999.9]);
    assert_eq!(config.kafka.properties.get("client.id"), Some(&Property::Text("[1]".to_owned())));
    assert_eq!(config.kafka.producer.get("linger.ms"), Some(&Property::Text("3".to_owned())));
}

#[test]
fn kafka_properties_may_have_any_of_their_usual_forms() {
    let text = MINIMAL.replace(
        "\"bootstrap.servers\" = \"kafka:9092\"",
        "bootstrap.servers = \"old:1\"\nsocket.keepalive.enable = true\n\"sasl.password\" = { file = \"/secret\" }\n\
         ssl.key.password.file = \"/key\"\n\"message.max.bytes\" = 2000000",
    );
    let env = [("HOTSPARE_KAFKA__PROPERTIES__SASL_MECHANISM", "PLAIN")];
    let config = load_with(&text, &env, &["kafka.properties.bootstrap.servers=new:1"]).unwrap();
    let property = |name: &str| config.kafka.properties.get(name).cloned();
    let text = |text: &str| Some(Property::Text(text.to_owned()));
    assert_eq!(property("bootstrap.servers"), text("new:1"));
    assert_eq!(property("socket.keepalive.enable"), text("true"));
    assert_eq!(property("message.max.bytes"), text("2000000"));
    assert_eq!(property("sasl.mechanism"), text("PLAIN"));
    assert_eq!(property("sasl.password"), Some(Property::File("/secret".into())));
    assert_eq!(property("ssl.key.password"), Some(Property::File("/key".into())));
    let shown = |key: &str| config.shown().iter().find(|shown| shown.key == key).unwrap().value.clone();
    assert_eq!(shown("kafka.properties.bootstrap.servers"), "\"new:1\"");
    assert_eq!(shown("kafka.properties.sasl.password"), "\"<file /secret, not readable>\"");
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_known_one() {
    assert_eq!(
        errors_of("[failover]\nsuspect_affter = \"1s\"\nzzz = 1\n[failovr]\nx = 1\n[input.device]\npointr = \"/a\"\n"),
        "hotspare.toml:11: failover.suspect_affter: unknown key; did you mean failover.suspect_after?\n\
         hotspare.toml:12: failover.zzz: unknown key; known here: heartbeat_interval, probe_timeout, confirm_timeout, \
         suspect_after, stuck_after, stalled_after, fencing, fence_hedge_after, fence_handles, promote_timeout, \
         warm_handles_max, objective, objective_silent, antiflap_base, antiflap_max, antiflap_window\n\
         hotspare.toml:13: failovr: unknown section; did you mean failover?\n\
         hotspare.toml:16: input.device.pointr: unknown key; did you mean input.device.pointer?"
    );
}

#[test]
fn an_unknown_key_in_a_list_of_tables_is_named_too() {
    assert_eq!(
        errors_of("[[input.value]]\nname = \"v\"\npointer = \"/v\"\n[[input.value]]\nname = \"w\"\npointe = \"/w\"\n"),
        "hotspare.toml:15: input.value.pointe: unknown key; did you mean input.value.pointer?\n\
         configuration: input.value[1].pointer: is required: where the value stands, such as \"/value\"; \
         influx: \"/fields/NAME\""
    );
}

#[test]
fn an_unknown_variable_or_flag_is_named() {
    let env = [("HOTSPARE_FAILOVER__SUSPECT", "1s"), ("HOTSPARE_FAILOVR__SUSPECT_AFTER", "1s")];
    let errors = load_with(MINIMAL, &env, &["raft.heartbeat=1s", "raft", "=", "a.=1"]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "HOTSPARE_FAILOVER__SUSPECT: failover.suspect: unknown key; did you mean failover.suspect_after?\n\
         HOTSPARE_FAILOVR__SUSPECT_AFTER: failovr: unknown section; did you mean failover?\n\
         --set : write --set section.key=value, such as --set failover.suspect_after=400ms\n\
         --set a.: write --set section.key=value, such as --set failover.suspect_after=400ms\n\
         --set raft: write --set section.key=value, such as --set failover.suspect_after=400ms\n\
         --set raft.heartbeat: raft.heartbeat: unknown key; did you mean raft.heartbeat_interval?"
    );
}

#[test]
fn wrong_types_are_named_all_at_once() {
    let lines = "[failover]\nsuspect_after = 300\nstuck_after = \"5min\"\nfencing = \"automatic\"\nfence_handles = -1\n\
                 [node]\nreplicas = \"yes\"\nstate_bytes_max = \"1GB\"\ndata_dir = 3\n[http]\nallowed_hosts = \"a\"\n\
                 [topics]\nchangelog_min_cleanable_dirty_ratio = \"x\"\n[cluster.seeds]\na = 1\n[kafka.producer]\nx = [1]\n\
                 y = { file = \"/a\", x = 1 }\n[[auth.certificates]]\nname = \"n\"\n";
    assert_eq!(
        errors_of(lines),
        "hotspare.toml:11: failover.suspect_after: 300 has no unit; write \"300ms\" or \"300s\" or \"300m\"\n\
         hotspare.toml:12: failover.stuck_after: \"5min\" has the unit \"min\"; it must be a whole number and one of ms s m h d\n\
         hotspare.toml:13: failover.fencing: \"automatic\" is not possible; it must be one of auto, direct, hedged; did you mean auto?\n\
         hotspare.toml:14: failover.fence_handles: it is the integer -1; it must be a whole number, not below 0\n\
         hotspare.toml:16: node.replicas: it is the string \"yes\"; it must be true or false\n\
         hotspare.toml:17: node.state_bytes_max: \"1GB\" has the unit \"GB\"; it must be a whole number and one of B KiB MiB GiB TiB\n\
         hotspare.toml:18: node.data_dir: it is the integer 3; it must be a text\n\
         hotspare.toml:20: http.allowed_hosts: it is the string \"a\"; it must be a list\n\
         hotspare.toml:22: topics.changelog_min_cleanable_dirty_ratio: it is the string \"x\"; it must be a number\n\
         hotspare.toml:23: cluster.seeds: it is the map; it must be a list\n\
         hotspare.toml:26: kafka.producer.x: it is the sequence; it must be a text, a number, true, false or { file = \"/path\" }\n\
         hotspare.toml:27: kafka.producer.y: a table here must be { file = \"/path\" } and nothing else\n\
         hotspare.toml:28: auth.certificates: missing field `role`"
    );
}

#[test]
fn a_wrong_value_of_a_variable_is_named_with_the_variable() {
    let errors = load_with(MINIMAL, &[("HOTSPARE_REPLICATION__STANDBYS", "two")], &["raft.fsync_warn=10"]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "HOTSPARE_REPLICATION__STANDBYS: replication.standbys: it is the string \"two\"; it must be a whole number, not below 0\n\
         --set raft.fsync_warn: raft.fsync_warn: 10 has no unit; write \"10ms\" or \"10s\" or \"10m\""
    );
}

#[test]
fn broken_toml_is_reported_with_its_line() {
    assert_eq!(
        load_with("[cluster]\nname = plant\n", &[], &[]).unwrap_err().to_string(),
        "hotspare.toml:2: this is no TOML: string values must be quoted, expected literal string"
    );
    let twice = load_with("[cluster]\nname = \"a\"\nname = \"b\"\n", &[], &[]).unwrap_err().to_string();
    assert_eq!(twice, "hotspare.toml:3: this is no TOML: duplicate key");
}

#[test]
fn a_missing_file_is_reported() {
    let error = load(Some(Path::new("/nowhere/hotspare.toml")), std::iter::empty(), &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "configuration: cannot read \"/nowhere/hotspare.toml\": No such file or directory (os error 2). Name the file with \
         --config, or make it readable for this user"
    );
}

#[test]
fn an_empty_configuration_tells_what_is_required() {
    assert_eq!(
        load(None, std::iter::empty(), &[]).unwrap_err().to_string(),
        "configuration: cluster.expected_slots: it is required; name the slots of the first 3 voters\n\
         configuration: cluster.name: it is required; name the cluster with 1 to 40 of a-z, 0-9 and -\n\
         configuration: input.topic: is required: the name of the input topic\n\
         configuration: kafka.properties.bootstrap.servers: it is required; write [kafka.properties] \"bootstrap.servers\" = \
         \"HOST:PORT,HOST:PORT\""
    );
}

#[test]
fn properties_on_which_exactness_rests_are_refused_with_the_reason() {
    let lines = "[kafka.consumer]\n\"isolation.level\" = \"read_uncommitted\"\n\"enable.auto.commit\" = true\n\
                 \"enable.auto.offset.store\" = true\n\"group.instance.id\" = \"x\"\n[kafka.producer]\n\
                 \"transactional.id\" = \"x\"\n\"enable.idempotence\" = false\n\"acks\" = 1\n\"no.such\" = 1\n\
                 \"linger.ms\" = \"soon\"\n";
    let refused = "this property is not yours to set:";
    let library = "the Kafka client library refuses it:";
    assert_eq!(
        errors_of(lines),
        format!(
            "hotspare.toml:11: kafka.consumer.isolation.level: {refused} readings of aborted transactions must not be counted; \
             hotspare sets read_committed; remove it\n\
             hotspare.toml:12: kafka.consumer.enable.auto.commit: {refused} the offset that counts is in the progress record; \
             remove it\n\
             hotspare.toml:13: kafka.consumer.enable.auto.offset.store: {refused} the offset that counts is in the progress \
             record; remove it\n\
             hotspare.toml:14: kafka.consumer.group.instance.id: {refused} partitions are assigned by the cluster, not by a \
             consumer group; remove it\n\
             hotspare.toml:16: kafka.producer.transactional.id: {refused} it fences the old active and is made of the \
             cluster's name and the partition; remove it\n\
             hotspare.toml:17: kafka.producer.enable.idempotence: {refused} transactions need it to be true, which hotspare \
             sets; remove it\n\
             hotspare.toml:18: kafka.producer.acks: {refused} transactions need acks=all, which hotspare sets; remove it\n\
             hotspare.toml:19: kafka.producer.no.such: {library} No such configuration property: \"no.such\"\n\
             hotspare.toml:20: kafka.producer.linger.ms: {library} Invalid value for configuration property \"queue.buffering.max.ms\""
        )
    );
}

#[test]
fn every_section_has_the_keys_that_its_struct_reads() {
    fn names<T: Section + Default + Serialize>() -> Vec<String> {
        let table = toml::Table::try_from(T::default()).unwrap();
        let keys: Vec<String> = T::KEYS.iter().map(|key| key.name.to_owned()).collect();
        let mut sorted = keys.clone();
        sorted.sort();
        assert_eq!(table.keys().cloned().collect::<Vec<_>>(), sorted);
        assert!(T::KEYS.iter().all(|key| !key.doc.trim().is_empty()));
        keys
    }
    assert_eq!(names::<sections::ReplicationSection>().len(), 6);
    assert_eq!(names::<sections::FailoverSection>().len(), 16);
    assert_eq!(names::<sections::ClusterSection>().len(), 6);
    assert_eq!(names::<sections::HttpSection>().len(), 13);
    assert_eq!(names::<KafkaSection>().len(), 6);
}

#[test]
fn the_hash_tells_settings_that_must_be_equal_from_those_that_need_not() {
    let hash = |sets: &[&str]| load_with(MINIMAL, &[], sets).unwrap().cluster_wide_hash();
    let plain = hash(&[]);
    assert_eq!(plain, hash(&["node.slot=other", "http.page=false", "replication.ready_lag=9s", "input.topic=other"]));
    assert_ne!(plain, hash(&["replication.standbys=2"]));
    assert_ne!(plain, hash(&["failover.suspect_after=301ms"]));
    assert_ne!(plain, hash(&["kafka.group_id=other"]));
}
