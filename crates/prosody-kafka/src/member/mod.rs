//! One member of a group.
//!
//! Each member has a poll thread (`worker`), the only one that calls the consumer. The handle
//! ([`KafkaMember`]) sends it commands, and takes records and news from the `outbox` between them.

mod assignment;
mod context;
mod look_up;
mod outbox;
mod position;
mod rebalance;
pub(crate) mod records;
mod requests;
mod worker;

use std::collections::VecDeque;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use prosody_core::log::{Intake, LoadError, Log, LogError, LogEvent, Membership, Watermark};
use prosody_core::record::{Coordinates, Generation, Record, TopicPartition};
use prosody_core::sync::Mutex;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use self::context::MemberContext;
use self::outbox::Outbox;
use crate::health::Health;
use crate::loader::Loader;
use crate::options::{KafkaOptions, refused};
use crate::partitions::check_topic;
use crate::wake::Waker;

/// How long committed offsets are waited for.
const POSITIONS_LIMIT: Duration = Duration::from_secs(10);

type Answer<T> = oneshot::Sender<Result<T, LogError>>;

/// What the handle asks of the poll thread.
#[derive(Debug)]
enum Command {
    Commit(Vec<Watermark>, Answer<()>),
    Positions(Vec<TopicPartition>, Answer<Vec<Option<i64>>>),
    Pause(Vec<(TopicPartition, Generation)>),
    Rewind(TopicPartition, Generation, i64),
    Resume(Vec<(TopicPartition, Generation)>),
    /// The offset that the log has gone back to, if that is why.
    Restart(TopicPartition, Generation, Option<i64>),
    GiveUp(Vec<TopicPartition>),
}

/// What handle and poll thread share.
#[derive(Debug)]
struct Shared {
    /// `None` once nobody takes them any more; what is dropped answers with `Ended`.
    commands: Mutex<Option<VecDeque<Command>>>,
    /// Whether the member is to leave the group.
    closing: AtomicBool,
    outbox: Outbox,
    waker: Arc<Waker>,
    health: Arc<Health>,
}

/// A member of a consumer group of a Kafka cluster.
///
/// After [`Log::close`], or after it failed, [`Log::poll`] gives [`LogEvent::Failed`] with
/// [`LogError::Ended`], and so does every other call.
#[derive(Debug)]
pub(crate) struct KafkaMember {
    shared: Arc<Shared>,
    loader: Loader,
    commit_limit: Duration,
    /// Turns true when the poll thread is done and the client is destroyed.
    done: watch::Receiver<bool>,
}

impl KafkaMember {
    /// Makes the client and starts its poll thread; joining the group goes on there.
    pub fn join(options: &KafkaOptions, membership: Membership) -> Result<Self, LogError> {
        membership
            .topics
            .iter()
            .try_for_each(|topic| check_topic(topic))?;
        let group = CString::new(&*membership.group_id)
            .map_err(|_| LogError::Refused("group_id contains a NUL byte".to_owned()))?;
        let servers = options.bootstrap_servers.join(",");
        let health = Health::of(format!("consumer of {}", membership.group_id), servers);
        let config = options.for_member(&membership.group_id);
        let for_clients = Arc::clone(&health);
        let topics = membership.topics;
        let join = move || consumer(&config, &topics, &for_clients);
        let consumer = join()?;

        let waker = Arc::new(Waker::default());
        let shared = Arc::new(Shared {
            commands: Mutex::new(Some(VecDeque::new())),
            closing: AtomicBool::new(false),
            outbox: Outbox::new(Arc::clone(&waker)),
            waker,
            health,
        });
        let (finished, done) = watch::channel(false);
        let for_thread = Arc::clone(&shared);
        let settings = worker::Settings {
            poll_interval: membership.poll_interval,
            begins_at: options.begins_at(),
        };
        let run = move || {
            worker::run(consumer, join, &for_thread, &group, &settings);
            let _ = finished.send(true);
        };
        thread::Builder::new()
            .name("prosody-poll".to_owned())
            .spawn(run)
            .map_err(|error| LogError::Refused(format!("no thread for a consumer: {error}")))?;
        Ok(Self {
            shared,
            loader: Loader::new(options.clone(), membership.group_id),
            commit_limit: options.commit_limit,
            done,
        })
    }

    fn send(&self, command: Command) {
        if let Some(commands) = self.shared.commands.lock().as_mut() {
            commands.push_back(command);
        }
        self.shared.waker.wake();
    }

    async fn ask<T>(
        &self,
        what: &str,
        limit: Duration,
        command: impl FnOnce(Answer<T>) -> Command,
    ) -> Result<T, LogError> {
        let (answer, answered) = oneshot::channel();
        self.send(command(answer));
        match timeout(limit, answered).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(LogError::Ended),
            Err(_) => Err(LogError::Unreachable {
                what: what.to_owned(),
                limit,
                reason: self.shared.health.reason(),
            }),
        }
    }

    fn begin_close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.waker.wake();
        self.loader.close();
    }
}

/// A client that joins its group.
fn consumer(
    config: &ClientConfig,
    topics: &[String],
    health: &Arc<Health>,
) -> Result<BaseConsumer<MemberContext>, LogError> {
    let context = MemberContext::new(Arc::clone(health));
    let consumer: BaseConsumer<MemberContext> = config
        .create_with_context(context)
        .map_err(|error| refused(&error))?;
    let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
    consumer
        .subscribe(&topics)
        .map_err(|error| refused(&error))?;
    Ok(consumer)
}

impl Log for KafkaMember {
    fn poll(&self, intake: Intake) -> BoxFuture<'_, LogEvent> {
        self.shared.outbox.take(intake).boxed()
    }

    fn positions<'a>(
        &'a self,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>, LogError>> {
        let ask = async move {
            if partitions.is_empty() {
                return Ok(Vec::new());
            }
            partitions
                .iter()
                .try_for_each(|partition| check_topic(&partition.topic))?;
            let command = |answer| Command::Positions(partitions.to_vec(), answer);
            self.ask("committed offsets", POSITIONS_LIMIT, command)
                .await
        };
        ask.boxed()
    }

    fn commit(&self, watermarks: Vec<Watermark>) -> BoxFuture<'_, Result<(), LogError>> {
        let command = |answer| Command::Commit(watermarks, answer);
        self.ask("commit", self.commit_limit, command).boxed()
    }

    fn pause(&self, partitions: &[TopicPartition]) {
        let known = self.shared.outbox.pause(partitions);
        self.send(Command::Pause(known));
    }

    fn rewind(&self, partition: &TopicPartition, generation: Generation, offset: i64) {
        if self.shared.outbox.begin_rewind(partition, generation) {
            self.send(Command::Rewind(partition.clone(), generation, offset));
        }
    }

    fn resume(&self, partitions: &[TopicPartition]) {
        let known = self.shared.outbox.resume(partitions);
        self.send(Command::Resume(known));
    }

    fn restart(&self, partition: &TopicPartition, generation: Generation, from: Option<i64>) {
        self.send(Command::Restart(partition.clone(), generation, from));
    }

    fn give_up(&self, partitions: &[TopicPartition]) {
        self.send(Command::GiveUp(partitions.to_vec()));
    }

    fn load<'a>(
        &'a self,
        coordinates: &'a Coordinates,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Record, LoadError>> {
        let load = async move {
            let mut record = self.loader.load(coordinates, limit).await?;
            record.generation = self.shared.outbox.generation(&coordinates.topic_partition);
            Ok(record)
        };
        load.boxed()
    }

    fn close(&self, limit: Duration) -> BoxFuture<'_, ()> {
        let close = async move {
            self.begin_close();
            let mut done = self.done.clone();
            // The thread ends on its own, also after the limit.
            let _ = timeout(limit, done.wait_for(|done| *done)).await;
        };
        close.boxed()
    }
}

impl Drop for KafkaMember {
    fn drop(&mut self) {
        self.begin_close();
    }
}
