//! A partition as the consumer holds it: what waits before the key queues, the queues, and which
//! offsets are done.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::event::{Event, Key};
use crate::record::Record;

use super::assignment::Assignment;
use super::status::Progress;
use super::tracker::OffsetTracker;

/// Records that may wait before delivery of the partition is paused. Wide apart from
/// [`RESUME_RECORDS`], since a pause throws away what the client has fetched ahead.
const PAUSE_RECORDS: usize = 4_096;
const RESUME_RECORDS: usize = 1_024;

/// The same in bytes.
const PAUSE_BYTES: usize = 4 * 1024 * 1024;
const RESUME_BYTES: usize = 1024 * 1024;

/// What waits in the buffers of partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) records: usize,
    pub(crate) bytes: usize,
    /// Partitions that have at least one record.
    pub(crate) fed: usize,
}

impl Load {
    /// Replaces one partition's part in a sum.
    pub(crate) fn replace(&mut self, before: Self, after: Self) {
        self.records = self.records - before.records + after.records;
        self.bytes = self.bytes - before.bytes + after.bytes;
        self.fed = self.fed - before.fed + after.fed;
    }
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
    paused: bool,
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
            paused: false,
            queues: HashMap::default(),
        }
    }

    pub(crate) fn load(&self) -> Load {
        Load {
            records: self.buffer.len(),
            bytes: self.buffer_bytes,
            fed: usize::from(!self.buffer.is_empty()),
        }
    }

    pub(crate) fn buffer(&mut self, record: Record) {
        self.buffer_bytes += record.weight();
        self.buffer.push_back(record);
    }

    /// The next record, if the window has room for it.
    pub(crate) fn next_record(&mut self, uncommitted_max: usize) -> Option<Record> {
        let open = self.is_ready && !self.assignment.is_draining();
        if !open || self.tracker.is_full(uncommitted_max) {
            return None;
        }
        let record = self.buffer.pop_front()?;
        self.buffer_bytes -= record.weight();
        Some(record)
    }

    /// Whether delivery is to be paused now.
    pub(crate) fn must_pause(&mut self) -> bool {
        let full = self.buffer.len() >= PAUSE_RECORDS || self.buffer_bytes >= PAUSE_BYTES;
        let change = full && !self.paused;
        self.paused |= change;
        change
    }

    /// Whether delivery is to be resumed now.
    pub(crate) fn may_resume(&mut self) -> bool {
        let low = self.buffer.len() <= RESUME_RECORDS && self.buffer_bytes <= RESUME_BYTES;
        let change = low && self.paused;
        self.paused &= !change;
        change
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
