//! A consumer group: its members, who owns which partition, and how far the group has come.

mod reading;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::assignment::{Candidate, balance};
use super::subscription::Subscription;
use super::topic::{Topic, Topics};
use crate::log::{Assigned, Intake, LogError, LogEvent, PartitionsAdded, Watermark};
use crate::record::{Generation, TopicId, TopicPartition};

/// A member of a group; no two in the life of a cluster have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

/// Those who are to be woken once the lock is free.
pub(super) type Wakes = Vec<Arc<Notify>>;

/// One consumer group. It stays when its last member leaves: its offsets are durable.
pub(super) struct Group {
    id: Arc<str>,
    members: BTreeMap<MemberId, GroupMember>,
    /// Who owns what. A partition has one claim or none, hence never two owners.
    claims: BTreeMap<TopicPartition, Claim>,
    /// Who is to own what. A claim of somebody else's stands until it is given up.
    targets: BTreeMap<TopicPartition, MemberId>,
    committed: BTreeMap<TopicPartition, i64>,
}

struct GroupMember {
    subscription: Subscription,
    notify: Arc<Notify>,
    /// Counts the assignments.
    generation: u64,
    /// Whether claims may hold something that the member has not been told.
    unsettled: bool,
    /// Out of the group until it hears of it.
    expelled: bool,
    /// What it lost and has not been told.
    lost: Vec<TopicPartition>,
    /// Topics that have grown, which it has not been told.
    grown: VecDeque<PartitionsAdded>,
    /// Partitions whose claim's reader is [`Reader::Ready`], each once, in the order in which
    /// they are served.
    ready: VecDeque<TopicPartition>,
}

struct Claim {
    owner: MemberId,
    stage: Stage,
    generation: Generation,
    topic_id: TopicId,
    /// The next offset to deliver.
    position: i64,
    /// Where the log has gone back to: it is begun there if the committed offset is above.
    from: Option<i64>,
    paused: bool,
    /// To be revoked even if the owner is to have it again.
    recalled: bool,
    reader: Reader,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The owner has not been told; the claim may still move without a word.
    Granted,
    Assigned,
    /// The owner has been told and is to give it up.
    Revoking,
}

/// Who will notice the next record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// Nobody: the claim is new, or paused.
    Idle,
    /// The owner's next poll.
    Ready,
    /// The producer of the next record.
    Waiting,
}

impl Group {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            members: BTreeMap::new(),
            claims: BTreeMap::new(),
            targets: BTreeMap::new(),
            committed: BTreeMap::new(),
        }
    }

    pub(super) fn member_ids(&self) -> Vec<MemberId> {
        self.members.keys().copied().collect()
    }

    pub(super) fn owner(&self, partition: &TopicPartition) -> Option<MemberId> {
        self.claims.get(partition).map(|claim| claim.owner)
    }

    pub(super) fn committed(&self, partition: &TopicPartition) -> Option<i64> {
        self.committed.get(partition).copied()
    }

    pub(super) fn join(
        &mut self,
        id: MemberId,
        subscription: Subscription,
        notify: Arc<Notify>,
        topics: &Topics,
        wakes: &mut Wakes,
    ) {
        let member = GroupMember {
            subscription,
            notify,
            generation: 0,
            unsettled: false,
            expelled: false,
            lost: Vec::new(),
            grown: VecDeque::new(),
            ready: VecDeque::new(),
        };
        self.members.insert(id, member);
        self.rebalance(topics, wakes);
    }

    pub(super) fn leave(&mut self, id: MemberId, topics: &Topics, wakes: &mut Wakes) {
        let Some(member) = self.members.remove(&id) else {
            return;
        };
        wakes.push(member.notify);
        self.claims.retain(|_, claim| claim.owner != id);
        self.rebalance(topics, wakes);
    }

    /// Takes a member out of the group without asking it. It comes back when it hears of it.
    pub(super) fn expel(&mut self, id: MemberId, topics: &Topics, wakes: &mut Wakes) {
        let Some(member) = self.members.get_mut(&id) else {
            return;
        };
        member.expelled = true;
        wakes.push(Arc::clone(&member.notify));
        self.lose(|_, claim| claim.owner == id, wakes);
        self.rebalance(topics, wakes);
    }

    /// Has every partition revoked and given back.
    pub(super) fn recall_all(&mut self, wakes: &mut Wakes) {
        for claim in self.claims.values_mut() {
            if claim.stage == Stage::Assigned {
                claim.recalled = true;
                if let Some(owner) = self.members.get_mut(&claim.owner) {
                    owner.unsettle(wakes);
                }
            }
        }
    }

    /// A topic came into being.
    pub(super) fn topic_created(&mut self, name: &str, topics: &Topics, wakes: &mut Wakes) {
        let mut members = self.members.values();
        if members.any(|member| member.subscription.includes(name)) {
            self.rebalance(topics, wakes);
        }
    }

    /// A topic is gone, and with it what the group knew of it.
    pub(super) fn topic_deleted(&mut self, name: &str, topics: &Topics, wakes: &mut Wakes) {
        self.committed
            .retain(|partition, _| &*partition.topic != name);
        self.lose(|partition, _| &*partition.topic == name, wakes);
        self.rebalance(topics, wakes);
    }

    /// A topic has more partitions than before.
    pub(super) fn topic_grown(
        &mut self,
        added: &PartitionsAdded,
        topics: &Topics,
        wakes: &mut Wakes,
    ) {
        for member in self.members.values_mut() {
            if member.subscription.includes(&added.topic) {
                member.grown.push_back(added.clone());
                member.unsettle(wakes);
            }
        }
        self.rebalance(topics, wakes);
    }

    /// Ends an assignment and grants the partition anew.
    pub(super) fn restart(
        &mut self,
        id: MemberId,
        partition: &TopicPartition,
        generation: Generation,
        from: Option<i64>,
        topics: &Topics,
        wakes: &mut Wakes,
    ) {
        let restarts = |claim: &mut Claim| {
            claim.stage == Stage::Assigned && !claim.recalled && claim.generation == generation
        };
        if !self.claim_of(id, partition).is_some_and(restarts) {
            return;
        }
        self.lose(|lost, _| lost == partition, wakes);
        self.settle(topics, wakes);
        if let Some(claim) = self.claims.get_mut(partition) {
            claim.from = from;
        }
    }

    pub(super) fn give_up(
        &mut self,
        id: MemberId,
        partitions: &[TopicPartition],
        topics: &Topics,
        wakes: &mut Wakes,
    ) {
        for partition in partitions {
            let revoking = |claim: &mut Claim| claim.stage == Stage::Revoking;
            if self.claim_of(id, partition).is_some_and(revoking) {
                self.claims.remove(partition);
            }
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.unsettle(wakes);
        }
        self.settle(topics, wakes);
    }

    pub(super) fn commit(
        &mut self,
        id: MemberId,
        watermarks: Vec<Watermark>,
    ) -> Result<(), LogError> {
        let mut result = Ok(());
        for watermark in watermarks {
            let owns = |claim: &mut Claim| {
                claim.stage != Stage::Granted
                    && claim.generation == watermark.generation
                    && claim.topic_id == watermark.topic_id
            };
            let partition = watermark.topic_partition;
            if self.claim_of(id, &partition).is_some_and(owns) {
                self.committed.insert(partition, watermark.offset);
            } else {
                result = Err(LogError::Ended);
            }
        }
        result
    }

    /// The next thing that the member is to hear, if there is any.
    pub(super) fn next_event(
        &mut self,
        id: MemberId,
        intake: Intake,
        topics: &mut Topics,
        wakes: &mut Wakes,
    ) -> Option<LogEvent> {
        let Some(member) = self.members.get_mut(&id) else {
            return Some(LogEvent::Failed(LogError::Ended));
        };
        let lost = std::mem::take(&mut member.lost);
        if member.expelled {
            member.expelled = false;
            self.rebalance(topics, wakes);
        }
        if !lost.is_empty() {
            return Some(LogEvent::Lost(lost));
        }
        if let Some(grown) = self
            .members
            .get_mut(&id)
            .and_then(|own| own.grown.pop_front())
        {
            return Some(LogEvent::PartitionsAdded(grown));
        }
        let change = self.next_change(id, topics);
        match intake {
            Intake::Open => change.or_else(|| self.next_records(id, topics)),
            Intake::Closed => change,
        }
    }

    fn claim_of(&mut self, id: MemberId, partition: &TopicPartition) -> Option<&mut Claim> {
        let claim = self.claims.get_mut(partition)?;
        (claim.owner == id).then_some(claim)
    }

    /// Ends claims without asking.
    fn lose(&mut self, which: impl Fn(&TopicPartition, &Claim) -> bool, wakes: &mut Wakes) {
        let members = &mut self.members;
        self.claims.retain(|partition, claim| {
            if !which(partition, claim) {
                return true;
            }
            let owner = members.get_mut(&claim.owner);
            if let Some(owner) = owner.filter(|_| claim.stage != Stage::Granted) {
                owner.lost.push(partition.clone());
                owner.ready.retain(|ready| ready != partition);
                owner.unsettle(wakes);
            }
            false
        });
    }

    fn rebalance(&mut self, topics: &Topics, wakes: &mut Wakes) {
        let eligible: Vec<(_, Vec<MemberId>)> = topics
            .iter()
            .map(|(name, topic)| {
                let members = self.members.iter();
                let subscribed = members
                    .filter(|(_, member)| !member.expelled && member.subscription.includes(name))
                    .map(|(id, _)| *id);
                (topic, subscribed.collect())
            })
            .collect();
        let candidates: Vec<Candidate<'_>> = eligible
            .iter()
            .filter(|(_, members)| !members.is_empty())
            .flat_map(|(topic, members)| {
                topic.topic_partitions().map(|partition| Candidate {
                    holder: self.holder(&partition),
                    topic_partition: partition,
                    eligible: members,
                })
            })
            .collect();
        self.targets = balance(&candidates);
        self.settle(topics, wakes);
    }

    fn holder(&self, partition: &TopicPartition) -> Option<MemberId> {
        let claim = self.claims.get(partition);
        let kept = claim.filter(|claim| claim.stage != Stage::Revoking);
        let owner = kept.map(|claim| claim.owner);
        owner.or_else(|| self.targets.get(partition).copied())
    }

    /// Brings claims closer to targets, as far as that needs no answer of anybody.
    fn settle(&mut self, topics: &Topics, wakes: &mut Wakes) {
        for (partition, &target) in &self.targets {
            let Some(topic) = topics.get(&partition.topic) else {
                continue;
            };
            let granted = Claim::granted(target, topic.id);
            let claim = self.claims.entry(partition.clone()).or_insert(granted);
            if claim.stage == Stage::Granted {
                claim.owner = target;
            }
            let told = claim.stage == Stage::Assigned && claim.owner == target;
            let concerned = self.members.get_mut(&claim.owner);
            if let Some(member) = concerned.filter(|member| !told && !member.unsettled) {
                member.unsettle(wakes);
            }
        }
    }

    fn next_change(&mut self, id: MemberId, topics: &Topics) -> Option<LogEvent> {
        let member = self.members.get_mut(&id)?;
        if !member.unsettled {
            return None;
        }
        let targets = &self.targets;
        let own = self
            .claims
            .iter_mut()
            .filter(|(_, claim)| claim.owner == id);
        let mut revoking = false;
        let mut revoked = Vec::new();
        let mut granted = Vec::new();
        for (partition, claim) in own {
            let unwanted = claim.recalled || targets.get(partition) != Some(&id);
            match claim.stage {
                Stage::Revoking => revoking = true,
                Stage::Granted => granted.push((partition, claim)),
                Stage::Assigned if unwanted => revoked.push((partition, claim)),
                Stage::Assigned => {}
            }
        }
        if !revoking && !revoked.is_empty() {
            let partitions = revoked.into_iter().map(|(partition, claim)| {
                claim.stage = Stage::Revoking;
                claim.reader = Reader::Idle;
                member.ready.retain(|ready| ready != partition);
                partition.clone()
            });
            return Some(LogEvent::Revoked(partitions.collect()));
        }
        // What is left to revoke comes up again when the member gives up what it was told of.
        member.unsettled = false;
        if granted.is_empty() {
            return None;
        }
        member.generation += 1;
        let generation = Generation(member.generation);
        let mut assigned = Vec::with_capacity(granted.len());
        for (partition, claim) in granted {
            claim.stage = Stage::Assigned;
            claim.generation = generation;
            let committed = self.committed.get(partition).copied().unwrap_or(0);
            claim.position = claim.from.map_or(committed, |from| committed.min(from));
            claim.reader = Reader::Ready;
            member.ready.push_back(partition.clone());
            assigned.push(Assigned {
                topic_partition: partition.clone(),
                generation,
                topic_id: claim.topic_id,
                partition_count: topics
                    .get(&partition.topic)
                    .map_or(0, Topic::partition_count),
            });
        }
        Some(LogEvent::Assigned(assigned))
    }
}

impl GroupMember {
    fn unsettle(&mut self, wakes: &mut Wakes) {
        self.unsettled = true;
        wakes.push(Arc::clone(&self.notify));
    }
}

impl Claim {
    fn granted(owner: MemberId, topic_id: TopicId) -> Self {
        Self {
            owner,
            stage: Stage::Granted,
            generation: Generation(0),
            topic_id,
            position: 0,
            from: None,
            paused: false,
            recalled: false,
            reader: Reader::Idle,
        }
    }
}
