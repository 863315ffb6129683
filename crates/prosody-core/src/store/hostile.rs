//! A store for tests: every call suspends, every tenth fails, before or after it was applied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{CommitError, Store, StoreError};
use crate::backoff::Randomness;
use crate::ledger::{Claim, LedgerKey, LedgerPartition, Rows, Transaction};
use crate::record::Generation;

/// Wraps a store and makes trouble, the same for the same seed and order of calls.
pub struct HostileStore {
    store: Arc<dyn Store>,
    randomness: Randomness,
    calls: AtomicU64,
    failures: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    Before,
    After,
}

impl HostileStore {
    /// Wraps a store.
    pub fn new(store: Arc<dyn Store>, randomness: Randomness) -> Self {
        Self {
            store,
            randomness,
            calls: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Calls so far, and how many of them failed.
    pub fn counts(&self) -> (u64, u64) {
        let (calls, failures) = (&self.calls, &self.failures);
        (
            calls.load(Ordering::Relaxed),
            failures.load(Ordering::Relaxed),
        )
    }

    async fn suspend(&self) -> Trouble {
        tokio::task::yield_now().await;
        if self.calls.fetch_add(1, Ordering::Relaxed) % 10 != 9 {
            return Trouble::None;
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        if self.randomness.fraction() < 0.5 {
            Trouble::Before
        } else {
            Trouble::After
        }
    }
}

fn unavailable() -> StoreError {
    StoreError::Unavailable("hostile store".to_owned())
}

impl Store for HostileStore {
    fn claim<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>> {
        async move {
            let trouble = self.suspend().await;
            if trouble == Trouble::Before {
                return Err(unavailable());
            }
            let claim = self.store.claim(partition, generation).await?;
            if trouble == Trouble::After {
                return Err(unavailable());
            }
            Ok(claim)
        }
        .boxed()
    }

    fn release<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        claim: Claim,
        clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            if self.suspend().await == Trouble::Before {
                return Err(unavailable());
            }
            self.store.release(partition, claim, clean).await
        }
        .boxed()
    }

    fn hydrate<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>> {
        async move {
            if self.suspend().await != Trouble::None {
                return Err(unavailable());
            }
            self.store.hydrate(ledger, claim).await
        }
        .boxed()
    }

    fn commit<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
        transaction: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), CommitError>> {
        async move {
            let trouble = self.suspend().await;
            let unknown = Err(CommitError::Unknown("hostile store".to_owned()));
            if trouble == Trouble::Before {
                return unknown;
            }
            self.store.commit(ledger, claim, transaction).await?;
            tokio::task::yield_now().await;
            if trouble == Trouble::After {
                unknown
            } else {
                Ok(())
            }
        }
        .boxed()
    }
}
