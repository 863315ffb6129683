//! One assignment of one partition, as everything that belongs to it sees it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::attempt::{Attempt, CancelReason};
use crate::event::Event;
use crate::handler::Handler;
use crate::ledger::{Claim, LedgerPartition};
use crate::record::{Generation, TopicId, TopicPartition};
use crate::sync::Mutex;

/// How far an assignment is. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Events are handled.
    Active,
    /// No handler starts any more; running ones may end, and be committed.
    Draining,
    /// Nothing is written any more.
    Ended,
}

/// The time from when a partition was given to this member until it is given up.
pub struct Assignment {
    partition: LedgerPartition,
    generation: Generation,
    topic_id: TopicId,
    claim: OnceLock<Claim>,
    phase: watch::Sender<Phase>,
    /// Attempts whose handler has not ended, abandoned ones included, by address.
    attempts: Mutex<HashMap<usize, Arc<Attempt>, foldhash::fast::RandomState>>,
    attempt_ended: Notify,
}

impl Assignment {
    pub(crate) fn new(
        partition: LedgerPartition,
        generation: Generation,
        topic_id: TopicId,
    ) -> Self {
        Self {
            partition,
            generation,
            topic_id,
            claim: OnceLock::new(),
            phase: watch::Sender::new(Phase::Active),
            attempts: Mutex::default(),
            attempt_ended: Notify::new(),
        }
    }

    pub(crate) fn partition(&self) -> &LedgerPartition {
        &self.partition
    }

    /// The partition.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.partition.topic_partition
    }

    pub(crate) fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    pub(crate) fn claim(&self) -> Option<Claim> {
        self.claim.get().copied()
    }

    pub(crate) fn set_claim(&self, claim: Claim) {
        // Claimed once: a second claim would be another assignment.
        let _ = self.claim.set(claim);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.phase.borrow() >= Phase::Draining
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.phase.borrow() == Phase::Ended
    }

    /// Waits until no handler may start any more.
    pub(crate) async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Waits until nothing may be written any more.
    pub(crate) async fn ended(&self) {
        self.reached(Phase::Ended).await;
    }

    async fn reached(&self, phase: Phase) {
        // Fails only if the sender is gone, and `self` holds it.
        let _ = self.phase.subscribe().wait_for(|now| *now >= phase).await;
    }

    /// Lets no handler start any more, and tells the running ones.
    pub(crate) fn begin_drain(&self) {
        self.phase
            .send_modify(|phase| *phase = (*phase).max(Phase::Draining));
        for attempt in self.running_attempts() {
            attempt.cancel(CancelReason::Drain);
        }
    }

    /// Interrupts the handlers that still run.
    pub(crate) fn stop_handlers(&self, handler: &dyn Handler) {
        for attempt in self.running_attempts() {
            attempt.note_stop();
            handler.stop(&attempt);
        }
    }

    /// Ends the assignment: what its handlers still do changes nothing.
    pub(crate) fn end(&self) {
        self.begin_drain();
        self.phase.send_replace(Phase::Ended);
        for attempt in self.running_attempts() {
            attempt.abandon();
        }
    }

    /// In the order of the log, so that a simulation takes the same course each time.
    fn running_attempts(&self) -> Vec<Arc<Attempt>> {
        let mut running: Vec<_> = self.attempts.lock().values().cloned().collect();
        running.sort_by_key(|attempt| {
            let Event::Message(message) = attempt.event();
            message.record.offset
        });
        running
    }

    pub(crate) fn attempt_started(&self, attempt: &Arc<Attempt>) {
        let address = Arc::as_ptr(attempt) as usize;
        self.attempts.lock().insert(address, Arc::clone(attempt));
    }

    pub(crate) fn attempt_ended(&self, attempt: &Attempt) {
        let address = std::ptr::from_ref(attempt) as usize;
        self.attempts.lock().remove(&address);
        self.attempt_ended.notify_waiters();
    }

    /// Since when a handler of this event runs.
    pub(crate) fn running_since(&self, event: &Event) -> Option<Instant> {
        let attempts = self.attempts.lock();
        let attempt = attempts
            .values()
            .find(|attempt| std::ptr::eq(attempt.event(), event))?;
        attempt.begun_at()
    }

    /// Handlers that have not ended.
    pub(crate) fn running(&self) -> usize {
        self.attempts.lock().len()
    }

    /// Waits until no handler of it runs, whatever became of their outcomes.
    pub(crate) async fn idle(&self) {
        let mut notified = std::pin::pin!(self.attempt_ended.notified());
        loop {
            notified.as_mut().enable();
            if self.running() == 0 {
                return;
            }
            notified.as_mut().await;
            notified.set(self.attempt_ended.notified());
        }
    }
}
