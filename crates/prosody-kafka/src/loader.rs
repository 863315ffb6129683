//! Loads single messages by their coordinates, one at a time, on a thread of its own.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prosody_core::log::{LoadError, LogError};
use prosody_core::record::{Coordinates, Generation, Record, TopicId, TopicPartition};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use crate::admin::{self, QuietContext};
use crate::health::Health;
use crate::member::records;
use crate::options::{KafkaOptions, refused};
use crate::partitions::check_topic;

/// Records that are read over rather than sought over.
const READ_ON_MAX: i64 = 100;
/// How long a topic's id is believed.
const TOPIC_ID_AGE: Duration = Duration::from_secs(1);
/// After this time without a request nothing is fetched any more.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// The longest wait of one poll.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The handle: starts the thread at first use, and ends it when it is closed or dropped.
#[derive(Debug)]
pub(crate) struct Loader {
    options: KafkaOptions,
    group_id: Arc<str>,
    health: Arc<Health>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unused,
    Running(Sender<Request>),
    Closed,
}

#[derive(Debug)]
struct Request {
    coordinates: Coordinates,
    deadline: Instant,
    answer: oneshot::Sender<Result<Record, LoadError>>,
}

impl Loader {
    pub fn new(options: KafkaOptions, group_id: Arc<str>) -> Self {
        let health = Arc::new(Health::new(&options.bootstrap_servers.join(",")));
        Self {
            options,
            group_id,
            health,
            state: Mutex::default(),
        }
    }

    /// Loads one message. The generation of the record is 0.
    pub async fn load(
        &self,
        coordinates: &Coordinates,
        limit: Duration,
    ) -> Result<Record, LoadError> {
        let (answer, answered) = oneshot::channel();
        let request = Request {
            coordinates: coordinates.clone(),
            deadline: Instant::now() + limit,
            answer,
        };
        self.sender()?.send(request).map_err(|_| LogError::Ended)?;
        match timeout(limit, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(LogError::Ended.into()),
            Err(_) => {
                let Coordinates {
                    topic_partition,
                    offset,
                    ..
                } = coordinates;
                Err(LoadError::Unavailable(LogError::Unreachable {
                    what: format!("message {topic_partition}@{offset}"),
                    limit,
                    reason: self.health.reason(),
                }))
            }
        }
    }

    /// Ends the thread, when it is done with what it does.
    pub fn close(&self) {
        *self.state.lock() = State::Closed;
    }

    fn sender(&self) -> Result<Sender<Request>, LogError> {
        let mut state = self.state.lock();
        match &*state {
            State::Running(sender) => return Ok(sender.clone()),
            State::Closed => return Err(LogError::Ended),
            State::Unused => {}
        }
        let context = QuietContext(Arc::clone(&self.health));
        let consumer: BaseConsumer<QuietContext> = self
            .options
            .for_loader(&self.group_id)
            .create_with_context(context)
            .map_err(|error| refused(&error))?;
        let (sender, requests) = mpsc::channel();
        let mut reader = Reader {
            consumer,
            health: Arc::clone(&self.health),
            reading: None,
            topic_ids: HashMap::new(),
        };
        thread::Builder::new()
            .name("prosody-loader".to_owned())
            .spawn(move || reader.run(&requests))
            .map_err(|error| LogError::Refused(format!("no thread for a loader: {error}")))?;
        *state = State::Running(sender.clone());
        Ok(sender)
    }
}

/// What one look at the log gave.
enum Step {
    Found(Record),
    Gone,
    Nothing,
}

/// Where the consumer reads.
struct Reading {
    topic_partition: TopicPartition,
    /// The next offset that it gives, at the least.
    next: i64,
    /// Whether it was begun for the present request: what librdkafka reports is about it, then.
    fresh: bool,
}

impl Reading {
    fn is_near(&self, topic_partition: &TopicPartition, offset: i64) -> bool {
        let near = self.next..=self.next.saturating_add(READ_ON_MAX);
        self.topic_partition == *topic_partition && near.contains(&offset)
    }
}

struct Reader {
    consumer: BaseConsumer<QuietContext>,
    health: Arc<Health>,
    reading: Option<Reading>,
    topic_ids: HashMap<Arc<str>, (Option<TopicId>, Instant)>,
}

impl Reader {
    fn run(&mut self, requests: &Receiver<Request>) {
        loop {
            match requests.recv_timeout(IDLE_AFTER) {
                Ok(request) if request.answer.is_closed() => {}
                Ok(request) => {
                    if let Some(result) = self.load(&request) {
                        let _ = request.answer.send(result);
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.stop(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// `None` when nobody waits any more.
    fn load(&mut self, request: &Request) -> Option<Result<Record, LoadError>> {
        let coordinates = &request.coordinates;
        if let Err(error) = check_topic(&coordinates.topic_partition.topic) {
            return Some(Err(error.into()));
        }
        let name = Arc::clone(&coordinates.topic_partition.topic);
        match self.topic_id(&name, request.deadline)? {
            Ok(Some(id)) if id == coordinates.topic_id => {}
            Ok(_) => return Some(Err(LoadError::Gone)),
            Err(error) => return Some(Err(error.into())),
        }
        if let Some(reading) = &mut self.reading {
            reading.fresh = false;
        }
        while Instant::now() < request.deadline && !request.answer.is_closed() {
            if let Err(error) = self.seek(coordinates) {
                self.reading = None;
                return Some(Err(LogError::Refused(error.to_string()).into()));
            }
            match self.step(coordinates, request.deadline) {
                Step::Found(record) => return Some(Ok(record)),
                Step::Gone => return Some(Err(LoadError::Gone)),
                Step::Nothing => {}
            }
        }
        // Where the reading stands is not known any more.
        self.reading = None;
        None
    }

    /// The topic's id, `Ok(None)` if there is no such topic; `None` if nobody answered in time.
    fn topic_id(
        &mut self,
        topic: &Arc<str>,
        deadline: Instant,
    ) -> Option<Result<Option<TopicId>, LogError>> {
        let known = self.topic_ids.get(topic);
        if let Some((id, _)) = known.filter(|(_, read)| read.elapsed() < TOPIC_ID_AGE) {
            return Some(Ok(*id));
        }
        let topics = BTreeSet::from([topic.to_string()]);
        let described = admin::describe_on(&self.consumer, &topics, deadline);
        let found = described.ok()?.into_iter().next()?.found;
        let id = match found {
            Ok((id, _)) => Some(id),
            Err(error) if admin::is_missing(error.code) => None,
            Err(error) => return Some(Err(LogError::Refused(error.text))),
        };
        self.topic_ids
            .retain(|_, (_, read)| read.elapsed() < TOPIC_ID_AGE);
        self.topic_ids
            .insert(Arc::clone(topic), (id, Instant::now()));
        Some(Ok(id))
    }

    /// Goes on reading where that is near, else begins at the offset.
    fn seek(&mut self, coordinates: &Coordinates) -> Result<(), KafkaError> {
        let Coordinates {
            topic_partition,
            offset,
            ..
        } = coordinates;
        if let Some(reading) = &self.reading
            && reading.is_near(topic_partition, *offset)
        {
            return Ok(());
        }
        let TopicPartition { topic, partition } = topic_partition;
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
        self.consumer.assign(&list)?;
        self.reading = Some(Reading {
            topic_partition: topic_partition.clone(),
            next: *offset,
            fresh: true,
        });
        Ok(())
    }

    fn step(&mut self, coordinates: &Coordinates, deadline: Instant) -> Step {
        let here = &coordinates.topic_partition;
        let left = deadline.saturating_duration_since(Instant::now());
        match self.consumer.poll(left.min(POLL_INTERVAL)) {
            None => Step::Nothing,
            Some(Ok(message)) => {
                if message.topic() != &*here.topic || message.partition() != here.partition {
                    return Step::Nothing;
                }
                self.health.answered();
                let offset = message.offset();
                if let Some(reading) = &mut self.reading {
                    reading.next = offset.saturating_add(1);
                }
                match offset.cmp(&coordinates.offset) {
                    Ordering::Less => Step::Nothing,
                    Ordering::Greater => Step::Gone,
                    Ordering::Equal => {
                        let topic = Arc::clone(&here.topic);
                        Step::Found(records::copy(&message, topic, Generation(0)))
                    }
                }
            }
            Some(Err(KafkaError::PartitionEOF(_))) => self.at_the_end(),
            Some(Err(error)) => {
                debug!("loading {here}@{}: {error}", coordinates.offset);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::AutoOffsetReset) {
                    self.out_of_range(coordinates, deadline)
                } else {
                    Step::Nothing
                }
            }
        }
    }

    /// The log ended before the offset came by. Unless the end was met by an earlier request, and
    /// the log has grown since: then the reading begins anew.
    fn at_the_end(&mut self) -> Step {
        match self.reading.take() {
            Some(reading) if reading.fresh => Step::Gone,
            _ => Step::Nothing,
        }
    }

    /// The broker does not know the offset: because it is gone, or because it lags behind.
    fn out_of_range(&mut self, coordinates: &Coordinates, deadline: Instant) -> Step {
        self.reading = None;
        let TopicPartition { topic, partition } = &coordinates.topic_partition;
        let left = deadline.saturating_duration_since(Instant::now());
        match self.consumer.fetch_watermarks(topic, *partition, left) {
            Ok((low, high)) if !(low..high).contains(&coordinates.offset) => Step::Gone,
            _ => Step::Nothing,
        }
    }

    fn stop(&mut self) {
        if self.reading.take().is_some() {
            let _ = self.consumer.unassign();
        }
        // Serves what librdkafka reports.
        let _ = self.consumer.poll(Duration::ZERO);
    }
}
