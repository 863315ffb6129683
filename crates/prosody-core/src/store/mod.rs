//! What prosody needs of a store of ledgers.
//!
//! A store knows rows, not what they mean. An assignment claims its partition, hydrates ledgers
//! under the claim, commits one transaction for each event, and releases the claim at the end.
//! Paged reads and the index of wake-ups join the trait with the features that need them.

pub mod hostile;
mod memory;

use futures::future::BoxFuture;
use thiserror::Error;

pub use memory::MemoryStore;

use crate::ledger::{Claim, LedgerKey, LedgerPartition, Rows, Transaction};
use crate::record::Generation;

/// A read, a claim or a release did not succeed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StoreError {
    /// It may succeed when it is tried again.
    #[error("store does not answer: {0}")]
    Unavailable(String),
    /// The claim is not the partition's present one.
    #[error("the assignment has ended")]
    Ended,
}

/// A transaction was not, or not knowingly, applied.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CommitError {
    /// It may have been applied or not. Sending it again is free of effects.
    #[error("outcome of a write is unknown: {0}")]
    Unknown(String),
    /// The store does not take it for what it is; nothing was applied.
    #[error("store refuses a write: {0}")]
    Refused(String),
    /// The claim is not the partition's present one; nothing was applied.
    #[error("the assignment has ended")]
    Ended,
}

/// A store of ledgers.
///
/// Futures may be dropped at any time: a write that was begun is applied as a whole or not at all.
pub trait Store: Send + Sync + 'static {
    /// Makes an assignment the owner of a partition's ledgers. Earlier claims end.
    fn claim<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>>;

    /// Ends a claim. `clean`: every write under it has a known outcome.
    fn release<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        claim: Claim,
        clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Reads a whole ledger. A ledger that was never written has no rows; a read that fails is an
    /// error, never an empty ledger.
    fn hydrate<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>>;

    /// Applies all changes, or none.
    fn commit<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
        transaction: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), CommitError>>;
}
