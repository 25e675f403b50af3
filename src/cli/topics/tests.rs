use super::*;
use crate::config;

fn config(servers: &str, sets: &[&str]) -> Config {
    let minimal = [
        "cluster.expected_slots=a,b,c".to_owned(),
        format!("kafka.properties.bootstrap.servers={servers}"),
        "kafka.operation_timeout=10s".to_owned(),
    ];
    let sets: Vec<String> = minimal.into_iter().chain(sets.iter().map(|set| (*set).to_owned())).collect();
    config::load(None, std::iter::empty(), &sets).unwrap()
}

/// Exit code, what was printed as a result, what as an error.
async fn run_command(command: TopicsCommand, config: &Config, answer: bool) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = run(&command, config, &mut out, &mut err, &mut |_| answer).await.unwrap();
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[tokio::test]
async fn a_broker_that_does_not_answer_gives_exit_code_5_and_its_address() {
    let sets = ["cluster.name=plant", "input.topic=iot", "kafka.operation_timeout=300ms"];
    let (code, out, err) = run_command(TopicsCommand::Check, &config("127.0.0.1:1", &sets), false).await;
    assert_eq!((code, out.as_str()), (EXIT_UNREACHABLE, ""));
    assert!(err.starts_with("Kafka at 127.0.0.1:1 does not answer within 300 ms: "), "{err}");
    assert!(err.ends_with(". Check kafka.properties \"bootstrap.servers\", the network and the brokers\n"), "{err}");
}

mod with_a_broker {
    use super::*;
    use rdkafka::ClientConfig;
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    use rdkafka::client::DefaultClientContext;
    use std::time::Duration;

    /// Addresses of a broker for tests; without it these tests do nothing.
    fn servers() -> Option<String> {
        std::env::var("HOTSPARE_TEST_KAFKA").ok()
    }

    fn admin(servers: &str) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", servers).create().unwrap()
    }

    async fn make(servers: &str, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let new = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let new = settings.iter().fold(new, |new, (key, value)| new.set(key, value));
        admin(servers).create_topics([&new], &AdminOptions::new()).await.unwrap()[0].as_ref().unwrap();
        // Until every part of the broker knows it.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    fn unique(prefix: &str) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("{prefix}-{}", &id[..12])
    }

    fn of(servers: &str, name: &str, sets: &[&str]) -> Config {
        let own = [format!("cluster.name={name}"), format!("input.topic={name}-in")];
        let sets: Vec<&str> = own.iter().map(String::as_str).chain(sets.iter().copied()).collect();
        config(servers, &sets)
    }

    const ONE_BROKER: [&str; 2] = ["topics.replication_factor=1", "topics.min_insync_replicas=1"];

    #[tokio::test]
    async fn missing_topics_are_created_as_wanted_and_then_nothing_is_wrong() {
        let Some(servers) = servers() else { return };
        let name = unique("create");
        let config = of(&servers, &name, &ONE_BROKER);

        let (code, out, _) = run_command(TopicsCommand::Create { dry_run: false }, &config, false).await;
        assert_eq!(code, EXIT_REFUSED, "{out}");
        assert!(out.contains(&format!("fatal: input topic \"{name}-in\" does not exist")), "{out}");

        make(&servers, &format!("{name}-in"), 4, &[]).await;
        let (code, out, err) = run_command(TopicsCommand::Create { dry_run: true }, &config, false).await;
        assert_eq!(code, EXIT_DONE, "{out}{err}");
        assert!(out.contains(&format!("would create changelog topic \"{name}-changelog\" with 4 partitions")), "{out}");
        assert!(out.contains("to be created"), "{out}");
        let (code, out, _) = run_command(TopicsCommand::Check, &config, false).await;
        assert_eq!(code, EXIT_REFUSED, "{out}");
        assert!(out.contains(&format!("changelog topic \"{name}-changelog\" does not exist")), "{out}");

        let (code, out, err) = run_command(TopicsCommand::Create { dry_run: false }, &config, false).await;
        assert_eq!(code, EXIT_DONE, "{out}{err}");
        let (code, out, _) = run_command(TopicsCommand::Check, &config, false).await;
        assert_eq!(code, EXIT_DONE, "{out}");
        assert_eq!(out.matches(" ok").count(), 4, "{out}");
        let ready = ensure(&config, true).await.unwrap();
        assert!(ready.is_usable() && ready.created.is_empty());
        assert!(ready.found.kafka_cluster_id.is_some());
        assert_eq!(ready.found.delete_retention_ms(config.topics.changelog()), Some(86_400_000));
    }

    #[tokio::test]
    async fn a_changelog_that_exists_with_other_settings_is_refused_and_altered_only_on_request() {
        let Some(servers) = servers() else { return };
        let name = unique("repair");
        let config = of(&servers, &name, &ONE_BROKER);
        let changelog = format!("{name}-changelog");
        make(&servers, &format!("{name}-in"), 3, &[]).await;
        make(&servers, &changelog, 2, &[("retention.ms", "123456789"), ("segment.ms", "60000")]).await;

        for command in [TopicsCommand::Create { dry_run: false }, TopicsCommand::Check] {
            let (code, out, _) = run_command(command, &config, false).await;
            assert_eq!(code, EXIT_REFUSED, "{out}");
            let text = format!(
                "fatal: changelog topic \"{changelog}\" has cleanup.policy=delete; it must be compact. \
                 Repair: hotspare topics repair {changelog}"
            );
            assert!(out.contains(&text), "{out}");
            assert!(out.contains(&format!("\"{changelog}\" has 2 partitions; it must have 3")), "{out}");
        }
        let repair = || TopicsCommand::Repair { name: changelog.clone() };
        let (code, out, _) = run_command(repair(), &config, false).await;
        assert_eq!(code, EXIT_REFUSED, "{out}");
        assert!(out.ends_with("refused: not confirmed; nothing was changed\n"), "{out}");
        let (code, out, err) = run_command(repair(), &config, true).await;
        assert_eq!(code, EXIT_DONE, "{out}{err}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (code, out, _) = run_command(TopicsCommand::Check, &config, false).await;
        assert_eq!(code, EXIT_DONE, "{out}");
        let found = ensure(&config, false).await.unwrap().found;
        let settings = &found.topics[&changelog].settings;
        assert_eq!(settings["retention.ms"], "123456789", "what is the topic's own is kept");
        assert_eq!(settings["segment.ms"], "60000");
        let (code, out, _) = run_command(TopicsCommand::Repair { name: format!("{name}-in") }, &config, true).await;
        assert_eq!(code, EXIT_REFUSED, "{out}");
    }

    #[tokio::test]
    async fn too_many_replicas_for_the_brokers_are_refused_with_the_setting_that_helps() {
        let Some(servers) = servers() else { return };
        let name = unique("replicas");
        let config = of(&servers, &name, &[]);
        make(&servers, &format!("{name}-in"), 1, &[]).await;
        let (code, out, err) = run_command(TopicsCommand::Create { dry_run: false }, &config, false).await;
        assert_eq!(code, EXIT_REFUSED, "{out}");
        assert!(
            err.starts_with(&format!(
                "the broker refused to create changelog topic \"{name}-changelog\" with replication factor 3 on 1 broker: "
            )),
            "{err}"
        );
        assert!(
            err.ends_with(
                "Repair: start more brokers, or set topics.replication_factor = 1 and topics.min_insync_replicas = 1\n"
            ),
            "{err}"
        );
    }

    #[tokio::test]
    async fn looking_at_topics_creates_none() {
        let Some(servers) = servers() else { return };
        let name = unique("look");
        let config = of(&servers, &name, &ONE_BROKER);
        for _ in 0..2 {
            assert!(ensure(&config, false).await.unwrap().found.topics.is_empty());
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}
