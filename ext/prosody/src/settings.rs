//! Reads a resolved configuration (`Prosody::Configuration.resolve`) by the names of its options.
//! Defaults and checks are Ruby's; what does not fit here is a mistake of ours and raises.

use std::collections::BTreeMap;
use std::time::Duration;

use magnus::{Error, RHash, Ruby};
use prosody_client::{ClientSettings, ClusterSettings, StoreKind, SubscriptionSettings};
use prosody_core::backoff::Backoff;
use prosody_core::consumer::ConsumerSettings;
use prosody_core::outcome::Mode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::error;

/// The options that act so far, by their names.
#[derive(Deserialize)]
struct Options {
    bootstrap_servers: Option<Vec<String>>,
    mock: bool,
    kafka_config: BTreeMap<String, String>,
    source_system: Option<String>,
    #[serde(deserialize_with = "seconds")]
    send_timeout: Duration,
    group_id: Option<String>,
    subscribed_topics: Option<Vec<String>>,
    #[serde(deserialize_with = "seconds")]
    poll_interval: Duration,
    store: Option<Store>,
    mode: ModeName,
    max_concurrency: usize,
    max_uncommitted: usize,
    #[serde(deserialize_with = "seconds")]
    timeout: Duration,
    #[serde(deserialize_with = "seconds")]
    commit_interval: Duration,
    #[serde(deserialize_with = "seconds")]
    shutdown_timeout: Duration,
    #[serde(deserialize_with = "seconds")]
    stall_threshold: Duration,
    allowed_events: Option<Vec<String>>,
    idempotence_field: Option<String>,
    idempotence_version: String,
    #[serde(deserialize_with = "seconds")]
    idempotence_ttl: Duration,
    #[serde(deserialize_with = "seconds")]
    retry_base: Duration,
    #[serde(deserialize_with = "seconds")]
    max_retry_delay: Duration,
    state_cache_size_bytes: usize,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Store {
    Memory,
    Local,
    Cassandra,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModeName {
    Pipeline,
    LowLatency,
    BestEffort,
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
}

/// Reads the settings of a client.
pub fn client(ruby: &Ruby, resolved: RHash) -> Result<ClientSettings, Error> {
    let options: Options = serde_magnus::deserialize(ruby, resolved)
        .map_err(|reason: Error| error::argument(ruby, format!("configuration: {reason}")))?;
    Ok(ClientSettings {
        cluster: options.cluster(),
        send_timeout: options.send_timeout,
        source_system: options.source_system.as_deref().map(Into::into),
        subscription: options.subscription(),
    })
}

impl Options {
    fn cluster(&self) -> ClusterSettings {
        let servers = self.bootstrap_servers.as_deref().unwrap_or_default();
        if self.mock {
            return ClusterSettings::Mock {
                name: servers.join(","),
            };
        }
        ClusterSettings::Kafka {
            bootstrap_servers: servers.to_vec(),
            properties: self.kafka_config.clone(),
        }
    }

    /// `None` if it takes more to consume.
    fn subscription(&self) -> Option<SubscriptionSettings> {
        let group_id = self.group_id.as_deref()?;
        let topics = self.subscribed_topics.as_deref().unwrap_or_default();
        if topics.is_empty() {
            return None;
        }
        Some(SubscriptionSettings {
            topics: topics.to_vec(),
            poll_interval: self.poll_interval,
            store: self.store.map(Store::kind),
            consumer: self.consumer(group_id),
        })
    }

    fn consumer(&self, group_id: &str) -> ConsumerSettings {
        let allowed_events = self.allowed_events.as_ref();
        ConsumerSettings {
            group_id: group_id.into(),
            mode: self.mode.mode(),
            max_concurrency: self.max_concurrency,
            max_uncommitted: self.max_uncommitted,
            timeout: self.timeout,
            commit_interval: self.commit_interval,
            shutdown_timeout: self.shutdown_timeout,
            stall_threshold: self.stall_threshold,
            allowed_events: allowed_events
                .map(|all| all.iter().map(|one| one.as_str().into()).collect()),
            idempotence_field: self.idempotence_field.clone(),
            idempotence_version: self.idempotence_version.clone(),
            idempotence_ttl: self.idempotence_ttl,
            retry: Backoff {
                base: self.retry_base,
                max: self.max_retry_delay,
            },
            state_cache_size_bytes: self.state_cache_size_bytes,
        }
    }
}

impl Store {
    fn kind(self) -> StoreKind {
        match self {
            Self::Memory => StoreKind::Memory,
            Self::Local => StoreKind::Local,
            Self::Cassandra => StoreKind::Cassandra,
        }
    }
}

impl ModeName {
    fn mode(self) -> Mode {
        match self {
            Self::Pipeline => Mode::Pipeline,
            Self::LowLatency => Mode::LowLatency,
            Self::BestEffort => Mode::BestEffort,
        }
    }
}
