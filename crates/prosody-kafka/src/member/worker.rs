//! The poll thread: serves the consumer, whether anybody takes its records or not.

use std::ffi::{CString, NulError};
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

use super::assignment::Assignment;
use super::context::{MemberContext, Rebalance};
use super::requests::Requests;
use super::{Command, Shared, records};
use crate::ffi::{ConsumerQueue, DescribedTopic, NativeError, Replies, Reply};
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
/// How long a description of topics is waited for.
const DESCRIBE_LIMIT: Duration = Duration::from_secs(5);
/// Between two attempts to describe the topics of an assignment.
const DESCRIBE_BACKOFF: Duration = Duration::from_millis(500);

/// Runs a member from its first poll to the destruction of its client.
pub(super) fn run(
    mut consumer: BaseConsumer<MemberContext>,
    shared: &Shared,
    group: CString,
    poll_interval: Duration,
) {
    shared.waker.adopt_current_thread();
    let waker = Arc::clone(&shared.waker);
    consumer.set_nonempty_callback(move || waker.wake());
    let client = consumer.client();
    match (
        Replies::new(client, &shared.waker),
        ConsumerQueue::new(client),
    ) {
        (Some(replies), Some(queue)) => {
            let worker = Worker {
                consumer: &consumer,
                queue,
                shared,
                poll_interval,
                requests: Requests::new(replies, group),
                assignment: Assignment::default(),
                batch: Batch::default(),
                flow: Flow::Open,
                describe_at: None,
                answer_due: false,
                failed: false,
            };
            worker.run();
        }
        _ => shared
            .outbox
            .failed(LogError::Refused("librdkafka has no queue".to_owned())),
    }
    // What is dropped here answers with `Ended`.
    shared.commands.lock().take();
    shared.outbox.end();
    consumer.context().begin_close();
    // Leaves the group. Takes seconds with the brokers gone, which is why nobody waits for us.
    drop(consumer);
}

/// Whether records are taken from librdkafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    /// The caller has enough. The consumer is polled rarely, and keeps what it has fetched.
    Held(Instant),
    /// The caller has taken nothing for long. All partitions are paused, so that the consumer can
    /// be polled for as long as this lasts.
    Paused,
}

#[derive(Debug, Default)]
struct Batch {
    records: Vec<Record>,
    bytes: usize,
}

struct Worker<'c> {
    consumer: &'c BaseConsumer<MemberContext>,
    queue: ConsumerQueue<'c>,
    shared: &'c Shared,
    poll_interval: Duration,
    requests: Requests<'c>,
    assignment: Assignment,
    batch: Batch,
    flow: Flow,
    /// When the topics of partitions that wait for it are to be described.
    describe_at: Option<Instant>,
    /// The group waits for our answer to an assignment.
    answer_due: bool,
    failed: bool,
}

impl Worker<'_> {
    fn run(mut self) {
        let closing = &self.shared.closing;
        while !self.failed && !closing.load(Ordering::Acquire) {
            self.take_commands();
            self.take_replies();
            self.describe_if_due();
            self.adapt_flow();
            match self.flow {
                Flow::Open | Flow::Paused => {
                    if self.poll_batch() {
                        self.wait(self.poll_interval.min(POLL_INTERVAL_MAX));
                    }
                }
                Flow::Held(_) => {
                    self.poll_one();
                    self.wait(HELD_POLL_INTERVAL);
                }
            }
        }
        self.answer_everything();
    }

    fn wait(&self, limit: Duration) {
        let due = self
            .describe_at
            .map_or(limit, |at| at.saturating_duration_since(Instant::now()));
        Waker::wait(limit.min(due));
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

    fn pause(&mut self, partitions: Vec<TopicPartition>) {
        let ours = self.assignment.set_paused(partitions, true);
        if self.flow != Flow::Paused {
            self.pause_native(&ours);
        }
    }

    fn resume(&mut self, partitions: Vec<TopicPartition>) {
        let ours = self.assignment.set_paused(partitions, false);
        if self.flow != Flow::Paused {
            self.resume_native(&ours);
        }
    }

    fn rewind(&mut self, partition: &TopicPartition, generation: Generation, offset: i64) {
        // What was polled before is from after that offset.
        self.flush();
        let route = self.assignment.route(&partition.topic, partition.partition);
        if route.is_some_and(|route| route.generation == generation) {
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

    fn pause_native(&self, partitions: &[TopicPartition]) {
        if !partitions.is_empty() {
            log_failure("pause", &self.consumer.pause(&to_native(partitions)));
        }
    }

    fn resume_native(&self, partitions: &[TopicPartition]) {
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

    // ---- rebalances ----------------------------------------------------------------------

    /// Takes what the group wants; whether it wanted anything.
    fn take_rebalances(&mut self) -> bool {
        let mut any = false;
        while let Some(rebalance) = self.consumer.context().next_rebalance() {
            any = true;
            self.flush();
            debug!("rebalance: {rebalance:?}");
            match rebalance {
                Rebalance::Assign(partitions) => self.assign(partitions),
                Rebalance::Revoke(partitions) => self.revoke(partitions),
                Rebalance::Lose(partitions) => self.lose(partitions),
            }
        }
        any
    }

    fn assign(&mut self, partitions: Vec<TopicPartition>) {
        self.answer_due = true;
        if partitions.is_empty() {
            // The protocol wants an answer to an empty list, too.
            self.answer_assign(&[]);
            return;
        }
        self.assignment.add_undescribed(partitions);
        self.describe_at = Some(Instant::now());
        self.describe_if_due();
    }

    fn describe_if_due(&mut self) {
        if self.describe_at.is_none_or(|at| at > Instant::now()) || self.requests.is_describing() {
            return;
        }
        self.describe_at = None;
        let topics = self.assignment.undescribed_topics();
        let names: Result<Vec<CString>, NulError> = topics
            .iter()
            .map(|topic| CString::new(topic.as_bytes()))
            .collect();
        match names {
            Ok(names) if !names.is_empty() => self.requests.describe(&names, DESCRIBE_LIMIT),
            _ => {}
        }
    }

    fn described(&mut self, result: Result<Vec<DescribedTopic>, NativeError>) {
        match result {
            Ok(topics) => {
                self.shared.health.answered();
                for topic in &topics {
                    if let Err(error) = &topic.found {
                        let name = &topic.name;
                        let text = format!("topic {name} is assigned, but: {}", error.text);
                        self.shared.health.warn_once(&text);
                    }
                }
                self.take_described(&topics);
            }
            Err(error) => {
                let text = format!("assigned topics cannot be described: {}", error.text);
                self.shared.health.warn_once(&text);
            }
        }
        if !self.assignment.undescribed_topics().is_empty() {
            self.describe_at = Some(Instant::now() + DESCRIBE_BACKOFF);
        }
    }

    fn take_described(&mut self, topics: &[DescribedTopic]) {
        let assigned = self.assignment.take_described(topics);
        let partitions: Vec<TopicPartition> = assigned
            .iter()
            .map(|one| one.topic_partition.clone())
            .collect();
        if partitions.is_empty() && !self.answer_due {
            return;
        }
        // Partitions of topics that are not described come later, by themselves.
        if !self.answer_assign(&partitions) {
            self.assignment.remove(&partitions);
            return;
        }
        if !partitions.is_empty() {
            if self.flow == Flow::Paused {
                self.pause_native(&partitions);
            }
            self.shared.outbox.assigned(assigned);
        }
    }

    fn answer_assign(&mut self, partitions: &[TopicPartition]) -> bool {
        self.answer_due = false;
        let result = self.consumer.incremental_assign(&to_native(partitions));
        log_failure("assign", &result)
    }

    fn revoke(&mut self, partitions: Vec<TopicPartition>) {
        self.answer_due = false;
        let owned = self.assignment.owned_of(partitions);
        if owned.is_empty() {
            self.unassign(&[]);
            return;
        }
        self.assignment.revoke(&owned);
        self.shared.outbox.revoked(owned);
    }

    fn lose(&mut self, partitions: Vec<TopicPartition>) {
        self.answer_due = false;
        let owned = self.assignment.owned_of(partitions);
        self.unassign(&owned);
        if !owned.is_empty() {
            self.shared.outbox.lost(owned);
        }
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) {
        // librdkafka would keep the pause for the next assignment of the same partition.
        let paused = self
            .assignment
            .paused_of(partitions, self.flow == Flow::Paused);
        self.resume_native(&paused);
        self.assignment.remove(partitions);
        let result = self.consumer.incremental_unassign(&to_native(partitions));
        log_failure("unassign", &result);
    }

    /// The client is to be destroyed: what librdkafka still waits for is answered.
    fn answer_everything(&mut self) {
        if let Some(revoked) = self.assignment.end_revocation() {
            self.unassign(&revoked);
        }
        if self.answer_due {
            self.answer_assign(&[]);
        }
    }

    // ---- records -------------------------------------------------------------------------

    /// Polls until a batch is full or nothing is there; whether nothing is there.
    fn poll_batch(&mut self) -> bool {
        // Bounded: commands must not wait for what keeps coming.
        for _ in 0..2 * BATCH_RECORDS_MAX {
            match self.consumer.poll(Duration::ZERO) {
                Some(Ok(message)) => {
                    self.take_message(&message);
                    if self.batch.is_full() {
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
            Some(Ok(message)) => self.take_message(&message),
            Some(Err(error)) => self.take_error(&error),
            None => {
                self.take_rebalances();
            }
        }
    }

    fn take_message(&mut self, message: &BorrowedMessage<'_>) {
        if let Some(route) = self.assignment.route(message.topic(), message.partition()) {
            let topic = Arc::clone(&route.topic);
            let record = records::copy(message, topic, route.generation);
            self.batch.bytes += record.weight();
            self.batch.records.push(record);
        }
    }

    fn flush(&mut self) {
        if self.batch.records.is_empty() {
            return;
        }
        self.shared.health.answered();
        let Batch { records, bytes } = std::mem::take(&mut self.batch);
        self.shared.outbox.add_records(records, bytes);
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
    fn is_full(&self) -> bool {
        self.records.len() >= BATCH_RECORDS_MAX || self.bytes >= BATCH_BYTES_MAX
    }
}

fn log_failure(what: &str, result: &Result<(), KafkaError>) -> bool {
    if let Err(error) = result {
        warn!("a consumer cannot {what} partitions: {error}");
    }
    result.is_ok()
}
