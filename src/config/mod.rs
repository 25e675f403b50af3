//! The configuration: one TOML file, environment variables and flags; typed, checked, all errors at once.

mod error;
mod kafka;
mod read;
mod rules;
pub mod sections;
mod source;
mod units;

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use hotspare_cluster::PartitionId;
use serde::Serialize;

pub use error::{ConfigError, ConfigErrors};
pub use kafka::{KafkaSection, Properties, Property, SecretError};
pub use sections::Sections;
pub use source::Origin;
pub use units::{ByteSize, Timespan, UnitError};

use crate::semantics::Semantics;
use source::{Sources, path_of};

/// Where the file is looked for if no other is named.
pub const DEFAULT_PATH: &str = "/etc/hotspare/hotspare.toml";
/// Beginning of the names of environment variables; two underscores stand between levels.
pub const VARIABLE_PREFIX: &str = "HOTSPARE_";
/// Port of peers where none is given.
pub const PEERS_PORT: u16 = 7400;

/// A checked configuration, with everything derived filled in. Its sections are its fields.
#[derive(Clone, Debug)]
pub struct Config {
    sections: Sections,
    semantics: Arc<Semantics>,
    shown: Vec<Shown>,
}

/// One setting as `config check --show-origin` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The key, such as `failover.suspect_after`.
    pub key: String,
    /// The value as TOML; secrets are left out.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

impl Deref for Config {
    type Target = Sections;

    fn deref(&self) -> &Sections {
        &self.sections
    }
}

impl Config {
    /// What `input`, `window` and `output` mean.
    #[must_use]
    pub fn semantics(&self) -> &Arc<Semantics> {
        &self.semantics
    }

    /// The `transactional.id` of a partition's active: `<cluster>-<partition>`.
    #[must_use]
    pub fn transactional_id(&self, partition: PartitionId) -> String {
        format!("{}-{partition}", self.cluster.name)
    }

    /// Every setting with its value and where it was set.
    #[must_use]
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// Hash of the settings that must be equal on all nodes (those marked **C**), without `input`, `window` and `output`,
    /// which have a hash of their own.
    #[must_use]
    pub fn cluster_wide_hash(&self) -> u64 {
        #[derive(Serialize)]
        struct ClusterWide<'a> {
            cluster: &'a sections::ClusterSection,
            group_id: &'a str,
            topics: &'a sections::TopicsSection,
            active: &'a sections::ActiveSection,
            standbys: u32,
            failover: &'a sections::FailoverSection,
            raft: &'a sections::RaftSection,
            planner: &'a sections::PlannerSection,
            drill: &'a sections::DrillSection,
        }
        let settings = ClusterWide {
            cluster: &self.cluster,
            group_id: &self.kafka.group_id,
            topics: &self.topics,
            active: &self.active,
            standbys: self.replication.standbys,
            failover: &self.failover,
            raft: &self.raft,
            planner: &self.planner,
            drill: &self.drill,
        };
        // Serialising plain structs to memory does not fail; if it ever did, all nodes would still agree.
        xxhash_rust::xxh3::xxh3_64(&serde_json::to_vec(&settings).unwrap_or_default())
    }
}

/// Reads, merges and checks a configuration. A flag stands above the environment, that above the file, that above defaults.
///
/// `path` None: no file. `env`: all variables; those that do not begin with `HOTSPARE_` or have no `__` are passed over.
/// `sets`: `section.key=value`.
///
/// # Errors
/// All that is wrong: unknown keys, wrong types, broken rules.
pub fn load(
    path: Option<&Path>,
    env: impl Iterator<Item = (String, String)>,
    sets: &[String],
) -> Result<Config, ConfigErrors> {
    let text = match path {
        None => String::new(),
        Some(path) => std::fs::read_to_string(path).map_err(|error| ConfigErrors {
            errors: vec![ConfigError {
                origin: Origin::Default,
                key: String::new(),
                message: format!(
                    "cannot read \"{}\": {error}. Name the file with --config, or make it readable for this user",
                    path.display()
                ),
            }],
        })?,
    };
    let mut env: Vec<(String, String)> = env.collect();
    env.sort();
    load_text(path, &text, &env, sets).map_err(|mut errors| {
        errors.sort();
        errors.dedup();
        ConfigErrors { errors }
    })
}

fn load_text(
    path: Option<&Path>,
    text: &str,
    env: &[(String, String)],
    sets: &[String],
) -> Result<Config, Vec<ConfigError>> {
    let mut sources = match path {
        Some(path) => Sources::parse(path, text)?,
        None => Sources::default(),
    };
    let mut errors = Vec::new();
    set_from_env(&mut sources, env);
    set_from_flags(&mut sources, sets, &mut errors);
    let (mut sections, misfits) = read::read(&sources.table);
    errors.extend(misfits.into_iter().map(|misfit| ConfigError {
        origin: sources.origin(&misfit.span),
        key: misfit.key,
        message: misfit.message,
    }));
    derive(&mut sections, env);

    let semantics = Semantics::compile(&sections.input, &sections.window, &sections.output);
    let mut found = Vec::new();
    for rule in rules::check(&sections) {
        let keys = std::iter::once(&rule.key).chain(&rule.other_key);
        let origin = keys.map(|key| sources.origin_of(key)).find(|origin| *origin != Origin::Default);
        found.push(ConfigError { origin: origin.unwrap_or(Origin::Default), key: rule.key, message: rule.message });
    }
    for refused in semantics.as_ref().err().into_iter().flatten() {
        let origin = sources.origin_of(&refused.key);
        found.push(ConfigError { origin, key: refused.key.clone(), message: refused.message.clone() });
    }
    // What does not even fit its type was replaced by the default: no use to judge that.
    found.retain(|broken| !errors.iter().any(|misfit| misfit.key == broken.key));
    errors.extend(found);
    match semantics {
        Ok(semantics) if errors.is_empty() => {
            let shown = show(&sections, &sources);
            Ok(Config { sections, semantics: Arc::new(semantics), shown })
        }
        _ => Err(errors),
    }
}

fn set_from_env<'a>(sources: &mut Sources<'a>, env: &'a [(String, String)]) {
    for (name, value) in env {
        let Some(rest) = name.strip_prefix(VARIABLE_PREFIX) else {
            continue;
        };
        let mut parts: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
        if parts.len() < 2 {
            continue;
        }
        if let [section, table, property @ ..] = &mut parts[..]
            && section == "kafka"
            && ["properties", "consumer", "producer"].contains(&table.as_str())
        {
            // A variable's name cannot have the dots of a property's name.
            property.iter_mut().for_each(|part| *part = part.replace('_', "."));
        }
        sources.set(&path_of(parts), value, Origin::Variable(name.clone()));
    }
}

fn set_from_flags<'a>(sources: &mut Sources<'a>, sets: &'a [String], errors: &mut Vec<ConfigError>) {
    for set in sets {
        let parts = set
            .split_once('=')
            .map(|(key, value)| (key.trim(), key.trim().split('.').map(str::to_owned).collect::<Vec<String>>(), value));
        match parts {
            Some((key, parts, value)) if parts.len() >= 2 && parts.iter().all(|part| !part.is_empty()) => {
                sources.set(&path_of(parts), value, Origin::Flag(key.to_owned()));
            }
            // The value is not shown, for it may be a secret.
            _ => errors.push(ConfigError {
                origin: Origin::Flag(set.split('=').next().unwrap_or_default().to_owned()),
                key: String::new(),
                message: "write --set section.key=value, such as --set failover.suspect_after=400ms".to_owned(),
            }),
        }
    }
}

/// Fills in what stands for a value derived from others.
fn derive(sections: &mut Sections, env: &[(String, String)]) {
    let Sections { cluster, node, peers, kafka, topics, http, .. } = sections;
    let or = |value: &mut String, derived: String| {
        if value.is_empty() {
            *value = derived;
        }
    };
    or(&mut topics.changelog, format!("{}-changelog", cluster.name));
    or(&mut topics.output, format!("{}-windows", cluster.name));
    or(&mut topics.dead_letters, format!("{}-dead-letters", cluster.name));
    or(&mut kafka.group_id, cluster.name.clone());
    or(&mut node.slot, host_name(env));
    let peers_port = peers.listen.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).unwrap_or(PEERS_PORT);
    or(&mut peers.advertise, format!("{}:{peers_port}", node.slot));
    or(&mut http.metrics_listen, http.listen.clone());
    if cluster.seeds.is_empty() {
        cluster.seeds = cluster.expected_slots.iter().map(|slot| format!("{slot}:{PEERS_PORT}")).collect();
    }
}

fn host_name(env: &[(String, String)]) -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let from_env = || env.iter().find(|(name, _)| name == "HOSTNAME").map(|(_, value)| value.clone());
    from_kernel.or_else(from_env).unwrap_or_default().trim().to_owned()
}

fn show(sections: &Sections, sources: &Sources<'_>) -> Vec<Shown> {
    let mut shown = Vec::new();
    if let Ok(table) = toml::Table::try_from(sections) {
        flatten("", &table, &mut shown);
    }
    for one in &mut shown {
        one.origin = sources.origin_of(&one.key);
        // Serialising hides every property, for it does not know its name.
        let property = sections.kafka.tables().into_iter().find_map(|(table, properties)| {
            let name = one.key.strip_prefix(table)?.strip_prefix('.')?;
            Some(properties.get(name)?.shown(name))
        });
        if let Some(property) = property {
            one.value = toml::Value::String(property).to_string();
        }
    }
    shown
}

fn flatten(prefix: &str, table: &toml::Table, shown: &mut Vec<Shown>) {
    for (name, value) in table {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, shown),
            other => shown.push(Shown { key, value: other.to_string(), origin: Origin::Default }),
        }
    }
}
