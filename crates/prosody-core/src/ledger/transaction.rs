//! All that one event changes in its ledger, applied as one write.

use thiserror::Error;

use super::row::{Coordinate, Row, Rows};

/// Most bytes of one transaction.
pub const TRANSACTION_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Most rows of one transaction.
pub const TRANSACTION_ROWS_MAX: usize = 20_000;

/// What a row costs beside its key, coordinate and content.
const ROW_OVERHEAD_BYTES: usize = 64;

/// One change of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes the row, whatever was there.
    Upsert(Row),
    /// Removes the row, if it is there.
    Delete,
}

/// Changes of one ledger, at most one for each row: all are applied, or none is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    changes: Vec<(Coordinate, Change)>,
    content_bytes: usize,
}

/// A transaction goes beyond what a store takes.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the event changes {rows} rows, {bytes} bytes in all; at most {TRANSACTION_ROWS_MAX} rows and \
     {TRANSACTION_BYTES_MAX} bytes go into one write: write less in one event, or publish a part of \
     it earlier with `commit`"
)]
pub struct TransactionTooLarge {
    /// Its rows.
    pub rows: usize,
    /// Its bytes.
    pub bytes: usize,
}

impl Transaction {
    /// Adds a change. A row may be changed once only.
    pub fn push(&mut self, coordinate: Coordinate, change: Change) {
        debug_assert!(
            self.changes
                .iter()
                .rev()
                .take(8)
                .all(|(known, _)| *known != coordinate)
        );
        self.content_bytes += coordinate.weight();
        if let Change::Upsert(row) = &change {
            self.content_bytes += row.content.len();
        }
        self.changes.push((coordinate, change));
    }

    /// Writes a row.
    pub fn upsert(&mut self, coordinate: Coordinate, row: Row) {
        self.push(coordinate, Change::Upsert(row));
    }

    /// Removes a row.
    pub fn delete(&mut self, coordinate: Coordinate) {
        self.push(coordinate, Change::Delete);
    }

    /// The changes.
    pub fn changes(&self) -> &[(Coordinate, Change)] {
        &self.changes
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Rows that it changes.
    pub fn rows(&self) -> usize {
        self.changes.len()
    }

    /// Its size under a key of `key_bytes`: key, coordinate, content and 64 bytes for each row.
    pub fn bytes(&self, key_bytes: usize) -> usize {
        self.content_bytes + self.rows() * (key_bytes + ROW_OVERHEAD_BYTES)
    }

    /// Refuses what no store would take.
    pub fn check_size(&self, key_bytes: usize) -> Result<(), TransactionTooLarge> {
        let (rows, bytes) = (self.rows(), self.bytes(key_bytes));
        if rows > TRANSACTION_ROWS_MAX || bytes > TRANSACTION_BYTES_MAX {
            return Err(TransactionTooLarge { rows, bytes });
        }
        Ok(())
    }

    /// The changes, given away.
    pub fn into_changes(self) -> Vec<(Coordinate, Change)> {
        self.changes
    }

    /// Applies the changes to rows in memory.
    pub fn apply_to(&self, rows: &mut Rows) {
        for (coordinate, change) in &self.changes {
            match change {
                Change::Upsert(row) => rows.insert(coordinate.clone(), row.clone()),
                Change::Delete => rows.remove(coordinate),
            };
        }
    }
}
