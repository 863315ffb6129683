//! Ledgers in this process's memory, gone when their partition is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::{CommitError, Store, StoreError};
use crate::event::Key;
use crate::ledger::{Claim, LedgerKey, LedgerPartition, Rows, Transaction};
use crate::record::Generation;
use crate::sync::Mutex;

/// The store of mock mode and of `store: :memory`.
#[derive(Debug, Default)]
pub struct MemoryStore {
    partitions: Mutex<HashMap<LedgerPartition, Partition, foldhash::fast::RandomState>>,
    claims: AtomicU64,
}

#[derive(Debug)]
struct Partition {
    claim: Claim,
    ledgers: HashMap<Key, Rows, foldhash::fast::RandomState>,
}

impl MemoryStore {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn claim_now(&self, partition: &LedgerPartition, generation: Generation) -> Claim {
        let id = self.claims.fetch_add(1, Ordering::Relaxed);
        let claim = Claim { generation, id };
        let mut partitions = self.partitions.lock();
        let ledgers = partitions.remove(partition).map(|former| former.ledgers);
        let ledgers = ledgers.unwrap_or_default();
        partitions.insert(partition.clone(), Partition { claim, ledgers });
        claim
    }

    fn release_now(&self, partition: &LedgerPartition, claim: Claim) -> Result<(), StoreError> {
        let mut partitions = self.partitions.lock();
        match partitions.get(partition) {
            Some(present) if present.claim == claim => {
                partitions.remove(partition);
                Ok(())
            }
            _ => Err(StoreError::Ended),
        }
    }

    fn hydrate_now(&self, ledger: &LedgerKey, claim: Claim) -> Result<Rows, StoreError> {
        match self.partitions.lock().get(&ledger.partition) {
            Some(present) if present.claim == claim => Ok(present
                .ledgers
                .get(&ledger.key)
                .cloned()
                .unwrap_or_default()),
            _ => Err(StoreError::Ended),
        }
    }

    fn commit_now(
        &self,
        ledger: &LedgerKey,
        claim: Claim,
        transaction: &Transaction,
    ) -> Result<(), CommitError> {
        let size = transaction.check_size(ledger.key.bytes().len());
        size.map_err(|error| CommitError::Refused(error.to_string()))?;
        match self.partitions.lock().get_mut(&ledger.partition) {
            Some(present) if present.claim == claim => {
                let ledgers = &mut present.ledgers;
                if let Some(rows) = ledgers.get_mut(&ledger.key) {
                    transaction.apply_to(rows);
                } else {
                    let rows = ledgers.entry(ledger.key.clone()).or_default();
                    transaction.apply_to(rows);
                }
                Ok(())
            }
            _ => Err(CommitError::Ended),
        }
    }
}

impl Store for MemoryStore {
    fn claim<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>> {
        ready(Ok(self.claim_now(partition, generation))).boxed()
    }

    fn release<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        claim: Claim,
        _clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(self.release_now(partition, claim)).boxed()
    }

    fn hydrate<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>> {
        ready(self.hydrate_now(ledger, claim)).boxed()
    }

    fn commit<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
        transaction: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), CommitError>> {
        ready(self.commit_now(ledger, claim, transaction)).boxed()
    }
}
