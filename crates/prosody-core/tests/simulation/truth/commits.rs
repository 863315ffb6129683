//! Whether what is committed is done.

use prosody_core::in_process::MemberId;
use prosody_core::log::Watermark;
use prosody_core::record::TopicPartition;

use super::{Inner, Truth};
use crate::plan::Kind;

impl Truth {
    pub fn committed(&self, member: MemberId, watermarks: &[Watermark]) {
        for watermark in watermarks {
            self.note(&format!(
                "{member:?} commits {} {}",
                watermark.topic_partition, watermark.offset
            ));
            let inner = self.lock();
            let truth = inner.members.get(&member);
            let owned = truth.and_then(|truth| {
                let generation = truth.owned.get(&watermark.topic_partition)?;
                Some(*generation == watermark.generation.0 && !truth.has_left)
            });
            // One that was expelled, or begins afresh meanwhile, finds out by this very commit.
            let fenced = truth.is_some_and(|truth| {
                truth.is_fenced(watermark.generation)
                    || truth.has_restarted(&watermark.topic_partition, watermark.generation)
            });
            drop(inner);
            if owned != Some(true) && !fenced {
                self.violation(format!(
                    "{member:?} commits what it gave up: {}",
                    watermark.topic_partition
                ));
            }
            self.check_settled(&watermark.topic_partition, watermark.offset);
        }
    }

    /// Everything below an offset that is committed must be settled.
    fn check_settled(&self, topic_partition: &TopicPartition, end: i64) {
        let partition = topic_partition.partition;
        let mut inner = self.lock();
        let from = inner.verified.get(&partition).copied().unwrap_or(0);
        let mut unsettled = Vec::new();
        for offset in from..end {
            let Some(&number) = inner.places.get(&(partition, offset)) else {
                unsettled.push(format!("offset {offset} does not exist"));
                continue;
            };
            if !self.is_settled(&inner, topic_partition, offset, number) {
                unsettled.push(format!("message {number} at offset {offset}"));
            }
        }
        inner.verified.insert(partition, end.max(from));
        drop(inner);
        for what in unsettled {
            self.violation(format!(
                "commit of {topic_partition} at {end} passes what is not done: {what}"
            ));
        }
    }

    fn is_settled(
        &self,
        inner: &Inner,
        topic_partition: &TopicPartition,
        offset: i64,
        number: usize,
    ) -> bool {
        let message = self.message(number);
        if !message.reaches_the_journey() {
            return true;
        }
        match (&message.key, &self.durable) {
            (Some(key), Some(durable)) => {
                let position = durable.position(topic_partition, key);
                position.is_some_and(|position| position >= offset)
            }
            _ => {
                message.kind == Kind::Undecodable
                    || inner.ended[number]
                    || message.key.is_some() && message.id.is_some()
            }
        }
    }
}
