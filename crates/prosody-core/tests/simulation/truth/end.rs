//! What is to be found when everything has come to its end.

use std::collections::BTreeMap;

use prosody_core::record::TopicPartition;

use super::{Truth, join};
use crate::plan::{Kind, TOPIC};

impl Truth {
    /// How far each partition goes, and what is to be found at the end.
    pub fn ends(&self) -> BTreeMap<TopicPartition, i64> {
        let mut ends = BTreeMap::new();
        for &(partition, offset) in self.lock().places.keys() {
            ends.insert(TopicPartition::new(TOPIC, partition), offset + 1);
        }
        ends
    }

    /// What each key's state must be in the end: effects, and the position.
    pub fn final_keys(&self) -> Vec<(TopicPartition, String, String, Option<i64>)> {
        let inner = self.lock();
        let keys = inner.keys.iter().map(|((partition, key), truth)| {
            let places = inner.places.range((*partition, 0)..(*partition + 1, 0));
            let settled = places.filter(|(_, number)| {
                let message = self.message(**number);
                message.key.as_ref() == Some(key) && message.reaches_the_journey()
            });
            let last = settled.map(|((_, offset), _)| *offset).max();
            let topic_partition = TopicPartition::new(TOPIC, *partition);
            (
                topic_partition,
                key.clone(),
                join(truth.effects.iter()),
                last,
            )
        });
        keys.collect()
    }

    /// Messages that should have been handled and were not.
    pub fn unhandled(&self) -> Vec<usize> {
        let inner = self.lock();
        let messages = self.plan.messages.iter();
        messages
            .filter(|message| message.kind == Kind::Plain && !inner.ended[message.number])
            .filter(|message| message.key.is_none() || message.id.is_none())
            .map(|message| message.number)
            .collect()
    }
}
