//! Partitions that come and go.

use std::time::Duration;

use prosody_core::record::{Generation, TopicId, TopicPartition};
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use tracing::{debug, warn};

use super::assignment::Waiting;
use super::context::Rebalance;
use super::position;
use super::worker::{Flow, Worker, log_failure};
use crate::partitions::to_native;

/// How long the poll thread waits until librdkafka has begun to read from elsewhere.
const SEEK_LIMIT: Duration = Duration::from_secs(1);

/// A partition that is to be begun, and where.
struct Beginning {
    waiting: Waiting,
    topic_id: TopicId,
    partition_count: i32,
    start: Offset,
}

impl Worker<'_> {
    /// Takes what the group wants; whether it wanted anything.
    pub(super) fn take_rebalances(&mut self) -> bool {
        let mut any = false;
        while let Some(rebalance) = self.consumer.context().next_rebalance() {
            any = true;
            self.flush();
            debug!("rebalance: {rebalance:?}");
            match rebalance {
                Rebalance::Assign(partitions) => self.assign(partitions),
                Rebalance::Revoke(partitions) => self.revoke(partitions),
                Rebalance::Lose(partitions) => self.lose(partitions),
            }
        }
        any
    }

    fn assign(&mut self, partitions: Vec<TopicPartition>) {
        self.answer_due = true;
        if partitions.is_empty() || self.rejoins {
            // The protocol wants an answer to an empty list, too.
            self.answer_assign(&TopicPartitionList::new());
            return;
        }
        self.assignment.add(partitions);
        self.look_ups.soon();
        self.look_up_if_due();
    }

    /// Begins the partitions of which all that is needed is known.
    pub(super) fn begin_ready(&mut self) {
        if self.rejoins {
            return;
        }
        let ready = self
            .assignment
            .take_ready(|partition| self.look_ups.ready(partition));
        let answers = self.answer_due && self.look_ups.began();
        if ready.is_empty() && !answers {
            return;
        }
        let begins_at = self.begins_at;
        let beginnings = ready.into_iter().map(|(waiting, topic_id, partition_count)| {
            let committed = self.look_ups.committed(&waiting.topic_partition);
            let start = position::start(topic_id, committed, waiting.former, begins_at);
            if let Some(committed) = committed.filter(|_| start == Offset::Beginning) {
                let (partition, offset) = (&waiting.topic_partition, committed.offset);
                warn!(
                    "the committed offset is of another topic of the same name, the partition is begun at its first message: {partition} offset={offset}"
                );
            }
            Beginning {
                waiting,
                topic_id,
                partition_count,
                start,
            }
        });
        let (fresh, restarts): (Vec<_>, Vec<_>) =
            beginnings.partition(|one| !one.waiting.is_native);
        let mut begun = Vec::new();
        // Partitions whose topics are not described come later, by themselves.
        if (answers || !fresh.is_empty()) && self.answer_assign(&starts(&fresh)) {
            begun.extend(fresh);
        }
        begun.extend(self.seek(restarts));
        self.hand_over(begun);
    }

    fn answer_assign(&mut self, partitions: &TopicPartitionList) -> bool {
        self.answer_due = false;
        log_failure("assign", &self.consumer.incremental_assign(partitions))
    }

    /// Has librdkafka read from where the partitions begin; those where that fails wait again.
    fn seek(&mut self, restarts: Vec<Beginning>) -> Vec<Beginning> {
        if restarts.is_empty() {
            return restarts;
        }
        let sought = self.consumer.seek_partitions(starts(&restarts), SEEK_LIMIT);
        let moved = |one: &Beginning, list: &TopicPartitionList| {
            let TopicPartition { topic, partition } = &one.waiting.topic_partition;
            let entry = list.find_partition(topic, *partition);
            entry.is_some_and(|entry| entry.error().is_ok())
        };
        let (moved, stuck): (Vec<_>, Vec<_>) = match &sought {
            Ok(list) => restarts.into_iter().partition(|one| moved(one, list)),
            Err(_) => (Vec::new(), restarts),
        };
        if !stuck.is_empty() {
            debug!("partitions cannot be begun afresh yet: {sought:?}");
            let waiting = stuck.into_iter().map(|one| one.waiting);
            self.assignment.put_back(waiting.collect());
        }
        moved
    }

    fn hand_over(&mut self, begun: Vec<Beginning>) {
        if begun.is_empty() {
            return;
        }
        let described_at = self.look_ups.asked_at();
        let begun = begun.into_iter().map(|one| {
            let partition = one.waiting.topic_partition;
            (partition, one.topic_id, one.partition_count)
        });
        let assigned = self.assignment.begin(begun, described_at);
        if self.flow == Flow::Paused {
            let names: Vec<_> = assigned
                .iter()
                .map(|one| one.topic_partition.clone())
                .collect();
            self.pause_native(&names);
        }
        self.shared.outbox.assigned(assigned);
    }

    /// Takes partitions away from the caller and begins them afresh, as far as these are their
    /// present assignments. librdkafka keeps them: the group hears nothing of it.
    pub(super) fn restart(
        &mut self,
        assignments: impl IntoIterator<Item = (TopicPartition, Generation, Option<i64>)>,
    ) {
        self.flush();
        let mut lost = Vec::new();
        for (partition, generation, from) in assignments {
            let this = std::slice::from_ref(&partition);
            let paused = self.assignment.paused_of(this, self.flow == Flow::Paused);
            if self.assignment.restart(&partition, generation, from) {
                self.resume_native(&paused);
                lost.push(partition);
            }
        }
        if lost.is_empty() {
            return;
        }
        self.doubtful.forget(&lost);
        self.shared.outbox.lost(lost);
        self.look_ups.soon();
    }

    /// The same with all that the caller has of a topic.
    pub(super) fn restart_topic(&mut self, topic: &str) {
        let all = self.assignment.of_topic(topic).into_iter();
        self.restart(all.map(|(name, generation)| (name, generation, None)));
    }

    /// Has the caller give up what it has, as in any rebalance, after one that is under way: whether
    /// nothing is left.
    pub(super) fn recall_all(&mut self) -> bool {
        if !self.assignment.is_given_up() {
            return false;
        }
        let kept = self.assignment.kept();
        if kept.is_empty() {
            return true;
        }
        self.flush();
        self.doubtful.forget(&kept);
        self.assignment.revoke(&kept, Vec::new());
        self.shared.outbox.revoked(kept);
        false
    }

    fn revoke(&mut self, partitions: Vec<TopicPartition>) {
        if self.rejoins {
            // All are on their way already; the end of the client answers.
            return;
        }
        self.answer_due = false;
        self.doubtful.forget(&partitions);
        let (owned, restarting) = self.assignment.owned_of(partitions);
        if owned.is_empty() {
            self.unassign(&restarting);
            return;
        }
        self.assignment.revoke(&owned, restarting);
        self.shared.outbox.revoked(owned);
    }

    fn lose(&mut self, partitions: Vec<TopicPartition>) {
        self.answer_due = false;
        self.doubtful.forget(&partitions);
        let (owned, restarting) = self.assignment.owned_of(partitions);
        self.unassign(&[&owned[..], &restarting[..]].concat());
        if !owned.is_empty() {
            self.shared.outbox.lost(owned);
        }
    }

    pub(super) fn unassign(&mut self, partitions: &[TopicPartition]) {
        // librdkafka would keep the pause for the next assignment of the same partition.
        let paused = self
            .assignment
            .paused_of(partitions, self.flow == Flow::Paused);
        self.resume_native(&paused);
        self.assignment.remove(partitions);
        let result = self.consumer.incremental_unassign(&to_native(partitions));
        log_failure("unassign", &result);
    }

    /// The client is to be destroyed: what librdkafka still waits for is answered.
    pub(super) fn answer_everything(&mut self) {
        if let Some(revoked) = self.assignment.end_revocation() {
            self.unassign(&revoked);
        }
        if self.answer_due {
            self.answer_assign(&TopicPartitionList::new());
        }
    }
}

fn starts(beginnings: &[Beginning]) -> TopicPartitionList {
    let mut list = TopicPartitionList::with_capacity(beginnings.len());
    for one in beginnings {
        let TopicPartition { topic, partition } = &one.waiting.topic_partition;
        let set: Result<(), KafkaError> =
            list.add_partition(topic, *partition).set_offset(one.start);
        // Fails only for offsets that are none.
        log_failure("begin", &set);
    }
    list
}
