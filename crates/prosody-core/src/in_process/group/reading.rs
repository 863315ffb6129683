//! How a group's members read: what is ready for them, paused, or to be read again.

use std::sync::Arc;

use super::{Claim, Group, MemberId, Reader, Stage, Wakes};
use crate::in_process::topic::Topics;
use crate::log::LogEvent;
use crate::record::{Generation, Record, TopicPartition};

const BATCH_RECORDS_MAX: usize = 512;

impl Group {
    pub(in crate::in_process) fn pause(&mut self, id: MemberId, partitions: &[TopicPartition]) {
        for partition in partitions {
            // A pause is of one assignment; one that comes late does not hold the next.
            let claim = self.claim_of(id, partition);
            if let Some(claim) = claim.filter(|claim| claim.stage != Stage::Granted) {
                claim.paused = true;
            }
        }
    }

    pub(in crate::in_process) fn resume(
        &mut self,
        id: MemberId,
        partitions: &[TopicPartition],
        wakes: &mut Wakes,
    ) {
        for partition in partitions {
            let Some(claim) = self.claim_of(id, partition) else {
                continue;
            };
            claim.paused = false;
            if claim.stage == Stage::Assigned && claim.reader == Reader::Idle {
                self.make_ready(partition, wakes);
            }
        }
    }

    pub(in crate::in_process) fn rewind(
        &mut self,
        id: MemberId,
        partition: &TopicPartition,
        generation: Generation,
        offset: i64,
        wakes: &mut Wakes,
    ) {
        let current = |claim: &mut Claim| claim.generation == generation;
        if self.claim_of(id, partition).is_some_and(current) {
            self.go_back(partition, offset, wakes);
        }
    }

    /// The log has gone back: readers beyond its end go on from there, as a broker lets them.
    pub(in crate::in_process) fn log_went_back(
        &mut self,
        partition: &TopicPartition,
        offset: i64,
        wakes: &mut Wakes,
    ) {
        let is_beyond = |claim: &Claim| claim.position > offset;
        if self.claims.get(partition).is_some_and(is_beyond) {
            self.go_back(partition, offset, wakes);
        }
    }

    fn go_back(&mut self, partition: &TopicPartition, offset: i64, wakes: &mut Wakes) {
        if let Some(claim) = self.claims.get_mut(partition) {
            claim.position = offset;
            self.more_to_read(partition, wakes);
        }
    }

    /// There is something to read in a partition at whose end the group's reader may wait.
    pub(in crate::in_process) fn more_to_read(
        &mut self,
        partition: &TopicPartition,
        wakes: &mut Wakes,
    ) {
        let Some(claim) = self.claims.get_mut(partition) else {
            return;
        };
        if claim.reader != Reader::Waiting {
            return;
        }
        claim.reader = Reader::Idle;
        if claim.stage == Stage::Assigned && !claim.paused {
            self.make_ready(partition, wakes);
        }
    }

    fn make_ready(&mut self, partition: &TopicPartition, wakes: &mut Wakes) {
        let Some(claim) = self.claims.get_mut(partition) else {
            return;
        };
        if let Some(owner) = self.members.get_mut(&claim.owner) {
            claim.reader = Reader::Ready;
            owner.ready.push_back(partition.clone());
            wakes.push(Arc::clone(&owner.notify));
        }
    }

    pub(super) fn next_records(&mut self, id: MemberId, topics: &mut Topics) -> Option<LogEvent> {
        let member = self.members.get_mut(&id)?;
        let share = (BATCH_RECORDS_MAX / member.ready.len().max(1)).max(1);
        let mut records = Vec::<Record>::new();
        while records.len() < BATCH_RECORDS_MAX {
            let Some(partition) = member.ready.pop_front() else {
                break;
            };
            let Some(claim) = self.claims.get_mut(&partition) else {
                continue;
            };
            if claim.paused {
                claim.reader = Reader::Idle;
                continue;
            }
            let topic = topics.get_mut(&partition.topic);
            let Some(log) = topic.and_then(|topic| topic.partition_mut(partition.partition)) else {
                continue;
            };
            let limit = share.min(BATCH_RECORDS_MAX - records.len());
            let from = log.start_at(claim.position);
            claim.position = log.read(&partition, claim.generation, from, limit, &mut records);
            if claim.position < log.end() {
                member.ready.push_back(partition);
            } else {
                claim.reader = Reader::Waiting;
                log.wait(&self.id);
            }
        }
        (!records.is_empty()).then_some(LogEvent::Records(records))
    }
}
