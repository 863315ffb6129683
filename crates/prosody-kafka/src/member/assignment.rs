//! Which partitions a member has, and in which state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prosody_core::log::{Assigned, PartitionsAdded, Watermark};
use prosody_core::record::{Generation, TopicId, TopicPartition};

use super::position::Former;

/// A topic that is made anew brings no record within this time: librdkafka fetches under a topic's
/// id, the broker refuses the old one, and librdkafka waits before it fetches again
/// (`fetch.error.backoff.ms`, 500 by default).
const QUIET_MAX: Duration = Duration::from_millis(400);

/// A partition that is assigned.
#[derive(Clone, Debug)]
struct Owned {
    generation: Generation,
    topic_id: TopicId,
    /// By the caller, not by us.
    paused: bool,
    /// Told as revoked, not given up yet.
    revoked: bool,
    /// The lowest offset that the next record may have.
    next: i64,
    /// When its topic was last known to be the one of `topic_id`.
    known_at: Instant,
}

/// A partition that the group gives to us, and that waits until its topic and its offset are known.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub topic_partition: TopicPartition,
    /// Whether librdkafka has it assigned: it is begun afresh.
    pub is_native: bool,
    /// The assignment before, if it tells where to begin.
    pub former: Option<Former>,
}

/// Where records of one partition belong.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub topic: Arc<str>,
    pub partition: i32,
    pub generation: Generation,
    next: i64,
    known_at: Instant,
}

/// What is to become of a record.
pub(super) enum Arrival<'a> {
    /// It is the caller's.
    Record(&'a Route),
    /// It is the caller's if the topic is still the one that it was.
    Doubtful(&'a Route),
    /// Its offset was there before: the log has gone back.
    Back(Generation),
    /// Its partition is not ours, or not any more.
    Strange,
}

/// A revocation that waits for the caller.
#[derive(Debug, Default)]
struct Revocation {
    all: Vec<TopicPartition>,
    left: HashSet<TopicPartition>,
}

/// The member's side of the group's assignment.
#[derive(Debug)]
pub(super) struct Assignment {
    topics: HashMap<Arc<str>, HashMap<i32, Owned>>,
    /// The id and the number of partitions of each topic, as last described.
    described: HashMap<Arc<str>, (TopicId, i32)>,
    /// Topics that were made anew, with the ids that they had, until they are begun.
    made_anew: HashMap<Arc<str>, TopicId>,
    /// Counts assignments.
    generation: u64,
    waiting: Vec<Waiting>,
    revocation: Option<Revocation>,
    /// The partition of the last record: the next is likely of the same. It is ahead of `topics`.
    last: Option<Route>,
}

/// How a topic is not what it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It was deleted and created again; this was its id.
    MadeAnew(TopicId),
    /// It has more partitions.
    Grown(PartitionsAdded),
}

impl Assignment {
    pub fn new() -> Self {
        Self {
            topics: HashMap::new(),
            described: HashMap::new(),
            made_anew: HashMap::new(),
            generation: 0,
            waiting: Vec::new(),
            revocation: None,
            last: None,
        }
    }

    /// What is left when the client is made anew: what is known of topics, and the count of
    /// assignments.
    pub fn of_next_client(self) -> Self {
        Self {
            described: self.described,
            made_anew: self.made_anew,
            generation: self.generation,
            ..Self::new()
        }
    }

    // ---- records -------------------------------------------------------------------------

    /// Tells what a record is that was taken from librdkafka at this moment.
    pub fn arrive(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        now: Instant,
    ) -> Arrival<'_> {
        let same = |route: &Route| route.partition == partition && &*route.topic == topic;
        if !self.last.as_ref().is_some_and(same) {
            self.forget_last();
            self.last = self.route(topic, partition);
        }
        let Some(route) = &mut self.last else {
            return Arrival::Strange;
        };
        if offset < route.next {
            return Arrival::Back(route.generation);
        }
        route.next = offset + 1;
        if now.saturating_duration_since(route.known_at) > QUIET_MAX {
            return Arrival::Doubtful(route);
        }
        route.known_at = now;
        Arrival::Record(route)
    }

    /// Expects a partition's records from an earlier offset on; whether this is its assignment.
    pub fn rewind(
        &mut self,
        topic_partition: &TopicPartition,
        generation: Generation,
        offset: i64,
    ) -> bool {
        self.forget_last();
        let TopicPartition { topic, partition } = topic_partition;
        let partitions = self.topics.get_mut(topic);
        let owned = partitions.and_then(|partitions| partitions.get_mut(partition));
        let current = |owned: &&mut Owned| !owned.revoked && owned.generation == generation;
        let Some(owned) = owned.filter(current) else {
            return false;
        };
        owned.next = owned.next.min(offset);
        true
    }

    fn route(&self, topic: &str, partition: i32) -> Option<Route> {
        let (name, partitions) = self.topics.get_key_value(topic)?;
        let owned = partitions.get(&partition).filter(|owned| !owned.revoked)?;
        Some(Route {
            topic: Arc::clone(name),
            partition,
            generation: owned.generation,
            next: owned.next,
            known_at: owned.known_at,
        })
    }

    fn forget_last(&mut self) {
        let Some(route) = self.last.take() else {
            return;
        };
        let partitions = self.topics.get_mut(&route.topic);
        let owned = partitions.and_then(|partitions| partitions.get_mut(&route.partition));
        if let Some(owned) = owned.filter(|owned| owned.generation == route.generation) {
            owned.next = route.next;
            owned.known_at = route.known_at;
        }
    }

    // ---- topics --------------------------------------------------------------------------

    /// The topics of all partitions, also of those that wait, each once.
    pub fn all_topics(&self) -> HashSet<Arc<str>> {
        let waiting = self.waiting.iter().map(|one| &one.topic_partition.topic);
        self.topics.keys().chain(waiting).map(Arc::clone).collect()
    }

    /// A topic was the one of this id at this moment.
    pub fn known(&mut self, topic: &str, id: TopicId, at: Instant) {
        self.forget_last();
        let partitions = self.topics.get_mut(topic).into_iter().flatten();
        for (_, owned) in partitions.filter(|(_, owned)| owned.topic_id == id) {
            owned.known_at = owned.known_at.max(at);
        }
    }

    /// A topic was described: whether it is not what it was.
    pub fn describe(&mut self, topic: &str, id: TopicId, count: i32) -> Option<Change> {
        let name: Arc<str> = match self.described.get_key_value(topic) {
            Some((name, _)) => Arc::clone(name),
            None => topic.into(),
        };
        let before = self.described.insert(Arc::clone(&name), (id, count));
        let (id_before, before) = before?;
        if id_before != id {
            self.made_anew.insert(name, id_before);
            return Some(Change::MadeAnew(id_before));
        }
        (count > before).then_some(Change::Grown(PartitionsAdded {
            topic: name,
            before,
            now: count,
        }))
    }

    /// The partitions of a topic with their generations.
    pub fn of_topic(&self, topic: &str) -> Vec<(TopicPartition, Generation)> {
        let Some((name, partitions)) = self.topics.get_key_value(topic) else {
            return Vec::new();
        };
        let all = partitions.iter().map(|(number, owned)| {
            let partition = TopicPartition::new(Arc::clone(name), *number);
            (partition, owned.generation)
        });
        all.collect()
    }

    // ---- coming --------------------------------------------------------------------------

    /// The group gives these; they are ours when topic and offset of each are known.
    pub fn add(&mut self, partitions: Vec<TopicPartition>) {
        let waiting = partitions.into_iter().map(|topic_partition| Waiting {
            topic_partition,
            is_native: false,
            former: None,
        });
        self.waiting.extend(waiting);
    }

    /// Takes a partition away from the caller, to be begun afresh; whether that is done.
    pub fn restart(
        &mut self,
        topic_partition: &TopicPartition,
        generation: Generation,
        from: Option<i64>,
    ) -> bool {
        let current = |owned: &&Owned| !owned.revoked && owned.generation == generation;
        let Some(owned) = self.get(topic_partition).filter(current) else {
            return false;
        };
        let topic_id = owned.topic_id;
        self.remove(std::slice::from_ref(topic_partition));
        self.waiting.push(Waiting {
            topic_partition: topic_partition.clone(),
            is_native: true,
            former: Some(Former { topic_id, from }),
        });
        true
    }

    /// The partitions that wait for their topic and their offset.
    pub fn waiting(&self) -> impl Iterator<Item = &TopicPartition> {
        self.waiting.iter().map(|one| &one.topic_partition)
    }

    /// Takes out those that wait no longer, with the id and the number of partitions of their topic.
    pub fn take_ready(
        &mut self,
        ready: impl Fn(&TopicPartition) -> Option<(TopicId, i32)>,
    ) -> Vec<(Waiting, TopicId, i32)> {
        let mut taken = Vec::new();
        let made_anew = &self.made_anew;
        self.waiting.retain(|one| {
            let Some((id, count)) = ready(&one.topic_partition) else {
                return true;
            };
            let mut one = one.clone();
            let before = made_anew.get(&one.topic_partition.topic).copied();
            let before = before.map(|topic_id| Former {
                topic_id,
                from: None,
            });
            one.former = one.former.or(before);
            taken.push((one, id, count));
            false
        });
        taken
    }

    /// These wait again.
    pub fn put_back(&mut self, waiting: Vec<Waiting>) {
        self.waiting.extend(waiting);
    }

    /// Makes partitions ours, under one new generation; their topics were described at this moment.
    pub fn begin(
        &mut self,
        partitions: impl IntoIterator<Item = (TopicPartition, TopicId, i32)>,
        described_at: Instant,
    ) -> Vec<Assigned> {
        let generation = Generation(self.generation + 1);
        let begin = |(topic_partition, topic_id, partition_count)| Assigned {
            topic_partition,
            generation,
            topic_id,
            partition_count,
        };
        let assigned: Vec<_> = partitions.into_iter().map(begin).collect();
        if !assigned.is_empty() {
            self.generation = generation.0;
        }
        for one in &assigned {
            self.insert(one, described_at);
            self.made_anew.remove(&one.topic_partition.topic);
        }
        self.forget_last();
        assigned
    }

    fn insert(&mut self, assigned: &Assigned, known_at: Instant) {
        let TopicPartition { topic, partition } = &assigned.topic_partition;
        let owned = Owned {
            generation: assigned.generation,
            topic_id: assigned.topic_id,
            paused: false,
            revoked: false,
            next: 0,
            known_at,
        };
        self.topics
            .entry(Arc::clone(topic))
            .or_default()
            .insert(*partition, owned);
    }

    // ---- going ---------------------------------------------------------------------------

    /// Those of the list that are the caller's, and those that librdkafka alone has. All that wait
    /// are forgotten.
    pub fn owned_of(
        &mut self,
        list: Vec<TopicPartition>,
    ) -> (Vec<TopicPartition>, Vec<TopicPartition>) {
        let gone: HashSet<&TopicPartition> = list.iter().collect();
        let mut restarting = Vec::new();
        self.waiting.retain(|one| {
            let is_gone = gone.contains(&one.topic_partition);
            if is_gone && one.is_native {
                restarting.push(one.topic_partition.clone());
            }
            !is_gone
        });
        let owned = list
            .into_iter()
            .filter(|partition| self.get(partition).is_some())
            .collect();
        (owned, restarting)
    }

    /// These are to be given up: no record of them any more. The others go with them.
    pub fn revoke(&mut self, partitions: &[TopicPartition], others: Vec<TopicPartition>) {
        self.forget_last();
        for partition in partitions {
            if let Some(owned) = self.get_mut(partition) {
                owned.revoked = true;
            }
        }
        let revocation = self.revocation.get_or_insert_default();
        revocation.all.extend_from_slice(partitions);
        revocation.all.extend(others);
        revocation.left.extend(partitions.iter().cloned());
    }

    /// The caller gave these up. When nothing of the revocation is left, gives all of it.
    pub fn give_up(&mut self, partitions: &[TopicPartition]) -> Option<Vec<TopicPartition>> {
        let revocation = self.revocation.as_mut()?;
        for partition in partitions {
            revocation.left.remove(partition);
        }
        if !revocation.left.is_empty() {
            return None;
        }
        self.end_revocation()
    }

    /// Whether no revocation waits for the caller.
    pub fn is_given_up(&self) -> bool {
        let revocation = self.revocation.as_ref();
        revocation.is_none_or(|revocation| revocation.left.is_empty())
    }

    /// All partitions that are the caller's and not being revoked.
    pub fn kept(&self) -> Vec<TopicPartition> {
        let kept_of = |(topic, partitions): (&Arc<str>, &HashMap<i32, Owned>)| -> Vec<_> {
            let kept = partitions.iter().filter(|(_, owned)| !owned.revoked);
            kept.map(|(number, _)| TopicPartition::new(Arc::clone(topic), *number))
                .collect()
        };
        self.topics.iter().flat_map(kept_of).collect()
    }

    /// The revocation that waits, whether it was answered or not.
    pub fn end_revocation(&mut self) -> Option<Vec<TopicPartition>> {
        Some(self.revocation.take()?.all)
    }

    /// These are not ours any more.
    pub fn remove(&mut self, partitions: &[TopicPartition]) {
        self.forget_last();
        for TopicPartition { topic, partition } in partitions {
            if let Some(of_topic) = self.topics.get_mut(topic) {
                of_topic.remove(partition);
                if of_topic.is_empty() {
                    self.topics.remove(topic);
                }
            }
        }
        if let Some(revocation) = &mut self.revocation {
            revocation
                .all
                .retain(|partition| !partitions.contains(partition));
            revocation
                .left
                .retain(|partition| !partitions.contains(partition));
        }
    }

    // ---- pauses --------------------------------------------------------------------------

    /// Notes the caller's wish; gives the partitions whose present assignment it means.
    pub fn set_paused(
        &mut self,
        list: Vec<(TopicPartition, Generation)>,
        paused: bool,
    ) -> Vec<TopicPartition> {
        let mut ours = Vec::with_capacity(list.len());
        for (partition, generation) in list {
            let owned = self.get_mut(&partition);
            if let Some(owned) = owned.filter(|owned| owned.generation == generation) {
                owned.paused = paused;
                ours.push(partition);
            }
        }
        ours
    }

    /// Those of ours that the caller has not paused.
    pub fn unpaused(&self) -> Vec<TopicPartition> {
        let partitions_of = |(topic, partitions): (&Arc<str>, &HashMap<i32, Owned>)| -> Vec<_> {
            let unpaused = partitions.iter().filter(|(_, owned)| !owned.paused);
            unpaused
                .map(|(partition, _)| TopicPartition::new(Arc::clone(topic), *partition))
                .collect()
        };
        self.topics.iter().flat_map(partitions_of).collect()
    }

    /// Those of the list that are paused in librdkafka: by the caller, or all.
    pub fn paused_of(&self, list: &[TopicPartition], all: bool) -> Vec<TopicPartition> {
        let paused = |partition: &&TopicPartition| {
            self.get(partition).is_some_and(|owned| all || owned.paused)
        };
        list.iter().filter(paused).cloned().collect()
    }

    /// Whether a watermark belongs to the present assignment of its partition.
    pub fn is_current(&self, watermark: &Watermark) -> bool {
        self.get(&watermark.topic_partition).is_some_and(|owned| {
            owned.generation == watermark.generation && owned.topic_id == watermark.topic_id
        })
    }

    fn get(&self, partition: &TopicPartition) -> Option<&Owned> {
        self.topics.get(&partition.topic)?.get(&partition.partition)
    }

    fn get_mut(&mut self, partition: &TopicPartition) -> Option<&mut Owned> {
        self.topics
            .get_mut(&partition.topic)?
            .get_mut(&partition.partition)
    }
}

#[cfg(test)]
mod tests;
