//! One attempt at handling an event: what a handler sees, and what it changes.
//!
//! An attempt lives in two worlds. The journey made it and waits for its end; the handler, in
//! another thread, reads and writes state through it. Reads are answered from the hydrated ledger
//! under the attempt's own changes, so they need not wait.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use futures::future::{BoxFuture, poll_fn};
use futures::task::AtomicWaker;
use thiserror::Error;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::consumer::Assignment;
use crate::event::Event;
use crate::ledger::{Change, Coordinate, LedgerKey, Row, Transaction, decode_item, encode_item};
use crate::ledger_writer::{LedgerWriter, WriteError};
use crate::outcome::Outcome;
use crate::sync::Mutex;

/// Most bytes of one encoded item.
pub const ITEM_BYTES_MAX: usize = 1024 * 1024;

/// A state call did not succeed. All of these are transient for the handler.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StateError {
    /// The attempt that the handle belongs to is over.
    #[error("handle outlived its event: state can be used only while its handler runs")]
    Outlived,
    /// The item is larger than one item may be.
    #[error(
        "item of collection {collection:?} is {bytes} bytes as JSON, at most {ITEM_BYTES_MAX}: \
         split it, or keep it elsewhere and store where it is"
    )]
    ItemTooLarge {
        /// The collection.
        collection: Arc<str>,
        /// The item's size.
        bytes: usize,
    },
    /// The write was not applied.
    #[error("collection {collection:?} was not committed: {reason}")]
    NotCommitted {
        /// The collection.
        collection: Arc<str>,
        /// Why.
        reason: String,
    },
    /// What the store holds cannot be read.
    #[error("collection {collection:?} cannot be read: {reason}")]
    Unreadable {
        /// The collection.
        collection: Arc<str>,
        /// Why.
        reason: String,
    },
}

/// Why a handler is asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelReason {
    /// It ran longer than `timeout`.
    Deadline,
    /// Its partition is to be given up, by a rebalance or a shutdown.
    Drain,
}

const RUNNING: u8 = 0;
const CANCELLED_BY_DEADLINE: u8 = 1;
const CANCELLED_BY_DRAIN: u8 = 2;

#[derive(Debug, Default)]
enum End {
    #[default]
    Open,
    Reported(Outcome),
    Abandoned,
    Taken,
}

/// One attempt at handling an event.
pub struct Attempt {
    event: Arc<Event>,
    number: u32,
    assignment: Arc<Assignment>,
    ledger: Option<Arc<LedgerWriter>>,
    /// Changes that are bound to the attempt's success.
    overlay: Mutex<BTreeMap<Coordinate, Change>>,
    /// Commits of collections that were begun and have no known outcome yet.
    publishing: Mutex<usize>,
    published: Notify,
    begun: OnceLock<Instant>,
    cancellation: AtomicU8,
    stopped: AtomicBool,
    cancelled: Notify,
    end: Mutex<End>,
    ended: AtomicWaker,
}

impl Attempt {
    pub(crate) fn new(
        event: Arc<Event>,
        number: u32,
        assignment: Arc<Assignment>,
        ledger: Option<Arc<LedgerWriter>>,
    ) -> Self {
        Self {
            event,
            number,
            assignment,
            ledger,
            overlay: Mutex::default(),
            publishing: Mutex::default(),
            published: Notify::new(),
            begun: OnceLock::new(),
            cancellation: AtomicU8::new(RUNNING),
            stopped: AtomicBool::new(false),
            cancelled: Notify::new(),
            end: Mutex::default(),
            ended: AtomicWaker::new(),
        }
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The event, to be held beyond the attempt.
    pub fn shared_event(&self) -> Arc<Event> {
        Arc::clone(&self.event)
    }

    /// 0 for the first attempt.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether the event has a key, and so a ledger with state.
    pub fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    /// Says that the handler starts now. `false`: it must not, and the attempt is over.
    pub fn begin(&self) -> bool {
        if self.should_cancel() {
            self.finish(Outcome::Stopped);
            return false;
        }
        self.begun.get_or_init(Instant::now);
        true
    }

    /// Whether the handler has started.
    pub fn has_begun(&self) -> bool {
        self.begun.get().is_some()
    }

    /// When the handler started.
    pub(crate) fn begun_at(&self) -> Option<Instant> {
        self.begun.get().copied()
    }

    /// Whether the handler should come to an end: deadline, revocation or shutdown.
    pub fn should_cancel(&self) -> bool {
        self.cancellation.load(Ordering::Acquire) != RUNNING
    }

    /// Why it should, if so.
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        match self.cancellation.load(Ordering::Acquire) {
            CANCELLED_BY_DEADLINE => Some(CancelReason::Deadline),
            CANCELLED_BY_DRAIN => Some(CancelReason::Drain),
            _ => None,
        }
    }

    /// Waits until the handler should come to an end, or has.
    pub async fn cancelled(&self) {
        let mut notified = std::pin::pin!(self.cancelled.notified());
        loop {
            notified.as_mut().enable();
            if self.should_cancel() || self.is_over() {
                return;
            }
            notified.as_mut().await;
            notified.set(self.cancelled.notified());
        }
    }

    /// Notes that its handler is interrupted: what it raises from now on may come of that.
    pub(crate) fn note_stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn was_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn cancel(&self, reason: CancelReason) {
        let code = match reason {
            CancelReason::Deadline => CANCELLED_BY_DEADLINE,
            CancelReason::Drain => CANCELLED_BY_DRAIN,
        };
        // A drain outweighs a deadline: the event is handled again by the next owner.
        self.cancellation.fetch_max(code, Ordering::AcqRel);
        self.cancelled.notify_waiters();
    }

    /// Reports how the handler ended. Only the first report counts; one that comes after the
    /// partition was given up changes nothing.
    pub fn finish(&self, outcome: Outcome) {
        let mut end = self.end.lock();
        if matches!(*end, End::Open) {
            *end = End::Reported(outcome);
        }
        drop(end);
        self.ended.wake();
        self.cancelled.notify_waiters();
        self.assignment.attempt_ended(self);
    }

    pub(crate) fn abandon(&self) {
        let mut end = self.end.lock();
        if matches!(*end, End::Open) {
            *end = End::Abandoned;
        }
        drop(end);
        self.ended.wake();
        self.cancelled.notify_waiters();
    }

    /// Whether the handler has ended or was given up on.
    pub fn is_over(&self) -> bool {
        !matches!(*self.end.lock(), End::Open)
    }

    /// Waits for the handler's end. `None`: the partition was given up before.
    pub(crate) async fn outcome(&self) -> Option<Outcome> {
        poll_fn(|context| {
            self.ended.register(context.waker());
            let mut end = self.end.lock();
            match std::mem::replace(&mut *end, End::Taken) {
                End::Open => {
                    *end = End::Open;
                    Poll::Pending
                }
                End::Reported(outcome) => Poll::Ready(Some(outcome)),
                End::Abandoned | End::Taken => Poll::Ready(None),
            }
        })
        .await
    }

    /// Waits until every commit that the handler began has a known outcome.
    pub(crate) async fn publications_known(&self) {
        let mut notified = std::pin::pin!(self.published.notified());
        loop {
            notified.as_mut().enable();
            if *self.publishing.lock() == 0 {
                return;
            }
            notified.as_mut().await;
            notified.set(self.published.notified());
        }
    }

    /// What the attempt changed and has not published, as a transaction in the making.
    pub(crate) fn take_changes(&self) -> Transaction {
        let mut transaction = Transaction::default();
        for (coordinate, change) in std::mem::take(&mut *self.overlay.lock()) {
            transaction.push(coordinate, change);
        }
        transaction
    }

    fn open_ledger(&self) -> Result<&Arc<LedgerWriter>, StateError> {
        let ledger = self.ledger.as_ref().ok_or(StateError::Outlived)?;
        if self.is_over() {
            return Err(StateError::Outlived);
        }
        Ok(ledger)
    }

    /// Reads a cell as this attempt sees it.
    pub fn read(&self, cell: &Coordinate) -> Result<Option<Bytes>, StateError> {
        let ledger = self.open_ledger()?;
        let own = self.overlay.lock().get(cell).map(|change| match change {
            Change::Upsert(row) => Some(row.content.clone()),
            Change::Delete => None,
        });
        let Some(row) = own.unwrap_or_else(|| ledger.read(cell)) else {
            return Ok(None);
        };
        let item = decode_item(&row).map_err(|error| StateError::Unreadable {
            collection: collection_of(cell),
            reason: error.to_string(),
        })?;
        Ok(Some(item))
    }

    /// Writes a cell, bound to the attempt's success.
    pub fn write(&self, cell: Coordinate, item: &[u8]) -> Result<(), StateError> {
        self.open_ledger()?;
        if item.len() > ITEM_BYTES_MAX {
            return Err(StateError::ItemTooLarge {
                collection: collection_of(&cell),
                bytes: item.len(),
            });
        }
        let row = Row::lasting(encode_item(item));
        self.overlay.lock().insert(cell, Change::Upsert(row));
        Ok(())
    }

    /// Removes a cell, bound to the attempt's success.
    pub fn remove(&self, cell: Coordinate) -> Result<(), StateError> {
        self.open_ledger()?;
        self.overlay.lock().insert(cell, Change::Delete);
        Ok(())
    }

    /// Drops what a collection has changed since its last commit.
    pub fn rollback(&self, collection: &str) -> Result<(), StateError> {
        self.open_ledger()?;
        self.overlay
            .lock()
            .retain(|cell, _| !belongs(cell, collection));
        Ok(())
    }

    /// Publishes what a collection has changed, at once and whatever becomes of the attempt.
    ///
    /// The future must be driven to its end: the key's next attempt waits for it.
    pub fn publish(
        self: &Arc<Self>,
        collection: Arc<str>,
    ) -> Result<BoxFuture<'static, Result<(), StateError>>, StateError> {
        let ledger = Arc::clone(self.open_ledger()?);
        let mut transaction = Transaction::default();
        for (cell, change) in &*self.overlay.lock() {
            if belongs(cell, &collection) {
                transaction.push(cell.clone(), change.clone());
            }
        }
        *self.publishing.lock() += 1;
        let turn = ledger.turn();
        let publication = Publication(Arc::clone(self));
        Ok(Box::pin(async move {
            let attempt = &publication.0;
            if transaction.is_empty() {
                return Ok(());
            }
            match ledger
                .commit(&attempt.assignment, turn, transaction.clone())
                .await
            {
                Ok(()) => {
                    attempt.forget_published(&transaction);
                    Ok(())
                }
                Err(WriteError::Refused(reason)) => {
                    Err(StateError::NotCommitted { collection, reason })
                }
                Err(WriteError::Ended) => Err(StateError::NotCommitted {
                    collection,
                    reason: "the partition was given up".to_owned(),
                }),
            }
        }))
    }

    fn forget_published(&self, transaction: &Transaction) {
        let mut overlay = self.overlay.lock();
        for (cell, change) in transaction.changes() {
            // What was written again meanwhile is newer, and stays bound to success.
            if overlay.get(cell) == Some(change) {
                overlay.remove(cell);
            }
        }
    }

    /// The ledger's name, if the event has a key.
    pub fn ledger_key(&self) -> Option<&LedgerKey> {
        self.ledger.as_deref().map(LedgerWriter::key)
    }
}

/// A commit under way; its end, however it comes, is counted.
struct Publication(Arc<Attempt>);

impl Drop for Publication {
    fn drop(&mut self) {
        *self.0.publishing.lock() -= 1;
        self.0.published.notify_waiters();
    }
}

fn belongs(cell: &Coordinate, collection: &str) -> bool {
    matches!(cell, Coordinate::Cell { collection: name, .. } if **name == *collection)
}

fn collection_of(cell: &Coordinate) -> Arc<str> {
    match cell {
        Coordinate::Cell { collection, .. } => Arc::clone(collection),
        Coordinate::Meta | Coordinate::Mark(_) => "".into(),
    }
}
