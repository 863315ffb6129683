#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod balance;
mod groups;
mod model;
mod speed;
mod topics;
mod wakes;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;

use super::{InProcessCluster, Member};
use crate::log::{
    Assigned, Cluster, Delivery, Intake, Log, LogEvent, Membership, SendError, Watermark,
};
use crate::record::{Headers, OutgoingRecord, Record, TopicPartition};

const PARTITIONS: i32 = 4;
const LIMIT: Duration = Duration::from_secs(1);

/// A cluster whose clock moves by 1 ms with each record.
fn cluster() -> InProcessCluster {
    let now = AtomicI64::new(1_000);
    let clock = move || now.fetch_add(1, Ordering::Relaxed);
    InProcessCluster::new(PARTITIONS, Arc::new(clock))
}

fn join(cluster: &InProcessCluster, group_id: &str, topics: &[&str]) -> Arc<Member> {
    let membership = Membership {
        group_id: group_id.into(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        poll_interval: Duration::from_millis(100),
    };
    cluster.join_member(&membership).unwrap()
}

fn outgoing(topic: &str, key: &str, payload: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: topic.into(),
        key: (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes())),
        payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
        headers: Headers::default(),
    }
}

fn try_send(cluster: &InProcessCluster, record: OutgoingRecord) -> Result<Delivery, SendError> {
    let sent = cluster.producer().unwrap().send(record);
    sent.now_or_never().unwrap()
}

fn send(cluster: &InProcessCluster, topic: &str, key: &str, payload: &str) -> Delivery {
    try_send(cluster, outgoing(topic, key, payload)).unwrap()
}

/// What a poll gives at once.
fn poll(member: &Member) -> Option<LogEvent> {
    member.poll(Intake::Open).now_or_never()
}

fn assigned(member: &Member) -> Vec<Assigned> {
    match poll(member) {
        Some(LogEvent::Assigned(assigned)) => assigned,
        other => panic!("expected an assignment, got {other:?}"),
    }
}

fn revoked(member: &Member) -> Vec<TopicPartition> {
    match poll(member) {
        Some(LogEvent::Revoked(partitions)) => partitions,
        other => panic!("expected a revocation, got {other:?}"),
    }
}

fn lost(member: &Member) -> Vec<TopicPartition> {
    match poll(member) {
        Some(LogEvent::Lost(partitions)) => partitions,
        other => panic!("expected a loss, got {other:?}"),
    }
}

fn records(member: &Member) -> Vec<Record> {
    match poll(member) {
        Some(LogEvent::Records(records)) => records,
        other => panic!("expected records, got {other:?}"),
    }
}

fn payloads(records: &[Record]) -> Vec<String> {
    let payloads = records.iter().map(|record| record.payload.as_deref());
    payloads
        .map(|payload| String::from_utf8(payload.unwrap().to_vec()).unwrap())
        .collect()
}

fn partitions_of(assigned: &[Assigned]) -> Vec<TopicPartition> {
    let partitions = assigned.iter().map(|one| one.topic_partition.clone());
    partitions.collect()
}

fn watermark(assigned: &Assigned, offset: i64) -> Watermark {
    Watermark {
        topic_partition: assigned.topic_partition.clone(),
        generation: assigned.generation,
        topic_id: assigned.topic_id,
        offset,
    }
}

fn commit(member: &Member, watermarks: Vec<Watermark>) -> Result<(), crate::log::LogError> {
    member.commit(watermarks).now_or_never().unwrap()
}
