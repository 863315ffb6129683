//! The one way into a hydrated ledger: every write is sent until its outcome is known, and only
//! then seen by reads.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::sync::OwnedMutexGuard;
use tracing::{error, warn};

use crate::backoff::{Backoff, Randomness};
use crate::clock::Clock;
use crate::consumer::Assignment;
use crate::ledger::{Coordinate, Ledger, LedgerKey, Transaction};
use crate::record::TopicPartition;
use crate::store::{CommitError, Store};
use crate::sync::Mutex;

/// What every ledger of a consumer needs.
pub(crate) struct LedgerRoom {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub randomness: Randomness,
    pub backoff: Backoff,
}

/// A write whose outcome is known, and is not success.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum WriteError {
    #[error("{0}")]
    Refused(String),
    #[error("the assignment has ended")]
    Ended,
}

/// A hydrated ledger of an assignment.
pub(crate) struct LedgerWriter {
    key: LedgerKey,
    room: Arc<LedgerRoom>,
    ledger: Mutex<Ledger>,
    /// Held by the write under way: one that is sent again must not overtake a later one.
    turns: Arc<tokio::sync::Mutex<()>>,
    /// Of the event that is under way, for the log.
    offset: AtomicI64,
}

/// A place in the order of a ledger's writes.
pub(crate) enum Turn {
    Now(OwnedMutexGuard<()>),
    Later(BoxFuture<'static, OwnedMutexGuard<()>>),
}

impl LedgerWriter {
    pub(crate) fn new(key: LedgerKey, room: Arc<LedgerRoom>, ledger: Ledger) -> Self {
        Self {
            key,
            room,
            ledger: Mutex::new(ledger),
            turns: Arc::default(),
            offset: AtomicI64::new(-1),
        }
    }

    /// Notes that an event's journey goes on with this ledger.
    pub(crate) fn attend(&self, offset: i64) {
        self.offset.store(offset, Ordering::Relaxed);
    }

    pub(crate) fn key(&self) -> &LedgerKey {
        &self.key
    }

    /// A cell's content as committed.
    pub(crate) fn read(&self, cell: &Coordinate) -> Option<Bytes> {
        let now_ms = self.room.clock.now_ms();
        let ledger = self.ledger.lock();
        ledger.cell(cell, now_ms).map(|row| row.content.clone())
    }

    /// Looks at the ledger as committed.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.ledger.lock())
    }

    /// Takes the next place in the order of writes, now.
    pub(crate) fn turn(&self) -> Turn {
        if let Ok(turn) = Arc::clone(&self.turns).try_lock_owned() {
            return Turn::Now(turn);
        }
        let mut turn = Arc::clone(&self.turns).lock_owned().boxed();
        // The first poll takes the place, whoever is polled first later.
        match tokio::task::unconstrained(&mut turn).now_or_never() {
            Some(taken) => Turn::Now(taken),
            None => Turn::Later(turn),
        }
    }

    /// Commits a transaction: sends the same rows again until the outcome is known, or until the
    /// assignment ends.
    pub(crate) async fn commit(
        &self,
        assignment: &Assignment,
        turn: Turn,
        transaction: Transaction,
    ) -> Result<(), WriteError> {
        let size = transaction.check_size(self.key.key.bytes().len());
        size.map_err(|error| WriteError::Refused(error.to_string()))?;
        tokio::select! {
            biased;
            () = assignment.ended() => Err(WriteError::Ended),
            result = self.commit_in_turn(assignment, turn, transaction) => result,
        }
    }

    async fn commit_in_turn(
        &self,
        assignment: &Assignment,
        turn: Turn,
        transaction: Transaction,
    ) -> Result<(), WriteError> {
        let _turn = match turn {
            Turn::Now(turn) => turn,
            Turn::Later(turn) => turn.await,
        };
        let claim = assignment.claim().ok_or(WriteError::Ended)?;
        let mut tries = 0;
        loop {
            match self.room.store.commit(&self.key, claim, &transaction).await {
                Ok(()) => return self.repeat_here(transaction),
                Err(CommitError::Refused(reason)) => return Err(WriteError::Refused(reason)),
                Err(CommitError::Ended) => return Err(WriteError::Ended),
                Err(CommitError::Unknown(reason)) => {
                    if tries == 0 {
                        warn!(
                            "a write has no known outcome yet, it is sent again: {reason} {self}"
                        );
                    }
                    let delay = self.room.backoff.delay(tries, &self.room.randomness);
                    tries += 1;
                    tokio::time::sleep(delay).await;
                }
            }
        }
    }

    fn repeat_here(&self, transaction: Transaction) -> Result<(), WriteError> {
        // Only rows that were encoded here are applied, so this cannot fail.
        self.ledger.lock().apply(transaction).map_err(|error| {
            error!("a ledger does not read what it wrote: {error} {self}");
            WriteError::Ended
        })
    }
}

/// Where the event under way stands, as log lines have it.
impl fmt::Display for LedgerWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LedgerKey { partition, key } = &self.key;
        let TopicPartition { topic, partition } = &partition.topic_partition;
        let offset = self.offset.load(Ordering::Relaxed);
        write!(
            f,
            "topic={topic} partition={partition} offset={offset} key={:?}",
            key.as_str()
        )
    }
}
