//! `[kafka]`: properties of the Kafka client, and secrets that stand in files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::{fmt, fs, io};

use rdkafka::ClientConfig;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::sections::section;
use super::units::Timespan;

section! {
    /// `[kafka]`: the Kafka client.
    pub struct KafkaSection {
        /// Any librdkafka property, over our defaults; `"bootstrap.servers"` is required. A text may be
        /// `{ file = "/path" }`: it is read from there at each use.
        pub properties: Properties = Properties::default(),
        /// The same, for consumers only.
        pub consumer: Properties = Properties::default(),
        /// The same, for producers only.
        pub producer: Properties = Properties::default(),
        /// **C** Consumer group whose offsets are for lag tools only. Default: the cluster's name.
        pub group_id: String = String::new(),
        /// Longest wait for metadata and administration.
        pub operation_timeout: Timespan = Timespan::from_secs(10),
        /// How often the client gives its statistics.
        pub statistics_interval: Timespan = Timespan::from_secs(1),
    }
}

/// Properties on which exactness rests, and why each is not the user's to set.
pub(super) const REFUSED: [(&str, &str); 7] = [
    ("acks", "transactions need acks=all, which hotspare sets; remove it"),
    ("enable.auto.commit", "the offset that counts is in the progress record; remove it"),
    ("enable.auto.offset.store", "the offset that counts is in the progress record; remove it"),
    ("enable.idempotence", "transactions need it to be true, which hotspare sets; remove it"),
    ("group.instance.id", "partitions are assigned by the cluster, not by a consumer group; remove it"),
    (
        "isolation.level",
        "readings of aborted transactions must not be counted; hotspare sets read_committed; remove it",
    ),
    ("transactional.id", "it fences the old active and is made of the cluster's name and the partition; remove it"),
];

const COMMON_DEFAULTS: [(&str, &str); 4] = [
    ("reconnect.backoff.ms", "10"),
    ("reconnect.backoff.max.ms", "500"),
    ("retry.backoff.ms", "5"),
    // The broker judges sizes, not the client: what it refuses as a dead letter goes without its value.
    ("message.max.bytes", "67108864"),
];
const CONSUMER_DEFAULTS: [(&str, &str); 2] = [("fetch.wait.max.ms", "5"), ("fetch.queue.backoff.ms", "5")];
const PRODUCER_DEFAULTS: [(&str, &str); 2] = [("linger.ms", "0"), ("compression.type", "lz4")];

/// A secret's file could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the secret of kafka property \"{property}\" from \"{}\": {source}. Check that the file is there and readable", path.display())]
pub struct SecretError {
    /// The property.
    pub property: String,
    /// The file.
    pub path: PathBuf,
    /// The system's error.
    pub source: io::Error,
}

impl KafkaSection {
    /// Settings of a client that neither consumes nor produces.
    ///
    /// # Errors
    /// A secret's file cannot be read.
    pub fn client_config(&self) -> Result<ClientConfig, SecretError> {
        build(&[], &[&self.properties])
    }

    /// Settings of a consumer; what exactness needs is added by who makes it.
    ///
    /// # Errors
    /// A secret's file cannot be read.
    pub fn consumer_config(&self) -> Result<ClientConfig, SecretError> {
        build(&CONSUMER_DEFAULTS, &[&self.properties, &self.consumer])
    }

    /// Settings of a producer; what exactness needs is added by who makes it.
    ///
    /// # Errors
    /// A secret's file cannot be read.
    pub fn producer_config(&self) -> Result<ClientConfig, SecretError> {
        build(&PRODUCER_DEFAULTS, &[&self.properties, &self.producer])
    }

    /// The three tables with their names in the configuration.
    pub(super) fn tables(&self) -> [(&'static str, &Properties); 3] {
        [("kafka.properties", &self.properties), ("kafka.consumer", &self.consumer), ("kafka.producer", &self.producer)]
    }
}

fn build(defaults: &[(&str, &str)], tables: &[&Properties]) -> Result<ClientConfig, SecretError> {
    let mut config = ClientConfig::new();
    for (name, value) in COMMON_DEFAULTS.iter().chain(defaults) {
        config.set(*name, *value);
    }
    for (name, property) in tables.iter().flat_map(|table| table.iter()) {
        config.set(name, property.read(name)?);
    }
    Ok(config)
}

/// Properties by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Properties(BTreeMap<String, Property>);

impl Properties {
    /// The value of one.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Property> {
        self.0.get(name)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Property)> {
        self.0.iter().map(|(name, property)| (name.as_str(), property))
    }
}

/// The value of a property. It is never shown if it may be a secret, neither by `Debug` nor by serialising.
#[derive(Clone, PartialEq, Eq)]
pub enum Property {
    /// As it stands in the configuration; numbers and true, false as text.
    Text(String),
    /// In a file.
    File(PathBuf),
}

impl Property {
    /// The value; from the file now, without one newline at its end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, property: &str) -> Result<String, SecretError> {
        match self {
            Property::Text(text) => Ok(text.clone()),
            Property::File(path) => {
                let mut text = fs::read_to_string(path).map_err(|source| SecretError {
                    property: property.to_owned(),
                    path: path.clone(),
                    source,
                })?;
                if text.ends_with('\n') {
                    text.pop();
                }
                Ok(text)
            }
        }
    }

    /// The value as it may be shown.
    #[must_use]
    pub fn shown(&self, property: &str) -> String {
        match self {
            Property::Text(text) if is_secret(property) => format!("<{} bytes>", text.len()),
            Property::Text(text) => text.clone(),
            Property::File(path) => match fs::metadata(path) {
                Ok(metadata) => format!("<file {}, {} bytes>", path.display(), metadata.len()),
                Err(_) => format!("<file {}, not readable>", path.display()),
            },
        }
    }
}

fn is_secret(property: &str) -> bool {
    ["password", "secret", "token", "jaas", ".pem", "sasl.oauthbearer.config"]
        .iter()
        .any(|part| property.contains(part))
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Property::Text(text) => write!(f, "<{} bytes>", text.len()),
            Property::File(path) => write!(f, "<file {}>", path.display()),
        }
    }
}

/// Without its name nothing tells whether a value is a secret, so it is not shown; see [`Property::shown`].
impl Serialize for Property {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Property {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Property, D::Error> {
        deserializer.deserialize_any(PropertyVisitor)
    }
}

struct PropertyVisitor;

impl<'de> Visitor<'de> for PropertyVisitor {
    type Value = Property;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number, true, false or { file = \"/path\" }")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Property, E> {
        Ok(Property::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Property, E> {
        Ok(Property::Text(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Property, E> {
        Ok(Property::Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Property, E> {
        Ok(Property::Text(number.to_string()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Property, E> {
        Ok(Property::Text(value.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Property, A::Error> {
        let wrong = || A::Error::custom("a table here must be { file = \"/path\" } and nothing else");
        let Some((key, path)) = map.next_entry::<String, PathBuf>()? else {
            return Err(wrong());
        };
        if key != "file" || map.next_key::<String>()?.is_some() {
            return Err(wrong());
        }
        Ok(Property::File(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_at_each_use_and_loses_one_newline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let property = Property::File(path.clone());
        let error = property.read("sasl.password").unwrap_err().to_string();
        assert!(error.starts_with("cannot read the secret of kafka property \"sasl.password\" from \"/"), "{error}");
        fs::write(&path, "one\n\n").unwrap();
        assert_eq!(property.read("sasl.password").unwrap(), "one\n");
        fs::write(&path, "two").unwrap();
        assert_eq!(property.read("sasl.password").unwrap(), "two");
        assert_eq!(property.shown("sasl.password"), format!("<file {}, 3 bytes>", path.display()));
    }

    #[test]
    fn a_secret_is_never_shown() {
        let password = Property::Text("hunter2".to_owned());
        assert_eq!(password.shown("sasl.password"), "<7 bytes>");
        assert_eq!(password.shown("client.id"), "hunter2");
        let properties = Properties(BTreeMap::from([("sasl.password".to_owned(), password)]));
        let kafka = KafkaSection { properties, ..KafkaSection::default() };
        assert!(!format!("{kafka:?}").contains("hunter2"));
        assert!(!serde_json::to_string(&kafka).unwrap().contains("hunter2"));
    }

    #[test]
    fn properties_of_a_kind_of_client_stand_above_common_ones_and_those_above_our_defaults() {
        let kafka: KafkaSection = toml::from_str(
            "properties = { 'bootstrap.servers' = 'a:1', 'reconnect.backoff.ms' = 7, 'linger.ms' = 1 }\n\
             consumer = { 'client.id' = 'c' }\nproducer = { 'linger.ms' = 2 }",
        )
        .unwrap();
        let (producer, consumer) = (kafka.producer_config().unwrap(), kafka.consumer_config().unwrap());
        assert_eq!(producer.get("linger.ms"), Some("2"));
        assert_eq!(producer.get("reconnect.backoff.ms"), Some("7"));
        assert_eq!(producer.get("client.id"), None);
        assert_eq!(consumer.get("client.id"), Some("c"));
        assert_eq!(consumer.get("fetch.wait.max.ms"), Some("5"));
        assert_eq!(kafka.client_config().unwrap().get("bootstrap.servers"), Some("a:1"));
    }

    #[test]
    fn our_own_defaults_are_accepted_by_the_client_library() {
        for defaults in [&COMMON_DEFAULTS[..], &CONSUMER_DEFAULTS, &PRODUCER_DEFAULTS] {
            build(defaults, &[]).unwrap().create_native_config().unwrap();
        }
    }
}
