//! Loads single messages by their coordinates, one at a time, on a thread of its own.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use prosody_core::log::{LoadError, LogError};
use prosody_core::record::{Coordinates, Generation, Record, TopicId, TopicPartition};
use prosody_core::sync::Mutex;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::Message;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::debug;

use crate::admin::{self, QuietContext};
use crate::health::Health;
use crate::member::records;
use crate::options::{KafkaOptions, refused};
use crate::partitions::check_topic;
use crate::wake::deadline;

/// Records that are read over rather than sought over.
const READ_ON_MAX: i64 = 100;
/// How long a topic's id is believed.
const TOPIC_ID_AGE: Duration = Duration::from_secs(1);
/// After this time without a request nothing is fetched any more.
const IDLE_AFTER: Duration = Duration::from_secs(1);
/// How long a log's bounds are waited for at once.
const BOUNDS_LIMIT: Duration = Duration::from_secs(1);
/// How long a reading that goes on is waited for, before the log's bounds are looked at.
const READ_ON_LIMIT: Duration = Duration::from_millis(100);
/// When nothing came after this time, the end may have been met.
const STUCK_AFTER: Duration = Duration::from_secs(1);
/// Ends that are remembered.
const ENDED_MAX: usize = 10_000;
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
    limit: Duration,
    deadline: Instant,
    answer: oneshot::Sender<Result<Record, LoadError>>,
}

impl Request {
    fn is_awaited(&self) -> bool {
        Instant::now() < self.deadline && !self.answer.is_closed()
    }

    fn timed_out(&self, health: &Health) -> LogError {
        timed_out(&self.coordinates, self.limit, health)
    }
}

impl Loader {
    pub fn new(options: KafkaOptions, group_id: Arc<str>) -> Self {
        let servers = options.bootstrap_servers.join(",");
        Self {
            options,
            health: Health::of(format!("loader of {group_id}"), servers),
            group_id,
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
            limit,
            deadline: deadline(limit),
            answer,
        };
        self.sender()?.send(request).map_err(|_| LogError::Ended)?;
        match timeout(limit, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(LogError::Ended.into()),
            Err(_) => Err(timed_out(coordinates, limit, &self.health).into()),
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
        let config = self.options.for_loader(&self.group_id);
        let mut reader = Reader::new(config, Arc::clone(&self.health))?;
        let (sender, requests) = mpsc::channel();
        thread::Builder::new()
            .name("prosody-loader".to_owned())
            .spawn(move || reader.run(&requests))
            .map_err(|error| LogError::Refused(format!("no thread for a loader: {error}")))?;
        *state = State::Running(sender.clone());
        Ok(sender)
    }
}

fn timed_out(coordinates: &Coordinates, limit: Duration, health: &Health) -> LogError {
    let Coordinates {
        topic_partition,
        offset,
        ..
    } = coordinates;
    LogError::Unreachable {
        what: format!("message {topic_partition}@{offset}"),
        limit,
        reason: health.reason(),
    }
}

fn consumer(
    config: &ClientConfig,
    health: &Arc<Health>,
) -> Result<BaseConsumer<QuietContext>, LogError> {
    let context = QuietContext(Arc::clone(health));
    config
        .create_with_context(context)
        .map_err(|error| refused(&error))
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
    /// When the present request began to read.
    since: Instant,
    /// Whether the reading was begun for it: then what librdkafka reports is about it.
    fresh: bool,
}

impl Reading {
    fn is_near(&self, topic_partition: &TopicPartition, offset: i64) -> bool {
        let near = self.next..=self.next.saturating_add(READ_ON_MAX);
        self.topic_partition == *topic_partition && near.contains(&offset)
    }
}

struct Reader {
    config: ClientConfig,
    consumer: BaseConsumer<QuietContext>,
    health: Arc<Health>,
    reading: Option<Reading>,
    /// Partitions whose end was reported: librdkafka does not report the same end twice, not even
    /// after another assignment.
    ended: HashSet<TopicPartition>,
    topic_ids: HashMap<Arc<str>, (Option<TopicId>, Instant)>,
}

impl Reader {
    fn new(config: ClientConfig, health: Arc<Health>) -> Result<Self, LogError> {
        Ok(Self {
            consumer: consumer(&config, &health)?,
            config,
            health,
            reading: None,
            ended: HashSet::new(),
            topic_ids: HashMap::new(),
        })
    }

    fn run(&mut self, requests: &Receiver<Request>) {
        loop {
            match requests.recv_timeout(IDLE_AFTER) {
                Ok(request) => {
                    let result = self.load(&request);
                    let _ = request.answer.send(result);
                }
                Err(RecvTimeoutError::Timeout) => self.stop(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn load(&mut self, request: &Request) -> Result<Record, LoadError> {
        let coordinates = &request.coordinates;
        let topic = &coordinates.topic_partition.topic;
        check_topic(topic)?;
        if let Some(reading) = &mut self.reading {
            reading.fresh = false;
            reading.since = Instant::now();
        }
        if !request.is_awaited() {
            return Err(request.timed_out(&self.health).into());
        }
        match self.topic_id(topic, request.deadline) {
            Some(Ok(Some(id))) if id == coordinates.topic_id => {}
            Some(Ok(_)) => return Err(LoadError::Gone),
            Some(Err(error)) => return Err(error.into()),
            None => return Err(request.timed_out(&self.health).into()),
        }
        while request.is_awaited() {
            match self.step(coordinates, request.deadline) {
                Ok(Step::Found(record)) => return Ok(record),
                Ok(Step::Gone) => return Err(LoadError::Gone),
                Ok(Step::Nothing) => {}
                Err(error) => {
                    self.reading = None;
                    return Err(LogError::Refused(error.to_string()).into());
                }
            }
        }
        // Where the reading stands is not known any more.
        self.reading = None;
        Err(request.timed_out(&self.health).into())
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
        let mut skipped = false;
        let serve = || skipped |= matches!(self.consumer.poll(Duration::ZERO), Some(Ok(_)));
        let described = admin::describe_on(&self.consumer, &topics, deadline, serve);
        if skipped {
            self.reading = None;
        }
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
    fn step(&mut self, coordinates: &Coordinates, deadline: Instant) -> Result<Step, KafkaError> {
        let Coordinates {
            topic_partition,
            offset,
            ..
        } = coordinates;
        match &self.reading {
            Some(reading) if reading.is_near(topic_partition, *offset) => {
                if self.is_stuck(topic_partition) {
                    self.begin_anew(topic_partition)?;
                    return Ok(Step::Nothing);
                }
                Ok(self.read(coordinates, deadline))
            }
            _ => self.begin(topic_partition, *offset, deadline),
        }
    }

    fn begin(
        &mut self,
        topic_partition: &TopicPartition,
        offset: i64,
        deadline: Instant,
    ) -> Result<Step, KafkaError> {
        let TopicPartition { topic, partition } = topic_partition;
        let left = deadline.saturating_duration_since(Instant::now());
        match self
            .consumer
            .fetch_watermarks(topic, *partition, left.min(BOUNDS_LIMIT))
        {
            Ok((low, high)) if (low..high).contains(&offset) => {}
            Ok(_) => return Ok(Step::Gone),
            Err(error) if error.rdkafka_error_code() == Some(Code::UnknownPartition) => {
                return Ok(Step::Gone);
            }
            Err(error) => {
                debug!("bounds of {topic_partition}: {error}");
                // Serves the callbacks, which tell the reason. What is read is not what is wanted.
                self.reading = None;
                let _ = self.consumer.poll(POLL_INTERVAL);
                return Ok(Step::Nothing);
            }
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, *partition, Offset::Offset(offset))?;
        self.consumer.assign(&list)?;
        self.reading = Some(Reading {
            topic_partition: topic_partition.clone(),
            next: offset,
            since: Instant::now(),
            fresh: true,
        });
        Ok(Step::Nothing)
    }

    /// Whether nothing comes from where something should.
    ///
    /// Where an earlier reading goes on, the log may have no more. Where a fresh one began, either
    /// the broker is slow, or there is no record up to the end (aborted transactions), which was
    /// reported before and is not again.
    fn is_stuck(&self, topic_partition: &TopicPartition) -> bool {
        self.reading.as_ref().is_some_and(|reading| {
            let waited = reading.since.elapsed();
            if reading.fresh {
                waited > STUCK_AFTER && self.ended.contains(topic_partition)
            } else {
                waited > READ_ON_LIMIT
            }
        })
    }

    fn begin_anew(&mut self, topic_partition: &TopicPartition) -> Result<(), KafkaError> {
        let fresh = self.reading.take().is_some_and(|reading| reading.fresh);
        if fresh {
            debug!("no record and no end of {topic_partition}: reading with a new client");
            let context = QuietContext(Arc::clone(&self.health));
            self.consumer = self.config.create_with_context(context)?;
            self.ended.clear();
        }
        Ok(())
    }

    fn read(&mut self, coordinates: &Coordinates, deadline: Instant) -> Step {
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
            Some(Err(KafkaError::PartitionEOF(_))) => self.at_the_end(here),
            Some(Err(error)) => {
                debug!("loading {here}@{}: {error}", coordinates.offset);
                if error.rdkafka_error_code() == Some(Code::AutoOffsetReset) {
                    // The bounds tell whether it is gone, or the broker lags behind.
                    self.reading = None;
                }
                Step::Nothing
            }
        }
    }

    /// The log ended before the offset came by. Unless the end was met by an earlier request, and
    /// the log has grown since: then the reading begins anew.
    fn at_the_end(&mut self, topic_partition: &TopicPartition) -> Step {
        if self.ended.len() >= ENDED_MAX {
            self.ended.clear();
        }
        self.ended.insert(topic_partition.clone());
        match self.reading.take() {
            Some(reading) if reading.fresh => Step::Gone,
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
