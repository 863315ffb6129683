#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use futures::FutureExt;
use futures::future::{join, pending, ready};
use tokio::sync::oneshot;
use tokio::time::sleep;

use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::backoff::{Backoff, Randomness};
use crate::clock::SystemClock;
use crate::event::{Key, Message};
use crate::ledger::{
    Claim, Fingerprint, Ledger, LedgerPartition, Position, Rows, TRANSACTION_ROWS_MAX,
};
use crate::ledger_writer::LedgerRoom;
use crate::outcome::{Failure, FailureClass};
use crate::record::{Generation, Headers, Record, TopicId, TopicPartition};
use crate::store::{CommitError, Store, StoreError};

/// What a store answers to a commit.
enum Answer {
    Applied,
    /// Applied, and nobody knows.
    Unknown,
    Refused,
    /// As soon as the other end says so.
    After(oneshot::Receiver<()>),
    Never,
}

/// A store of one ledger, whose answers are given in advance.
#[derive(Default)]
struct OneLedger {
    rows: Mutex<Rows>,
    answers: Mutex<VecDeque<Answer>>,
    commits: Mutex<usize>,
}

impl OneLedger {
    fn content(&self, cell: &Coordinate) -> Option<Bytes> {
        let rows = self.rows.lock();
        Some(rows.get(cell)?.content.slice(1..))
    }
}

impl Store for OneLedger {
    fn claim<'a>(
        &'a self,
        _partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>> {
        ready(Ok(Claim { generation, id: 0 })).boxed()
    }

    fn release<'a>(
        &'a self,
        _partition: &'a LedgerPartition,
        _claim: Claim,
        _clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        ready(Ok(())).boxed()
    }

    fn hydrate<'a>(
        &'a self,
        _ledger: &'a LedgerKey,
        _claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>> {
        ready(Ok(self.rows.lock().clone())).boxed()
    }

    fn commit<'a>(
        &'a self,
        _ledger: &'a LedgerKey,
        _claim: Claim,
        transaction: &'a Transaction,
    ) -> BoxFuture<'a, Result<(), CommitError>> {
        async move {
            *self.commits.lock() += 1;
            let answer = self.answers.lock().pop_front().unwrap_or(Answer::Applied);
            let mut result = Ok(());
            match answer {
                Answer::Applied => {}
                Answer::Unknown => result = Err(CommitError::Unknown("lost".to_owned())),
                Answer::Refused => return Err(CommitError::Refused("too much".to_owned())),
                Answer::After(when) => {
                    let _ = when.await;
                    result = Err(CommitError::Unknown("lost".to_owned()));
                }
                Answer::Never => pending().await,
            }
            transaction.apply_to(&mut self.rows.lock());
            result
        }
        .boxed()
    }
}

struct Bench {
    store: Arc<OneLedger>,
    assignment: Arc<Assignment>,
    ledger: Arc<LedgerWriter>,
}

impl Bench {
    fn new() -> Self {
        let store = Arc::new(OneLedger::default());
        let partition = LedgerPartition {
            group_id: "group".into(),
            topic_partition: TopicPartition::new("topic", 0),
        };
        let assignment = Assignment::new(partition.clone(), Generation(1), TopicId(1));
        assignment.set_claim(Claim {
            generation: Generation(1),
            id: 0,
        });
        let room = LedgerRoom {
            store: Arc::clone(&store) as _,
            clock: Arc::new(SystemClock),
            randomness: Randomness::from_seed(1),
            backoff: Backoff {
                base: Duration::from_millis(10),
                max: Duration::from_millis(100),
            },
        };
        let key = Key::new(Bytes::from_static(b"key")).unwrap();
        let name = LedgerKey { partition, key };
        let ledger = LedgerWriter::new(name, Arc::new(room), Ledger::default());
        Self {
            store,
            assignment: Arc::new(assignment),
            ledger: Arc::new(ledger),
        }
    }

    fn answers(&self, answers: impl IntoIterator<Item = Answer>) {
        self.store.answers.lock().extend(answers);
    }

    fn attempt(&self) -> Arc<Attempt> {
        self.attempt_on(Some(Arc::clone(&self.ledger)))
    }

    fn attempt_on(&self, ledger: Option<Arc<LedgerWriter>>) -> Arc<Attempt> {
        let position = Position {
            topic_id: TopicId(1),
            leader_epoch: 0,
            offset: 7,
        };
        let message = Message {
            record: Record {
                topic_partition: TopicPartition::new("topic", 0),
                generation: Generation(1),
                offset: 7,
                leader_epoch: 0,
                timestamp_ms: 0,
                key: None,
                payload: None,
                headers: Headers::default(),
            },
            key: None,
            fingerprint: Fingerprint { position, id: None },
            undecodable: None,
        };
        let event = Arc::new(Event::Message(message));
        let attempt = Attempt::new(event, 0, Arc::clone(&self.assignment), ledger);
        let attempt = Arc::new(attempt);
        self.assignment.attempt_started(&attempt);
        attempt
    }
}

fn cell(collection: &str) -> Coordinate {
    Coordinate::Cell {
        collection: collection.into(),
        coordinate: Bytes::new(),
    }
}

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[tokio::test(start_paused = true)]
async fn a_handler_must_not_begin_after_its_cancellation() {
    for reason in [CancelReason::Deadline, CancelReason::Drain] {
        let bench = Bench::new();
        let attempt = bench.attempt();
        attempt.cancel(reason);
        assert!(!attempt.begin());
        assert!(!attempt.has_begun() && attempt.is_over());
        assert_eq!(attempt.outcome().await, Some(Outcome::Stopped));
        assert_eq!(bench.assignment.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_must_not_begin_after_its_assignment() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    bench.assignment.end();
    assert!(!attempt.begin());
    assert_eq!(attempt.outcome().await, None);
    assert_eq!(bench.assignment.running(), 0, "nobody waits for it");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_end_counts() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    assert!(attempt.begin());
    let failure = Outcome::Failed(Failure {
        class: FailureClass::Permanent,
        error: String::new(),
        message: String::new(),
        backtrace: Vec::new(),
    });
    attempt.finish(failure.clone());
    attempt.finish(Outcome::Success);
    bench.assignment.end();
    assert_eq!(attempt.outcome().await, Some(failure));
    attempt.finish(Outcome::Success);
    assert_eq!(attempt.outcome().await, None);
    assert_eq!(bench.assignment.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_handler_runs_until_it_really_ends() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    assert!(attempt.begin());
    bench.assignment.end();
    assert_eq!(attempt.cancel_reason(), Some(CancelReason::Drain));
    assert_eq!(bench.assignment.running(), 1);
    assert!(bench.assignment.idle().now_or_never().is_none());
    assert_eq!(attempt.outcome().await, None);
    attempt.finish(Outcome::Success);
    bench.assignment.idle().await;
    assert_eq!(attempt.outcome().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_handover_outweighs_a_deadline() {
    let attempt = Bench::new().attempt();
    attempt.cancel(CancelReason::Drain);
    attempt.cancel(CancelReason::Deadline);
    assert_eq!(attempt.cancel_reason(), Some(CancelReason::Drain));
    let attempt = Bench::new().attempt();
    attempt.cancel(CancelReason::Deadline);
    attempt.cancel(CancelReason::Drain);
    assert_eq!(attempt.cancel_reason(), Some(CancelReason::Drain));
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_a_cancellation_hears_of_any_end() {
    let bench = Bench::new();
    for how in 0..4 {
        let attempt = bench.attempt();
        let waiting = tokio::spawn({
            let attempt = Arc::clone(&attempt);
            async move { attempt.cancelled().await }
        });
        sleep(Duration::from_millis(1)).await;
        assert!(!waiting.is_finished());
        match how {
            0 => attempt.cancel(CancelReason::Deadline),
            1 => attempt.cancel(CancelReason::Drain),
            2 => attempt.finish(Outcome::Success),
            _ => attempt.abandon(),
        }
        waiting.await.unwrap();
    }
}

#[test]
fn reads_see_the_attempts_own_changes() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    assert_eq!(attempt.read(&cell("a")), Ok(None));
    attempt.write(cell("a"), b"1").unwrap();
    assert_eq!(attempt.read(&cell("a")), Ok(Some(bytes("1"))));
    attempt.remove(cell("a")).unwrap();
    assert_eq!(attempt.read(&cell("a")), Ok(None));
    attempt.write(cell("a"), b"2").unwrap();
    attempt.write(cell("b"), b"3").unwrap();
    attempt.rollback("a").unwrap();
    assert_eq!(attempt.read(&cell("a")), Ok(None));
    assert_eq!(attempt.read(&cell("b")), Ok(Some(bytes("3"))));
    // Nothing of it is anybody else's.
    assert_eq!(bench.attempt().read(&cell("b")), Ok(None));
    assert_eq!(attempt.take_changes().rows(), 1);
}

#[test]
fn state_is_closed_after_the_end() {
    let ends: [fn(&Bench, &Attempt); 2] = [
        |_, attempt| attempt.finish(Outcome::Success),
        |bench, _| bench.assignment.end(),
    ];
    for end in ends {
        let bench = Bench::new();
        let attempt = bench.attempt();
        attempt.write(cell("a"), b"1").unwrap();
        end(&bench, &attempt);
        assert_eq!(attempt.read(&cell("a")), Err(StateError::Outlived));
        assert_eq!(attempt.write(cell("a"), b"2"), Err(StateError::Outlived));
        assert_eq!(attempt.remove(cell("a")), Err(StateError::Outlived));
        assert_eq!(attempt.rollback("a"), Err(StateError::Outlived));
        assert!(matches!(
            attempt.publish("a".into()),
            Err(StateError::Outlived)
        ));
    }
}

#[test]
fn an_event_without_key_has_no_state() {
    let attempt = Bench::new().attempt_on(None);
    assert!(!attempt.has_ledger() && attempt.ledger_key().is_none());
    assert!(attempt.read(&cell("a")).is_err() && attempt.write(cell("a"), b"1").is_err());
}

#[test]
fn an_item_has_a_size_and_not_one_byte_more() {
    let attempt = Bench::new().attempt();
    let item = vec![b'1'; ITEM_BYTES_MAX + 1];
    let refused = attempt.write(cell("a"), &item);
    let expected = StateError::ItemTooLarge {
        collection: "a".into(),
        bytes: ITEM_BYTES_MAX + 1,
    };
    assert_eq!(refused, Err(expected));
    assert_eq!(attempt.read(&cell("a")), Ok(None));
    attempt.write(cell("a"), &item[1..]).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_published_stays_whatever_becomes_of_the_attempt() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"1").unwrap();
    attempt.write(cell("b"), b"2").unwrap();
    attempt.publish("a".into()).unwrap().await.unwrap();
    assert_eq!(bench.store.content(&cell("a")), Some(bytes("1")));
    assert_eq!(bench.store.content(&cell("b")), None);
    assert_eq!(bench.attempt().read(&cell("a")), Ok(Some(bytes("1"))));
    // A rollback goes back to there.
    attempt.write(cell("a"), b"3").unwrap();
    attempt.rollback("a").unwrap();
    assert_eq!(attempt.read(&cell("a")), Ok(Some(bytes("1"))));
    assert_eq!(attempt.take_changes().rows(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_publication_is_sent_until_its_outcome_is_known() {
    let bench = Bench::new();
    bench.answers([Answer::Unknown, Answer::Unknown, Answer::Applied]);
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"1").unwrap();
    let publication = tokio::spawn(attempt.publish("a".into()).unwrap());
    sleep(Duration::from_millis(1)).await;
    // What is written meanwhile stays bound to the attempt's success.
    attempt.write(cell("a"), b"2").unwrap();
    publication.await.unwrap().unwrap();
    assert_eq!(*bench.store.commits.lock(), 3);
    assert_eq!(bench.store.content(&cell("a")), Some(bytes("1")));
    assert_eq!(attempt.read(&cell("a")), Ok(Some(bytes("2"))));
    assert_eq!(attempt.take_changes().rows(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_publication_that_is_refused_changes_nothing() {
    let bench = Bench::new();
    bench.answers([Answer::Refused]);
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"1").unwrap();
    let refused = attempt.publish("a".into()).unwrap().await;
    assert!(matches!(refused, Err(StateError::NotCommitted { .. })));
    assert_eq!(bench.store.content(&cell("a")), None);
    attempt.publications_known().await;
}

#[tokio::test(start_paused = true)]
async fn a_publication_that_is_too_large_is_never_sent() {
    let bench = Bench::new();
    let attempt = bench.attempt();
    for number in 0..=TRANSACTION_ROWS_MAX {
        let coordinate = Bytes::from(number.to_string());
        let collection = "a".into();
        let cell = Coordinate::Cell {
            collection,
            coordinate,
        };
        attempt.write(cell, b"1").unwrap();
    }
    let refused = attempt.publish("a".into()).unwrap().await;
    assert!(matches!(refused, Err(StateError::NotCommitted { .. })));
    assert_eq!(*bench.store.commits.lock(), 0);
    attempt.rollback("a").unwrap();
    assert!(attempt.take_changes().is_empty(), "there is a way out");
}

#[tokio::test(start_paused = true)]
async fn publications_come_in_the_order_of_their_calls() {
    let bench = Bench::new();
    let (release, released) = oneshot::channel();
    bench.answers([Answer::After(released)]);
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"1").unwrap();
    let first = attempt.publish("a".into()).unwrap();
    attempt.write(cell("a"), b"2").unwrap();
    let second = attempt.publish("a".into()).unwrap();
    let both = tokio::spawn(join(second, first));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(*bench.store.commits.lock(), 1, "the second one waits");
    release.send(()).unwrap();
    assert_eq!(both.await.unwrap(), (Ok(()), Ok(())));
    assert_eq!(bench.store.content(&cell("a")), Some(bytes("2")));
    assert_eq!(attempt.read(&cell("a")), Ok(Some(bytes("2"))));
    assert!(attempt.take_changes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_attempts_end_waits_for_its_publications() {
    let bench = Bench::new();
    let (release, released) = oneshot::channel();
    bench.answers([Answer::After(released)]);
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"1").unwrap();
    let publication = tokio::spawn(attempt.publish("a".into()).unwrap());
    sleep(Duration::from_millis(1)).await;
    attempt.finish(Outcome::Success);
    assert!(attempt.publications_known().now_or_never().is_none());
    release.send(()).unwrap();
    attempt.publications_known().await;
    publication.await.unwrap().unwrap();
    // Dropped before its end counts as well.
    let attempt = bench.attempt();
    attempt.write(cell("a"), b"2").unwrap();
    drop(attempt.publish("a".into()).unwrap());
    attempt.publications_known().await;
}

#[tokio::test(start_paused = true)]
async fn a_publication_ends_with_its_assignment() {
    for answer in [Answer::Never, Answer::Unknown] {
        let bench = Bench::new();
        bench.answers([answer]);
        let attempt = bench.attempt();
        attempt.write(cell("a"), b"1").unwrap();
        let first = tokio::spawn(attempt.publish("a".into()).unwrap());
        let second = tokio::spawn(attempt.publish("a".into()).unwrap());
        sleep(Duration::from_millis(1)).await;
        bench.assignment.end();
        for publication in [first, second] {
            let result = publication.await.unwrap();
            assert!(matches!(result, Err(StateError::NotCommitted { .. })));
        }
        assert_eq!(*bench.store.commits.lock(), 1);
    }
}
