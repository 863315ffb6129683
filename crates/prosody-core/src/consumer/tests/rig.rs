//! A consumer whose handlers, store and broker do what a test says, under virtual time.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::attempt::Attempt;
use crate::backoff::{Backoff, Randomness};
use crate::clock::Clock;
use crate::consumer::{Consumer, ConsumerHandle, ConsumerParts, ConsumerSettings};
use crate::event::{Event, Key, Message};
use crate::handler::Handler;
use crate::in_process::{InProcessCluster, Member};
use crate::ledger::{Claim, Coordinate, LedgerKey, LedgerPartition, Rows, Transaction};
use crate::log::{
    Cluster, Delivery, Intake, LoadError, Log, LogError, LogEvent, Membership, Watermark,
};
use crate::outcome::{Failure, FailureClass, Mode, Outcome};
use crate::record::{Coordinates, Generation, Headers, OutgoingRecord, Record, TopicPartition};
use crate::store::{CommitError, MemoryStore, Store, StoreError};
use crate::sync::Mutex;

pub(super) const GROUP: &str = "group";
pub(super) const TOPIC: &str = "topic";

pub(super) const SLOW_COMMIT: Duration = Duration::from_millis(300);

pub(super) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(super) fn settings() -> ConsumerSettings {
    ConsumerSettings {
        group_id: GROUP.into(),
        mode: Mode::Pipeline,
        max_concurrency: 32,
        max_uncommitted: 64,
        timeout: Duration::from_secs(240),
        commit_interval: ms(5),
        shutdown_timeout: Duration::from_secs(2),
        stall_threshold: Duration::from_secs(300),
        allowed_events: None,
        idempotence_field: Some("id".to_owned()),
        idempotence_version: "1".to_owned(),
        idempotence_ttl: Duration::from_secs(3_600),
        retry: Backoff {
            base: ms(10),
            max: ms(100),
        },
        state_cache_size_bytes: 1 << 20,
    }
}

pub(super) fn failed(class: FailureClass) -> Outcome {
    Outcome::Failed(Failure {
        class,
        error: "Failed".to_owned(),
        message: String::new(),
        backtrace: Vec::new(),
    })
}

pub(super) fn message(attempt: &Attempt) -> &Message {
    let Event::Message(message) = attempt.event();
    message
}

pub(super) fn place(attempt: &Attempt) -> (i32, i64) {
    let record = &message(attempt).record;
    (record.topic_partition.partition, record.offset)
}

pub(super) fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, number)
}

pub(super) fn counter() -> Coordinate {
    Coordinate::Cell {
        collection: "counter".into(),
        coordinate: Bytes::new(),
    }
}

/// Handlers that run until the test ends them.
#[derive(Default)]
pub(super) struct Puppet {
    running: Mutex<Vec<Arc<Attempt>>>,
    /// Every attempt, in the order of their start.
    pub(super) started: Mutex<Vec<(i32, i64)>>,
    pub(super) stopped: Mutex<Vec<(Instant, (i32, i64))>>,
    /// Waits for its turn instead of beginning at once.
    pub(super) waits: AtomicBool,
    /// Succeeds at once.
    pub(super) succeeds: AtomicBool,
}

impl Handler for Puppet {
    fn start(&self, attempt: Arc<Attempt>) {
        self.started.lock().push(place(&attempt));
        if !self.waits.load(Ordering::Relaxed) && !attempt.begin() {
            return;
        }
        if self.succeeds.load(Ordering::Relaxed) {
            attempt.finish(Outcome::Success);
        } else {
            self.running.lock().push(attempt);
        }
    }

    fn stop(&self, attempt: &Arc<Attempt>) {
        self.stopped.lock().push((Instant::now(), place(attempt)));
    }
}

impl Puppet {
    /// Handlers that have not ended, in the order of their start.
    pub(super) fn running(&self) -> Vec<Arc<Attempt>> {
        self.running.lock().clone()
    }

    pub(super) fn places(&self) -> Vec<(i32, i64)> {
        self.running()
            .iter()
            .map(|attempt| place(attempt))
            .collect()
    }

    pub(super) fn only(&self) -> Arc<Attempt> {
        let running = self.running();
        assert_eq!(running.len(), 1, "{:?}", self.places());
        Arc::clone(&running[0])
    }

    pub(super) fn end(&self, attempt: &Arc<Attempt>, outcome: Outcome) {
        self.running
            .lock()
            .retain(|running| !Arc::ptr_eq(running, attempt));
        attempt.finish(outcome);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commits {
    Answered,
    /// As `Answered`, a while later.
    Slow,
    Failing,
    Unanswered,
}

/// A member whose commits a test controls.
pub(super) struct TestLog {
    member: Arc<Member>,
    pub(super) commits: Mutex<Commits>,
    pub(super) asked: AtomicUsize,
    pub(super) closed: AtomicBool,
    /// By partition, the offset after the last record that the consumer took.
    pub(super) delivered: Mutex<BTreeMap<i32, i64>>,
    pub(super) rewinds: AtomicUsize,
}

impl Log for TestLog {
    fn poll(&self, intake: Intake) -> BoxFuture<'_, LogEvent> {
        async move {
            let event = self.member.poll(intake).await;
            if let LogEvent::Records(records) = &event {
                let ends = records
                    .iter()
                    .map(|record| (record.topic_partition.partition, record.offset + 1));
                self.delivered.lock().extend(ends);
            }
            event
        }
        .boxed()
    }

    fn positions<'a>(
        &'a self,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>, LogError>> {
        self.member.positions(partitions)
    }

    fn commit(&self, watermarks: Vec<Watermark>) -> BoxFuture<'_, Result<(), LogError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match *self.commits.lock() {
            Commits::Answered => self.member.commit(watermarks),
            Commits::Slow => async move {
                sleep(SLOW_COMMIT).await;
                self.member.commit(watermarks).await
            }
            .boxed(),
            Commits::Failing => {
                let error = LogError::Refused("not now".to_owned());
                std::future::ready(Err(error)).boxed()
            }
            Commits::Unanswered => pending().boxed(),
        }
    }

    fn pause(&self, partitions: &[TopicPartition]) {
        self.member.pause(partitions);
    }

    fn rewind(&self, partition: &TopicPartition, generation: Generation, offset: i64) {
        let mut delivered = self.delivered.lock();
        delivered.insert(partition.partition, offset);
        self.rewinds.fetch_add(1, Ordering::Relaxed);
        self.member.rewind(partition, generation, offset);
    }

    fn resume(&self, partitions: &[TopicPartition]) {
        self.member.resume(partitions);
    }

    fn restart(&self, partition: &TopicPartition, generation: Generation, from: Option<i64>) {
        self.member.restart(partition, generation, from);
    }

    fn give_up(&self, partitions: &[TopicPartition]) {
        self.member.give_up(partitions);
    }

    fn load<'a>(
        &'a self,
        coordinates: &'a Coordinates,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Record, LoadError>> {
        self.member.load(coordinates, limit)
    }

    fn close(&self, limit: Duration) -> BoxFuture<'_, ()> {
        self.closed.store(true, Ordering::Relaxed);
        self.member.close(limit)
    }
}

/// What a store does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Silent {
    Claim,
    Hydrate,
    Commit,
    Release,
}

/// A memory store that keeps its ledgers, does not answer some calls and refuses some writes.
#[derive(Default)]
pub(super) struct TestStore {
    memory: MemoryStore,
    silent: Mutex<BTreeSet<Silent>>,
    speaks: Notify,
    pub(super) refuses: AtomicBool,
    pub(super) hydrations: AtomicUsize,
    /// Keys of the ledgers that were read.
    pub(super) keys: Mutex<Vec<Key>>,
    pub(super) claims: AtomicUsize,
}

impl TestStore {
    /// Answers none of these calls any more.
    pub(super) fn silence(&self, calls: &[Silent]) {
        self.silent.lock().extend(calls);
    }

    /// Answers everything, also what it was asked before.
    pub(super) fn speak(&self) {
        self.silent.lock().clear();
        self.speaks.notify_waiters();
    }

    /// Has somebody else claim a partition.
    pub(super) fn steal(&self, number: i32) {
        let name = ledger_partition(number);
        let claim = self.memory.claim(&name, Generation(1_000)).now_or_never();
        claim.unwrap().unwrap();
    }

    async fn unless_silent(&self, call: Silent) {
        while self.silent.lock().contains(&call) {
            self.speaks.notified().await;
        }
    }
}

fn ledger_partition(number: i32) -> LedgerPartition {
    LedgerPartition {
        group_id: GROUP.into(),
        topic_partition: partition(number),
    }
}

impl Store for TestStore {
    fn claim<'a>(
        &'a self,
        partition: &'a LedgerPartition,
        generation: Generation,
    ) -> BoxFuture<'a, Result<Claim, StoreError>> {
        async move {
            self.unless_silent(Silent::Claim).await;
            self.claims.fetch_add(1, Ordering::Relaxed);
            self.memory.claim(partition, generation).await
        }
        .boxed()
    }

    fn release<'a>(
        &'a self,
        _partition: &'a LedgerPartition,
        _claim: Claim,
        _clean: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        async move {
            self.unless_silent(Silent::Release).await;
            Ok(())
        }
        .boxed()
    }

    fn hydrate<'a>(
        &'a self,
        ledger: &'a LedgerKey,
        claim: Claim,
    ) -> BoxFuture<'a, Result<Rows, StoreError>> {
        async move {
            self.hydrations.fetch_add(1, Ordering::Relaxed);
            self.keys.lock().push(ledger.key.clone());
            self.unless_silent(Silent::Hydrate).await;
            self.memory.hydrate(ledger, claim).await
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
            self.unless_silent(Silent::Commit).await;
            if self.refuses.load(Ordering::Relaxed) {
                return Err(CommitError::Refused("too much".to_owned()));
            }
            self.memory.commit(ledger, claim, transaction).await
        }
        .boxed()
    }
}

/// The time of day, which only a test moves.
#[derive(Default)]
pub(super) struct TestClock(pub(super) AtomicI64);

impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Everything around a consumer, which may be started several times.
pub(super) struct Rig {
    pub(super) cluster: InProcessCluster,
    pub(super) puppet: Arc<Puppet>,
    pub(super) store: Arc<TestStore>,
    pub(super) clock: Arc<TestClock>,
    pub(super) log: Arc<TestLog>,
    pub(super) handle: ConsumerHandle,
    pub(super) task: JoinHandle<Result<(), LogError>>,
}

impl Rig {
    /// Starts a consumer of a topic with so many partitions.
    pub(super) fn start(partitions: i32, settings: ConsumerSettings) -> Self {
        let cluster = InProcessCluster::new(partitions, Arc::new(|| 1_000));
        let clock = Arc::new(TestClock::default());
        Self::start_on(cluster, Arc::default(), clock, settings)
    }

    /// Starts another consumer of the same group on the same cluster and store.
    pub(super) fn start_next(&self, settings: ConsumerSettings) -> Self {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        Self::start_on(self.cluster.clone(), store, clock, settings)
    }

    fn start_on(
        cluster: InProcessCluster,
        store: Arc<TestStore>,
        clock: Arc<TestClock>,
        settings: ConsumerSettings,
    ) -> Self {
        let membership = Membership {
            group_id: GROUP.into(),
            topics: vec![TOPIC.to_owned()],
            poll_interval: ms(100),
        };
        let log = Arc::new(TestLog {
            member: cluster.join_member(&membership).unwrap(),
            commits: Mutex::new(Commits::Answered),
            asked: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            delivered: Mutex::default(),
            rewinds: AtomicUsize::new(0),
        });
        let puppet = Arc::new(Puppet::default());
        let parts = ConsumerParts {
            log: Arc::clone(&log) as _,
            store: Arc::clone(&store) as _,
            handler: Arc::clone(&puppet) as _,
            clock: Arc::clone(&clock) as _,
            randomness: Randomness::from_seed(1),
        };
        let (consumer, handle) = Consumer::new(parts, settings);
        Self {
            cluster,
            puppet,
            store,
            clock,
            log,
            handle,
            task: tokio::spawn(consumer.run()),
        }
    }

    pub(super) fn send(&self, key: &str, payload: &str) -> Delivery {
        self.send_with(key, payload, Headers::default())
    }

    pub(super) fn send_with(&self, key: &str, payload: &str, headers: Headers) -> Delivery {
        let record = OutgoingRecord {
            topic: TOPIC.into(),
            key: (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes())),
            payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
            headers,
        };
        let sent = self.cluster.producer().unwrap().send(record);
        sent.now_or_never().unwrap().unwrap()
    }

    /// Lets everything happen that does not wait for the test or for longer than a moment.
    pub(super) async fn settle(&self) {
        sleep(ms(20)).await;
    }

    pub(super) fn committed(&self, number: i32) -> Option<i64> {
        self.cluster.committed(GROUP, &partition(number))
    }

    pub(super) fn expel(&self) {
        self.cluster.expel(self.log.member.id());
    }

    /// Ends the only running handler.
    pub(super) async fn end_only(&self, outcome: Outcome) {
        self.puppet.end(&self.puppet.only(), outcome);
        self.settle().await;
    }

    /// Shuts down and says how long that took.
    pub(super) async fn shut_down(&mut self, limit: Duration) -> Duration {
        let before = Instant::now();
        self.handle.shutdown(limit);
        (&mut self.task).await.unwrap().unwrap();
        before.elapsed()
    }
}
