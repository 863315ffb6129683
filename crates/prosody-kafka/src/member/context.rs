//! What librdkafka calls back for a member, always on its poll thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prosody_core::record::TopicPartition;
use prosody_core::sync::Mutex;
use rdkafka::TopicPartitionList;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaRespErr;
use tracing::warn;

use crate::health::{self, Health};
use crate::partitions::from_native;

/// What the group wants of this member.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rebalance {
    /// These partitions are added.
    Assign(Vec<TopicPartition>),
    /// These are to be given up.
    Revoke(Vec<TopicPartition>),
    /// These are gone.
    Lose(Vec<TopicPartition>),
}

/// Notes rebalances down for the poll thread, which answers them, also late.
#[derive(Debug)]
pub(super) struct MemberContext {
    health: Arc<Health>,
    rebalances: Mutex<VecDeque<Rebalance>>,
    /// Nobody reads the notes any more: rebalances are answered at once.
    closing: AtomicBool,
}

impl MemberContext {
    pub fn new(health: Arc<Health>) -> Self {
        Self {
            health,
            rebalances: Mutex::default(),
            closing: AtomicBool::new(false),
        }
    }

    /// The next rebalance that is not answered.
    pub fn next_rebalance(&self) -> Option<Rebalance> {
        self.rebalances.lock().pop_front()
    }

    /// From now on every rebalance is answered at once.
    pub fn begin_close(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

impl ClientContext for MemberContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        health::log(level, facility, line);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.health.report(&error, reason);
    }
}

impl ConsumerContext for MemberContext {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        code: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        let assign = code == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
        if self.closing.load(Ordering::Acquire) {
            answer_at_once(consumer, assign, list);
            return;
        }
        let partitions = from_native(list);
        self.rebalances.lock().push_back(if assign {
            Rebalance::Assign(partitions)
        } else if consumer.assignment_lost() {
            Rebalance::Lose(partitions)
        } else {
            Rebalance::Revoke(partitions)
        });
    }
}

/// Answers in any case: a consumer that does not is never destroyed.
fn answer_at_once(consumer: &BaseConsumer<MemberContext>, assign: bool, list: &TopicPartitionList) {
    let answered = if assign {
        // A closing consumer takes every answer as "unassign all".
        consumer.incremental_assign(&TopicPartitionList::new())
    } else {
        // Partitions that were never assigned make the whole list be refused.
        consumer.incremental_unassign(list).or_else(|_| {
            let assigned = consumer.assignment()?;
            consumer.incremental_unassign(&assigned)
        })
    };
    if let Err(error) = answered.or_else(|_| consumer.unassign()) {
        warn!("a consumer that is closed cannot answer a rebalance: {error}");
    }
}
