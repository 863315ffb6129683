//! What librdkafka reports: log lines, and errors that are told once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use prosody_core::sync::Mutex;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tracing::{debug, error, info, warn};

/// The target of librdkafka's own log lines. (A constant: tracing wants one.)
pub(crate) const LIBRDKAFKA: &str = "prosody_kafka::librdkafka";
/// The same error is told again after this time.
const REPEAT_AFTER: Duration = Duration::from_secs(300);
/// Different errors that are remembered.
const REMEMBERED_MAX: usize = 1_000;

/// The state of one client's connections, as far as its errors tell.
#[derive(Debug)]
pub(crate) struct Health {
    /// Whose connections they are, for the log.
    client: String,
    /// Where the brokers are said to be.
    servers: String,
    /// Whether anything is remembered in `state` that an answer would change.
    troubled: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The last error of a connection since the last answer.
    last: Option<String>,
    /// No broker can be reached.
    down: bool,
    told: HashMap<String, Instant>,
}

impl Health {
    /// Nothing is known yet of the brokers there.
    pub fn of(client: impl Into<String>, servers: impl Into<String>) -> Arc<Self> {
        Arc::new(Self {
            client: client.into(),
            servers: servers.into(),
            troubled: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// Takes one error from librdkafka's error callback.
    pub fn report(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        let mut state = self.state.lock();
        match code {
            Some(RDKafkaErrorCode::AllBrokersDown) => {
                self.troubled.store(true, Ordering::Release);
                state.last.get_or_insert_with(|| reason.to_owned());
                if !state.down {
                    state.down = true;
                    let last = state.last.clone().unwrap_or_default();
                    warn!("{}: no broker can be reached: {last}", self.client);
                }
            }
            Some(
                RDKafkaErrorCode::BrokerTransportFailure
                | RDKafkaErrorCode::Resolve
                | RDKafkaErrorCode::OperationTimedOut
                | RDKafkaErrorCode::SSL
                | RDKafkaErrorCode::Authentication
                | RDKafkaErrorCode::SaslAuthenticationFailed,
            ) => {
                self.troubled.store(true, Ordering::Release);
                state.last = Some(reason.to_owned());
                // "host:port/id: Connect to … failed": one line for each broker and kind.
                let broker = reason.split(": ").next().unwrap_or_default();
                self.tell(&mut state, format!("{code:?} {broker}"), reason);
            }
            Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::PartitionEOF) => {}
            _ => self.tell(&mut state, reason.to_owned(), reason),
        }
    }

    /// A broker answered: what was wrong before is over.
    pub fn answered(&self) {
        if !self.troubled.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state.lock();
        self.troubled.store(false, Ordering::Release);
        state.last = None;
        if std::mem::take(&mut state.down) {
            state.told.clear();
            info!("{}: the cluster answers again", self.client);
        }
    }

    /// Tells something once, and again only after a while.
    pub fn warn_once(&self, text: &str) {
        self.tell(&mut self.state.lock(), text.to_owned(), text);
    }

    fn tell(&self, state: &mut State, key: String, text: &str) {
        let now = Instant::now();
        if state.told.len() >= REMEMBERED_MAX {
            state.told.clear();
        }
        let known = state.told.get(&key);
        if known.is_none_or(|told| now.duration_since(*told) > REPEAT_AFTER) {
            state.told.insert(key, now);
            warn!("{}: {text}", self.client);
        }
    }

    /// The last thing that is known of the connections.
    pub fn reason(&self) -> String {
        let state = self.state.lock();
        state
            .last
            .clone()
            .unwrap_or_else(|| format!("{}: no error was reported", self.servers))
    }
}

/// Passes one of librdkafka's log lines on.
pub(crate) fn log(level: RDKafkaLogLevel, facility: &str, line: &str) {
    // The user's properties are given to consumers and producers alike.
    if facility == "CONFWARN" && line.contains("property and will be ignored by this") {
        return;
    }
    match level {
        // Lost connections are logged as errors; `Health` tells them, once.
        RDKafkaLogLevel::Error if facility == "FAIL" || facility == "ERROR" => {
            debug!(target: LIBRDKAFKA, "{facility}: {line}");
        }
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => error!(target: LIBRDKAFKA, "{facility}: {line}"),
        RDKafkaLogLevel::Warning => warn!(target: LIBRDKAFKA, "{facility}: {line}"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            info!(target: LIBRDKAFKA, "{facility}: {line}");
        }
        RDKafkaLogLevel::Debug => debug!(target: LIBRDKAFKA, "{facility}: {line}"),
    }
}
