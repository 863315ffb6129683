//! What a log holds: records, and how they are named.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// One partition of one topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition within its topic.
    pub partition: i32,
}

impl TopicPartition {
    /// Names a partition.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Kafka's own id of a topic: another one after the topic was deleted and created again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicId(pub u128);

/// Counts the assignments that one member of a group was given.
///
/// A partition that is revoked and assigned again has a higher generation; whatever comes back
/// from an older one changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u64);

/// Where one message stands: enough to load it again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinates {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The topic's id when the message was read.
    pub topic_id: TopicId,
    /// Offset within the partition.
    pub offset: i64,
}

/// Headers of a record, in the order in which the producer wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Bytes, Option<Bytes>)>);

impl Headers {
    /// Makes headers of names and values in order.
    pub fn new(headers: Vec<(Bytes, Option<Bytes>)>) -> Self {
        Self(headers)
    }

    /// The last header of that name: `None` if there is none, `Some(None)` if it has no value.
    pub fn last(&self, name: &[u8]) -> Option<Option<&Bytes>> {
        let found = self.0.iter().rev().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_ref())
    }

    /// All headers in order; a name may come twice.
    pub fn iter(&self) -> impl Iterator<Item = &(Bytes, Option<Bytes>)> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A record as a member of a group reads it: raw bytes, nothing decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The assignment under which it was read.
    pub generation: Generation,
    /// Offset within the partition.
    pub offset: i64,
    /// Epoch of the partition's leader that wrote it; -1 if unknown.
    pub leader_epoch: i32,
    /// Timestamp in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Key; `None` and empty both mean "without key".
    pub key: Option<Bytes>,
    /// Payload; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// Headers.
    pub headers: Headers,
}

impl Record {
    /// Bytes that the record holds in memory, roughly.
    pub fn weight(&self) -> usize {
        let key = self.key.as_ref().map_or(0, Bytes::len);
        let payload = self.payload.as_ref().map_or(0, Bytes::len);
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len))
            .sum();
        size_of::<Self>() + key + payload + headers
    }
}

/// A record on its way into a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingRecord {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Key; `None` for a record without key.
    pub key: Option<Bytes>,
    /// Payload; `None` is a tombstone.
    pub payload: Option<Bytes>,
    /// Headers.
    pub headers: Headers,
}
