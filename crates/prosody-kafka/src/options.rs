//! What a user may set, and our defaults below it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prosody_core::log::LogError;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::{ClientConfig, Offset};
use tracing::Level;

use crate::health::LIBRDKAFKA;

/// Properties that prosody manages itself, with their other names: refused in
/// [`KafkaOptions::properties`].
pub const MANAGED_PROPERTIES: [&str; 9] = [
    "acks",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "group.id",
    "metadata.broker.list",
    "partition.assignment.strategy",
    "request.required.acks",
];

/// `fetch.max.bytes`, and with it what one fetch may hold in memory.
const FETCH_MAX_BYTES: u64 = 8 * 1024 * 1024;
/// librdkafka's own `receive.message.max.bytes`; it must exceed `fetch.max.bytes` by 512.
const RECEIVE_MAX_BYTES: u64 = 100_000_000;

/// The largest `message.timeout.ms` that librdkafka takes.
const MESSAGE_TIMEOUT_MS_MAX: u128 = 2_147_483_647;

/// How to reach a cluster, and how long to wait for it.
#[derive(Clone)]
pub struct KafkaOptions {
    /// `host:port` of some brokers.
    pub bootstrap_servers: Vec<String>,
    /// The user's librdkafka properties; they go over our defaults. Values may be secrets and are
    /// never logged.
    pub properties: BTreeMap<String, String>,
    /// How long a message may stay unacknowledged.
    pub send_timeout: Duration,
    /// How long a commit is waited for.
    pub commit_limit: Duration,
}

impl KafkaOptions {
    /// Options with the defaults of prosody.
    pub fn new(bootstrap_servers: Vec<String>) -> Self {
        Self {
            bootstrap_servers,
            properties: BTreeMap::new(),
            send_timeout: Duration::from_secs(1),
            commit_limit: Duration::from_secs(10),
        }
    }

    /// Checks every property by itself and names all that are wrong.
    pub(crate) fn validate(&self) -> Result<(), LogError> {
        let mut faults: Vec<String> = Vec::new();
        if self.bootstrap_servers.is_empty() {
            faults.push("bootstrap_servers is empty".to_owned());
        }
        faults.extend(
            self.properties
                .iter()
                .filter_map(|(name, value)| fault(name, value)),
        );
        if faults.is_empty() {
            Ok(())
        } else {
            Err(LogError::Refused(faults.join("; ")))
        }
    }

    /// What a member of a group is made with.
    pub(crate) fn for_member(&self, group_id: &str) -> ClientConfig {
        let mut config = self.for_consumer(group_id);
        if self.properties.get("group.protocol").map(String::as_str) != Some("consumer") {
            config.set("partition.assignment.strategy", "cooperative-sticky");
        }
        config
    }

    /// Where a group begins that has committed nothing.
    pub(crate) fn begins_at(&self) -> Offset {
        match self.properties.get("auto.offset.reset").map(String::as_str) {
            None | Some("smallest" | "earliest" | "beginning") => Offset::Beginning,
            Some("largest" | "latest" | "end") => Offset::End,
            // An error, which librdkafka reports.
            Some(_) => Offset::Invalid,
        }
    }

    /// What the loader of single messages is made with. It has the group's id, so that it needs no
    /// rights of its own, and never joins it.
    pub(crate) fn for_loader(&self, group_id: &str) -> ClientConfig {
        let mut config = self.for_consumer(group_id);
        config
            .set("auto.offset.reset", "error")
            .set("enable.partition.eof", "true")
            // Reading from elsewhere begins when the last fetch is answered.
            .set("fetch.wait.max.ms", "20")
            .set("queued.min.messages", "200")
            .set("queued.max.messages.kbytes", "1024");
        config.remove("group.instance.id");
        config
    }

    /// What the clients that only describe topics are made with: without a group.
    pub(crate) fn for_admin(&self) -> ClientConfig {
        let mut config = self.base();
        config.remove("group.instance.id");
        config
    }

    /// What the producer is made with.
    pub(crate) fn for_producer(&self) -> ClientConfig {
        let mut config = self.base();
        let timeout_ms = self.send_timeout.as_millis();
        let timeout_ms = timeout_ms.clamp(1, MESSAGE_TIMEOUT_MS_MAX).to_string();
        config.set("enable.idempotence", "true").set("acks", "all");
        self.default(&mut config, &["linger.ms", "queue.buffering.max.ms"], "0");
        self.default(
            &mut config,
            &["message.timeout.ms", "delivery.timeout.ms"],
            &timeout_ms,
        );
        self.default(&mut config, &["queue.buffering.max.kbytes"], "65536");
        self.default(&mut config, &["queue.buffering.max.messages"], "100000");
        // A topic counts as missing after half of the time, so that the sender hears of it.
        let propagation_ms = (self.send_timeout.as_millis() / 2)
            .clamp(1, 30_000)
            .to_string();
        self.default(
            &mut config,
            &["topic.metadata.propagation.max.ms"],
            &propagation_ms,
        );
        config
    }

    fn for_consumer(&self, group_id: &str) -> ClientConfig {
        let mut config = self.base();
        config
            .set("group.id", group_id)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false");
        self.default(&mut config, &["auto.offset.reset"], "earliest");
        // Partitions that are added, and topics that a regular expression finds, are consumed within
        // this time; librdkafka would take five minutes.
        self.default(
            &mut config,
            &["topic.metadata.refresh.interval.ms"],
            "30000",
        );
        // One queue of bounded size, however many partitions there are.
        self.default(&mut config, &["queued.min.messages"], "20000");
        self.default(&mut config, &["queued.max.messages.kbytes"], "8192");
        self.default(&mut config, &["fetch.queue.backoff.ms"], "20");
        let fetch_bytes = self.bytes("message.max.bytes").max(FETCH_MAX_BYTES);
        self.default(&mut config, &["fetch.max.bytes"], &fetch_bytes.to_string());
        let receive_bytes = self.bytes("fetch.max.bytes").max(fetch_bytes) + 512;
        if receive_bytes > RECEIVE_MAX_BYTES {
            self.default(
                &mut config,
                &["receive.message.max.bytes"],
                &receive_bytes.to_string(),
            );
        }
        config
    }

    fn base(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap_servers.join(","));
        self.default(&mut config, &["client.id"], "prosody");
        // A broker that comes back is found within a second.
        self.default(&mut config, &["reconnect.backoff.ms"], "50");
        self.default(&mut config, &["reconnect.backoff.max.ms"], "1000");
        for (name, value) in &self.properties {
            config.set(name, value);
        }
        config.set_log_level(log_level(self.properties.contains_key("debug")));
        config
    }

    /// Sets the first of a property's names, unless the user set one of them.
    fn default(&self, config: &mut ClientConfig, names: &[&str], value: &str) {
        if names
            .iter()
            .all(|name| !self.properties.contains_key(*name))
        {
            config.set(names[0], value);
        }
    }

    fn bytes(&self, name: &str) -> u64 {
        self.properties
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or(0)
    }
}

impl fmt::Debug for KafkaOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaOptions")
            .field("bootstrap_servers", &self.bootstrap_servers)
            .field("properties", &self.properties.keys().collect::<Vec<_>>())
            .field("send_timeout", &self.send_timeout)
            .field("commit_limit", &self.commit_limit)
            .finish()
    }
}

/// What is wrong with one property of the user, if anything.
fn fault(name: &str, value: &str) -> Option<String> {
    if MANAGED_PROPERTIES.contains(&name) {
        return Some(format!("{name} is managed by prosody and cannot be set"));
    }
    if name.contains('\0') || value.contains('\0') {
        return Some(format!("{name:?} contains a NUL byte"));
    }
    let error = ClientConfig::new()
        .set(name, value)
        .create_native_config()
        .err()?;
    Some(match error {
        KafkaError::ClientConfig(_, reason, _, _) if !is_secret(name) => {
            format!("{name}: {reason}")
        }
        _ => format!("{name} has no valid value"),
    })
}

/// Whether a property's value must not be shown, also where it is wrong.
fn is_secret(name: &str) -> bool {
    ["password", "secret", "pem", "oauthbearer", "username"]
        .iter()
        .any(|part| name.contains(part))
}

/// A client could not be made: what librdkafka says of it.
pub(crate) fn refused(error: &KafkaError) -> LogError {
    LogError::Refused(match error {
        KafkaError::ClientConfig(_, reason, name, _) if !is_secret(name) => {
            format!("{name}: {reason}")
        }
        KafkaError::ClientConfig(_, _, name, _) => format!("{name} has no valid value"),
        KafkaError::ClientCreation(reason) => reason.clone(),
        other => other.to_string(),
    })
}

/// librdkafka makes no log lines that nobody would see.
fn log_level(debug: bool) -> RDKafkaLogLevel {
    if debug || tracing::enabled!(target: LIBRDKAFKA, Level::DEBUG) {
        RDKafkaLogLevel::Debug
    } else if tracing::enabled!(target: LIBRDKAFKA, Level::INFO) {
        RDKafkaLogLevel::Info
    } else {
        RDKafkaLogLevel::Warning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(properties: &[(&str, &str)]) -> KafkaOptions {
        let mut options = KafkaOptions::new(vec!["one:1".to_owned(), "two:2".to_owned()]);
        for (name, value) in properties {
            options
                .properties
                .insert((*name).to_owned(), (*value).to_owned());
        }
        options
    }

    #[test]
    fn the_users_properties_go_over_our_defaults() {
        let config = options(&[("auto.offset.reset", "latest")]).for_member("group");
        assert_eq!(config.get("bootstrap.servers"), Some("one:1,two:2"));
        assert_eq!(config.get("auto.offset.reset"), Some("latest"));
        assert_eq!(config.get("queued.min.messages"), Some("20000"));
        assert_eq!(
            config.get("partition.assignment.strategy"),
            Some("cooperative-sticky")
        );
        let config = options(&[("group.protocol", "consumer")]).for_member("group");
        assert_eq!(config.get("partition.assignment.strategy"), None);
    }

    #[test]
    fn another_name_of_a_property_replaces_our_default_too() {
        let config = options(&[("delivery.timeout.ms", "7")]).for_producer();
        assert_eq!(config.get("message.timeout.ms"), None);
        assert_eq!(config.get("delivery.timeout.ms"), Some("7"));
        assert_eq!(
            options(&[]).for_producer().get("message.timeout.ms"),
            Some("1000")
        );
    }

    #[test]
    fn a_fetch_holds_the_largest_message() {
        let fetch = |properties: &[(&str, &str)]| {
            let config = options(properties).for_member("group");
            let get = |name| config.get(name).map(str::to_owned);
            (get("fetch.max.bytes"), get("receive.message.max.bytes"))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(fetch(&[]), (text("8388608"), None));
        assert_eq!(
            fetch(&[("message.max.bytes", "20000000")]),
            (text("20000000"), None)
        );
        let large = fetch(&[("message.max.bytes", "200000000")]);
        assert_eq!(large, (text("200000000"), text("200000512")));
        let own = fetch(&[("fetch.max.bytes", "1000000000")]);
        assert_eq!(own, (text("1000000000"), text("1000000512")));
    }
}
