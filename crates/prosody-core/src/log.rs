//! What prosody needs of a log, whether it is Kafka or one inside the process.
//!
//! A [`Cluster`] describes topics and gives out members of groups and producers. A [`Log`] is one
//! member of one group. The rooms that implement these traits know nothing of keys, handlers or
//! ledgers.
//!
//! # How a partition comes and goes
//!
//! [`LogEvent::Assigned`] → [`LogEvent::Records`] … → [`LogEvent::Revoked`], which is answered
//! late, by [`Log::give_up`], after running handlers have ended and their offsets are committed;
//! until then no other member is given the partition. [`LogEvent::Lost`] needs no answer: the
//! partition may belong to somebody else already. Each assignment has its own [`Generation`], and
//! each record carries that of the assignment under which it was read.
//!
//! An assignment is of one topic id, and within it offsets only ascend. When a topic was deleted and
//! created again, or the log has gone back, the partition is lost and assigned anew: of another
//! topic from its first record, of the same one from the committed offset, or from the offset that it
//! has gone back to if that is lower.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use thiserror::Error;

use crate::record::{Coordinates, Generation, OutgoingRecord, Record, TopicId, TopicPartition};

/// A topic as the cluster describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Name.
    pub name: Arc<str>,
    /// Kafka's id of it.
    pub id: TopicId,
    /// Number of partitions.
    pub partitions: i32,
}

/// A partition that now belongs to this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Which one.
    pub topic_partition: TopicPartition,
    /// The assignment's generation.
    pub generation: Generation,
    /// The topic's id, read at this assignment.
    pub topic_id: TopicId,
    /// The topic's number of partitions at this assignment.
    pub partition_count: i32,
}

/// A topic that has grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionsAdded {
    /// The topic.
    pub topic: Arc<str>,
    /// How many partitions it had.
    pub before: i32,
    /// How many it has now.
    pub now: i32,
}

/// What a member hears of its group.
#[derive(Debug)]
pub enum LogEvent {
    /// Records, in offset order within each partition.
    Records(Vec<Record>),
    /// Partitions that this member now owns.
    Assigned(Vec<Assigned>),
    /// Partitions that this member is to give up; the answer is [`Log::give_up`] with just these.
    Revoked(Vec<TopicPartition>),
    /// Partitions that are gone already: nothing can be committed for them.
    Lost(Vec<TopicPartition>),
    /// A topic of the member's partitions has more of them than before. The new ones are assigned as
    /// all others are; keys may map to other partitions from now on.
    PartitionsAdded(PartitionsAdded),
    /// The member cannot go on.
    Failed(LogError),
}

/// The offset up to which a partition is done: everything below it is finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The assignment that reached it.
    pub generation: Generation,
    /// The topic's id.
    pub topic_id: TopicId,
    /// The next offset to be handled.
    pub offset: i64,
}

/// A log, a cluster or a member of a group could not do what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LogError {
    /// These topics do not exist.
    #[error("topic {} does not exist", .0.join(", "))]
    TopicsMissing(Vec<String>),
    /// The cluster did not answer in time.
    #[error("{what}: no answer within {} s ({reason})", .limit.as_secs_f64())]
    Unreachable {
        /// What was asked of it.
        what: String,
        /// How long it was waited for.
        limit: Duration,
        /// The last thing that is known of it, such as "connection refused".
        reason: String,
    },
    /// The cluster or the client library refused.
    #[error("{0}")]
    Refused(String),
    /// The member's assignment ended before.
    #[error("the assignment has ended")]
    Ended,
}

/// A message could not be delivered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SendError {
    /// Refused for what it is or where it was to go; sending it again does not help.
    #[error("{0}")]
    Refused(String),
    /// Not acknowledged in time; it may still arrive.
    #[error("not acknowledged within {} s ({reason}); it may still arrive", .limit.as_secs_f64())]
    TimedOut {
        /// `send_timeout`.
        limit: Duration,
        /// The last thing that is known of the cluster.
        reason: String,
    },
    /// Not acknowledged, because the sender could not go on.
    #[error("{0}; it may still arrive")]
    Lost(String),
}

/// A message could not be loaded by its coordinates.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LoadError {
    /// The log does not have it any more (retention, compaction, a topic created anew).
    #[error("gone")]
    Gone,
    /// It could not be read in time; it may be there.
    #[error(transparent)]
    Unavailable(#[from] LogError),
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Partition.
    pub partition: i32,
    /// Offset.
    pub offset: i64,
}

/// What a member of a group is to consume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// The consumer group.
    pub group_id: Arc<str>,
    /// Topic names; one with a leading `^` is a regular expression.
    pub topics: Vec<String>,
    /// The longest wait of one poll; a record that is there is taken at once.
    pub poll_interval: Duration,
}

/// Whether a poll may bring records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// Records and everything else.
    Open,
    /// Only what the member hears of its group: records wait.
    Closed,
}

/// One member of one consumer group.
pub trait Log: Send + Sync + 'static {
    /// Waits for what comes next. May be dropped while it waits: nothing is lost. What the member
    /// hears of its group comes before records that wait.
    ///
    /// Whoever does not call it for a while holds back records only; the group membership does
    /// not depend on it.
    fn poll(&self, intake: Intake) -> BoxFuture<'_, LogEvent>;

    /// The offsets committed by the group, in the order of the partitions: `None` where there is
    /// none.
    fn positions<'a>(
        &'a self,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>, LogError>>;

    /// Commits watermarks and waits for the broker's answer. One call at a time.
    ///
    /// A watermark of a generation that is not the partition's present one is left out and makes
    /// the answer [`LogError::Ended`].
    fn commit(&self, watermarks: Vec<Watermark>) -> BoxFuture<'_, Result<(), LogError>>;

    /// Stops delivery of these partitions' records until [`Log::resume`].
    fn pause(&self, partitions: &[TopicPartition]);

    /// Goes back: after its resume, a paused partition's records come from `offset` on. Of an
    /// assignment that is not the partition's present one, it changes nothing.
    fn rewind(&self, partition: &TopicPartition, generation: Generation, offset: i64);

    /// Ends a [`Log::pause`].
    fn resume(&self, partitions: &[TopicPartition]);

    /// Gives up an assignment that cannot go on, and asks for a fresh one of the same partition:
    /// [`LogEvent::Lost`], then [`LogEvent::Assigned`] if the group still gives it to this member.
    /// The fresh one begins at the committed offset, or at `from` if that is lower. Nothing happens
    /// if the generation is not the present one, or if the partition is being revoked.
    fn restart(&self, partition: &TopicPartition, generation: Generation, from: Option<i64>);

    /// Answers a [`LogEvent::Revoked`]: from now on these partitions may belong to others.
    fn give_up(&self, partitions: &[TopicPartition]);

    /// Loads one message. `limit` bounds the wait.
    fn load<'a>(
        &'a self,
        coordinates: &'a Coordinates,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Record, LoadError>>;

    /// Leaves the group, giving up every partition. Waits for at most `limit`; what is not done by
    /// then goes on without the caller. Idempotent.
    fn close(&self, limit: Duration) -> BoxFuture<'_, ()>;
}

/// Sends records.
pub trait Producer: Send + Sync + 'static {
    /// Sends one record and waits for its acknowledgement by all in-sync replicas.
    ///
    /// The record is handed over before this returns (calls one after the other keep their order
    /// within a partition); the future may be dropped, the record is sent all the same.
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivery, SendError>>;
}

/// A cluster of brokers.
pub trait Cluster: Send + Sync + 'static {
    /// Describes topics; `limit` bounds the wait. Fails with all the missing ones.
    ///
    /// The in-process log creates what is missing.
    fn describe<'a>(
        &'a self,
        topics: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<TopicDescription>, LogError>>;

    /// Makes a member of a group; joining goes on in the background.
    fn join(&self, membership: Membership) -> Result<Arc<dyn Log>, LogError>;

    /// The producer, made at first use and shared from then on.
    fn producer(&self) -> Result<Arc<dyn Producer>, LogError>;
}
