//! An event's journey, from the record that was polled to the offset that may be committed.
//!
//! ```text
//!  1 poll         the consumer takes a batch from the log       (consumer)
//!  2 decode       what the journey needs of the raw bytes       Journey::arrive
//!  3 filter       own messages, types that are not wanted       Journey::arrive
//!  4 queue        one event of a key at a time                  (consumer::partition)
//!  5 hydrate      the key's ledger; handled before?             Journey::hydrate, duplicate
//!  6 deferred?    joins the queue of a key that waits           comes with quality of service
//!  7 monopoly?    refuses a key that takes all the time         comes with quality of service
//!  8 permit       one of `max_concurrency`, first come          Journey::permit
//!  9 handler      with deadline and cancellation                Journey::handle
//! 10 outcome      commit; or retry in place, or log and go on   Journey::settle
//! 11 watermark    the partition's contiguous offset moves on    (consumer::tracker)
//! ```
//!
//! Steps 1, 4 and 11 belong to the consumer, which starts one journey for each event and is told
//! its [`Ending`]. Timers and retries will enter at 4.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, error, warn};

use crate::attempt::{Attempt, CancelReason};
use crate::consumer::{Assignment, ConsumerSettings};
use crate::decode::{self, DecodeOptions, Decoded};
use crate::duplicates::DuplicateNotices;
use crate::event::{Event, Key, Message};
use crate::failure_report::{report_done, report_retry};
use crate::handler::Handler;
use crate::ledger::{Duplicate, Fingerprint, Ledger, LedgerKey, Position, Transaction};
use crate::ledger_cache::LedgerCache;
use crate::ledger_writer::{LedgerRoom, LedgerWriter, WriteError};
use crate::outcome::{Consequence, Failure, FailureClass, Outcome, consequence};
use crate::record::Record;
use crate::store::StoreError;

/// The header by which a service knows its own messages.
pub const SOURCE_SYSTEM_HEADER: &[u8] = b"source-system";

/// How an event's journey ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its offset is done.
    Done,
    /// The partition is given up first: the next owner handles it.
    Unfinished,
    /// As `Unfinished`, and its handler asked the process to exit.
    Exit,
}

/// The road on which all events of a consumer travel.
pub(crate) struct Journey {
    settings: ConsumerSettings,
    decode_options: DecodeOptions,
    room: Arc<LedgerRoom>,
    ledgers: LedgerCache,
    permits: Semaphore,
    handler: Arc<dyn Handler>,
    notices: DuplicateNotices,
}

impl Journey {
    pub(crate) fn new(
        settings: ConsumerSettings,
        room: Arc<LedgerRoom>,
        handler: Arc<dyn Handler>,
    ) -> Self {
        let decode_options = DecodeOptions {
            id_field: settings.idempotence_field.clone(),
            type_wanted: settings.allowed_events.is_some(),
        };
        Self {
            decode_options,
            ledgers: LedgerCache::new(settings.state_cache_size_bytes, &room.randomness),
            permits: Semaphore::new(settings.max_concurrency),
            notices: DuplicateNotices::default(),
            settings,
            room,
            handler,
        }
    }

    pub(crate) fn handler(&self) -> &dyn Handler {
        &*self.handler
    }

    pub(crate) fn room(&self) -> Arc<LedgerRoom> {
        Arc::clone(&self.room)
    }

    pub(crate) fn forget(&self, assignment: &Assignment) {
        self.ledgers
            .forget(assignment.generation(), assignment.topic_partition());
    }

    /// Steps 2 and 3. `None`: filtered out, done without a trace.
    pub(crate) fn arrive(&self, record: Record, assignment: &Assignment) -> Option<Arc<Event>> {
        if self.is_own_message(&record) {
            return None;
        }
        let position = Position {
            topic_id: assignment.topic_id(),
            leader_epoch: record.leader_epoch,
            offset: record.offset,
        };
        let mut fingerprint = Fingerprint { position, id: None };
        let undecodable = match decode::decode(&record, &self.decode_options) {
            Ok(decoded) if !self.is_allowed(&decoded) => return None,
            Ok(decoded) => {
                fingerprint.id = self.id_hashes(&record, &decoded);
                None
            }
            Err(undecodable) => Some(undecodable),
        };
        Some(Arc::new(Event::Message(Message {
            key: key_of(&record),
            record,
            fingerprint,
            undecodable,
        })))
    }

    fn is_own_message(&self, record: &Record) -> bool {
        let source = record.headers.last(SOURCE_SYSTEM_HEADER).flatten();
        source.is_some_and(|source| **source == *self.settings.group_id.as_bytes())
    }

    fn is_allowed(&self, decoded: &Decoded<'_>) -> bool {
        let (Some(allowed), Some(event_type)) =
            (&self.settings.allowed_events, &decoded.event_type)
        else {
            return true;
        };
        allowed
            .iter()
            .any(|prefix| event_type.starts_with(&**prefix))
    }

    fn id_hashes(&self, record: &Record, decoded: &Decoded<'_>) -> Option<(u128, u64)> {
        let id = decoded.id.as_ref()?;
        let hash = decode::mark_hash(&self.settings.idempotence_version, id);
        let payload = record.payload.as_deref().unwrap_or_default();
        Some((hash, decode::content_hash(payload)))
    }

    /// Steps 5 to 10.
    pub(crate) async fn travel(&self, assignment: &Arc<Assignment>, event: Arc<Event>) -> Ending {
        let Event::Message(message) = &*event;
        let ledger = match &message.key {
            None => None,
            Some(key) => match self.hydrate(assignment, message, key).await {
                Some(ledger) => {
                    ledger.attend(message.record.offset);
                    Some(ledger)
                }
                None => return Ending::Unfinished,
            },
        };
        match ledger
            .as_deref()
            .and_then(|known| self.duplicate(message, known))
        {
            None => {}
            Some(Duplicate::Position) => return Ending::Done,
            Some(Duplicate::Id { .. }) => {
                return self
                    .settle_without_success(assignment, message, ledger.as_ref())
                    .await;
            }
        }
        if let Some(undecodable) = &message.undecodable {
            error!(
                "message does not decode, skipped as a permanent failure: {undecodable} {message}"
            );
            return self
                .settle_without_success(assignment, message, ledger.as_ref())
                .await;
        }
        self.attempts(assignment, &event, ledger.as_ref()).await
    }

    /// Step 5. `None`: the partition is given up first.
    async fn hydrate(
        &self,
        assignment: &Assignment,
        message: &Message,
        key: &Key,
    ) -> Option<Arc<LedgerWriter>> {
        if let Some(ledger) =
            self.ledgers
                .get(assignment.generation(), assignment.topic_partition(), key)
        {
            return Some(ledger);
        }
        let name = LedgerKey {
            partition: assignment.partition().clone(),
            key: key.detached(),
        };
        let mut tries = 0;
        loop {
            if assignment.is_draining() {
                return None;
            }
            let reason = match self.read_ledger(assignment, &name).await {
                Ok(ledger) => {
                    self.ledgers.insert(assignment.generation(), &ledger);
                    return Some(ledger);
                }
                Err(Unread::Ended) => return None,
                Err(Unread::Yet(reason)) => reason,
            };
            if tries == 0 {
                warn!("the state of a key cannot be read, its events wait: {reason} {message}");
            }
            let delay = self.room.backoff.delay(tries, &self.room.randomness);
            tries += 1;
            tokio::select! {
                biased;
                () = assignment.draining() => return None,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    async fn read_ledger(
        &self,
        assignment: &Assignment,
        name: &LedgerKey,
    ) -> Result<Arc<LedgerWriter>, Unread> {
        let Some(claim) = assignment.claim() else {
            return Err(Unread::Yet("the partition is not claimed".to_owned()));
        };
        let rows = self.room.store.hydrate(name, claim).await;
        let rows = rows.map_err(|error| match error {
            StoreError::Ended => Unread::Ended,
            StoreError::Unavailable(_) => Unread::Yet(error.to_string()),
        })?;
        let ledger = Ledger::from_rows(rows).map_err(|error| Unread::Yet(error.to_string()))?;
        let room = Arc::clone(&self.room);
        Ok(Arc::new(LedgerWriter::new(name.clone(), room, ledger)))
    }

    fn duplicate(&self, message: &Message, ledger: &LedgerWriter) -> Option<Duplicate> {
        let now_ms = self.room.clock.now_ms();
        let duplicate = ledger.with(|ledger| ledger.duplicate(&message.fingerprint, now_ms))?;
        debug!("duplicate, skipped: {duplicate:?} {message}");
        self.notices.notice(duplicate, message);
        Some(duplicate)
    }

    /// Steps 8 to 10, as often as it takes.
    async fn attempts(
        &self,
        assignment: &Arc<Assignment>,
        event: &Arc<Event>,
        ledger: Option<&Arc<LedgerWriter>>,
    ) -> Ending {
        let Event::Message(message) = &**event;
        let mut number = 0;
        loop {
            let attempt = Attempt::new(
                Arc::clone(event),
                number,
                Arc::clone(assignment),
                ledger.cloned(),
            );
            let attempt = Arc::new(attempt);
            let Some(outcome) = self.handle(assignment, &attempt).await else {
                return Ending::Unfinished;
            };
            let (failure, consequence) = match self.conclude(&attempt, outcome) {
                Conclusion::Success => {
                    match self.settle(assignment, message, ledger, &attempt).await {
                        Ok(ending) => return ending,
                        Err(failure) => {
                            let consequence = consequence(self.settings.mode, failure.class);
                            (failure, consequence)
                        }
                    }
                }
                Conclusion::Ended(ending) => return ending,
                Conclusion::Failed(failure, consequence) => (failure, consequence),
            };
            match consequence {
                Consequence::Done => {
                    report_done(message, &failure, number);
                    return self
                        .settle_without_success(assignment, message, ledger)
                        .await;
                }
                Consequence::RetryInPlace => {
                    let delay = self.settings.retry.delay(number, &self.room.randomness);
                    report_retry(message, &failure, number, delay);
                    tokio::select! {
                        biased;
                        () = assignment.draining() => return Ending::Unfinished,
                        () = tokio::time::sleep(delay) => {}
                    }
                    number = number.saturating_add(1);
                }
            }
        }
    }

    /// Step 8. `None`: the partition is given up first.
    async fn permit(&self, assignment: &Assignment) -> Option<SemaphorePermit<'_>> {
        if assignment.is_draining() {
            return None;
        }
        if let Ok(permit) = self.permits.try_acquire() {
            return Some(permit);
        }
        tokio::select! {
            biased;
            () = assignment.draining() => None,
            permit = self.permits.acquire() => permit.ok(),
        }
    }

    /// Steps 8 and 9. `None`: the partition is given up first.
    async fn handle(
        &self,
        assignment: &Arc<Assignment>,
        attempt: &Arc<Attempt>,
    ) -> Option<Outcome> {
        let _permit = self.permit(assignment).await?;
        assignment.attempt_started(attempt);
        self.handler.start(Arc::clone(attempt));
        let outcome = self.outcome_or_deadline(attempt).await?;
        tokio::select! {
            biased;
            () = attempt.publications_known() => Some(outcome),
            () = assignment.ended() => None,
        }
    }

    async fn outcome_or_deadline(&self, attempt: &Arc<Attempt>) -> Option<Outcome> {
        loop {
            // One that waits for its turn in Ruby has all of its time before it: looking again
            // after that time comes early enough.
            let begun = attempt.begun_at().unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                outcome = attempt.outcome() => return outcome,
                () = sleep_until(begun + self.settings.timeout) => {}
            }
            if attempt.begun_at() == Some(begun) {
                break;
            }
        }
        attempt.cancel(CancelReason::Deadline);
        attempt.note_stop();
        self.handler.stop(attempt);
        attempt.outcome().await
    }

    fn conclude(&self, attempt: &Attempt, outcome: Outcome) -> Conclusion {
        match (outcome, attempt.cancel_reason()) {
            (Outcome::Success, _) => Conclusion::Success,
            (Outcome::Exit, _) => Conclusion::Ended(Ending::Exit),
            // A handler may turn being stopped into an error of its own.
            (Outcome::Failed(failure), Some(reason)) if attempt.was_stopped() => {
                self.stopped(reason, &failure.message)
            }
            (Outcome::Failed(failure), _) => self.failed(failure),
            (Outcome::Stopped | Outcome::Interrupted, Some(reason)) => {
                self.stopped(reason, "its task has ended")
            }
            (Outcome::Stopped, None) => self.failed(transient(
                "handler's task was stopped, not by prosody".to_owned(),
            )),
            (Outcome::Interrupted, None) => {
                let failure = transient("the thread of the handlers has ended".to_owned());
                Conclusion::Failed(failure, Consequence::RetryInPlace)
            }
        }
    }

    fn stopped(&self, reason: CancelReason, how: &str) -> Conclusion {
        if reason == CancelReason::Drain {
            return Conclusion::Ended(Ending::Unfinished);
        }
        let seconds = self.settings.timeout.as_secs_f64();
        self.failed(transient(format!(
            "handler was stopped after timeout ({seconds} s): {how}"
        )))
    }

    fn failed(&self, failure: Failure) -> Conclusion {
        let consequence = consequence(self.settings.mode, failure.class);
        Conclusion::Failed(failure, consequence)
    }

    /// Step 10 of a handler that succeeded: all that it changed, and that it is handled, in one
    /// transaction. A store that refuses it makes the attempt a failure.
    async fn settle(
        &self,
        assignment: &Assignment,
        message: &Message,
        ledger: Option<&Arc<LedgerWriter>>,
        attempt: &Attempt,
    ) -> Result<Ending, Failure> {
        let Some(ledger) = ledger else {
            return Ok(Ending::Done);
        };
        let mut transaction = attempt.take_changes();
        let ttl_ms = i64::try_from(self.settings.idempotence_ttl.as_millis()).unwrap_or(i64::MAX);
        let expires_at_ms = self.room.clock.now_ms().saturating_add(ttl_ms);
        ledger.with(|known| {
            known.settle_handled(&mut transaction, &message.fingerprint, expires_at_ms);
        });
        let changes_weight = transaction.rows() > 1;
        match ledger.commit(assignment, ledger.turn(), transaction).await {
            Ok(()) => {
                if changes_weight {
                    self.ledgers.insert(assignment.generation(), ledger);
                }
                Ok(Ending::Done)
            }
            Err(WriteError::Ended) => Ok(Ending::Unfinished),
            Err(WriteError::Refused(reason)) => Err(Failure {
                error: "Prosody::TransientStateError".to_owned(),
                ..transient(reason)
            }),
        }
    }

    /// Step 10 of everything else that is done: the position, no mark, no state.
    async fn settle_without_success(
        &self,
        assignment: &Assignment,
        message: &Message,
        ledger: Option<&Arc<LedgerWriter>>,
    ) -> Ending {
        let Some(ledger) = ledger else {
            return Ending::Done;
        };
        let mut transaction = Transaction::default();
        ledger.with(|known| known.settle(&mut transaction, message.position()));
        match ledger.commit(assignment, ledger.turn(), transaction).await {
            Ok(()) => Ending::Done,
            Err(WriteError::Ended) => Ending::Unfinished,
            Err(WriteError::Refused(reason)) => {
                error!(
                    "store refuses that a message is done; if its offset is not committed it is handled again: {reason} {message}"
                );
                Ending::Done
            }
        }
    }
}

/// A ledger could not be read.
enum Unread {
    /// It may be read later.
    Yet(String),
    /// The store has ended the assignment.
    Ended,
}

enum Conclusion {
    Success,
    Failed(Failure, Consequence),
    Ended(Ending),
}

fn transient(message: String) -> Failure {
    Failure {
        class: FailureClass::Transient,
        error: "Prosody::TransientError".to_owned(),
        message,
        backtrace: Vec::new(),
    }
}

fn key_of(record: &Record) -> Option<Key> {
    let key = record.key.as_ref()?;
    if key.len() > decode::KEY_BYTES_MAX {
        return None;
    }
    Key::new(key.clone()).ok()
}
