use super::*;

fn config(sets: &[&str]) -> Config {
    let minimal = [
        "cluster.name=plant",
        "cluster.expected_slots=a,b,c",
        "kafka.properties.bootstrap.servers=127.0.0.1:1",
        "input.topic=iot",
    ];
    let sets: Vec<String> = minimal.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    crate::config::load(None, std::iter::empty(), &sets).unwrap()
}

/// Topics exactly as wanted, for an input of 6 partitions.
fn found_as_wanted(config: &Config) -> Found {
    let to_found = |wanted: &Wanted| FoundTopic {
        partitions: 6,
        replication_factor: 3,
        settings: wanted.settings.iter().map(|setting| (setting.name.to_owned(), setting.value.clone())).collect(),
        own_settings: Vec::new(),
    };
    Found {
        kafka_cluster_id: Some("k".to_owned()),
        brokers: 3,
        topics: wanted(config, Some(6)).iter().map(|wanted| (wanted.name.clone(), to_found(wanted))).collect(),
    }
}

/// The problems after a change of what was found.
fn problems_after(config: &Config, change: impl FnOnce(&mut Found)) -> Vec<TopicProblem> {
    let mut found = found_as_wanted(config);
    change(&mut found);
    problems(&wanted(config, found.topics.get("iot").map(|topic| topic.partitions)), &found)
}

fn set(found: &mut Found, topic: &str, name: &str, value: &str) {
    found.topics.get_mut(topic).unwrap().settings.insert(name.to_owned(), value.to_owned());
}

fn texts(problems: &[TopicProblem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}: {problem}", problem.severity)).collect()
}

#[test]
fn topics_as_they_are_created_have_no_problem() {
    assert_eq!(problems_after(&config(&[]), |_| {}), []);
}

#[test]
fn better_values_than_wanted_are_no_problem() {
    let problems = problems_after(&config(&[]), |found| {
        set(found, "plant-changelog", "min.insync.replicas", "3");
        set(found, "plant-changelog", "delete.retention.ms", "172800000");
        set(found, "plant-changelog", "segment.bytes", "1048576");
        set(found, "plant-changelog", "min.cleanable.dirty.ratio", "0.01");
        found.topics.get_mut("plant-windows").unwrap().replication_factor = 5;
        found.topics.get_mut("plant-windows").unwrap().partitions = 1;
    });
    assert_eq!(problems, []);
}

#[test]
fn a_changelog_that_is_not_compacted_is_fatal() {
    for policy in ["delete", "compact,delete"] {
        let problems = problems_after(&config(&[]), |found| set(found, "plant-changelog", "cleanup.policy", policy));
        assert_eq!(
            texts(&problems),
            [format!(
                "fatal: changelog topic \"plant-changelog\" has cleanup.policy={policy}; it must be compact. \
                 Repair: hotspare topics repair plant-changelog"
            )]
        );
    }
}

#[test]
fn a_changelog_with_another_number_of_partitions_than_the_input_is_fatal() {
    let with = |partitions| {
        texts(&problems_after(&config(&[]), |found| {
            found.topics.get_mut("plant-changelog").unwrap().partitions = partitions;
        }))
    };
    assert_eq!(
        with(5),
        ["fatal: changelog topic \"plant-changelog\" has 5 partitions; it must have 6. \
          Repair: hotspare topics repair plant-changelog"]
    );
    assert_eq!(
        with(7),
        [
            "fatal: changelog topic \"plant-changelog\" has 7 partitions; it must have 6. Repair: choose another topic with \
          topics.changelog; its state is built anew from the input's retained records"
        ]
    );
}

#[test]
fn what_makes_a_topic_less_safe_or_slower_is_a_warning_with_both_values() {
    let problems = problems_after(&config(&[]), |found| {
        found.topics.get_mut("plant-changelog").unwrap().replication_factor = 1;
        set(found, "plant-changelog", "min.insync.replicas", "1");
        set(found, "plant-changelog", "unclean.leader.election.enable", "true");
        set(found, "plant-changelog", "segment.ms", "604800000");
        set(found, "plant-changelog", "delete.retention.ms", "1000");
        set(found, "plant-windows", "cleanup.policy", "compact");
        set(found, "plant-dead-letters", "message.timestamp.type", "CreateTime");
    });
    let repair = "Repair: hotspare topics repair";
    let changelog = "warning: changelog topic \"plant-changelog\" has";
    assert_eq!(
        texts(&problems),
        [
            format!(
                "{changelog} replication.factor=1; it must be at least 3. Repair: kafka-reassign-partitions.sh, or set \
                 topics.replication_factor = 1 if that is meant"
            ),
            format!("{changelog} min.insync.replicas=1; it must be at least 2. {repair} plant-changelog"),
            format!("{changelog} unclean.leader.election.enable=true; it must be false. {repair} plant-changelog"),
            format!("{changelog} segment.ms=604800000; it must be at most 600000. {repair} plant-changelog"),
            format!("{changelog} delete.retention.ms=1000; it must be at least 86400000. {repair} plant-changelog"),
            format!(
                "warning: output topic \"plant-windows\" has cleanup.policy=compact; it must be delete. {repair} plant-windows"
            ),
            format!(
                "warning: dead-letter topic \"plant-dead-letters\" has message.timestamp.type=CreateTime; it must be \
                 LogAppendTime. {repair} plant-dead-letters"
            ),
        ]
    );
    let plan = plan_repair("plant-changelog", &problems);
    assert_eq!(plan.settings.len(), 4);
    assert_eq!(plan.settings[3], ("delete.retention.ms".to_owned(), "1000".to_owned(), "86400000".to_owned()));
    assert_eq!(plan.partitions, None);
}

#[test]
fn a_missing_topic_is_named_with_how_to_get_it() {
    let problems = problems_after(&config(&[]), |found| found.topics.retain(|name, _| name == "plant-windows"));
    assert_eq!(
        texts(&problems),
        [
            "fatal: input topic \"iot\" does not exist. Repair: correct input.topic, or kafka-topics.sh --create --topic iot \
             --partitions COUNT",
            "fatal: changelog topic \"plant-changelog\" does not exist. Repair: hotspare topics create",
            "fatal: dead-letter topic \"plant-dead-letters\" does not exist. Repair: hotspare topics create",
        ]
    );
    assert_eq!(plan_repair("plant-changelog", &problems).settings, []);
    assert_eq!(plan_repair("iot", &problems).settings, []);
}

#[test]
fn a_value_that_is_no_number_satisfies_no_bound() {
    assert!(!Rule::AtLeast.holds("many", "2"));
    assert!(!Rule::AtMost.holds("", "2"));
    assert!(Rule::AtMost.holds("2", "2") && Rule::AtLeast.holds("2", "2") && Rule::Equal.holds("a", "a"));
}

#[test]
fn the_changelog_tells_how_long_tombstones_stay() {
    let config = config(&[]);
    let mut found = found_as_wanted(&config);
    assert_eq!(found.delete_retention_ms("plant-changelog"), Some(86_400_000));
    set(&mut found, "plant-changelog", "delete.retention.ms", "5000");
    assert_eq!(found.delete_retention_ms("plant-changelog"), Some(5000));
    assert_eq!(found.delete_retention_ms("nowhere"), None);
}

#[test]
fn silence_needs_an_input_whose_timestamps_are_bounded() {
    for sets in [&["window.idle_close=1m"][..], &["window.retention=1d"]] {
        let problems = |settings: &[(&str, &str)]| {
            problems_after(&config(sets), |found| {
                settings.iter().for_each(|(name, value)| set(found, "iot", name, value));
            })
        };
        let found =
            problems(&[("message.timestamp.type", "CreateTime"), ("message.timestamp.after.max.ms", "86400001")]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].setting, found[0].severity), ("message.timestamp.type", Severity::Fatal));
        assert!(found[0].repair.contains("--topic iot"), "{}", found[0].repair);
        assert_eq!(problems(&[("message.timestamp.type", "LogAppendTime")]), []);
        assert_eq!(problems(&[("message.timestamp.after.max.ms", "86400000")]), []);
    }
    let unbounded = problems_after(&config(&[]), |found| set(found, "iot", "message.timestamp.type", "CreateTime"));
    assert_eq!(unbounded, []);
}
