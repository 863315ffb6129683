//! A member of a consumer group at work: takes records from the log, starts their journeys, keeps
//! watermarks, and comes and goes with partitions.
//!
//! One task owns everything here. It never waits for a handler, a store or a broker: what takes
//! time is a journey or an errand, and comes back as a value.

mod assignment;
mod backpressure;
mod errand;
mod handover;
mod partition;
mod rebalance;
mod settings;
mod stalls;
mod status;
#[cfg(test)]
mod tests;
mod tracker;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use crate::backoff::Randomness;
use crate::clock::Clock;
use crate::event::Event;
use crate::handler::Handler;
use crate::journey::{Ending, Journey};
use crate::ledger_writer::LedgerRoom;
use crate::log::{Log, LogError, LogEvent, PartitionsAdded};
use crate::record::{Record, TopicPartition};
use crate::store::Store;

pub use assignment::Assignment;
pub use settings::ConsumerSettings;
pub use status::{ConsumerStatus, Stall};
pub use tracker::{OffsetTracker, SPAN_MAX};

use errand::Errand;
use handover::Handover;
use partition::{Load, Partition};

/// What leaving the group may take; it goes on in the background after that.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Journeys whose end is taken note of before other things get their turn.
const ENDINGS_PER_TURN: usize = 256;

/// What a consumer is made of.
pub struct ConsumerParts {
    /// The member of the group.
    pub log: Arc<dyn Log>,
    /// Where ledgers live.
    pub store: Arc<dyn Store>,
    /// What handles events.
    pub handler: Arc<dyn Handler>,
    /// The time of day.
    pub clock: Arc<dyn Clock>,
    /// The source of chance.
    pub randomness: Randomness,
}

enum Command {
    Shutdown { limit: Duration },
}

/// Controls a running consumer. Cheap to clone.
#[derive(Clone)]
pub struct ConsumerHandle {
    commands: mpsc::UnboundedSender<Command>,
    status: Arc<ConsumerStatus>,
}

impl ConsumerHandle {
    /// Asks the consumer to stop: handlers may run for `limit`, then what is finished is committed
    /// and the group is left. The consumer ends within `limit` plus a second, whatever the broker
    /// and the store do.
    pub fn shutdown(&self, limit: Duration) {
        // Fails only if it has ended already.
        let _ = self.commands.send(Command::Shutdown { limit });
    }

    /// What is known of it.
    pub fn status(&self) -> &ConsumerStatus {
        &self.status
    }
}

/// The task.
pub struct Consumer {
    log: Arc<dyn Log>,
    journey: Arc<Journey>,
    settings: ConsumerSettings,
    status: Arc<ConsumerStatus>,
    commands: mpsc::UnboundedReceiver<Command>,
    partitions: HashMap<TopicPartition, Partition, foldhash::fast::RandomState>,
    /// Ended assignments some of whose handlers still run.
    departed: Vec<Arc<Assignment>>,
    load: Load,
    /// Partitions that could take more events if others had not taken so many bytes.
    crowded: BTreeSet<TopicPartition>,
    /// Since when much is waiting although some partitions have nothing.
    unfed_since: Option<Instant>,
    journeys: FuturesUnordered<BoxFuture<'static, (Arc<Event>, Ending)>>,
    errands: FuturesUnordered<BoxFuture<'static, Errand>>,
    commit_at: Instant,
    commit_in_flight: bool,
    handover: Option<Handover>,
    handovers: u64,
    /// Set by a shutdown: when the consumer ends even if partitions are not settled.
    closing: Option<Instant>,
    is_closed: bool,
    endings_first: bool,
    stalls_at: Instant,
    reported_stalls: Vec<TopicPartition>,
}

/// What the task wakes up for.
enum Wake {
    Command(Command),
    Log(LogEvent),
    Ending(Arc<Event>, Ending),
    Errand(Errand),
    Time,
}

impl Consumer {
    /// Makes a consumer, which does nothing before [`Consumer::run`].
    pub fn new(parts: ConsumerParts, settings: ConsumerSettings) -> (Self, ConsumerHandle) {
        let room = Arc::new(LedgerRoom {
            store: parts.store,
            clock: parts.clock,
            randomness: parts.randomness,
            backoff: settings.retry,
        });
        let status = Arc::new(ConsumerStatus::new(settings.stall_threshold));
        let (sender, commands) = mpsc::unbounded_channel();
        let handle = ConsumerHandle {
            commands: sender,
            status: Arc::clone(&status),
        };
        let now = Instant::now();
        let consumer = Self {
            log: parts.log,
            journey: Arc::new(Journey::new(settings.clone(), room, parts.handler)),
            status,
            commands,
            partitions: HashMap::default(),
            departed: Vec::new(),
            load: Load::default(),
            crowded: BTreeSet::new(),
            unfed_since: None,
            journeys: FuturesUnordered::new(),
            errands: FuturesUnordered::new(),
            commit_at: now + settings.commit_interval,
            commit_in_flight: false,
            handover: None,
            handovers: 0,
            closing: None,
            is_closed: false,
            endings_first: false,
            stalls_at: now + settings.stall_threshold,
            reported_stalls: Vec::new(),
            settings,
        };
        (consumer, handle)
    }

    /// Consumes until it is shut down. An error is one that the member of the group cannot go on
    /// after; nothing that was finished is lost by it.
    pub async fn run(mut self) -> Result<(), LogError> {
        let result = loop {
            match self.wake().await {
                Wake::Command(Command::Shutdown { limit }) => self.begin_shutdown(limit),
                Wake::Log(LogEvent::Records(records)) => self.take(records),
                Wake::Log(LogEvent::Assigned(assigned)) => self.assigned(assigned),
                Wake::Log(LogEvent::Revoked(partitions)) => self.revoked(partitions),
                Wake::Log(LogEvent::Lost(partitions)) => self.lost(&partitions),
                Wake::Log(LogEvent::PartitionsAdded(added)) => report_added(&added),
                Wake::Log(LogEvent::Failed(error)) => break Err(error),
                Wake::Ending(event, ending) => self.take_endings(&event, ending),
                Wake::Errand(errand) => self.errand_done(errand),
                Wake::Time => {}
            }
            self.admit_crowded();
            self.pause_if_due();
            self.rewind_if_due();
            self.commit_if_due();
            self.advance_handover();
            self.report_stalls();
            if self.is_closed {
                break Ok(());
            }
        };
        self.lost(&self.all_partitions());
        let now = Instant::now();
        let left = self.closing.map(|at| at.saturating_duration_since(now));
        self.log
            .close(left.map_or(CLOSE_MAX, |left| left.min(CLOSE_MAX)))
            .await;
        if result.is_err() {
            self.let_handlers_end().await;
        }
        result
    }

    /// Another member may join only when no handler of this one runs any more.
    async fn let_handlers_end(&mut self) {
        for assignment in std::mem::take(&mut self.departed) {
            tokio::select! {
                () = assignment.idle() => {}
                _ = self.commands.recv() => return,
            }
        }
    }

    async fn wake(&mut self) -> Wake {
        let time = self.next_time();
        let intake = self.intake();
        self.endings_first = !self.endings_first;
        // Both orders give everybody a turn: records must not starve endings, nor they records.
        if self.endings_first {
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => Wake::Command(command),
                () = sleep_until(time) => Wake::Time,
                Some((event, ending)) = self.journeys.next() => Wake::Ending(event, ending),
                Some(errand) = self.errands.next() => Wake::Errand(errand),
                event = self.log.poll(intake) => Wake::Log(event),
            }
        } else {
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => Wake::Command(command),
                () = sleep_until(time) => Wake::Time,
                Some(errand) = self.errands.next() => Wake::Errand(errand),
                event = self.log.poll(intake) => Wake::Log(event),
                Some((event, ending)) = self.journeys.next() => Wake::Ending(event, ending),
            }
        }
    }

    fn next_time(&mut self) -> Instant {
        let pause = self.pause_at();
        let handover = self.handover.as_ref().and_then(Handover::wake_at);
        let commit = (!self.commit_in_flight).then_some(self.commit_at);
        let times = [pause, handover, commit, self.closing, Some(self.stalls_at)];
        times.into_iter().flatten().min().unwrap_or(self.stalls_at)
    }

    fn take(&mut self, records: Vec<Record>) {
        let mut touched: Vec<TopicPartition> = Vec::new();
        for record in records {
            let Some(partition) = self.partitions.get_mut(&record.topic_partition) else {
                continue;
            };
            let assignment = &partition.assignment;
            if assignment.generation() != record.generation || partition.takes_nothing() {
                continue;
            }
            if touched.last() != Some(&record.topic_partition) {
                touched.push(record.topic_partition.clone());
            }
            if !partition.is_ready && partition.progress.is_idle() {
                partition.progress.note(Some(record.offset));
            }
            let before = partition.load();
            partition.buffer(record);
            self.load.replace(before, partition.load());
        }
        for topic_partition in touched {
            self.admit(&topic_partition);
        }
    }

    /// Steps 1 to 4 of the journey for as many records as the partition's window has room for.
    fn admit(&mut self, topic_partition: &TopicPartition) {
        let Some(partition) = self.partitions.get_mut(topic_partition) else {
            return;
        };
        let before = partition.load();
        let others = self.load.taken_bytes - before.taken_bytes;
        while partition.has_next(self.settings.max_uncommitted) {
            if others + partition.taken_bytes >= backpressure::TAKEN_BYTES
                && partition.tracker.unfinished() > 0
            {
                self.crowded.insert(topic_partition.clone());
                break;
            }
            let Some(record) = partition.next_record() else {
                break;
            };
            let offset = record.offset;
            if !partition.tracker.start(offset) {
                partition.restart_at(&record);
                let generation = partition.assignment.generation();
                self.log.restart(topic_partition, generation, Some(offset));
                break;
            }
            let Some(event) = self.journey.arrive(record, &partition.assignment) else {
                partition.tracker.finish(offset);
                continue;
            };
            partition.taken_bytes += event.weight();
            partition.tracker.hold(&event);
            if let Some(event) = partition.enqueue(event) {
                let start = start_journey(&self.journey, partition, event);
                self.journeys.push(start);
            }
            if partition.progress.is_idle() {
                partition
                    .progress
                    .note(partition.tracker.oldest_unfinished());
            }
        }
        if partition.must_pause_again() {
            partition.pause();
            self.log.pause(std::slice::from_ref(topic_partition));
        } else if partition.may_resume(self.settings.max_uncommitted) {
            self.log.resume(std::slice::from_ref(topic_partition));
        }
        self.load.replace(before, partition.load());
    }

    fn take_endings(&mut self, event: &Event, ending: Ending) {
        self.ended(event, ending);
        for _ in 1..ENDINGS_PER_TURN {
            let Some(Some((event, ending))) = self.journeys.next().now_or_never() else {
                return;
            };
            self.ended(&event, ending);
        }
    }

    /// Step 11, and the start of whatever waited for this.
    fn ended(&mut self, event: &Event, ending: Ending) {
        if ending == Ending::Exit {
            self.begin_shutdown(self.settings.shutdown_timeout);
        }
        let Event::Message(message) = event;
        let topic_partition = &message.record.topic_partition;
        let Some(partition) = self.partitions.get_mut(topic_partition) else {
            return;
        };
        if partition.assignment.generation() != event.generation() {
            return;
        }
        partition.travelling -= 1;
        match ending {
            Ending::Done => {
                partition.tracker.finish(message.record.offset);
                let bytes = event.weight();
                partition.taken_bytes -= bytes;
                self.load.taken_bytes -= bytes;
                partition
                    .progress
                    .note(partition.tracker.oldest_unfinished());
            }
            Ending::Unfinished | Ending::Exit if !partition.assignment.is_draining() => {
                warn!(
                    "the store has ended the partition's assignment, it starts afresh if the group still gives it to this member: {message}"
                );
                partition.assignment.end();
                let before = partition.load();
                partition.drop_waiting();
                self.load.replace(before, partition.load());
                let reclaim = errand::wait_to_reclaim(Arc::clone(&partition.assignment));
                self.errands.push(reclaim.boxed());
            }
            Ending::Unfinished | Ending::Exit => {}
        }
        if partition.assignment.is_draining() {
            return;
        }
        if let Some(key) = event.key()
            && let Some(next) = partition.next_of(key)
        {
            let start = start_journey(&self.journey, partition, next);
            self.journeys.push(start);
        }
        self.admit(topic_partition);
    }
}

fn report_added(added: &PartitionsAdded) {
    let PartitionsAdded { topic, before, now } = added;
    warn!(
        "topic has {now} partitions now, {before} before: a key whose partition is another one from now on has a new ledger there, and its earlier messages are not waited for: topic={topic}"
    );
}

fn start_journey(
    journey: &Arc<Journey>,
    partition: &mut Partition,
    event: Arc<Event>,
) -> BoxFuture<'static, (Arc<Event>, Ending)> {
    partition.travelling += 1;
    let journey = Arc::clone(journey);
    let assignment = Arc::clone(&partition.assignment);
    async move {
        let ending = journey.travel(&assignment, Arc::clone(&event)).await;
        (event, ending)
    }
    .boxed()
}
