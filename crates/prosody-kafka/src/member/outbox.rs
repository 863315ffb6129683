//! What the poll thread has for the caller of `poll`: bounded, and purged when a partition goes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use prosody_core::log::{Assigned, Intake, LogError, LogEvent, PartitionsAdded};
use prosody_core::record::{Generation, Record, TopicPartition};
use prosody_core::sync::Mutex;
use tokio::sync::Notify;

use crate::wake::Waker;

/// Records that may wait for the caller (beyond that, none are taken from librdkafka).
const RECORDS_MAX: usize = 4_096;
/// Bytes of them, roughly.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Records and news on their way to the caller.
///
/// News overtake records. That is safe: every record carries its assignment's generation, and the
/// records of a partition go when the partition does.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    ready: Notify,
    waker: Arc<Waker>,
}

#[derive(Debug, Default)]
struct State {
    news: VecDeque<LogEvent>,
    batches: VecDeque<Batch>,
    records: usize,
    bytes: usize,
    /// Whether the poll thread waits for room.
    awaited: bool,
    /// The partitions that the caller was told to have. What it says of a partition is of the
    /// assignment that it knows.
    owned: HashMap<TopicPartition, Generation>,
    paused: HashSet<TopicPartition>,
    /// Records of paused partitions that were on their way already. They do not count against the
    /// bounds, but are bounded by them: after the pause no more are read.
    held: HashMap<TopicPartition, Vec<Record>>,
    /// Partitions that go back, and how often they are yet to: what the poll thread adds before is
    /// from after the place to which they go.
    rewinding: HashMap<TopicPartition, Rewinding>,
    ended: bool,
}

/// Rewinds that the poll thread has not carried out yet. The partition may have been assigned anew
/// meanwhile, which the caller has not heard: they are of one assignment.
#[derive(Debug)]
struct Rewinding {
    generation: Generation,
    count: usize,
}

#[derive(Debug)]
struct Batch {
    records: Vec<Record>,
    bytes: usize,
}

impl Outbox {
    pub fn new(waker: Arc<Waker>) -> Self {
        Self {
            state: Mutex::default(),
            ready: Notify::new(),
            waker,
        }
    }

    /// Waits for what comes next.
    pub async fn take(&self, intake: Intake) -> LogEvent {
        loop {
            // A notification that comes before the wait below is kept.
            if let Some(event) = self.take_now(intake) {
                return event;
            }
            self.ready.notified().await;
        }
    }

    fn take_now(&self, intake: Intake) -> Option<LogEvent> {
        let mut state = self.state.lock();
        let event = state.next(intake);
        if state.awaited && state.is_low() {
            state.awaited = false;
            self.waker.wake();
        }
        event
    }

    /// Whether records may be added; if not, the poll thread is woken when they may.
    pub fn has_room(&self) -> bool {
        let mut state = self.state.lock();
        let room = state.records < RECORDS_MAX && state.bytes < BYTES_MAX;
        state.awaited |= !room;
        room
    }

    /// Whether so little is left that a paused consumer should go on.
    pub fn is_low(&self) -> bool {
        let mut state = self.state.lock();
        let low = state.is_low();
        state.awaited |= !low;
        low
    }

    pub fn add_records(&self, mut records: Vec<Record>, mut bytes: usize) {
        let mut state = self.state.lock();
        if !state.rewinding.is_empty() {
            records.retain(|record| !state.is_rewinding(record));
            bytes = records.iter().map(Record::weight).sum();
        }
        if records.is_empty() {
            return;
        }
        state.add(Batch { records, bytes });
        drop(state);
        self.ready.notify_one();
    }

    pub fn assigned(&self, partitions: Vec<Assigned>) {
        self.tell(LogEvent::Assigned(partitions));
    }

    pub fn revoked(&self, partitions: Vec<TopicPartition>) {
        let mut state = self.state.lock();
        state.purge(&partitions);
        state.news.push_back(LogEvent::Revoked(partitions));
        drop(state);
        self.ready.notify_one();
    }

    pub fn lost(&self, partitions: Vec<TopicPartition>) {
        let mut state = self.state.lock();
        state.purge(&partitions);
        state.news.push_back(LogEvent::Lost(partitions));
        drop(state);
        self.ready.notify_one();
    }

    /// These are given up: they belong to nobody here.
    pub fn given_up(&self, partitions: &[TopicPartition]) {
        self.state.lock().forget(partitions);
    }

    pub fn partitions_added(&self, added: PartitionsAdded) {
        self.tell(LogEvent::PartitionsAdded(added));
    }

    pub fn failed(&self, error: LogError) {
        self.tell(LogEvent::Failed(error));
    }

    fn tell(&self, news: LogEvent) {
        self.state.lock().news.push_back(news);
        self.ready.notify_one();
    }

    /// Nothing comes any more.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.batches.clear();
        state.records = 0;
        state.bytes = 0;
        state.held.clear();
        state.owned.clear();
        state.ended = true;
        drop(state);
        self.ready.notify_one();
    }

    /// Holds these partitions' records back; gives the assignments that the caller means.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Vec<(TopicPartition, Generation)> {
        let mut state = self.state.lock();
        let known = state.known_of(partitions);
        let names = known.iter().map(|(partition, _)| partition.clone());
        state.paused.extend(names);
        known
    }

    /// Drops an assignment's records, and those of it that come before [`Outbox::rewound`]. `false`:
    /// the caller knows another assignment of the partition.
    pub fn begin_rewind(&self, partition: &TopicPartition, generation: Generation) -> bool {
        let mut state = self.state.lock();
        let present = state.owned.get(partition) == Some(&generation);
        if present {
            state.begin_rewind(partition, generation);
        }
        present
    }

    /// The poll thread has gone back: what it adds from now on counts.
    pub fn rewound(&self, partition: &TopicPartition, generation: Generation) {
        self.state.lock().rewound(partition, generation);
    }

    /// Lets go of what was held back; gives the assignments that the caller means.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Vec<(TopicPartition, Generation)> {
        let mut state = self.state.lock();
        for partition in partitions {
            state.paused.remove(partition);
            if let Some(records) = state.held.remove(partition) {
                state.put_first(records);
            }
        }
        let known = state.known_of(partitions);
        drop(state);
        self.ready.notify_one();
        known
    }

    /// The generation of a partition's present assignment; 0 if it has none.
    pub fn generation(&self, partition: &TopicPartition) -> Generation {
        let state = self.state.lock();
        state.owned.get(partition).copied().unwrap_or(Generation(0))
    }
}

impl State {
    fn next(&mut self, intake: Intake) -> Option<LogEvent> {
        if let Some(news) = self.news.pop_front() {
            self.note(&news);
            return Some(news);
        }
        if self.ended {
            return Some(LogEvent::Failed(LogError::Ended));
        }
        match intake {
            Intake::Open => self.next_records().map(LogEvent::Records),
            Intake::Closed => None,
        }
    }

    /// The caller hears this now.
    fn note(&mut self, news: &LogEvent) {
        match news {
            LogEvent::Assigned(partitions) => {
                for assigned in partitions {
                    let partition = assigned.topic_partition.clone();
                    // A pause of the assignment before does not hold for this one.
                    self.paused.remove(&partition);
                    self.rewinding.remove(&partition);
                    self.owned.insert(partition, assigned.generation);
                }
            }
            LogEvent::Lost(partitions) => self.forget(partitions),
            _ => {}
        }
    }

    fn known_of(&self, partitions: &[TopicPartition]) -> Vec<(TopicPartition, Generation)> {
        let known = |partition: &TopicPartition| {
            let generation = *self.owned.get(partition)?;
            Some((partition.clone(), generation))
        };
        partitions.iter().filter_map(known).collect()
    }

    fn next_records(&mut self) -> Option<Vec<Record>> {
        while let Some(batch) = self.batches.pop_front() {
            self.records -= batch.records.len();
            self.bytes -= batch.bytes;
            let records = self.hold_back(batch.records);
            if !records.is_empty() {
                return Some(records);
            }
        }
        None
    }

    /// Takes the records of paused partitions out.
    fn hold_back(&mut self, records: Vec<Record>) -> Vec<Record> {
        if self.paused.is_empty() {
            return records;
        }
        let mut rest = Vec::with_capacity(records.len());
        for record in records {
            if self.paused.contains(&record.topic_partition) {
                let held = self.held.entry(record.topic_partition.clone());
                held.or_default().push(record);
            } else {
                rest.push(record);
            }
        }
        rest
    }

    fn is_low(&self) -> bool {
        self.records <= RECORDS_MAX / 2 && self.bytes <= BYTES_MAX / 2
    }

    fn add(&mut self, batch: Batch) {
        self.records += batch.records.len();
        self.bytes += batch.bytes;
        self.batches.push_back(batch);
    }

    fn put_first(&mut self, records: Vec<Record>) {
        let bytes = records.iter().map(Record::weight).sum();
        self.records += records.len();
        self.bytes += bytes;
        self.batches.push_front(Batch { records, bytes });
    }

    /// Drops the records of partitions that go.
    fn purge(&mut self, partitions: &[TopicPartition]) {
        let gone: HashSet<&TopicPartition> = partitions.iter().collect();
        self.held.retain(|partition, _| !gone.contains(partition));
        self.drop_waiting(|record| gone.contains(&record.topic_partition));
    }

    fn begin_rewind(&mut self, partition: &TopicPartition, generation: Generation) {
        self.held.remove(partition);
        self.drop_waiting(|record| {
            record.generation == generation && record.topic_partition == *partition
        });
        let rewinding = Rewinding {
            generation,
            count: 0,
        };
        let entry = self.rewinding.entry(partition.clone());
        entry.or_insert(rewinding).count += 1;
    }

    fn rewound(&mut self, partition: &TopicPartition, generation: Generation) {
        let of_this = |rewinding: &&mut Rewinding| rewinding.generation == generation;
        let Some(rewinding) = self.rewinding.get_mut(partition).filter(of_this) else {
            return;
        };
        rewinding.count -= 1;
        if rewinding.count == 0 {
            self.rewinding.remove(partition);
        }
    }

    fn is_rewinding(&self, record: &Record) -> bool {
        let rewinding = self.rewinding.get(&record.topic_partition);
        rewinding.is_some_and(|rewinding| rewinding.generation == record.generation)
    }

    fn drop_waiting(&mut self, is_gone: impl Fn(&Record) -> bool) {
        for mut batch in std::mem::take(&mut self.batches) {
            self.records -= batch.records.len();
            self.bytes -= batch.bytes;
            batch.records.retain(|record| !is_gone(record));
            batch.bytes = batch.records.iter().map(Record::weight).sum();
            if !batch.records.is_empty() {
                self.add(batch);
            }
        }
    }

    fn forget(&mut self, partitions: &[TopicPartition]) {
        for partition in partitions {
            self.owned.remove(partition);
            self.paused.remove(partition);
            self.rewinding.remove(partition);
            self.held.remove(partition);
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests;
