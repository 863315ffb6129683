//! What the poll thread has for the caller of `poll`: bounded, and purged when a partition goes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use prosody_core::log::{Assigned, Intake, LogError, LogEvent};
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
    /// The partitions that are assigned.
    owned: HashMap<TopicPartition, Generation>,
    paused: HashSet<TopicPartition>,
    /// Records of paused partitions that were on their way already. They do not count against the
    /// bounds, but are bounded by them: after the pause no more are read.
    held: HashMap<TopicPartition, Vec<Record>>,
    ended: bool,
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

    pub fn add_records(&self, records: Vec<Record>, bytes: usize) {
        let mut state = self.state.lock();
        state.add(Batch { records, bytes });
        drop(state);
        self.ready.notify_one();
    }

    pub fn assigned(&self, partitions: Vec<Assigned>) {
        let mut state = self.state.lock();
        for assigned in &partitions {
            let partition = assigned.topic_partition.clone();
            // A pause that came late, for the assignment before, does not hold for this one.
            state.paused.remove(&partition);
            state.owned.insert(partition, assigned.generation);
        }
        state.news.push_back(LogEvent::Assigned(partitions));
        drop(state);
        self.ready.notify_one();
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
        state.forget(&partitions);
        state.news.push_back(LogEvent::Lost(partitions));
        drop(state);
        self.ready.notify_one();
    }

    /// These are given up: they belong to nobody here.
    pub fn given_up(&self, partitions: &[TopicPartition]) {
        self.state.lock().forget(partitions);
    }

    pub fn failed(&self, error: LogError) {
        self.state.lock().news.push_back(LogEvent::Failed(error));
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

    /// Holds these partitions' records back; gives those of them that are assigned.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Vec<TopicPartition> {
        let mut state = self.state.lock();
        let owned = |partition: &&TopicPartition| state.owned.contains_key(*partition);
        let known: Vec<TopicPartition> = partitions.iter().filter(owned).cloned().collect();
        state.paused.extend(known.iter().cloned());
        known
    }

    /// Lets go of what was held back.
    pub fn resume(&self, partitions: &[TopicPartition]) {
        let mut state = self.state.lock();
        for partition in partitions {
            state.paused.remove(partition);
            if let Some(records) = state.held.remove(partition) {
                state.put_first(records);
            }
        }
        drop(state);
        self.ready.notify_one();
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
        for mut batch in std::mem::take(&mut self.batches) {
            self.records -= batch.records.len();
            self.bytes -= batch.bytes;
            batch
                .records
                .retain(|record| !gone.contains(&record.topic_partition));
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
            self.held.remove(partition);
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic)]
mod tests {
    use prosody_core::record::{Headers, TopicId};

    use super::*;

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new("topic", number)
    }

    fn record(number: i32, offset: i64) -> Record {
        Record {
            topic_partition: partition(number),
            generation: Generation(1),
            offset,
            leader_epoch: 0,
            timestamp_ms: 0,
            key: None,
            payload: None,
            headers: Headers::default(),
        }
    }

    fn outbox() -> Outbox {
        let outbox = Outbox::new(Arc::default());
        let assigned = |number| Assigned {
            topic_partition: partition(number),
            generation: Generation(1),
            topic_id: TopicId(1),
            partition_count: 2,
        };
        outbox.assigned(vec![assigned(0), assigned(1)]);
        assert!(matches!(
            outbox.take_now(Intake::Open),
            Some(LogEvent::Assigned(_))
        ));
        outbox
    }

    fn offsets(outbox: &Outbox) -> Vec<(i32, i64)> {
        let mut all = Vec::new();
        while let Some(event) = outbox.take_now(Intake::Open) {
            let LogEvent::Records(records) = event else {
                panic!("{event:?}")
            };
            let name = |record: &Record| (record.topic_partition.partition, record.offset);
            all.extend(records.iter().map(name));
        }
        all
    }

    #[test]
    fn what_is_held_back_comes_before_what_follows() {
        let outbox = outbox();
        outbox.add_records(vec![record(0, 0), record(1, 0)], 2);
        assert_eq!(outbox.pause(&[partition(0), partition(7)]), [partition(0)]);
        outbox.add_records(vec![record(0, 1), record(1, 1)], 2);
        assert_eq!(offsets(&outbox), [(1, 0), (1, 1)]);
        outbox.add_records(vec![record(0, 2)], 1);
        outbox.resume(&[partition(0)]);
        assert_eq!(offsets(&outbox), [(0, 0), (0, 1), (0, 2)]);
        let state = outbox.state.lock();
        assert_eq!((state.records, state.bytes), (0, 0));
    }

    #[test]
    fn a_revocation_overtakes_records_and_drops_those_of_its_partitions() {
        let outbox = outbox();
        outbox.add_records(vec![record(0, 0), record(1, 0)], 2);
        outbox.pause(&[partition(0)]);
        outbox.revoked(vec![partition(0)]);
        assert!(matches!(
            outbox.take_now(Intake::Open),
            Some(LogEvent::Revoked(_))
        ));
        assert_eq!(offsets(&outbox), [(1, 0)]);
        outbox.given_up(&[partition(0)]);
        outbox.resume(&[partition(0)]);
        assert_eq!(offsets(&outbox), []);
        assert_eq!(outbox.generation(&partition(0)), Generation(0));
        assert_eq!(outbox.generation(&partition(1)), Generation(1));
    }

    #[test]
    fn it_is_full_after_some_records_and_ends_for_good() {
        let outbox = outbox();
        assert!(outbox.has_room() && outbox.is_low());
        for offset in 0..4096 {
            outbox.add_records(vec![record(0, offset)], 1);
        }
        assert!(!outbox.has_room() && !outbox.is_low());
        outbox.failed(LogError::Refused("why".to_owned()));
        outbox.end();
        assert!(matches!(
            outbox.take_now(Intake::Open),
            Some(LogEvent::Failed(LogError::Refused(_)))
        ));
        for _ in 0..2 {
            assert!(matches!(
                outbox.take_now(Intake::Open),
                Some(LogEvent::Failed(LogError::Ended))
            ));
        }
    }
}
