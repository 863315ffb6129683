//! Topics, their partitions, and what stands in them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::log::{Delivery, TopicDescription};
use crate::record::{Generation, Headers, OutgoingRecord, Record, TopicId, TopicPartition};

const NAME_LENGTH_MAX: usize = 249;

/// All topics by name.
pub(super) type Topics = BTreeMap<Arc<str>, Topic>;

/// Says what Kafka would not accept in a topic's name.
pub(super) fn name_fault(name: &str) -> Option<String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fault = if name.is_empty() {
        "is empty".to_owned()
    } else if name == "." || name == ".." {
        "is not allowed".to_owned()
    } else if name.len() > NAME_LENGTH_MAX {
        format!("is longer than {NAME_LENGTH_MAX} bytes")
    } else if !name.bytes().all(allowed) {
        "has a character other than letters, digits, '.', '_' and '-'".to_owned()
    } else {
        return None;
    };
    Some(format!("topic name {name:?} {fault}"))
}

/// A topic of one creation; deleted and made again it is another one.
pub(super) struct Topic {
    name: Arc<str>,
    pub(super) id: TopicId,
    partitions: Vec<Partition>,
    /// Where the next record without key goes.
    next_keyless: usize,
}

impl Topic {
    pub(super) fn new(name: Arc<str>, id: TopicId, partitions: usize) -> Self {
        Self {
            name,
            id,
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            next_keyless: 0,
        }
    }

    pub(super) fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }

    pub(super) fn grow(&mut self, partitions: i32) {
        let partitions = usize::try_from(partitions).unwrap_or(0);
        let more = partitions.saturating_sub(self.partitions.len());
        self.partitions
            .extend((0..more).map(|_| Partition::default()));
    }

    pub(super) fn describe(&self) -> TopicDescription {
        TopicDescription {
            name: Arc::clone(&self.name),
            id: self.id,
            partitions: self.partition_count(),
        }
    }

    pub(super) fn topic_partitions(&self) -> impl Iterator<Item = TopicPartition> {
        (0..self.partition_count())
            .map(|number| TopicPartition::new(Arc::clone(&self.name), number))
    }

    pub(super) fn partition(&self, number: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(number).ok()?)
    }

    pub(super) fn partition_mut(&mut self, number: i32) -> Option<&mut Partition> {
        self.partitions.get_mut(usize::try_from(number).ok()?)
    }

    /// Appends a record and returns where it went, with the groups that waited for it.
    pub(super) fn append(
        &mut self,
        record: OutgoingRecord,
        timestamp_ms: i64,
    ) -> (Delivery, Vec<Arc<str>>) {
        let index = self.index_for(record.key.as_deref().unwrap_or_default());
        let partition = &mut self.partitions[index];
        let delivery = Delivery {
            partition: i32::try_from(index).unwrap_or(i32::MAX),
            offset: partition.end(),
        };
        partition.records.push_back(Stored {
            timestamp_ms,
            key: record.key,
            payload: record.payload,
            headers: record.headers,
        });
        (delivery, std::mem::take(&mut partition.waiting))
    }

    /// As librdkafka's `consistent` partitioner does it, except that records without key take
    /// turns instead of going anywhere.
    fn index_for(&mut self, key: &[u8]) -> usize {
        let count = self.partitions.len();
        if key.is_empty() {
            let index = self.next_keyless % count;
            self.next_keyless = index + 1;
            index
        } else {
            crc32fast::hash(key) as usize % count
        }
    }
}

/// What one partition holds.
#[derive(Default)]
pub(super) struct Partition {
    /// The offset of the first record that is still there.
    first: i64,
    records: VecDeque<Stored>,
    /// Groups whose reader is at the end; each is there once.
    waiting: Vec<Arc<str>>,
}

struct Stored {
    timestamp_ms: i64,
    key: Option<Bytes>,
    payload: Option<Bytes>,
    headers: Headers,
}

impl Partition {
    pub(super) fn first(&self) -> i64 {
        self.first
    }

    /// The offset of the record that comes next.
    pub(super) fn end(&self) -> i64 {
        self.first + i64::try_from(self.records.len()).unwrap_or(i64::MAX)
    }

    /// Where a reader that wants to go on at `offset` does go on: at the first record, if that
    /// offset does not exist (`auto.offset.reset` is earliest).
    pub(super) fn start_at(&self, offset: i64) -> i64 {
        if (self.first..=self.end()).contains(&offset) {
            offset
        } else {
            self.first
        }
    }

    pub(super) fn record(
        &self,
        topic_partition: &TopicPartition,
        generation: Generation,
        offset: i64,
    ) -> Option<Record> {
        let index = usize::try_from(offset.checked_sub(self.first)?).ok()?;
        let stored = self.records.get(index)?;
        Some(stored.record(topic_partition, generation, offset))
    }

    /// Reads up to `limit` records from `from` into `records`; returns the offset after them.
    pub(super) fn read(
        &self,
        topic_partition: &TopicPartition,
        generation: Generation,
        from: i64,
        limit: usize,
        records: &mut Vec<Record>,
    ) -> i64 {
        let skipped = usize::try_from(from - self.first).unwrap_or(0);
        let mut offset = from;
        for stored in self.records.iter().skip(skipped).take(limit) {
            records.push(stored.record(topic_partition, generation, offset));
            offset += 1;
        }
        offset
    }

    /// Has the group told of the next record.
    pub(super) fn wait(&mut self, group_id: &Arc<str>) {
        if !self.waiting.contains(group_id) {
            self.waiting.push(Arc::clone(group_id));
        }
    }

    pub(super) fn delete_from(&mut self, offset: i64) {
        let left = usize::try_from(offset - self.first).unwrap_or(0);
        self.records.truncate(left);
    }

    pub(super) fn delete_before(&mut self, offset: i64) {
        while self.first < offset && self.records.pop_front().is_some() {
            self.first += 1;
        }
    }
}

impl Stored {
    fn record(
        &self,
        topic_partition: &TopicPartition,
        generation: Generation,
        offset: i64,
    ) -> Record {
        Record {
            topic_partition: topic_partition.clone(),
            generation,
            offset,
            leader_epoch: 0,
            timestamp_ms: self.timestamp_ms,
            key: self.key.clone(),
            payload: self.payload.clone(),
            headers: self.headers.clone(),
        }
    }
}
