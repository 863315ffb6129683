//! The log changes under a member: topics are deleted and created again, and grow.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use common::{
    Member, PATIENCE, admin, broker, cluster, recreate_topic, send_numbers, texts, topic, unique,
};
use prosody_core::log::Cluster;
use prosody_core::record::{Generation, TopicPartition};
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// How often each payload has come.
fn counts(member: &Member) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for payload in member.payloads() {
        *counts.entry(payload).or_default() += 1;
    }
    counts
}

/// Deletes and creates a topic again and again under a member. Each time it holds as many messages
/// as `sizes` says before the member can have looked.
async fn make_anew(sizes: &[u32], properties: &[(&str, &str)]) {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, properties);
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.gives_up = true;
    member.until_assigned(2).await;
    let mut from = 0;
    for (round, size) in sizes.iter().enumerate() {
        if round > 0 {
            recreate_topic(&broker, &topic, 2).await;
        }
        // A producer of its own: one that knew the former topic may take a while to see the new one.
        let producer = common::cluster(&broker, &[]).producer().unwrap();
        send_numbers(&producer, &topic, from..from + size).await;
        from += size;
        let total = usize::try_from(from).unwrap();
        member
            .until("all messages of this topic have come", |member| {
                counts(member).len() >= total
            })
            .await;
        let mut commits = Vec::new();
        for number in 0..2 {
            let partition = TopicPartition::new(topic.clone(), number);
            let end = common::end_of(&broker, &partition).await;
            commits.push((partition, end));
        }
        for (partition, end) in commits {
            member.commit(&partition, end).await;
        }
    }
    let counts = counts(&member);
    assert_eq!(counts.len(), usize::try_from(from).unwrap());
    let repeated: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(
        repeated.is_empty(),
        "{} of {from} came twice",
        repeated.len()
    );
    // Each topic had its own generation and id, and its offsets without gap.
    let mut next: HashMap<(TopicPartition, Generation), i64> = HashMap::new();
    for record in &member.records {
        let expected = next
            .entry((record.topic_partition.clone(), record.generation))
            .or_insert(0);
        assert_eq!(record.offset, *expected, "{}", record.topic_partition);
        *expected += 1;
    }
    assert!(member.failed.is_none());
    member.close().await;
}

#[tokio::test]
async fn a_topic_made_anew_with_less_in_it_loses_nothing() {
    make_anew(&[400, 300, 200, 10], &[]).await;
}

#[tokio::test]
async fn a_topic_made_anew_with_more_in_it_loses_nothing() {
    // The new topic holds it before librdkafka fetches from it: then offsets go on as if nothing had
    // happened.
    make_anew(
        &[50, 400, 2_000, 6_000],
        &[("fetch.error.backoff.ms", "1200")],
    )
    .await;
}

#[tokio::test]
async fn so_it_is_under_the_broker_side_protocol() {
    make_anew(&[50, 400, 100], &[("group.protocol", "consumer")]).await;
}

#[tokio::test]
async fn so_it_is_for_a_group_that_begins_at_the_end() {
    // Its first messages are not missed, because it is there before they are sent.
    let properties = [("auto.offset.reset", "latest")];
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &properties);
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(1).await;
    let producer = cluster.producer().unwrap();
    let sending = send_numbers(&producer, &topic, 0..1).await;
    // Until it reads at all: where the end is depends on when it is asked for.
    let mut sent = 1;
    while member.records.is_empty() {
        send_numbers(&producer, &topic, sent..sent + 1).await;
        sent += 1;
        member.during(Duration::from_millis(50)).await;
    }
    assert_eq!(sending[0].offset, 0);
    member.commit(&partition, i64::from(sent)).await;
    for sizes in [5, 500] {
        recreate_topic(&broker, &topic, 1).await;
        let producer = common::cluster(&broker, &[]).producer().unwrap();
        send_numbers(&producer, &topic, 10_000..10_000 + sizes).await;
        member.records.clear();
        let expected = texts(10_000..10_000 + sizes);
        member
            .until("the new topic is read", |member| {
                member.payloads().ends_with(&expected[expected.len() - 1..])
            })
            .await;
        assert_eq!(member.payloads(), expected);
    }
    member.close().await;
}

/// Commits as a group without members.
fn commit_alone(
    broker: &str,
    group: &str,
    partition: &TopicPartition,
    offset: i64,
    metadata: &str,
) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    let mut entry = list.add_partition(&partition.topic, partition.partition);
    entry.set_offset(Offset::Offset(offset)).unwrap();
    entry.set_metadata(metadata);
    consumer.commit(&list, CommitMode::Sync).unwrap();
}

/// What a group has committed, and what its commit says besides.
fn committed(broker: &str, group: &str, partition: &TopicPartition) -> (Offset, String) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", group)
        .create()
        .unwrap();
    let mut list = TopicPartitionList::new();
    list.add_partition(&partition.topic, partition.partition);
    let list = consumer.committed_offsets(list, PATIENCE).unwrap();
    let entry = list.find_partition(&partition.topic, partition.partition);
    let entry = entry.unwrap();
    (entry.offset(), entry.metadata().to_owned())
}

#[tokio::test]
async fn an_offset_that_was_committed_for_an_earlier_topic_is_not_taken_for_this_ones() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let partition = TopicPartition::new(topic.clone(), 0);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..20).await;
    let group = unique("group");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_records(20).await;
    member.commit(&partition, 15).await;
    member.close().await;
    let (offset, metadata) = committed(&broker, &group, &partition);
    assert_eq!(offset, Offset::Offset(15));
    let id = member.assigned[&partition].topic_id.0;
    assert_eq!(metadata, format!("topic-id={id:032x}"));

    // While the group is down the topic is made anew, and a commit of the old one comes late.
    recreate_topic(&broker, &topic, 1).await;
    let producer = common::cluster(&broker, &[]).producer().unwrap();
    send_numbers(&producer, &topic, 100..130).await;
    commit_alone(&broker, &group, &partition, 15, &metadata);
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_records(30).await;
    assert_eq!(member.payloads(), texts(100..130));
    member.commit(&partition, 30).await;
    member.close().await;

    // Whoever sets an offset by hand, or commits with another client, is heard.
    commit_alone(&broker, &group, &partition, 25, "");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_records(5).await;
    assert_eq!(member.payloads(), texts(125..130));
    member.close().await;
}

#[tokio::test]
async fn partitions_that_are_added_are_told_and_consumed() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[("topic.metadata.refresh.interval.ms", "1000")]);
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(2).await;
    let added = admin(&broker)
        .create_partitions(&[NewPartitions::new(&topic, 5)], &AdminOptions::new())
        .await
        .unwrap();
    assert!(added.iter().all(Result::is_ok), "{added:?}");
    let producer = common::cluster(&broker, &[]).producer().unwrap();
    send_numbers(&producer, &topic, 0..200).await;
    member.until_records(200).await;
    assert_eq!(member.assigned.len(), 5);
    member
        .until("it is told", |member| !member.added.is_empty())
        .await;
    member.during(Duration::from_secs(3)).await;
    let told: Vec<_> = member
        .added
        .iter()
        .map(|added| (added.topic.clone(), added.before, added.now))
        .collect();
    assert_eq!(told, [(topic.clone(), 2, 5)], "once");
    assert_eq!(counts(&member).len(), 200);
    assert!(member.lost.is_empty() && member.revoked.is_empty());
    member.close().await;
}

#[tokio::test]
async fn a_partition_is_begun_afresh_when_the_caller_asks_for_it() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let partition = TopicPartition::new(topic.clone(), 0);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..10).await;
    let group = unique("group");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_records(10).await;
    member.commit(&partition, 6).await;
    let first = member.assigned[&partition].generation;
    member.log.pause(std::slice::from_ref(&partition));
    member
        .log
        .restart(&partition, Generation(first.0 + 7), None);
    member.during(Duration::from_millis(500)).await;
    assert!(member.lost.is_empty(), "not its generation");

    // From the committed offset; the pause ends with the assignment.
    member.log.restart(&partition, first, None);
    member.log.restart(&partition, first, None);
    member.until_records(14).await;
    let second = member.assigned[&partition].generation;
    assert!(second > first);
    assert_eq!(member.lost.len(), 1);
    // From below, because the log went back.
    member.log.restart(&partition, second, Some(2));
    member.until_records(22).await;
    let offsets: Vec<i64> = member.records.iter().map(|record| record.offset).collect();
    let expected: Vec<i64> = (0..10).chain(6..10).chain(2..10).collect();
    assert_eq!(offsets, expected);
    let stale = member
        .records
        .iter()
        .take(14)
        .any(|record| record.generation > second);
    assert!(!stale);
    member.close().await;
}

#[tokio::test]
async fn all_members_of_a_group_go_over_to_a_topic_made_anew() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 4).await;
    let other = common::topic(&broker, 2).await;
    let cluster = cluster(&broker, &[]);
    let group = unique("group");
    let mut members = Vec::new();
    for _ in 0..2 {
        let mut member = Member::join(&cluster, &group, &[&topic, &other]);
        member.gives_up = true;
        members.push(member);
    }
    let [one, two] = &mut members[..] else { return };
    for round in 0..3 {
        if round > 0 {
            recreate_topic(&broker, &topic, 4).await;
        }
        let producer = common::cluster(&broker, &[]).producer().unwrap();
        let numbers = round * 1_000..round * 1_000 + 300;
        send_numbers(&producer, &topic, numbers.clone()).await;
        send_numbers(
            &producer,
            &other,
            100_000 + numbers.start..100_000 + numbers.end,
        )
        .await;
        let mut missing: HashSet<String> = texts(numbers.clone()).into_iter().collect();
        missing.extend(texts(100_000 + numbers.start..100_000 + numbers.end));
        let mut rest = PATIENCE.as_millis() / 100;
        loop {
            let wait = Duration::from_millis(100);
            tokio::join!(one.during(wait), two.during(wait));
            for member in [&mut *one, &mut *two] {
                for payload in member.payloads() {
                    missing.remove(&payload);
                }
                member.records.clear();
            }
            if missing.is_empty() {
                break;
            }
            rest -= 1;
            assert!(rest > 0, "{} have not come in round {round}", missing.len());
        }
    }
    assert!(one.failed.is_none() && two.failed.is_none());
    tokio::join!(one.close(), two.close());
}
