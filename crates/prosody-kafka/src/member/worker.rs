//! The poll thread: serves the consumer, whether anybody takes its records or not.

use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use prosody_core::log::LogError;
use prosody_core::record::{Generation, Record, TopicPartition};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::{Offset, TopicPartitionList};
use tracing::{debug, warn};

use super::assignment::{Arrival, Assignment};
use super::context::MemberContext;
use super::look_up::LookUps;
use super::requests::Requests;
use super::{Command, Shared, records};
use crate::ffi::{ConsumerQueue, Replies, Reply};
use crate::partitions::to_native;
use crate::wake::Waker;

/// However long the user's poll interval is: `max.poll.interval.ms` is never near.
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Records of one batch.
const BATCH_RECORDS_MAX: usize = 512;
/// Bytes of one batch, roughly.
const BATCH_BYTES_MAX: usize = 1024 * 1024;
/// Between two polls while the caller takes nothing.
const HELD_POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The caller may take nothing for this long before all partitions are paused. Pausing throws away
/// what librdkafka has fetched, so a caller that is merely slow must not get there.
const HELD_MAX: Duration = Duration::from_secs(5);
/// How long the request that wakes a connection after a resume may hold up the poll thread.
const RESUME_WAKE_LIMIT: Duration = Duration::from_millis(1);

/// What a member's poll thread is told at its start.
pub(super) struct Settings {
    /// The longest wait of one poll.
    pub poll_interval: Duration,
    /// Where a partition begins for which nothing is committed.
    pub begins_at: Offset,
}

/// Runs a member from its first poll to the destruction of its last client. `join` makes one that
/// joins the group.
pub(super) fn run(
    mut consumer: BaseConsumer<MemberContext>,
    join: impl Fn() -> Result<BaseConsumer<MemberContext>, LogError>,
    shared: &Shared,
    group: &CStr,
    settings: &Settings,
) {
    shared.waker.adopt_current_thread();
    let mut assignment = Assignment::new();
    while let Some(left) = run_client(&mut consumer, shared, group, settings, assignment) {
        assignment = left.of_next_client();
        // Leaves the group, whose partitions the caller has given up.
        consumer.context().begin_close();
        drop(consumer);
        if shared.closing.load(Ordering::Acquire) {
            return end(shared, None);
        }
        consumer = match join() {
            Ok(joined) => joined,
            Err(error) => return end(shared, Some(error)),
        };
    }
    end(shared, None);
    consumer.context().begin_close();
    // Leaves the group. Takes seconds with the brokers gone, which is why nobody waits for us.
    drop(consumer);
}

fn end(shared: &Shared, error: Option<LogError>) {
    if let Some(error) = error {
        shared.outbox.failed(error);
    }
    // What is dropped here answers with `Ended`.
    shared.commands.lock().take();
    shared.outbox.end();
}

/// Serves one client; gives what is left of its assignment if another one is to take its place.
fn run_client(
    consumer: &mut BaseConsumer<MemberContext>,
    shared: &Shared,
    group: &CStr,
    settings: &Settings,
    assignment: Assignment,
) -> Option<Assignment> {
    let waker = Arc::clone(&shared.waker);
    consumer.set_nonempty_callback(move || waker.wake());
    let client = consumer.client();
    let (Some(replies), Some(queue)) = (
        Replies::new(client, &shared.waker),
        ConsumerQueue::new(client),
    ) else {
        let error = LogError::Refused("librdkafka has no queue".to_owned());
        shared.outbox.failed(error);
        return None;
    };
    let worker = Worker {
        consumer,
        queue,
        shared,
        poll_interval: settings.poll_interval.min(POLL_INTERVAL_MAX),
        begins_at: settings.begins_at,
        requests: Requests::new(replies, group.to_owned()),
        assignment,
        batch: Batch::default(),
        doubtful: Batch::default(),
        flow: Flow::Open,
        look_ups: LookUps::new(),
        answer_due: false,
        rejoins: false,
        failed: false,
    };
    worker.run()
}

/// Whether records are taken from librdkafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Open,
    /// The caller has enough. The consumer is polled rarely, and keeps what it has fetched.
    Held(Instant),
    /// The caller has taken nothing for long. All partitions are paused, so that the consumer can
    /// be polled for as long as this lasts.
    Paused,
}

#[derive(Debug, Default)]
pub(super) struct Batch {
    records: Vec<Record>,
    bytes: usize,
}

pub(super) struct Worker<'c> {
    pub(super) consumer: &'c BaseConsumer<MemberContext>,
    queue: ConsumerQueue<'c>,
    pub(super) shared: &'c Shared,
    poll_interval: Duration,
    pub(super) begins_at: Offset,
    pub(super) requests: Requests<'c>,
    pub(super) assignment: Assignment,
    batch: Batch,
    /// Records that wait until it is known that their topic is still what it was.
    pub(super) doubtful: Batch,
    pub(super) flow: Flow,
    pub(super) look_ups: LookUps,
    /// The group waits for our answer to an assignment.
    pub(super) answer_due: bool,
    /// The client is replaced as soon as the caller has given everything up.
    pub(super) rejoins: bool,
    failed: bool,
}

impl Worker<'_> {
    fn run(mut self) -> Option<Assignment> {
        let closing = &self.shared.closing;
        while !self.failed && !closing.load(Ordering::Acquire) {
            if self.rejoins && self.recall_all() {
                self.answer_everything();
                return Some(self.assignment);
            }
            self.take_commands();
            self.take_replies();
            self.look_up_if_due();
            self.adapt_flow();
            match self.flow {
                Flow::Open | Flow::Paused if !self.doubtful.is_full() => {
                    if self.poll_batch() {
                        self.wait(self.poll_interval);
                    }
                }
                _ => {
                    self.poll_one();
                    self.wait(HELD_POLL_INTERVAL);
                }
            }
        }
        self.answer_everything();
        None
    }

    fn wait(&self, limit: Duration) {
        // What keeps a look from being taken now ends with an answer, which wakes this thread.
        let now = Instant::now();
        let due = self.look_ups.at.filter(|at| *at > now);
        let due = due.map(|at| at - now);
        Waker::wait(due.map_or(limit, |due| limit.min(due)));
    }

    // ---- commands and replies ------------------------------------------------------------

    fn take_commands(&mut self) {
        let taken = self.shared.commands.lock().as_mut().map(std::mem::take);
        for command in taken.unwrap_or_default() {
            match command {
                Command::Commit(watermarks, answer) => {
                    self.requests.commit(&self.assignment, watermarks, answer);
                }
                Command::Positions(partitions, answer) => {
                    self.requests.positions(partitions, answer);
                }
                Command::Pause(partitions) => self.pause(partitions),
                Command::Rewind(partition, generation, offset) => {
                    self.rewind(&partition, generation, offset);
                }
                Command::Resume(partitions) => self.resume(partitions),
                Command::Restart(partition, generation, from) => {
                    self.restart([(partition, generation, from)]);
                }
                Command::GiveUp(partitions) => {
                    if let Some(all) = self.assignment.give_up(&partitions) {
                        self.unassign(&all);
                        self.shared.outbox.given_up(&all);
                    }
                }
            }
        }
    }

    fn take_replies(&mut self) {
        while let Some(reply) = self.requests.next_reply() {
            match reply {
                Reply::Committed(result) => {
                    if result.is_ok() {
                        self.shared.health.answered();
                    }
                    let health = &self.shared.health;
                    self.requests.committed(&self.assignment, result, health);
                }
                Reply::Offsets(number, result) if self.requests.read(number) => {
                    self.read_offsets(result);
                }
                Reply::Offsets(number, result) => {
                    let health = &self.shared.health;
                    self.requests.offsets(number, result, health);
                }
                Reply::Topics(number, result) => {
                    if self.requests.described(number) {
                        self.described(result);
                    }
                }
            }
        }
    }

    fn pause(&mut self, partitions: Vec<(TopicPartition, Generation)>) {
        let ours = self.assignment.set_paused(partitions, true);
        if self.flow != Flow::Paused {
            self.pause_native(&ours);
        }
    }

    fn resume(&mut self, partitions: Vec<(TopicPartition, Generation)>) {
        let ours = self.assignment.set_paused(partitions, false);
        if self.flow != Flow::Paused {
            self.resume_native(&ours);
        }
    }

    fn rewind(&mut self, partition: &TopicPartition, generation: Generation, offset: i64) {
        // What was polled before is from after that offset.
        self.flush();
        if self.assignment.rewind(partition, generation, offset) {
            self.doubtful.forget(std::slice::from_ref(partition));
            let mut list = TopicPartitionList::new();
            let position = Offset::Offset(offset);
            let mut result =
                list.add_partition_offset(&partition.topic, partition.partition, position);
            if result.is_ok() {
                // What librdkafka has fetched does not come any more as soon as this returns; that
                // it goes back is not waited for.
                result = self
                    .consumer
                    .seek_partitions(list, Duration::ZERO)
                    .map(drop);
            }
            log_failure("rewind", &result);
        }
        self.shared.outbox.rewound(partition, generation);
    }

    pub(super) fn pause_native(&self, partitions: &[TopicPartition]) {
        if !partitions.is_empty() {
            log_failure("pause", &self.consumer.pause(&to_native(partitions)));
        }
    }

    pub(super) fn resume_native(&self, partitions: &[TopicPartition]) {
        if partitions.is_empty() {
            return;
        }
        log_failure("resume", &self.consumer.resume(&to_native(partitions)));
        for TopicPartition { topic, partition } in partitions {
            // The thread of the leader's connection sleeps for up to a second and is not woken by a
            // resume; any request to the leader wakes it. The answer does not matter.
            let _ = self
                .consumer
                .fetch_watermarks(topic, *partition, RESUME_WAKE_LIMIT);
        }
    }

    // ---- records -------------------------------------------------------------------------

    /// Polls until a batch is full or nothing is there; whether nothing is there.
    fn poll_batch(&mut self) -> bool {
        let now = Instant::now();
        // Bounded: commands must not wait for what keeps coming.
        for _ in 0..2 * BATCH_RECORDS_MAX {
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    self.take_message(&message, now);
                    if self.batch.is_full() || self.doubtful.is_full() {
                        self.flush();
                        return false;
                    }
                }
                Some(Err(error)) => self.take_error(&error),
                // "Nothing" may also be a rebalance, or a log line.
                None => {
                    if !self.take_rebalances() && self.queue.is_empty() {
                        self.flush();
                        return true;
                    }
                }
            }
        }
        self.flush();
        false
    }

    /// Polls once, for what is not a record: there is hardly room for those.
    fn poll_one(&mut self) {
        match self.consumer.poll(Duration::ZERO) {
            Some(Ok(message)) => self.take_message(&message, Instant::now()),
            Some(Err(error)) => self.take_error(&error),
            None => {
                self.take_rebalances();
            }
        }
    }

    fn take_message(&mut self, message: &BorrowedMessage<'_>, now: Instant) {
        let (topic, partition, offset) = (message.topic(), message.partition(), message.offset());
        let (route, batch) = match self.assignment.arrive(topic, partition, offset, now) {
            Arrival::Record(route) => (route, &mut self.batch),
            Arrival::Doubtful(route) => (route, &mut self.doubtful),
            Arrival::Back(generation) => {
                let partition = TopicPartition::new(topic, partition);
                warn!(
                    "the log has gone back, the partition is begun anew (was the topic created anew, or a leader's tail lost?): {partition} offset={offset}"
                );
                self.restart([(partition, generation, Some(offset))]);
                return;
            }
            Arrival::Strange => return,
        };
        let topic = Arc::clone(&route.topic);
        batch.push(records::copy(message, topic, route.generation));
    }

    pub(super) fn flush(&mut self) {
        if !self.doubtful.is_empty() {
            self.look_ups.soon();
        }
        if self.batch.is_empty() {
            return;
        }
        self.shared.health.answered();
        let Batch { records, bytes } = std::mem::take(&mut self.batch);
        self.shared.outbox.add_records(records, bytes);
    }

    /// The topics of records that waited for it are what they were.
    pub(super) fn release_doubtful(&mut self) {
        if !self.doubtful.is_empty() {
            self.flush();
            std::mem::swap(&mut self.batch, &mut self.doubtful);
            self.flush();
        }
    }

    /// librdkafka reports the error with its text to the context, too; that is where it is logged.
    fn take_error(&mut self, error: &KafkaError) {
        let fatal = matches!(error, KafkaError::MessageConsumptionFatal(_));
        if let Some((code, text)) = self.consumer.client().fatal_error().filter(|_| fatal) {
            self.flush();
            let text = format!("the consumer cannot go on: {text} ({code:?})");
            self.shared.outbox.failed(LogError::Refused(text));
            self.failed = true;
        } else if fatal {
            self.shared
                .outbox
                .failed(LogError::Refused(error.to_string()));
            self.failed = true;
        }
    }

    /// Holds, pauses and goes on, as the caller takes records.
    fn adapt_flow(&mut self) {
        match self.flow {
            Flow::Open => {
                if !self.shared.outbox.has_room() {
                    self.flow = Flow::Held(Instant::now());
                }
            }
            Flow::Held(since) => {
                if self.shared.outbox.has_room() {
                    self.flow = Flow::Open;
                } else if since.elapsed() > HELD_MAX || self.batch.is_full() {
                    debug!("nobody takes records: pausing all partitions");
                    self.pause_native(&self.assignment.unpaused());
                    self.flow = Flow::Paused;
                    self.flush();
                }
            }
            Flow::Paused => {
                if self.shared.outbox.is_low() {
                    self.resume_native(&self.assignment.unpaused());
                    self.flow = Flow::Open;
                }
            }
        }
    }
}

impl Batch {
    fn push(&mut self, record: Record) {
        self.bytes += record.weight();
        self.records.push(record);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn has_topic(&self, topic: &str) -> bool {
        let mut records = self.records.iter();
        records.any(|record| *record.topic_partition.topic == *topic)
    }

    /// Drops the records of partitions that go.
    pub(super) fn forget(&mut self, partitions: &[TopicPartition]) {
        self.records
            .retain(|record| !partitions.contains(&record.topic_partition));
        self.bytes = self.records.iter().map(Record::weight).sum();
    }

    fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

pub(super) fn log_failure(what: &str, result: &Result<(), KafkaError>) -> bool {
    if let Err(error) = result {
        warn!("a consumer cannot {what} partitions: {error}");
    }
    result.is_ok()
}
