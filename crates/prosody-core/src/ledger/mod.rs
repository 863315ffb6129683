//! The ledger of one key: its position, the ids it has handled, its collections' cells.
//!
//! A [`Ledger`] is what an assignment knows of a key since it hydrated it. The assignment is the
//! only writer, so it knows all: decisions are made here, and every change goes through one
//! [`Transaction`] that the store applies as a whole before [`Ledger::apply`] repeats it here.

mod encoding;
mod row;
mod transaction;

use std::collections::{HashMap, VecDeque};

pub use encoding::{EncodingError, decode_item, encode_item};
pub use row::{Claim, Coordinate, LedgerKey, LedgerPartition, Row, Rows};
pub use transaction::{
    Change, TRANSACTION_BYTES_MAX, TRANSACTION_ROWS_MAX, Transaction, TransactionTooLarge,
};

use crate::record::TopicId;

/// How many handled ids a key remembers.
pub const MARKS_MAX: usize = 10_000;

/// Where a key stands in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The topic's id: another one after the topic was created anew.
    pub topic_id: TopicId,
    /// Epoch of the leader that wrote the message; -1 if unknown.
    pub leader_epoch: i32,
    /// The message's offset.
    pub offset: i64,
}

impl Position {
    /// Whether a message at `self` was handled already when the key stands at `handled`.
    ///
    /// After an unclean leader election offsets are used again under a higher epoch.
    fn is_covered_by(&self, handled: &Self) -> bool {
        self.topic_id == handled.topic_id
            && self.offset <= handled.offset
            && self.leader_epoch <= handled.leader_epoch
    }
}

/// The ledger's own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The last message that was settled.
    pub position: Position,
    /// Sequence number of the oldest mark.
    pub first_mark: u64,
    /// Sequence number of the next mark.
    pub next_mark: u64,
}

/// An id that was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Hash of `idempotence_version` and id.
    pub hash: u128,
    /// The message that set it. A mark that names the message itself proves nothing.
    pub position: Position,
    /// Hash of the payload.
    pub content_hash: u64,
}

/// Why a message is not handled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicate {
    /// Its offset was handled already.
    Position,
    /// A message of its key with the same id was handled already.
    Id {
        /// Whether the payload is another one: the id may be that of an entity, not of a message.
        content_differs: bool,
    },
}

/// What a message shows for the duplicate check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Where it stands.
    pub position: Position,
    /// Its id, if it has one: hash of `idempotence_version` and id, and hash of the payload.
    pub id: Option<(u128, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct HeldMark {
    mark: Mark,
    sequence: u64,
    expires_at_ms: Option<i64>,
}

/// What is known of one key.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    position: Option<Position>,
    first_mark: u64,
    next_mark: u64,
    /// The newest mark of each id.
    marks: HashMap<u128, HeldMark, foldhash::fast::RandomState>,
    /// Sequence number and hash of each mark, the oldest first.
    mark_order: VecDeque<(u64, u128)>,
    cells: Rows,
    weight: usize,
}

impl Ledger {
    /// Reads a ledger from its rows.
    pub fn from_rows(rows: Rows) -> Result<Self, EncodingError> {
        let mut ledger = Self::default();
        for (coordinate, row) in rows {
            ledger.take_row(coordinate, row)?;
        }
        Ok(ledger)
    }

    fn take_row(&mut self, coordinate: Coordinate, row: Row) -> Result<(), EncodingError> {
        match coordinate {
            Coordinate::Meta => {
                let meta = encoding::decode_meta(&row.content)?;
                self.position = Some(meta.position);
                self.first_mark = meta.first_mark;
                self.next_mark = meta.next_mark;
            }
            Coordinate::Mark(sequence) => {
                let mark = encoding::decode_mark(&row.content)?;
                let held = HeldMark {
                    mark,
                    sequence,
                    expires_at_ms: row.expires_at_ms,
                };
                self.marks.insert(mark.hash, held);
                self.mark_order.push_back((sequence, mark.hash));
            }
            Coordinate::Cell { .. } => {
                self.weight += coordinate.weight() + row.content.len();
                self.cells.insert(coordinate, row);
            }
        }
        Ok(())
    }

    /// The last message that was settled.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Bytes that it holds in memory, roughly.
    pub fn weight(&self) -> usize {
        size_of::<Self>() + self.weight + self.mark_order.len() * 128 + self.cells.len() * 96
    }

    /// Whether a message was handled before.
    pub fn duplicate(&self, fingerprint: &Fingerprint, now_ms: i64) -> Option<Duplicate> {
        let position = &fingerprint.position;
        if self
            .position
            .is_some_and(|handled| position.is_covered_by(&handled))
        {
            return Some(Duplicate::Position);
        }
        let (hash, content_hash) = fingerprint.id?;
        let held = self.marks.get(&hash)?;
        let expired = held.expires_at_ms.is_some_and(|end| end <= now_ms);
        if expired || held.mark.position == *position {
            return None;
        }
        Some(Duplicate::Id {
            content_differs: held.mark.content_hash != content_hash,
        })
    }

    /// A cell as committed, unless it has expired.
    pub fn cell(&self, coordinate: &Coordinate, now_ms: i64) -> Option<&Row> {
        self.cells
            .get(coordinate)
            .filter(|row| !row.is_expired(now_ms))
    }

    /// Adds to a transaction that a message is settled without having been handled successfully:
    /// its position, no mark.
    pub fn settle(&self, transaction: &mut Transaction, position: Position) {
        Self::write_meta(transaction, position, self.first_mark, self.next_mark);
    }

    /// Adds to a transaction that a message was handled: its position, and a mark of its id that
    /// lives until `mark_expires_at_ms`.
    pub fn settle_handled(
        &self,
        transaction: &mut Transaction,
        fingerprint: &Fingerprint,
        mark_expires_at_ms: i64,
    ) {
        let position = fingerprint.position;
        let Some((hash, content_hash)) = fingerprint.id else {
            return self.settle(transaction, position);
        };
        let mark = Mark {
            hash,
            position,
            content_hash,
        };
        let row = Row {
            content: encoding::encode_mark(&mark),
            expires_at_ms: Some(mark_expires_at_ms),
        };
        let mut first_mark = self.first_mark;
        if self.mark_order.len() >= MARKS_MAX {
            transaction.delete(Coordinate::Mark(first_mark));
            first_mark += 1;
        }
        transaction.upsert(Coordinate::Mark(self.next_mark), row);
        Self::write_meta(transaction, position, first_mark, self.next_mark + 1);
    }

    fn write_meta(
        transaction: &mut Transaction,
        position: Position,
        first_mark: u64,
        next_mark: u64,
    ) {
        // A message whose offset lies below, under a higher epoch, does move the position.
        let meta = Meta {
            position,
            first_mark,
            next_mark,
        };
        let row = Row::lasting(encoding::encode_meta(&meta));
        transaction.upsert(Coordinate::Meta, row);
    }

    /// Repeats here what the store has applied.
    pub fn apply(&mut self, transaction: Transaction) -> Result<(), EncodingError> {
        for (coordinate, change) in transaction.into_changes() {
            match (coordinate, change) {
                (Coordinate::Mark(_), Change::Delete) => self.forget_oldest_mark(),
                (coordinate, Change::Delete) => self.forget_cell(&coordinate),
                (coordinate, Change::Upsert(row)) => {
                    self.forget_cell(&coordinate);
                    self.take_row(coordinate, row)?;
                }
            }
        }
        Ok(())
    }

    fn forget_cell(&mut self, coordinate: &Coordinate) {
        if let Some(row) = self.cells.remove(coordinate) {
            self.weight -= coordinate.weight() + row.content.len();
        }
    }

    fn forget_oldest_mark(&mut self) {
        let Some((sequence, hash)) = self.mark_order.pop_front() else {
            return;
        };
        // An id that was set again has a younger mark, which stays.
        if self
            .marks
            .get(&hash)
            .is_some_and(|held| held.sequence == sequence)
        {
            self.marks.remove(&hash);
        }
    }
}
