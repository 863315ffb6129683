//! Partitions that come and go, and the watermarks that are committed in between.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;
use tracing::{info, warn};

use super::Consumer;
use super::assignment::Assignment;
use super::errand::{self, Errand};
use super::handover::{Handover, Stage, Step};
use super::partition::Partition;
use crate::ledger::LedgerPartition;
use crate::log::{Assigned, LogError, Watermark};
use crate::record::TopicPartition;

/// What a shutdown may take beyond its limit: a second, less what it takes to return.
const CLOSE_GRACE: Duration = Duration::from_millis(900);

impl Consumer {
    pub(super) fn assigned(&mut self, assigned: Vec<Assigned>) {
        if self.closing.is_some() {
            return;
        }
        let names: Vec<_> = assigned
            .iter()
            .map(|one| one.topic_partition.to_string())
            .collect();
        info!("assigned: {}", names.join(", "));
        self.departed.retain(|assignment| assignment.running() > 0);
        for one in assigned {
            self.lost(std::slice::from_ref(&one.topic_partition));
            self.adopt(one);
        }
    }

    fn adopt(&mut self, assigned: Assigned) {
        let topic_partition = assigned.topic_partition;
        let same = |other: &&Arc<Assignment>| *other.topic_partition() == topic_partition;
        let predecessors: Vec<_> = self.departed.iter().filter(same).cloned().collect();
        if !predecessors.is_empty() {
            warn!(
                "partition waits for handlers of its earlier assignment to end: {topic_partition}"
            );
        }
        let name = LedgerPartition {
            group_id: Arc::clone(&self.settings.group_id),
            topic_partition: topic_partition.clone(),
        };
        let assignment = Assignment::new(name, assigned.generation, assigned.topic_id);
        let assignment = Arc::new(assignment);
        let ready = errand::make_ready(Arc::clone(&assignment), predecessors, self.journey.room());
        self.errands.push(ready.boxed());
        let progress = self.status.add(&topic_partition);
        self.partitions
            .insert(topic_partition, Partition::new(assignment, progress));
    }

    pub(super) fn revoked(&mut self, partitions: Vec<TopicPartition>) {
        if self.closing.is_some() {
            // All partitions are being handed over already; leaving the group answers this too.
            return;
        }
        self.begin_handover(partitions, self.settings.shutdown_timeout);
    }

    pub(super) fn begin_shutdown(&mut self, limit: Duration) {
        let ends_at = Instant::now() + limit + CLOSE_GRACE;
        let earlier = self.closing.is_some_and(|at| at <= ends_at);
        if earlier {
            return;
        }
        self.closing = Some(ends_at);
        let partitions = self.all_partitions();
        self.begin_handover(partitions, limit);
    }

    /// In a fixed order, so that a simulation takes the same course each time.
    pub(super) fn all_partitions(&self) -> Vec<TopicPartition> {
        let mut partitions: Vec<_> = self.partitions.keys().cloned().collect();
        partitions.sort_unstable();
        partitions
    }

    fn begin_handover(&mut self, partitions: Vec<TopicPartition>, limit: Duration) {
        for topic_partition in &partitions {
            if let Some(partition) = self.partitions.get_mut(topic_partition) {
                partition.assignment.begin_drain();
                let before = partition.load();
                partition.drop_waiting();
                self.load.replace(before, partition.load());
            }
        }
        self.handovers += 1;
        self.handover = Some(Handover::begin(self.handovers, partitions, limit));
    }

    pub(super) fn advance_handover(&mut self) {
        if self.closing.is_some_and(|at| Instant::now() >= at) {
            self.is_closed = true;
            return;
        }
        let Some(mut handover) = self.handover.take() else {
            return;
        };
        let travelling = self
            .leaving(&handover)
            .map(|partition| partition.travelling)
            .sum();
        match handover.step(travelling, self.commit_in_flight) {
            Step::Wait => {}
            Step::Stop => {
                for partition in self.leaving(&handover) {
                    partition.assignment.stop_handlers(self.journey.handler());
                }
            }
            Step::Settle => self.settle(&handover),
        }
        self.handover = Some(handover);
    }

    fn leaving<'a>(&'a self, handover: &'a Handover) -> impl Iterator<Item = &'a Partition> {
        handover
            .partitions
            .iter()
            .filter_map(|name| self.partitions.get(name))
    }

    fn settle(&mut self, handover: &Handover) {
        let mut watermarks: Vec<_> = self.leaving(handover).filter_map(watermark).collect();
        if self.commit_in_flight {
            warn!(
                "the broker has not answered the last commit, partitions are given up without another one"
            );
            watermarks.clear();
        }
        let mut leaving = Vec::new();
        for partition in self.leaving(handover) {
            let is_clean = partition.travelling == 0;
            if !is_clean {
                report_abandoned(partition);
            }
            partition.assignment.end();
            leaving.push((Arc::clone(&partition.assignment), is_clean));
        }
        self.commit_in_flight = true;
        let until = handover.settle_until();
        let log = Arc::clone(&self.log);
        let room = self.journey.room();
        let settle = errand::settle(handover.number, log, watermarks, leaving, room, until);
        self.errands.push(settle.boxed());
    }

    pub(super) fn errand_done(&mut self, errand: Errand) {
        match errand {
            Errand::Ready(assignment) => self.start(&assignment),
            Errand::Dropped => {}
            Errand::Committed(watermarks, result) => self.committed(watermarks, result),
            Errand::Reclaim(assignment) => self.reclaim(&assignment),
            Errand::Settled(handover) => self.settled(handover),
        }
    }

    fn start(&mut self, assignment: &Assignment) {
        let topic_partition = assignment.topic_partition();
        if let Some(partition) = self.partitions.get_mut(topic_partition)
            && partition.assignment.generation() == assignment.generation()
        {
            partition.is_ready = true;
            partition.progress.note(None);
            self.admit(topic_partition);
        }
    }

    /// The log knows whether the partition is still this member's.
    fn reclaim(&self, assignment: &Assignment) {
        if self.closing.is_none() {
            let (partition, generation) = (assignment.topic_partition(), assignment.generation());
            self.log.restart(partition, generation, None);
        }
    }

    fn settled(&mut self, number: u64) {
        self.commit_in_flight = false;
        // A shutdown takes the place of a rebalance that is under way.
        let Some(handover) = self.handover.take_if(|handover| handover.number == number) else {
            return;
        };
        self.lost(&handover.partitions);
        if self.closing.is_some() {
            self.is_closed = true;
            return;
        }
        let names: Vec<_> = handover
            .partitions
            .iter()
            .map(ToString::to_string)
            .collect();
        if names.is_empty() {
            // All of them were lost meanwhile, which needs no answer.
            return;
        }
        info!("given up: {}", names.join(", "));
        self.log.give_up(&handover.partitions);
    }

    /// Partitions are no longer ours: nothing of them counts any more.
    pub(super) fn lost(&mut self, partitions: &[TopicPartition]) {
        if let Some(handover) = &mut self.handover {
            // What a handover of them still waits for is over; one that came to its end later would
            // take their next assignment away.
            handover
                .partitions
                .retain(|name| !partitions.contains(name));
        }
        for topic_partition in partitions {
            let Some(partition) = self.partitions.remove(topic_partition) else {
                continue;
            };
            self.load.replace(partition.load(), super::Load::default());
            self.status.remove(topic_partition);
            self.journey.forget(&partition.assignment);
            self.let_go(partition);
        }
    }

    fn let_go(&mut self, partition: Partition) {
        let assignment = partition.assignment;
        let was_handed_over = assignment.has_ended();
        assignment.end();
        if assignment.running() > 0 {
            assignment.stop_handlers(self.journey.handler());
            self.departed.push(Arc::clone(&assignment));
        }
        if let (false, Some(claim)) = (was_handed_over, assignment.claim()) {
            let room = self.journey.room();
            let release = async move {
                // Whatever it answers, the claim is not used any more.
                let _ = room
                    .store
                    .release(assignment.partition(), claim, false)
                    .await;
                Errand::Dropped
            };
            self.errands.push(release.boxed());
        }
    }

    pub(super) fn commit_if_due(&mut self) {
        // A handover that waits for its own last commit goes first.
        let awaited = |handover: &Handover| handover.stage >= Stage::Drained;
        if self.commit_in_flight
            || self.handover.as_ref().is_some_and(awaited)
            || Instant::now() < self.commit_at
        {
            return;
        }
        self.commit_at = Instant::now() + self.settings.commit_interval;
        let mut watermarks: Vec<_> = self.partitions.values().filter_map(watermark).collect();
        watermarks.sort_by(|one, other| one.topic_partition.cmp(&other.topic_partition));
        if watermarks.is_empty() {
            return;
        }
        self.commit_in_flight = true;
        let commit = errand::commit(Arc::clone(&self.log), watermarks);
        self.errands.push(commit.boxed());
    }

    fn committed(&mut self, watermarks: Vec<Watermark>, result: Result<(), LogError>) {
        self.commit_in_flight = false;
        match result {
            Ok(()) => {
                for watermark in watermarks {
                    if let Some(partition) = self.partitions.get_mut(&watermark.topic_partition)
                        && partition.assignment.generation() == watermark.generation
                    {
                        partition.committed = Some(watermark.offset);
                    }
                }
            }
            // Another try comes with the next interval, and includes whatever is finished by then.
            Err(LogError::Ended) => {}
            Err(error) => warn!("offsets are not committed yet, it is tried again: {error}"),
        }
    }
}

fn watermark(partition: &Partition) -> Option<Watermark> {
    let assignment = &partition.assignment;
    if assignment.has_ended() {
        return None;
    }
    Some(Watermark {
        topic_partition: assignment.topic_partition().clone(),
        generation: assignment.generation(),
        topic_id: assignment.topic_id(),
        offset: partition.uncommitted_watermark()?,
    })
}

fn report_abandoned(partition: &Partition) {
    let handlers = partition.assignment.running();
    let offset = partition.tracker.oldest_unfinished().unwrap_or(-1);
    let TopicPartition { topic, partition } = partition.assignment.topic_partition();
    warn!(
        "partition is given up although {handlers} of its handlers have not ended in time; their events are handled again, what they still do changes nothing: topic={topic} partition={partition} offset={offset}"
    );
}
