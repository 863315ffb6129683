//! Sends records: idempotent, in order, with a time limit of its own.

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{self, BoxFuture};
use prosody_core::log::{Delivery, LogError, Producer, SendError};
use prosody_core::record::OutgoingRecord;
use prosody_core::sync::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{
    BaseProducer, DeliveryResult, Producer as _, ProducerContext, PurgeConfig,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::ffi::{self, Outgoing};
use crate::health::{self, Health};
use crate::options::{KafkaOptions, refused};
use crate::wake::deadline;

/// Records that wait for room in librdkafka's queue.
const WAITING_RECORDS_MAX: usize = 100_000;
/// Bytes of them.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The longest wait of one poll.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The same while records wait for room.
const WAITING_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long a producer that is dropped goes on sending.
const FLUSH_MAX: Duration = Duration::from_secs(5);

type Outcome = Result<Delivery, SendError>;

/// The sender of a Kafka cluster.
///
/// A record is handed to librdkafka before [`Producer::send`] returns, or, when its queue is full,
/// to a queue of ours in front of it; both are bounded. When it is dropped, what was taken is
/// still sent for a while, on a thread of its own.
///
/// A client of librdkafka that has had a fatal error sends nothing any more. What it holds is
/// answered, and the next send makes another one.
#[derive(Debug)]
pub struct KafkaProducer {
    options: KafkaOptions,
    running: Mutex<Running>,
}

/// One client of librdkafka and its poll thread.
#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    // After `shared`: when it is told to stop, the thread holds the client alone and destroys it.
    _stop: StopOnDrop,
}

/// Tells the poll thread to stop.
#[derive(Debug)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

struct Shared {
    producer: BaseProducer<SendContext>,
    limit: Duration,
    health: Arc<Health>,
    waiting: Mutex<Waiting>,
}

/// Records for which librdkafka had no room, in order.
#[derive(Default)]
struct Waiting {
    records: VecDeque<WaitingRecord>,
    bytes: usize,
}

struct WaitingRecord {
    record: OutgoingRecord,
    sent: Box<Sent>,
    deadline: Instant,
}

/// Whom to tell of a record's outcome.
struct Sent(oneshot::Sender<Outcome>);

impl KafkaProducer {
    /// Makes the client and starts its poll thread. Nothing is waited for.
    pub fn new(options: &KafkaOptions) -> Result<Self, LogError> {
        Ok(Self {
            running: Mutex::new(Running::start(options)?),
            options: options.clone(),
        })
    }

    /// The client, made anew if it has had a fatal error.
    fn client(&self) -> Result<Arc<Shared>, SendError> {
        let mut running = self.running.lock();
        if let Some(reason) = running.shared.fatal_error() {
            *running = Running::start(&self.options).map_err(|error| {
                SendError::Refused(format!("the producer cannot be replaced: {error}"))
            })?;
            warn!("the producer could not go on and was replaced: {reason}");
        }
        Ok(Arc::clone(&running.shared))
    }
}

impl Running {
    fn start(options: &KafkaOptions) -> Result<Self, LogError> {
        let health = Health::of("producer", options.bootstrap_servers.join(","));
        let context = SendContext {
            limit: options.send_timeout,
            health: Arc::clone(&health),
        };
        let producer: BaseProducer<SendContext> = options
            .for_producer()
            .create_with_context(context)
            .map_err(|error| refused(&error))?;
        let shared = Arc::new(Shared {
            producer,
            limit: options.send_timeout,
            health,
            waiting: Mutex::default(),
        });
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = StopOnDrop(Arc::clone(&stopping));
        let for_thread = Arc::clone(&shared);
        thread::Builder::new()
            .name("prosody-send".to_owned())
            .spawn(move || for_thread.run(&stopping))
            .map_err(|error| LogError::Refused(format!("no thread for a producer: {error}")))?;
        Ok(Self {
            shared,
            _stop: stop,
        })
    }
}

impl Producer for KafkaProducer {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Outcome> {
        let (tell, told) = oneshot::channel();
        let shared = match self.client() {
            Ok(shared) => shared,
            Err(error) => return future::ready(Err(error)).boxed(),
        };
        // The future must not hold the client: whoever drops it last destroys it, and waits.
        let limit = shared.limit;
        let health = Arc::clone(&shared.health);
        let timed_out = move |reason: &str| SendError::TimedOut {
            limit,
            reason: reason.to_owned(),
        };
        match shared.take(record, Box::new(Sent(tell))) {
            Ok(()) => {}
            Err(Some(error)) => return future::ready(Err(error)).boxed(),
            // Both queues are full: the caller is to slow down.
            Err(None) => {
                let wait = async move {
                    sleep(limit).await;
                    Err(timed_out("too many records wait"))
                };
                return wait.boxed();
            }
        }
        let wait = async move {
            match timeout(limit, told).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(timed_out("the producer was closed")),
                Err(_) => Err(timed_out(&health.reason())),
            }
        };
        wait.boxed()
    }
}

impl Shared {
    /// Takes a record, in order; `Err(None)` if there is no room for it anywhere.
    fn take(&self, record: OutgoingRecord, sent: Box<Sent>) -> Result<(), Option<SendError>> {
        let mut waiting = self.waiting.lock();
        let mut sent = sent;
        if waiting.records.is_empty() {
            match self.hand_over(&record, sent) {
                Ok(()) => return Ok(()),
                Err((_, Some(error))) => return Err(Some(error)),
                Err((back, None)) => sent = back,
            }
        } else if waiting.is_full() {
            return Err(None);
        }
        waiting.push_back(WaitingRecord {
            record,
            sent,
            deadline: deadline(self.limit),
        });
        Ok(())
    }

    /// Gives a record to librdkafka; if it is not taken, tells why, or `None` for lack of room.
    fn hand_over(
        &self,
        record: &OutgoingRecord,
        sent: Box<Sent>,
    ) -> Result<(), (Box<Sent>, Option<SendError>)> {
        let Ok(topic) = CString::new(record.topic.as_bytes()) else {
            let text = format!("{:?} is not the name of a topic", record.topic);
            return Err((sent, Some(SendError::Refused(text))));
        };
        let headers = record.headers.iter();
        let outgoing = Outgoing {
            topic: &topic,
            key: record.key.as_deref(),
            payload: record.payload.as_deref(),
            headers: headers.map(|(name, value)| (&**name, value.as_deref())),
        };
        let produced = ffi::produce(self.producer.client(), outgoing, sent);
        produced.map_err(|(code, sent)| {
            let full = code == RDKafkaErrorCode::QueueFull;
            let judge = || self.producer.context().judge(code, &record.topic);
            (sent, (!full).then(judge))
        })
    }

    /// Hands over what waits, as far as there is room.
    fn hand_over_waiting(&self) {
        let mut waiting = self.waiting.lock();
        while let Some(WaitingRecord {
            record,
            sent,
            deadline,
        }) = waiting.pop_front()
        {
            if deadline <= Instant::now() {
                let _ = sent.0.send(Err(self.timed_out(&self.health.reason())));
                continue;
            }
            match self.hand_over(&record, sent) {
                Ok(()) => {}
                Err((sent, Some(error))) => {
                    let _ = sent.0.send(Err(error));
                }
                Err((sent, None)) => {
                    waiting.put_back(WaitingRecord {
                        record,
                        sent,
                        deadline,
                    });
                    return;
                }
            }
        }
    }

    fn timed_out(&self, reason: &str) -> SendError {
        SendError::TimedOut {
            limit: self.limit,
            reason: reason.to_owned(),
        }
    }

    /// What librdkafka says of an error after which it sends nothing any more.
    fn fatal_error(&self) -> Option<String> {
        let (code, text) = self.producer.client().fatal_error()?;
        Some(format!("{text} ({code:?})"))
    }

    /// After a fatal error: answers everything that was taken and not acknowledged.
    fn fail_if_fatal(&self) {
        if self.fatal_error().is_none() {
            return;
        }
        self.producer
            .purge(PurgeConfig::default().queue().inflight());
        for record in self.waiting.lock().take_all() {
            let error = lost(&record.record.topic);
            let _ = record.sent.0.send(Err(error));
        }
    }

    /// The poll thread.
    fn run(&self, stopping: &AtomicBool) {
        while !stopping.load(Ordering::Acquire) {
            self.fail_if_fatal();
            let idle = self.waiting.lock().records.is_empty();
            self.producer.poll(if idle {
                POLL_INTERVAL
            } else {
                WAITING_POLL_INTERVAL
            });
            self.hand_over_waiting();
        }
        self.fail_if_fatal();
        let deadline = deadline(self.limit.min(FLUSH_MAX));
        while Instant::now() < deadline {
            self.hand_over_waiting();
            let flushed = self.producer.flush(WAITING_POLL_INTERVAL).is_ok();
            if flushed && self.waiting.lock().records.is_empty() {
                return;
            }
        }
    }
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.records.len() >= WAITING_RECORDS_MAX || self.bytes >= WAITING_BYTES_MAX
    }

    fn push_back(&mut self, record: WaitingRecord) {
        self.bytes += size(&record.record);
        self.records.push_back(record);
    }

    fn put_back(&mut self, record: WaitingRecord) {
        self.bytes += size(&record.record);
        self.records.push_front(record);
    }

    fn take_all(&mut self) -> VecDeque<WaitingRecord> {
        self.bytes = 0;
        std::mem::take(&mut self.records)
    }

    fn pop_front(&mut self) -> Option<WaitingRecord> {
        let record = self.records.pop_front()?;
        self.bytes -= size(&record.record);
        Some(record)
    }
}

/// The client has had a fatal error, which is no fault of the message.
fn lost(topic: &str) -> SendError {
    SendError::Lost(format!(
        "topic {topic}: the producer could not go on before the message was acknowledged; it is replaced with the next send"
    ))
}

fn size(record: &OutgoingRecord) -> usize {
    let part = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| name.len() + part(value))
        .sum();
    size_of::<OutgoingRecord>() + part(&record.key) + part(&record.payload) + headers
}

/// What librdkafka calls back for the producer.
struct SendContext {
    limit: Duration,
    health: Arc<Health>,
}

impl SendContext {
    /// Tells what will never be taken from what was not acknowledged.
    fn judge(&self, code: RDKafkaErrorCode, topic: &str) -> SendError {
        use RDKafkaErrorCode as Code;
        match code {
            Code::UnknownTopic | Code::UnknownTopicOrPartition => {
                SendError::Refused(format!("topic {topic} does not exist"))
            }
            Code::MessageSizeTooLarge | Code::InvalidMessageSize => SendError::Refused(format!(
                "the message is too large for topic {topic} ({code}); the limits are \
                 message.max.bytes of the client and of the topic"
            )),
            Code::InvalidTopic
            | Code::InvalidMessage
            | Code::InvalidRecord
            | Code::InvalidTimestamp
            | Code::InvalidArgument
            | Code::InvalidRequiredAcks
            | Code::MessageBatchTooLarge
            | Code::PolicyViolation
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::UnknownPartition
            | Code::UnsupportedFeature
            | Code::UnsupportedVersion
            | Code::UnsupportedForMessageFormat
            | Code::UnsupportedCompressionType => {
                SendError::Refused(format!("topic {topic}: {code}"))
            }
            Code::Fatal | Code::PurgeQueue | Code::PurgeInflight => lost(topic),
            Code::MessageTimedOut => SendError::TimedOut {
                limit: self.limit,
                reason: self.health.reason(),
            },
            _ => SendError::TimedOut {
                limit: self.limit,
                reason: format!("{code}; {}", self.health.reason()),
            },
        }
    }
}

impl ClientContext for SendContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        health::log(level, facility, line);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.health.report(&error, reason);
    }
}

impl ProducerContext for SendContext {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let outcome = match result {
            Ok(message) => {
                self.health.answered();
                Ok(Delivery {
                    partition: message.partition(),
                    offset: message.offset(),
                })
            }
            Err((error, message)) => {
                let code = error
                    .rdkafka_error_code()
                    .unwrap_or(RDKafkaErrorCode::Unknown);
                Err(self.judge(code, message.topic()))
            }
        };
        // Nobody waits any more after the limit.
        let _ = sent.0.send(outcome);
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
