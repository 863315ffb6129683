//! A cluster that is not there: everything ends within its limit, and says why.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Member, membership, options, outgoing};
use prosody_core::log::{Cluster, LogError, SendError};
use prosody_core::record::TopicPartition;
use prosody_kafka::KafkaCluster;
use tokio::net::TcpListener;

/// A port on which nobody listens.
const NOBODY: &str = "127.0.0.1:1";

fn cluster() -> KafkaCluster {
    KafkaCluster::new(options(NOBODY)).unwrap()
}

#[tokio::test]
async fn a_description_ends_within_its_limit() {
    for topic in ["topic", "^pattern"] {
        let begin = Instant::now();
        let limit = Duration::from_millis(600);
        let described = cluster().describe(&[topic.to_owned()], limit).await;
        assert!(
            begin.elapsed() < limit + Duration::from_secs(1),
            "{:?}",
            begin.elapsed()
        );
        let Err(LogError::Unreachable {
            limit: told,
            reason,
            ..
        }) = described
        else {
            unreachable!("{described:?}");
        };
        assert_eq!(told, limit);
        assert!(reason.contains("Connection refused"), "{reason}");
    }
}

#[tokio::test]
async fn a_send_ends_within_send_timeout() {
    let producer = cluster().producer().unwrap();
    let topic: Arc<str> = "topic".into();
    let begin = Instant::now();
    let sent = producer.send(outgoing(&topic, "key", "payload")).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    let Err(SendError::TimedOut { limit, reason }) = sent else {
        unreachable!("{sent:?}");
    };
    assert_eq!(limit, Duration::from_secs(1));
    assert!(reason.contains("Connection refused"), "{reason}");
}

#[tokio::test]
async fn a_full_queue_does_not_grow_and_does_not_wait_for_ever() {
    let mut options = options(NOBODY);
    options
        .properties
        .insert("queue.buffering.max.messages".to_owned(), "10".to_owned());
    let cluster = KafkaCluster::new(options).unwrap();
    let producer = cluster.producer().unwrap();
    let topic: Arc<str> = "topic".into();
    let begin = Instant::now();
    let sends: Vec<_> = (0..1000)
        .map(|_| producer.send(outgoing(&topic, "key", "payload")))
        .collect();
    for sent in futures::future::join_all(sends).await {
        assert!(matches!(sent, Err(SendError::TimedOut { .. })), "{sent:?}");
    }
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_member_is_made_and_closed_within_the_limit() {
    let log = cluster().join(membership("group", &["topic"])).unwrap();
    let partition = TopicPartition::new("topic", 0);
    let begin = Instant::now();
    let limit = Duration::from_millis(300);
    let close = log.close(limit);
    close.await;
    assert!(
        begin.elapsed() < Duration::from_millis(1300),
        "{:?}",
        begin.elapsed()
    );
    // Again, and after the end.
    log.close(Duration::from_secs(20)).await;
    assert_eq!(log.positions(&[partition]).await, Err(LogError::Ended));
}

#[tokio::test]
async fn dropping_waits_for_nothing() {
    let begin = Instant::now();
    let cluster = cluster();
    let member = Member::join(&cluster, "group", &["topic"]);
    let producer = cluster.producer().unwrap();
    let topic: Arc<str> = "topic".into();
    drop(producer.send(outgoing(&topic, "key", "payload")));
    drop(member);
    drop(producer);
    drop(cluster);
    assert!(
        begin.elapsed() < Duration::from_secs(1),
        "{:?}",
        begin.elapsed()
    );
}

#[tokio::test]
async fn a_broker_that_says_nothing_is_no_answer_either() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let cluster = KafkaCluster::new(options(&address)).unwrap();
    let begin = Instant::now();
    let limit = Duration::from_millis(500);
    let described = cluster.describe(&["topic".to_owned()], limit).await;
    assert!(
        matches!(described, Err(LogError::Unreachable { .. })),
        "{described:?}"
    );
    let producer = cluster.producer().unwrap();
    let topic: Arc<str> = "topic".into();
    let sent = producer.send(outgoing(&topic, "key", "payload")).await;
    assert!(matches!(sent, Err(SendError::TimedOut { .. })), "{sent:?}");
    let log = cluster.join(membership("group", &["topic"])).unwrap();
    log.close(limit).await;
    assert!(
        begin.elapsed() < Duration::from_secs(4),
        "{:?}",
        begin.elapsed()
    );
}
