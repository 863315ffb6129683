//! A partition as the consumer holds it: what waits before the key queues, the queues, and which
//! offsets are done.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tracing::warn;

use crate::event::{Event, Key};
use crate::record::{Record, TopicPartition};

use super::assignment::Assignment;
use super::status::Progress;
use super::tracker::OffsetTracker;

/// Records for which an empty buffer keeps its memory: a thousand of them that were full once would
/// hold as much as when they were.
const KEPT_CAPACITY: usize = 64;

/// What waits in the buffers of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Records and bytes of partitions whose delivery is not paused.
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    /// Partitions that have at least one record.
    pub(crate) fed: usize,
    /// Those of them whose delivery is paused.
    pub(crate) paused: usize,
    /// Records and bytes of those.
    pub(crate) paused_records: usize,
    pub(crate) paused_bytes: usize,
    /// Bytes of events that are taken and not finished.
    pub(crate) taken_bytes: usize,
}

impl Load {
    /// Replaces one partition's part in a sum.
    pub(crate) fn replace(&mut self, before: Self, after: Self) {
        self.records = self.records - before.records + after.records;
        self.bytes = self.bytes - before.bytes + after.bytes;
        self.fed = self.fed - before.fed + after.fed;
        self.paused = self.paused - before.paused + after.paused;
        self.paused_records = self.paused_records - before.paused_records + after.paused_records;
        self.paused_bytes = self.paused_bytes - before.paused_bytes + after.paused_bytes;
        self.taken_bytes = self.taken_bytes - before.taken_bytes + after.taken_bytes;
    }
}

/// Whether records of a partition are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Open,
    /// Paused when so many records were waiting.
    Paused(usize),
    /// The same, and those records were given back: the log delivers them again.
    Rewound(usize),
    /// Open again after a pause. It will not take more than then without another one.
    Resumed(usize),
}

/// One assigned partition.
pub(crate) struct Partition {
    pub(crate) assignment: Arc<Assignment>,
    /// Whether its claim is accepted and no handler of an earlier assignment runs any more.
    pub(crate) is_ready: bool,
    pub(crate) tracker: OffsetTracker,
    pub(crate) progress: Arc<Progress>,
    /// The watermark that the log has acknowledged.
    pub(crate) committed: Option<i64>,
    /// Journeys under way.
    pub(crate) travelling: usize,
    buffer: VecDeque<Record>,
    buffer_bytes: usize,
    /// Bytes of events that are taken and not finished.
    pub(crate) taken_bytes: usize,
    delivery: Delivery,
    /// Nothing is taken any more: a fresh assignment was asked for.
    is_restarting: bool,
    /// Per key with a journey under way, the events that wait behind it.
    queues: HashMap<Key, VecDeque<Arc<Event>>, foldhash::fast::RandomState>,
}

impl Partition {
    pub(crate) fn new(assignment: Arc<Assignment>, progress: Arc<Progress>) -> Self {
        Self {
            assignment,
            is_ready: false,
            tracker: OffsetTracker::default(),
            progress,
            committed: None,
            travelling: 0,
            buffer: VecDeque::new(),
            buffer_bytes: 0,
            taken_bytes: 0,
            delivery: Delivery::Open,
            is_restarting: false,
            queues: HashMap::default(),
        }
    }

    pub(crate) fn load(&self) -> Load {
        let fed = usize::from(!self.buffer.is_empty());
        let (records, bytes) = (self.buffer.len(), self.buffer_bytes);
        let taken_bytes = self.taken_bytes;
        if matches!(self.delivery, Delivery::Paused(_)) {
            return Load {
                fed,
                paused: fed,
                paused_records: records,
                paused_bytes: bytes,
                taken_bytes,
                ..Load::default()
            };
        }
        Load {
            records,
            bytes,
            fed,
            taken_bytes,
            ..Load::default()
        }
    }

    pub(crate) fn buffer(&mut self, record: Record) {
        self.buffer_bytes += record.weight();
        self.buffer.push_back(record);
    }

    /// Whether the window has room, and there is something for it.
    pub(crate) fn has_next(&self, uncommitted_max: usize) -> bool {
        let open = self.is_ready && !self.takes_nothing();
        open && !self.tracker.is_full(uncommitted_max) && !self.buffer.is_empty()
    }

    /// The next record.
    pub(crate) fn next_record(&mut self) -> Option<Record> {
        let record = self.buffer.pop_front()?;
        self.buffer_bytes -= record.weight();
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = VecDeque::new();
        }
        Some(record)
    }

    /// Whether records that come are of no use: the assignment ends.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.is_restarting || self.assignment.is_draining()
    }

    /// A record stands at an offset that was taken before: it belongs to the next assignment, and so
    /// does all that waits.
    pub(crate) fn restart_at(&mut self, record: &Record) {
        self.is_restarting = true;
        self.drop_waiting();
        let TopicPartition { topic, partition } = &record.topic_partition;
        let (offset, epoch) = (record.offset, record.leader_epoch);
        warn!(
            "the log has gone back, the partition is begun anew from there (was a leader's tail lost?): \
             topic={topic} partition={partition} offset={offset} leader_epoch={epoch}"
        );
    }

    /// Notes that delivery is paused now.
    pub(crate) fn pause(&mut self) {
        self.delivery = Delivery::Paused(self.buffer.len());
    }

    /// Gives a paused partition's waiting records back, and says from which offset on.
    pub(crate) fn rewind(&mut self) -> Option<i64> {
        let Delivery::Paused(limit) = self.delivery else {
            return None;
        };
        let offset = self.buffer.front()?.offset;
        self.delivery = Delivery::Rewound(limit);
        self.buffer = VecDeque::new();
        self.buffer_bytes = 0;
        Some(offset)
    }

    /// Whether a partition that was paused before has as many records waiting again.
    pub(crate) fn must_pause_again(&self) -> bool {
        matches!(self.delivery, Delivery::Resumed(limit) if self.buffer.len() >= limit)
    }

    /// Whether delivery is to be resumed now: half of what was there is worked off, which leaves
    /// enough for the time until the client has fetched more.
    pub(crate) fn may_resume(&mut self, uncommitted_max: usize) -> bool {
        match self.delivery {
            Delivery::Paused(limit) if self.buffer.len() <= limit / 2 => {
                self.delivery = Delivery::Resumed(limit);
                true
            }
            Delivery::Rewound(limit) if !self.tracker.is_full(uncommitted_max.div_ceil(2)) => {
                self.delivery = Delivery::Resumed(limit);
                true
            }
            Delivery::Resumed(_) if self.buffer.is_empty() => {
                self.delivery = Delivery::Open;
                false
            }
            _ => false,
        }
    }

    /// Puts an event in its key's queue. It comes back if nothing of its key is under way: then
    /// its journey starts now.
    pub(crate) fn enqueue(&mut self, event: Arc<Event>) -> Option<Arc<Event>> {
        let Some(key) = event.key() else {
            return Some(event);
        };
        match self.queues.entry(key.clone()) {
            Entry::Vacant(queue) => {
                queue.insert(VecDeque::new());
                Some(event)
            }
            Entry::Occupied(mut queue) => {
                queue.get_mut().push_back(event);
                None
            }
        }
    }

    /// The event whose journey starts now that one of its key has ended.
    pub(crate) fn next_of(&mut self, key: &Key) -> Option<Arc<Event>> {
        let queue = self.queues.get_mut(key)?;
        let next = queue.pop_front();
        if next.is_none() {
            self.queues.remove(key);
        }
        next
    }

    /// Lets go of everything whose journey has not started.
    pub(crate) fn drop_waiting(&mut self) {
        self.buffer.clear();
        self.buffer_bytes = 0;
        for queue in self.queues.values_mut() {
            for event in queue.drain(..) {
                self.taken_bytes -= event.weight();
            }
        }
    }

    /// A watermark that the log does not know yet.
    pub(crate) fn uncommitted_watermark(&self) -> Option<i64> {
        let watermark = self.tracker.watermark()?;
        (self.committed.is_none_or(|committed| committed < watermark)).then_some(watermark)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::consumer::status::ConsumerStatus;
    use crate::ledger::LedgerPartition;
    use crate::record::{Generation, Headers, TopicId};

    fn partition() -> Partition {
        let name = LedgerPartition {
            group_id: "group".into(),
            topic_partition: TopicPartition::new("topic", 0),
        };
        let status = ConsumerStatus::new(Duration::from_secs(1));
        let progress = status.add(&name.topic_partition);
        let assignment = Assignment::new(name, Generation(1), TopicId(1));
        Partition::new(Arc::new(assignment), progress)
    }

    fn record(offset: i64) -> Record {
        Record {
            topic_partition: TopicPartition::new("topic", 0),
            generation: Generation(1),
            offset,
            leader_epoch: 0,
            timestamp_ms: 0,
            key: None,
            payload: None,
            headers: Headers::default(),
        }
    }

    #[test]
    fn what_was_full_once_does_not_keep_its_memory() {
        let mut partition = partition();
        for offset in 0..5_000 {
            partition.buffer(record(offset));
        }
        for offset in 0..5_000 {
            assert_eq!(partition.next_record().unwrap().offset, offset);
        }
        assert!(partition.buffer.capacity() <= KEPT_CAPACITY);
        assert_eq!(partition.load(), Load::default());
    }

    #[test]
    fn only_what_is_paused_and_waits_goes_back() {
        let mut partition = partition();
        assert_eq!(partition.rewind(), None);
        partition.buffer(record(7));
        partition.buffer(record(9));
        assert_eq!(partition.rewind(), None);
        partition.pause();
        assert_eq!(partition.load().paused_records, 2);
        assert_eq!(partition.rewind(), Some(7));
        assert_eq!(partition.load(), Load::default());
        assert_eq!(partition.rewind(), None);
        assert!(partition.may_resume(4) && !partition.may_resume(4));
    }
}
