//! The cluster: everything there is, behind one lock, and the hooks of tests.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use super::group::{Group, MemberId, Wakes};
use super::member::Member;
use super::producer::InProcessProducer;
use super::subscription::Subscription;
use super::topic::{Topic, Topics, name_fault};
use crate::log::{
    Cluster, Delivery, Intake, LoadError, Log, LogError, LogEvent, Membership, PartitionsAdded,
    Producer, SendError, TopicDescription,
};
use crate::record::{Coordinates, Generation, OutgoingRecord, Record, TopicId, TopicPartition};
use crate::sync::Mutex;

/// The largest record, by key, payload and headers: Kafka clients' default `message.max.bytes`.
pub const MESSAGE_BYTES_MAX: usize = 1_000_000;

type Clock = Arc<dyn Fn() -> i64 + Send + Sync>;

/// A log inside the process. Clones are the same log.
#[derive(Clone)]
pub struct InProcessCluster {
    shared: Arc<Shared>,
}

/// What the cluster, its members and its producers have in common.
pub(super) struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// Partitions of a topic that comes into being by itself.
    partitions: usize,
}

/// Everything there is.
#[derive(Default)]
pub(super) struct State {
    topics: Topics,
    groups: BTreeMap<Arc<str>, Group>,
    topics_created: u128,
    members_joined: u64,
    wakes: Wakes,
}

impl InProcessCluster {
    /// Makes an empty log. A topic comes into being with so many `partitions` (at least one);
    /// `clock` gives a record's timestamp in milliseconds since 1970.
    pub fn new(partitions: i32, clock: Arc<dyn Fn() -> i64 + Send + Sync>) -> Self {
        let shared = Shared {
            state: Mutex::default(),
            clock,
            partitions: usize::try_from(partitions).unwrap_or(1).max(1),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// As [`Cluster::join`], with the member's own type.
    ///
    /// # Errors
    ///
    /// [`LogError::Refused`] if a topic's name or pattern is not valid.
    pub fn join_member(&self, membership: &Membership) -> Result<Arc<Member>, LogError> {
        let subscription = Subscription::new(&membership.topics)?;
        let notify = Arc::new(Notify::new());
        let group_id = &membership.group_id;
        let partitions = self.shared.partitions;
        let id = self.shared.with(|state| {
            for name in subscription.names() {
                state.with_topic(name, partitions, |_| ());
            }
            state.join(group_id, subscription, Arc::clone(&notify))
        });
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(Member::new(
            shared,
            Arc::clone(group_id),
            id,
            notify,
        )))
    }

    /// Creates a topic with so many partitions.
    ///
    /// # Errors
    ///
    /// [`LogError::Refused`] if it exists, if its name is not valid, or without partitions.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<TopicDescription, LogError> {
        if let Some(fault) = name_fault(name) {
            return Err(LogError::Refused(fault));
        }
        let Some(partitions) = usize::try_from(partitions).ok().filter(|count| *count > 0) else {
            let refusal = format!("topic {name} needs at least one partition");
            return Err(LogError::Refused(refusal));
        };
        self.shared.with(|state| {
            if state.topics.contains_key(name) {
                return Err(LogError::Refused(format!("topic {name} exists already")));
            }
            Ok(state.with_topic(&name.into(), partitions, |topic| topic.describe()))
        })
    }

    /// Deletes a topic with its records and its committed offsets; its partitions are lost to
    /// their owners. Says whether there was one.
    pub fn delete_topic(&self, name: &str) -> bool {
        self.shared.with(|state| state.delete_topic(name))
    }

    /// Deletes a partition's records below an offset, as retention does.
    pub fn delete_records_before(&self, topic: &str, partition: i32, offset: i64) {
        self.shared.with(|state| {
            let topic = state.topics.get_mut(topic);
            if let Some(log) = topic.and_then(|topic| topic.partition_mut(partition)) {
                log.delete_before(offset);
            }
        });
    }

    /// Adds partitions to a topic, so that it has `partitions` of them. Its members are told.
    ///
    /// # Errors
    ///
    /// [`LogError::TopicsMissing`], or [`LogError::Refused`] if it has as many already.
    pub fn add_partitions(&self, name: &str, partitions: i32) -> Result<(), LogError> {
        self.shared.with(|state| {
            let Some(topic) = state.topics.get_mut(name) else {
                return Err(LogError::TopicsMissing(vec![name.to_owned()]));
            };
            let before = topic.partition_count();
            if partitions <= before {
                let refusal = format!("topic {name} has {before} partitions already");
                return Err(LogError::Refused(refusal));
            }
            topic.grow(partitions);
            let added = PartitionsAdded {
                topic: name.into(),
                before,
                now: partitions,
            };
            for group in state.groups.values_mut() {
                group.topic_grown(&added, &state.topics, &mut state.wakes);
            }
            Ok(())
        })
    }

    /// Deletes a partition's records from an offset on, as an election of a leader does that lacks
    /// them. Committed offsets stay; readers go on from there.
    pub fn delete_records_from(&self, topic: &str, partition: i32, offset: i64) {
        self.shared.with(|state| {
            let found = state.topics.get_mut(topic);
            if let Some(log) = found.and_then(|topic| topic.partition_mut(partition)) {
                log.delete_from(offset);
                state.rewind(&TopicPartition::new(topic, partition), offset);
            }
        });
    }

    /// Has all readers of a partition go on from an offset below theirs, if it is, as a broker does
    /// whose log has gone back and grown again.
    pub fn rewind(&self, partition: &TopicPartition, offset: i64) {
        self.shared.with(|state| state.rewind(partition, offset));
    }

    /// Everything that stands in a topic, partition after partition.
    pub fn records(&self, topic: &str) -> Vec<Record> {
        self.shared.with(|state| {
            let mut records = Vec::new();
            if let Some(topic) = state.topics.get(topic) {
                for name in topic.topic_partitions() {
                    if let Some(log) = topic.partition(name.partition) {
                        log.read(&name, Generation(0), log.first(), usize::MAX, &mut records);
                    }
                }
            }
            records
        })
    }

    /// The offset that a group committed.
    pub fn committed(&self, group_id: &str, partition: &TopicPartition) -> Option<i64> {
        self.shared
            .with(|state| state.groups.get(group_id)?.committed(partition))
    }

    /// A group's members, in the order in which they joined.
    pub fn members(&self, group_id: &str) -> Vec<MemberId> {
        self.shared.with(|state| {
            let group = state.groups.get(group_id);
            group.map(Group::member_ids).unwrap_or_default()
        })
    }

    /// Who owns a partition in a group.
    pub fn owner(&self, group_id: &str, partition: &TopicPartition) -> Option<MemberId> {
        self.shared
            .with(|state| state.groups.get(group_id)?.owner(partition))
    }

    /// Takes a member out of its group without asking, as a broker does that has not heard of it:
    /// its partitions belong to others at once. With its next [`Log::poll`] it hears that they are
    /// lost, and joins again.
    pub fn expel(&self, member: MemberId) {
        self.shared.with(|state| {
            for group in state.groups.values_mut() {
                group.expel(member, &state.topics, &mut state.wakes);
            }
        });
    }

    /// Has all partitions of a group revoked and, once given up, assigned again.
    pub fn rebalance(&self, group_id: &str) {
        self.shared.with(|state| {
            if let Some(group) = state.groups.get_mut(group_id) {
                group.recall_all(&mut state.wakes);
            }
        });
    }

    /// Empties the log: topics, records and committed offsets are gone, members lose their
    /// partitions and get new ones as topics come into being again.
    pub fn clear(&self) {
        self.shared.with(|state| {
            let names: Vec<_> = state.topics.keys().cloned().collect();
            for name in names {
                state.delete_topic(&name);
            }
        });
    }
}

impl fmt::Debug for InProcessCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcessCluster").finish_non_exhaustive()
    }
}

impl Cluster for InProcessCluster {
    fn describe<'a>(
        &'a self,
        topics: &'a [String],
        _limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<TopicDescription>, LogError>> {
        async move {
            // Checks names and patterns alike.
            Subscription::new(topics)?;
            let partitions = self.shared.partitions;
            Ok(self.shared.with(|state| {
                let names = topics.iter().filter(|name| !name.starts_with('^'));
                names
                    .map(|name| {
                        let name = Arc::from(name.as_str());
                        state.with_topic(&name, partitions, |topic| topic.describe())
                    })
                    .collect()
            }))
        }
        .boxed()
    }

    fn join(&self, membership: Membership) -> Result<Arc<dyn Log>, LogError> {
        let member = self.join_member(&membership)?;
        Ok(member)
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, LogError> {
        Ok(Arc::new(InProcessProducer::new(Arc::clone(&self.shared))))
    }
}

impl Shared {
    /// Works on the state, and wakes whom that concerns once the lock is free: waking may run
    /// code of others.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = work(&mut state);
        let wakes = std::mem::take(&mut state.wakes);
        drop(state);
        for notify in wakes {
            notify.notify_waiters();
        }
        result
    }

    pub(super) fn send(&self, record: OutgoingRecord) -> Result<Delivery, SendError> {
        let timestamp_ms = (self.clock)();
        let partitions = self.partitions;
        self.with(|state| state.append(record, timestamp_ms, partitions))
    }
}

impl State {
    /// Calls `work` with the group, the topics and those to be woken. A group that has a member
    /// exists.
    pub(super) fn in_group<R: Default>(
        &mut self,
        group_id: &str,
        work: impl FnOnce(&mut Group, &mut Topics, &mut Wakes) -> R,
    ) -> R {
        match self.groups.get_mut(group_id) {
            Some(group) => work(group, &mut self.topics, &mut self.wakes),
            None => R::default(),
        }
    }

    pub(super) fn next_event(
        &mut self,
        group_id: &str,
        id: MemberId,
        intake: Intake,
    ) -> Option<LogEvent> {
        self.in_group(group_id, |group, topics, wakes| {
            group.next_event(id, intake, topics, wakes)
        })
    }

    pub(super) fn load(&self, coordinates: &Coordinates) -> Result<Record, LoadError> {
        let partition = &coordinates.topic_partition;
        let topic = self.topics.get(&partition.topic);
        topic
            .filter(|topic| topic.id == coordinates.topic_id)
            .and_then(|topic| topic.partition(partition.partition))
            .and_then(|log| log.record(partition, Generation(0), coordinates.offset))
            .ok_or(LoadError::Gone)
    }

    fn join(
        &mut self,
        group_id: &Arc<str>,
        subscription: Subscription,
        notify: Arc<Notify>,
    ) -> MemberId {
        self.members_joined += 1;
        let id = MemberId(self.members_joined);
        let group = self.groups.entry(Arc::clone(group_id));
        let group = group.or_insert_with(|| Group::new(Arc::clone(group_id)));
        group.join(id, subscription, notify, &self.topics, &mut self.wakes);
        id
    }

    fn append(
        &mut self,
        record: OutgoingRecord,
        timestamp_ms: i64,
        partitions: usize,
    ) -> Result<Delivery, SendError> {
        if let Some(refusal) = size_fault(&record) {
            return Err(SendError::Refused(refusal));
        }
        let name = Arc::clone(&record.topic);
        let (delivery, waiting) = if let Some(topic) = self.topics.get_mut(&name) {
            topic.append(record, timestamp_ms)
        } else if let Some(fault) = name_fault(&name) {
            return Err(SendError::Refused(fault));
        } else {
            self.with_topic(&name, partitions, |topic| {
                topic.append(record, timestamp_ms)
            })
        };
        let partition = TopicPartition::new(name, delivery.partition);
        for group_id in waiting {
            self.in_group(&group_id, |group, _, wakes| {
                group.more_to_read(&partition, wakes);
            });
        }
        Ok(delivery)
    }

    /// Works on the topic of that name, which is made now if there is none.
    fn with_topic<R>(
        &mut self,
        name: &Arc<str>,
        partitions: usize,
        work: impl FnOnce(&mut Topic) -> R,
    ) -> R {
        let mut created = false;
        let topic = self.topics.entry(Arc::clone(name)).or_insert_with(|| {
            created = true;
            self.topics_created += 1;
            Topic::new(Arc::clone(name), TopicId(self.topics_created), partitions)
        });
        let result = work(topic);
        if created {
            for group in self.groups.values_mut() {
                group.topic_created(name, &self.topics, &mut self.wakes);
            }
        }
        result
    }

    fn rewind(&mut self, partition: &TopicPartition, offset: i64) {
        for group in self.groups.values_mut() {
            group.log_went_back(partition, offset, &mut self.wakes);
        }
    }

    fn delete_topic(&mut self, name: &str) -> bool {
        let existed = self.topics.remove(name).is_some();
        for group in self.groups.values_mut() {
            group.topic_deleted(name, &self.topics, &mut self.wakes);
        }
        existed
    }
}

fn size_fault(record: &OutgoingRecord) -> Option<String> {
    let key = record.key.as_ref().map_or(0, Bytes::len);
    let payload = record.payload.as_ref().map_or(0, Bytes::len);
    let headers: usize = record
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.as_ref().map_or(0, Bytes::len))
        .sum();
    let total = key + payload + headers;
    (total > MESSAGE_BYTES_MAX).then(|| {
        format!(
            "the message has {total} bytes (key {key}, payload {payload}, headers {headers}), \
             more than {MESSAGE_BYTES_MAX}"
        )
    })
}
