//! A client's configuration, resolved. There are no defaults here: the Ruby side has them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prosody_core::consumer::ConsumerSettings;

/// Where messages live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterSettings {
    /// In this process; clients that give the same name share one log.
    Mock {
        /// `bootstrap_servers`.
        name: String,
    },
    /// In Kafka.
    Kafka {
        /// `bootstrap_servers`.
        bootstrap_servers: Vec<String>,
        /// `kafka_config`; values may be secrets.
        properties: BTreeMap<String, String>,
    },
}

/// Where ledgers live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process.
    Memory,
    /// On this machine's disk.
    Local,
    /// In Cassandra.
    Cassandra,
}

/// What it takes to consume.
#[derive(Clone, Debug)]
pub struct SubscriptionSettings {
    /// `subscribed_topics`.
    pub topics: Vec<String>,
    /// `poll_interval`.
    pub poll_interval: Duration,
    /// `store`, if one is configured.
    pub store: Option<StoreKind>,
    /// What the consumer acts on.
    pub consumer: ConsumerSettings,
}

/// What a client is made of.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Where messages live.
    pub cluster: ClusterSettings,
    /// `send_timeout`.
    pub send_timeout: Duration,
    /// `source_system`: the value of the header `source-system` on what is sent.
    pub source_system: Option<Arc<str>>,
    /// What it takes to consume; `None` without `group_id` or topics.
    pub subscription: Option<SubscriptionSettings>,
}
