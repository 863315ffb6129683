//! Single messages by their coordinates.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{
    Member, PATIENCE, admin, broker, cluster, create_topic_with, delete_topic, send_numbers, topic,
    unique,
};
use prosody_core::log::{Cluster, LoadError, LogError};
use prosody_core::record::{Coordinates, Generation, TopicId, TopicPartition};
use prosody_kafka::KafkaCluster;
use rdkafka::admin::AdminOptions;
use rdkafka::{Offset, TopicPartitionList};

async fn topic_id(cluster: &KafkaCluster, topic: &str) -> TopicId {
    cluster
        .describe(&[topic.to_owned()], PATIENCE)
        .await
        .unwrap()[0]
        .id
}

fn at(topic: &Arc<str>, topic_id: TopicId, offset: i64) -> Coordinates {
    Coordinates {
        topic_partition: TopicPartition::new(Arc::clone(topic), 0),
        topic_id,
        offset,
    }
}

#[tokio::test]
async fn messages_are_loaded_in_any_order() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..1000).await;
    let id = topic_id(&cluster, &topic).await;
    // A member of a group that has nothing to do with the topic.
    let other = common::topic(&broker, 1).await;
    let member = Member::join(&cluster, &unique("group"), &[&other]);
    for offset in [0, 1, 2, 50, 999, 998, 3, 500, 501, 601, 700] {
        let record = member
            .log
            .load(&at(&topic, id, offset), PATIENCE)
            .await
            .unwrap();
        assert_eq!(record.offset, offset);
        assert_eq!(
            record.payload.as_deref(),
            Some(offset.to_string().as_bytes())
        );
        assert_eq!(record.key.as_deref(), Some(offset.to_string().as_bytes()));
        assert_eq!(record.leader_epoch, 0);
        assert_eq!(record.generation, Generation(0));
    }
    // Beyond the end, and then what has come in the meantime.
    let beyond = at(&topic, id, 1000);
    assert_eq!(
        member.log.load(&beyond, PATIENCE).await,
        Err(LoadError::Gone)
    );
    send_numbers(&producer, &topic, 1000..1001).await;
    assert_eq!(
        member.log.load(&beyond, PATIENCE).await.unwrap().offset,
        1000
    );
    // Read on to the end, and on after it grew.
    let last = at(&topic, id, 1001);
    assert_eq!(member.log.load(&last, PATIENCE).await, Err(LoadError::Gone));
    assert_eq!(
        member.log.load(&beyond, PATIENCE).await.unwrap().offset,
        1000
    );
    let begin = Instant::now();
    assert_eq!(member.log.load(&last, PATIENCE).await, Err(LoadError::Gone));
    assert_eq!(
        member.log.load(&beyond, PATIENCE).await.unwrap().offset,
        1000
    );
    assert_eq!(member.log.load(&last, PATIENCE).await, Err(LoadError::Gone));
    assert_eq!(
        member.log.load(&beyond, PATIENCE).await.unwrap().offset,
        1000
    );
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    send_numbers(&producer, &topic, 1001..1002).await;
    assert_eq!(member.log.load(&last, PATIENCE).await.unwrap().offset, 1001);

    let times: Vec<Duration> = {
        let mut times = Vec::new();
        for offset in 0..100 {
            let begin = Instant::now();
            member
                .log
                .load(&at(&topic, id, offset * 7 % 1000), PATIENCE)
                .await
                .unwrap();
            times.push(begin.elapsed());
        }
        times.sort();
        times
    };
    println!("load: p50 {:?}, p99 {:?}", times[50], times[98]);
    member.close().await;
    let after = member.log.load(&beyond, PATIENCE).await;
    assert_eq!(after, Err(LoadError::Unavailable(LogError::Ended)));
}

#[tokio::test]
async fn deleted_messages_are_gone() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..100).await;
    let id = topic_id(&cluster, &topic).await;
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(1).await;
    let loaded = member
        .log
        .load(&at(&topic, id, 10), PATIENCE)
        .await
        .unwrap();
    assert_eq!(loaded.generation, Generation(1));

    let mut before = TopicPartitionList::new();
    before
        .add_partition_offset(&topic, 0, Offset::Offset(50))
        .unwrap();
    admin(&broker)
        .delete_records(&before, &AdminOptions::new())
        .await
        .unwrap();
    // (What the first member has fetched already it may still give.)
    member.close().await;
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(1).await;
    for gone in [0, 49, 11] {
        let begin = Instant::now();
        assert_eq!(
            member.log.load(&at(&topic, id, gone), PATIENCE).await,
            Err(LoadError::Gone)
        );
        assert!(begin.elapsed() < Duration::from_secs(5));
    }
    assert_eq!(
        member
            .log
            .load(&at(&topic, id, 50), PATIENCE)
            .await
            .unwrap()
            .offset,
        50
    );

    // Everything is gone, and the next offset is not there yet.
    let mut all = TopicPartitionList::new();
    all.add_partition_offset(&topic, 0, Offset::End).unwrap();
    admin(&broker)
        .delete_records(&all, &AdminOptions::new())
        .await
        .unwrap();
    member.close().await;
    let member = Member::join(&cluster, &unique("group"), &[&topic]);
    for gone in [50, 99, 100] {
        assert_eq!(
            member.log.load(&at(&topic, id, gone), PATIENCE).await,
            Err(LoadError::Gone)
        );
    }
    member.close().await;
}

#[tokio::test]
async fn messages_of_another_topic_of_that_name_are_gone() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..10).await;
    let old = topic_id(&cluster, &topic).await;
    let other = common::topic(&broker, 1).await;
    let member = Member::join(&cluster, &unique("group"), &[&other]);
    member
        .log
        .load(&at(&topic, old, 5), PATIENCE)
        .await
        .unwrap();
    delete_topic(&broker, &topic).await;
    // The old id is believed for a second.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(
        member.log.load(&at(&topic, old, 5), PATIENCE).await,
        Err(LoadError::Gone)
    );
    create_topic_with(&broker, &topic, 1, &[]).await;
    let new = topic_id(&cluster, &topic).await;
    let fresh = common::cluster(&broker, &[]);
    send_numbers(&fresh.producer().unwrap(), &topic, 100..110).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(
        member.log.load(&at(&topic, old, 5), PATIENCE).await,
        Err(LoadError::Gone)
    );
    let loaded = member
        .log
        .load(&at(&topic, new, 5), PATIENCE)
        .await
        .unwrap();
    assert_eq!(loaded.payload.as_deref(), Some(&b"105"[..]));
    let partition = TopicPartition::new("no-such-topic", 0);
    let nowhere = Coordinates {
        topic_partition: partition,
        topic_id: new,
        offset: 0,
    };
    assert_eq!(
        member.log.load(&nowhere, PATIENCE).await,
        Err(LoadError::Gone)
    );
    member.close().await;
}

#[tokio::test]
async fn a_load_ends_with_its_limit() {
    let cluster = cluster("127.0.0.1:1", &[]);
    let member = Member::join(&cluster, "group", &["topic"]);
    let begin = Instant::now();
    let limit = Duration::from_millis(500);
    let topic: Arc<str> = "topic".into();
    let load = member.log.load(&at(&topic, TopicId(1), 5), limit).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    let Err(LoadError::Unavailable(LogError::Unreachable { what, reason, .. })) = load else {
        unreachable!("{load:?}");
    };
    assert_eq!(what, "message topic/0@5");
    assert!(reason.contains("Connection refused"), "{reason}");
}
