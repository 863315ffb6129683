//! Which partitions a member has, and in which state.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use prosody_core::log::{Assigned, Watermark};
use prosody_core::record::{Generation, TopicId, TopicPartition};

use crate::ffi::DescribedTopic;

/// A partition that is assigned.
#[derive(Clone, Debug)]
struct Owned {
    generation: Generation,
    topic_id: TopicId,
    /// By the caller, not by us.
    paused: bool,
    /// Told as revoked, not given up yet.
    revoked: bool,
}

/// Where records of one partition belong.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub topic: Arc<str>,
    pub partition: i32,
    pub generation: Generation,
}

/// A revocation that waits for the caller.
#[derive(Debug, Default)]
struct Revocation {
    all: Vec<TopicPartition>,
    left: HashSet<TopicPartition>,
}

/// The member's side of the group's assignment.
#[derive(Debug, Default)]
pub(super) struct Assignment {
    topics: HashMap<Arc<str>, HashMap<i32, Owned>>,
    /// Counts assignments.
    generation: u64,
    /// Given to us by the group, and waiting until their topic is described.
    undescribed: Vec<TopicPartition>,
    revocation: Option<Revocation>,
    /// The partition of the last record: the next is likely of the same.
    last: Option<Route>,
}

impl Assignment {
    /// Where a record belongs: `None` if its partition is not ours, or not any more.
    pub fn route(&mut self, topic: &str, partition: i32) -> Option<&Route> {
        let same = |route: &Route| route.partition == partition && &*route.topic == topic;
        if !self.last.as_ref().is_some_and(same) {
            let (name, partitions) = self.topics.get_key_value(topic)?;
            let owned = partitions.get(&partition).filter(|owned| !owned.revoked)?;
            self.last = Some(Route {
                topic: Arc::clone(name),
                partition,
                generation: owned.generation,
            });
        }
        self.last.as_ref()
    }

    /// The group gives these; they are ours when their topics are described.
    pub fn add_undescribed(&mut self, partitions: Vec<TopicPartition>) {
        self.undescribed.extend(partitions);
    }

    /// The topics that must be described, each once.
    pub fn undescribed_topics(&self) -> HashSet<Arc<str>> {
        let topics = self.undescribed.iter();
        topics
            .map(|partition| Arc::clone(&partition.topic))
            .collect()
    }

    /// Makes the partitions of these topics ours, under one new generation.
    pub fn take_described(&mut self, described: &[DescribedTopic]) -> Vec<Assigned> {
        let found: HashMap<&str, (TopicId, i32)> = described
            .iter()
            .filter_map(|topic| Some((topic.name.as_str(), *topic.found.as_ref().ok()?)))
            .collect();
        let generation = Generation(self.generation + 1);
        let mut assigned = Vec::new();
        self.undescribed.retain(|topic_partition| {
            let Some((topic_id, partition_count)) = found.get(&*topic_partition.topic) else {
                return true;
            };
            assigned.push(Assigned {
                topic_partition: topic_partition.clone(),
                generation,
                topic_id: *topic_id,
                partition_count: *partition_count,
            });
            false
        });
        if !assigned.is_empty() {
            self.generation = generation.0;
        }
        for one in &assigned {
            self.insert(one);
        }
        self.last = None;
        assigned
    }

    fn insert(&mut self, assigned: &Assigned) {
        let TopicPartition { topic, partition } = &assigned.topic_partition;
        let owned = Owned {
            generation: assigned.generation,
            topic_id: assigned.topic_id,
            paused: false,
            revoked: false,
        };
        self.topics
            .entry(Arc::clone(topic))
            .or_default()
            .insert(*partition, owned);
    }

    /// Those of the list that are ours; those that were never described are forgotten.
    pub fn owned_of(&mut self, list: Vec<TopicPartition>) -> Vec<TopicPartition> {
        let gone: HashSet<&TopicPartition> = list.iter().collect();
        self.undescribed
            .retain(|partition| !gone.contains(partition));
        list.into_iter()
            .filter(|partition| self.get(partition).is_some())
            .collect()
    }

    /// These are to be given up: no record of them any more.
    pub fn revoke(&mut self, partitions: &[TopicPartition]) {
        self.last = None;
        for partition in partitions {
            if let Some(owned) = self.get_mut(partition) {
                owned.revoked = true;
            }
        }
        let revocation = self.revocation.get_or_insert_default();
        revocation.all.extend_from_slice(partitions);
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

    /// The revocation that waits, whether it was answered or not.
    pub fn end_revocation(&mut self) -> Option<Vec<TopicPartition>> {
        Some(self.revocation.take()?.all)
    }

    /// These are not ours any more.
    pub fn remove(&mut self, partitions: &[TopicPartition]) {
        self.last = None;
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

    /// Notes the caller's wish; gives the partitions that are ours.
    pub fn set_paused(&mut self, list: Vec<TopicPartition>, paused: bool) -> Vec<TopicPartition> {
        let mut ours = Vec::with_capacity(list.len());
        for partition in list {
            if let Some(owned) = self.get_mut(&partition) {
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
mod tests {
    use prosody_core::record::TopicId;

    use super::*;

    fn partition(topic: &str, number: i32) -> TopicPartition {
        TopicPartition::new(topic, number)
    }

    fn described(topic: &str) -> DescribedTopic {
        DescribedTopic {
            name: topic.to_owned(),
            found: Ok((TopicId(1), 4)),
        }
    }

    fn generation(assignment: &mut Assignment, topic: &str, number: i32) -> Option<u64> {
        assignment
            .route(topic, number)
            .map(|route| route.generation.0)
    }

    #[test]
    fn a_partition_is_ours_when_its_topic_is_described() {
        let mut assignment = Assignment::default();
        assignment.add_undescribed(vec![partition("a", 0), partition("b", 0)]);
        assert_eq!(generation(&mut assignment, "a", 0), None);
        assert_eq!(assignment.take_described(&[described("a")]).len(), 1);
        assert_eq!(assignment.take_described(&[described("a")]).len(), 0);
        assert_eq!(assignment.take_described(&[described("b")]).len(), 1);
        assert_eq!(generation(&mut assignment, "a", 0), Some(1));
        assert_eq!(generation(&mut assignment, "b", 0), Some(2));
        assert_eq!(generation(&mut assignment, "a", 1), None);
    }

    #[test]
    fn what_is_revoked_before_it_is_described_never_comes() {
        let mut assignment = Assignment::default();
        assignment.add_undescribed(vec![partition("a", 0), partition("a", 1)]);
        assert_eq!(assignment.owned_of(vec![partition("a", 0)]), []);
        let assigned = assignment.take_described(&[described("a")]);
        assert_eq!(assigned.len(), 1);
        assert_eq!(assigned[0].topic_partition, partition("a", 1));
    }

    #[test]
    fn a_revocation_ends_when_all_of_it_is_given_up() {
        let mut assignment = Assignment::default();
        let both = vec![partition("a", 0), partition("a", 1)];
        assignment.add_undescribed(both.clone());
        assignment.take_described(&[described("a")]);
        assert_eq!(assignment.give_up(&both), None);
        assignment.revoke(&both);
        assert_eq!(generation(&mut assignment, "a", 0), None);
        assert_eq!(assignment.give_up(&both[..1]), None);
        assert_eq!(assignment.give_up(&both[1..]), Some(both.clone()));
        assignment.remove(&both);
        assert_eq!(assignment.owned_of(both), []);
    }
}
