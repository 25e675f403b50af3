//! The sections of the configuration: the only source of keys, types, defaults and their meaning.
//!
//! In doc comments **C** marks what must be equal on all nodes, **R** what is applied while running.

mod cluster;
mod data;
mod service;

use serde::{Deserialize, Serialize};

pub use cluster::{ClusterSection, FailoverSection, Fencing, NodeSection, PeersSection, PlannerSection, RaftSection};
pub use data::{ActiveSection, CheckpointSection, ReplicationSection, TopicsSection};
pub use service::{
    Access, AuthSection, Certificate, DrillSection, HttpSection, LogFormat, LogSection, MetricsSection, TlsSection,
    TracesSection, WriteAccess,
};

use super::kafka::KafkaSection;
use crate::semantics::{InputSection, OutputSection, WindowSection};

/// A key of a section, for the reference page and the chart's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name within the section.
    pub name: &'static str,
    /// What it means: the doc comment.
    pub doc: &'static str,
}

/// A section with its keys.
pub trait Section {
    /// The keys in order.
    const KEYS: &'static [Key];
}

/// Declares a section: the struct, its defaults, and its keys with their doc comments.
macro_rules! section {
    (
        $(#[$struct_meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])* pub $field:ident: $type:ty = $default:expr, )*
        }
    ) => {
        $(#[$struct_meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::config::sections::Section for $name {
            const KEYS: &'static [$crate::config::sections::Key] = &[
                $( $crate::config::sections::Key { name: stringify!($field), doc: concat!($($doc, "\n"),*) }, )*
            ];
        }
    };
}
pub(crate) use section;

/// All sections, as read; empty texts that stand for a derived value are filled in by [`super::load`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sections {
    /// The cluster as a whole.
    pub cluster: ClusterSection,
    /// This node.
    pub node: NodeSection,
    /// Talk between the nodes.
    pub peers: PeersSection,
    /// The Kafka client.
    pub kafka: KafkaSection,
    /// Our topics.
    pub topics: TopicsSection,
    /// The input topic and how its records become readings.
    pub input: InputSection,
    /// Windows of event time.
    pub window: WindowSection,
    /// What is written for a window.
    pub output: OutputSection,
    /// The active replica of a partition.
    pub active: ActiveSection,
    /// Standby replicas.
    pub replication: ReplicationSection,
    /// Failure detection and promotion.
    pub failover: FailoverSection,
    /// The replicated log of the control plane.
    pub raft: RaftSection,
    /// Where replicas are placed.
    pub planner: PlannerSection,
    /// Snapshot files.
    pub checkpoint: CheckpointSection,
    /// The HTTP server.
    pub http: HttpSection,
    /// Who may do what over HTTP.
    pub auth: AuthSection,
    /// Certificates and keys.
    pub tls: TlsSection,
    /// Logging.
    pub log: LogSection,
    /// Metrics.
    pub metrics: MetricsSection,
    /// Traces of failovers.
    pub traces: TracesSection,
    /// Drills.
    pub drill: DrillSection,
}
