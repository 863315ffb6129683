//! Reads a resolved configuration (`Prosody::Configuration.resolve`) by the names of its options.
//! Defaults and checks are Ruby's; what is missing here is a mistake of ours and raises.

use std::collections::HashMap;
use std::time::Duration;

use magnus::{Error, RHash, Ruby, TryConvert};
use prosody_client::{ClientSettings, ClusterSettings, StoreKind, SubscriptionSettings};
use prosody_core::backoff::Backoff;
use prosody_core::consumer::ConsumerSettings;
use prosody_core::outcome::Mode;

use crate::error;

struct Options<'a> {
    ruby: &'a Ruby,
    hash: RHash,
}

impl Options<'_> {
    fn get<T: TryConvert>(&self, name: &str) -> Result<T, Error> {
        self.hash
            .fetch(self.ruby.to_symbol(name))
            .map_err(|reason| self.wrong(name, &reason))
    }

    fn duration(&self, name: &str) -> Result<Duration, Error> {
        let seconds: f64 = self.get(name)?;
        Duration::try_from_secs_f64(seconds).map_err(|reason| self.wrong(name, &reason))
    }

    fn wrong(&self, name: &str, reason: &dyn std::fmt::Display) -> Error {
        error::argument(self.ruby, format!("configuration option {name}: {reason}"))
    }
}

/// Reads the settings of a client.
pub fn client(ruby: &Ruby, hash: RHash) -> Result<ClientSettings, Error> {
    let options = Options { ruby, hash };
    let source_system: Option<String> = options.get("source_system")?;
    Ok(ClientSettings {
        cluster: cluster(&options)?,
        send_timeout: options.duration("send_timeout")?,
        source_system: source_system.map(Into::into),
        subscription: subscription(&options)?,
    })
}

fn cluster(options: &Options<'_>) -> Result<ClusterSettings, Error> {
    let servers: Option<Vec<String>> = options.get("bootstrap_servers")?;
    let servers = servers.unwrap_or_default();
    if options.get("mock")? {
        let name = if servers.is_empty() {
            "mock".to_owned()
        } else {
            servers.join(",")
        };
        return Ok(ClusterSettings::Mock { name });
    }
    let properties: HashMap<String, String> = options.get("kafka_config")?;
    Ok(ClusterSettings::Kafka {
        bootstrap_servers: servers,
        properties: properties.into_iter().collect(),
    })
}

fn subscription(options: &Options<'_>) -> Result<Option<SubscriptionSettings>, Error> {
    let group_id: Option<String> = options.get("group_id")?;
    let topics: Option<Vec<String>> = options.get("subscribed_topics")?;
    let (Some(group_id), Some(topics)) = (group_id, topics) else {
        return Ok(None);
    };
    if topics.is_empty() {
        return Ok(None);
    }
    Ok(Some(SubscriptionSettings {
        topics,
        poll_interval: options.duration("poll_interval")?,
        store: store(options)?,
        consumer: consumer(options, group_id)?,
    }))
}

fn store(options: &Options<'_>) -> Result<Option<StoreKind>, Error> {
    let store: Option<String> = options.get("store")?;
    match store.as_deref() {
        None => Ok(None),
        Some("memory") => Ok(Some(StoreKind::Memory)),
        Some("local") => Ok(Some(StoreKind::Local)),
        Some("cassandra") => Ok(Some(StoreKind::Cassandra)),
        Some(other) => Err(options.wrong("store", &format!("unknown store {other:?}"))),
    }
}

fn consumer(options: &Options<'_>, group_id: String) -> Result<ConsumerSettings, Error> {
    let allowed_events: Option<Vec<String>> = options.get("allowed_events")?;
    Ok(ConsumerSettings {
        group_id: group_id.into(),
        mode: mode(options)?,
        max_concurrency: options.get("max_concurrency")?,
        max_uncommitted: options.get("max_uncommitted")?,
        timeout: options.duration("timeout")?,
        commit_interval: options.duration("commit_interval")?,
        shutdown_timeout: options.duration("shutdown_timeout")?,
        stall_threshold: options.duration("stall_threshold")?,
        allowed_events: allowed_events.map(|all| all.into_iter().map(Into::into).collect()),
        idempotence_field: options.get("idempotence_field")?,
        idempotence_version: options.get("idempotence_version")?,
        idempotence_ttl: options.duration("idempotence_ttl")?,
        retry: Backoff {
            base: options.duration("retry_base")?,
            max: options.duration("max_retry_delay")?,
        },
        state_cache_size_bytes: options.get("state_cache_size_bytes")?,
    })
}

fn mode(options: &Options<'_>) -> Result<Mode, Error> {
    let mode: String = options.get("mode")?;
    match mode.as_str() {
        "pipeline" => Ok(Mode::Pipeline),
        "low_latency" => Ok(Mode::LowLatency),
        "best_effort" => Ok(Mode::BestEffort),
        other => Err(options.wrong("mode", &format!("unknown mode {other:?}"))),
    }
}
