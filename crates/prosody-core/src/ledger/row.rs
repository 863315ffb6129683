//! Rows of a ledger and where they stand in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::event::Key;
use crate::record::{Generation, TopicPartition};

/// The partition of a consumer group whose ledgers have one owner at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerPartition {
    /// The consumer group.
    pub group_id: Arc<str>,
    /// The partition.
    pub topic_partition: TopicPartition,
}

/// Names one ledger: everything that is remembered about one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LedgerKey {
    /// Group and partition.
    pub partition: LedgerPartition,
    /// The key.
    pub key: Key,
}

/// The right of one assignment to write ledgers of its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The assignment's generation.
    pub generation: Generation,
    /// The store's own number of this claim: unique per claim within the store.
    pub id: u64,
}

/// Where a row stands within its ledger. Sections come in this order.
///
/// Deferred messages and timers have sections of their own, between `Meta` and `Mark`; they come
/// with their features.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coordinate {
    /// The ledger's own row: position and bounds.
    Meta,
    /// An id that was handled, by sequence number.
    Mark(u64),
    /// An item of a collection.
    Cell {
        /// Name of the collection.
        collection: Arc<str>,
        /// Where the item stands in it; empty for a value.
        coordinate: Bytes,
    },
}

impl Coordinate {
    /// Bytes that the coordinate takes in a store.
    pub fn weight(&self) -> usize {
        match self {
            Self::Meta => 1,
            Self::Mark(_) => 9,
            Self::Cell {
                collection,
                coordinate,
            } => 1 + collection.len() + coordinate.len(),
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Content, its first byte the version of its encoding.
    pub content: Bytes,
    /// Milliseconds since 1970 from which on the row is absent; `None` for never.
    pub expires_at_ms: Option<i64>,
}

impl Row {
    /// A row without end.
    pub fn lasting(content: Bytes) -> Self {
        Self {
            content,
            expires_at_ms: None,
        }
    }

    /// Whether the row is absent at that time.
    pub fn is_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|end| end <= now_ms)
    }
}

/// Rows of one ledger in order.
pub type Rows = BTreeMap<Coordinate, Row>;
