//! What the cluster or the client library refuses, and how that is said.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{
    Member, PATIENCE, broker, cluster, create_topic_with, membership, options, outgoing, topic,
    unique,
};
use prosody_core::log::{Cluster, Intake, LogError, LogEvent, SendError};
use prosody_kafka::{KafkaCluster, KafkaOptions};
use tokio::time::timeout;

fn refused(options: KafkaOptions) -> String {
    match KafkaCluster::new(options) {
        Err(LogError::Refused(text)) => text,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn wrong_properties_are_named_all_at_once() {
    let mut options = options("127.0.0.1:1");
    for (name, value) in [
        ("group.id", "mine"),
        ("no.such.property", "1"),
        ("fetch.wait.max.ms", "soon"),
        ("ssl.key.password", "secret\0"),
        ("session.timeout.ms", "10000"),
    ] {
        options.properties.insert(name.to_owned(), value.to_owned());
    }
    let shown = format!("{options:?}");
    let text = refused(options);
    assert!(text.contains("group.id is managed by prosody"), "{text}");
    assert!(text.contains("no.such.property"), "{text}");
    assert!(text.contains("fetch.wait.max.ms"), "{text}");
    assert!(text.contains("ssl.key.password"), "{text}");
    assert!(!text.contains("session.timeout.ms"), "{text}");
    assert!(
        !text.contains("secret") && !shown.contains("secret"),
        "{text} {shown}"
    );
    assert!(refused(KafkaOptions::new(Vec::new())).contains("bootstrap_servers"));
}

#[tokio::test]
async fn properties_that_do_not_go_together_are_refused_when_a_client_is_made() {
    let mut options = options("127.0.0.1:1");
    // Above max.poll.interval.ms.
    options
        .properties
        .insert("session.timeout.ms".to_owned(), "3600000".to_owned());
    let cluster = KafkaCluster::new(options).unwrap();
    let Err(LogError::Refused(text)) = cluster.join(membership("group", &["topic"])).map(|_| ())
    else {
        unreachable!("joined");
    };
    assert!(text.contains("session.timeout.ms"), "{text}");
    let nul = cluster.join(membership("group", &["a\0b"])).map(|_| ());
    assert!(matches!(nul, Err(LogError::Refused(_))), "{nul:?}");
}

#[tokio::test]
async fn larger_messages_can_be_allowed() {
    let Some(broker) = broker() else { return };
    let name = unique("large");
    let limit = ("max.message.bytes", "30000000");
    create_topic_with(&broker, &name, 1, &[limit]).await;
    let topic: Arc<str> = name.into();
    let cluster = cluster(&broker, &[("message.max.bytes", "20000000")]);
    let mut record = outgoing(&topic, "key", "");
    record.payload = Some(Bytes::from(vec![b'x'; 12_000_000]));
    cluster.producer().unwrap().send(record).await.unwrap();
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_records(1).await;
    assert_eq!(
        member.records[0].payload.as_ref().unwrap().len(),
        12_000_000
    );
    member.close().await;
}

#[tokio::test]
async fn too_large_a_message_is_refused() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let mut record = outgoing(&topic, "key", "");
    record.payload = Some(Bytes::from(vec![0; 1024 * 1024]));
    let sent = producer.send(record).await;
    let Err(SendError::Refused(text)) = sent else {
        unreachable!("{sent:?}")
    };
    assert!(
        text.contains("too large") && text.contains("message.max.bytes"),
        "{text}"
    );
    // By the broker, too.
    let name = unique("small");
    create_topic_with(&broker, &name, 1, &[("max.message.bytes", "1000")]).await;
    let small: Arc<str> = name.into();
    let sent = producer
        .send(outgoing(&small, "key", &"x".repeat(5000)))
        .await;
    let Err(SendError::Refused(text)) = sent else {
        unreachable!("{sent:?}")
    };
    assert!(text.contains("too large"), "{text}");
    producer
        .send(outgoing(&topic, "key", "payload"))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_missing_topic_is_named() {
    let Some(broker) = broker() else { return };
    let there = topic(&broker, 1).await;
    let cluster = KafkaCluster::new(options(&broker)).unwrap();
    let missing: Arc<str> = unique("missing").into();
    let also_missing = unique("missing");
    let names = [missing.to_string(), there.to_string(), also_missing.clone()];
    let described = cluster.describe(&names, PATIENCE).await;
    let Err(LogError::TopicsMissing(mut told)) = described else {
        unreachable!("{described:?}")
    };
    told.sort();
    assert_eq!(told, [missing.to_string(), also_missing]);

    let producer = cluster.producer().unwrap();
    for _ in 0..2 {
        let begin = Instant::now();
        let sent = producer.send(outgoing(&missing, "key", "payload")).await;
        let expected = SendError::Refused(format!("topic {missing} does not exist"));
        assert_eq!(sent, Err(expected));
        assert!(begin.elapsed() < Duration::from_secs(1));
    }
    // When it is made, sends succeed before long.
    create_topic_with(&broker, &missing, 1, &[]).await;
    let again = async {
        while producer
            .send(outgoing(&missing, "key", "payload"))
            .await
            .is_err()
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(5), again).await.unwrap();
}

#[tokio::test]
async fn a_member_that_is_fenced_fails() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let properties = [
        ("group.instance.id", "one"),
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "500"),
    ];
    let cluster = cluster(&broker, &properties);
    let group = unique("group");
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_assigned(1).await;
    let mut second = Member::join(&cluster, &group, &[&topic]);
    let both = async {
        tokio::join!(
            first.until("it has failed", |member| member.failed.is_some()),
            second.until_assigned(1),
        )
    };
    timeout(PATIENCE, both).await.unwrap();
    let Some(LogError::Refused(text)) = &first.failed else {
        unreachable!("{:?}", first.failed);
    };
    assert!(text.contains("fenced") || text.contains("FENCED"), "{text}");
    let next = timeout(PATIENCE, first.log.poll(Intake::Open))
        .await
        .unwrap();
    assert!(
        matches!(next, LogEvent::Failed(LogError::Ended)),
        "{next:?}"
    );
    first.close().await;
    second.close().await;
}
