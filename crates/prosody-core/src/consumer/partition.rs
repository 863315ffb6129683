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
}

impl Load {
    /// Replaces one partition's part in a sum.
    pub(crate) fn replace(&mut self, before: Self, after: Self) {
        self.records = self.records - before.records + after.records;
        self.bytes = self.bytes - before.bytes + after.bytes;
        self.fed = self.fed - before.fed + after.fed;
        self.paused = self.paused - before.paused + after.paused;
    }
}

/// Whether records of a partition are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    Open,
    /// Paused when so many records were waiting.
    Paused(usize),
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
            delivery: Delivery::Open,
            is_restarting: false,
            queues: HashMap::default(),
        }
    }

    pub(crate) fn load(&self) -> Load {
        let fed = usize::from(!self.buffer.is_empty());
        if matches!(self.delivery, Delivery::Paused(_)) {
            return Load {
                fed,
                paused: fed,
                ..Load::default()
            };
        }
        Load {
            records: self.buffer.len(),
            bytes: self.buffer_bytes,
            fed,
            paused: 0,
        }
    }

    pub(crate) fn buffer(&mut self, record: Record) {
        self.buffer_bytes += record.weight();
        self.buffer.push_back(record);
    }

    /// The next record, if the window has room for it.
    pub(crate) fn next_record(&mut self, uncommitted_max: usize) -> Option<Record> {
        let open = self.is_ready && !self.takes_nothing();
        if !open || self.tracker.is_full(uncommitted_max) {
            return None;
        }
        let record = self.buffer.pop_front()?;
        self.buffer_bytes -= record.weight();
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

    /// Whether a partition that was paused before has as many records waiting again.
    pub(crate) fn must_pause_again(&self) -> bool {
        matches!(self.delivery, Delivery::Resumed(limit) if self.buffer.len() >= limit)
    }

    /// Whether delivery is to be resumed now: half of what was there is worked off, which leaves
    /// enough for the time until the client has fetched more.
    pub(crate) fn may_resume(&mut self) -> bool {
        match self.delivery {
            Delivery::Paused(limit) if self.buffer.len() <= limit / 2 => {
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
            queue.clear();
        }
    }

    /// A watermark that the log does not know yet.
    pub(crate) fn uncommitted_watermark(&self) -> Option<i64> {
        let watermark = self.tracker.watermark()?;
        (self.committed.is_none_or(|committed| committed < watermark)).then_some(watermark)
    }
}
