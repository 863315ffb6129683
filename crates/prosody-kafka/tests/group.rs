//! How partitions come and go between members of a group.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use common::{
    Member, PATIENCE, broker, cluster, create_topic_with, delete_topic, outgoing, send_numbers,
    texts, topic, unique,
};
use prosody_core::log::{Cluster, Intake, LogError, LogEvent};
use prosody_core::record::{Generation, TopicPartition};
use tokio::time::timeout;

#[tokio::test]
async fn a_partition_changes_hands_only_when_it_is_given_up() {
    change_hands(&[]).await;
}

#[tokio::test]
async fn so_it_does_under_the_broker_side_protocol() {
    change_hands(&[("group.protocol", "consumer")]).await;
}

async fn change_hands(properties: &[(&str, &str)]) {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 4).await;
    let cluster = cluster(&broker, properties);
    let group = unique("group");
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_assigned(4).await;

    let mut second = Member::join(&cluster, &group, &[&topic]);
    first
        .until("partitions are revoked", |member| {
            !member.revoked.is_empty()
        })
        .await;
    assert_eq!(first.revoked.len(), 2);
    let revoked: HashSet<TopicPartition> = first.revoked.iter().cloned().collect();

    // As long as the first one keeps them, the second one gets none.
    second.during(Duration::from_millis(1500)).await;
    assert!(second.assigned.is_empty());
    // And the first one can still commit for them.
    let last: Vec<_> = revoked
        .iter()
        .map(|partition| first.watermark(partition, 0))
        .collect();
    first.log.commit(last).await.unwrap();

    first.give_up();
    let both = async {
        tokio::join!(
            second.until_assigned(2),
            // Serves the rest of the rebalance.
            first.during(Duration::from_secs(2)),
        )
    };
    timeout(PATIENCE, both).await.unwrap();
    let assigned: HashSet<TopicPartition> = second.assigned.keys().cloned().collect();
    assert_eq!(assigned, revoked);
    assert_eq!(first.assigned.len(), 2);
    assert!(first.lost.is_empty());

    // The first one leaves: the second one gets the rest, under a new generation.
    first.close().await;
    second.until_assigned(4).await;
    let generations: HashSet<Generation> = second
        .assigned
        .values()
        .map(|assigned| assigned.generation)
        .collect();
    assert_eq!(generations, HashSet::from([Generation(1), Generation(2)]));
    second.close().await;
}

#[tokio::test]
async fn commits_of_ended_assignments_are_left_out() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..10).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let partitions = [partition.clone(), TopicPartition::new(topic.clone(), 7)];
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_records(10).await;
    assert_eq!(
        member.log.positions(&partitions).await.unwrap(),
        [None, None]
    );

    let current = member.watermark(&partition, 5);
    member.log.commit(vec![current.clone()]).await.unwrap();
    assert_eq!(
        member.log.positions(&partitions).await.unwrap(),
        [Some(5), None]
    );
    member.log.commit(Vec::new()).await.unwrap();

    let mut stale = current.clone();
    stale.generation = Generation(0);
    stale.offset = 9;
    assert_eq!(member.log.commit(vec![stale]).await, Err(LogError::Ended));
    let mut recreated = current.clone();
    recreated.topic_id.0 ^= 1;
    recreated.offset = 9;
    assert_eq!(
        member.log.commit(vec![recreated.clone()]).await,
        Err(LogError::Ended)
    );
    // What is current is committed all the same.
    let mut next = current;
    next.offset = 6;
    assert_eq!(
        member.log.commit(vec![recreated, next]).await,
        Err(LogError::Ended)
    );
    assert_eq!(
        member.log.positions(&partitions[..1]).await.unwrap(),
        [Some(6)]
    );

    member.close().await;
    let after = member
        .log
        .commit(vec![member.watermark(&partition, 7)])
        .await;
    assert_eq!(after, Err(LogError::Ended));
    let polled = timeout(PATIENCE, member.log.poll(Intake::Open))
        .await
        .unwrap();
    assert!(matches!(polled, LogEvent::Failed(LogError::Ended)));
}

#[tokio::test]
async fn the_next_member_goes_on_from_the_committed_offset() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..10).await;
    let group = unique("group");
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_records(10).await;
    first
        .log
        .commit(vec![first.watermark(&partition, 7)])
        .await
        .unwrap();
    first.close().await;
    let mut second = Member::join(&cluster, &group, &[&topic]);
    second.until_records(3).await;
    assert_eq!(second.payloads(), texts(7..10));
    second.close().await;
}

#[tokio::test]
async fn a_topic_that_is_made_anew_has_another_id() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let names = [topic.to_string()];
    let before = cluster.describe(&names, PATIENCE).await.unwrap();
    assert_eq!((&*before[0].name, before[0].partitions), (&*topic, 1));
    delete_topic(&broker, &topic).await;
    create_topic_with(&broker, &topic, 3, &[]).await;
    let after = cluster.describe(&names, PATIENCE).await.unwrap();
    assert_eq!(after[0].partitions, 3);
    assert_ne!(before[0].id, after[0].id);

    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(3).await;
    for assigned in member.assigned.values() {
        assert_eq!(
            (assigned.topic_id, assigned.partition_count),
            (after[0].id, 3)
        );
    }
    member.close().await;
}

#[tokio::test]
async fn regular_expressions_find_topics() {
    let Some(broker) = broker() else { return };
    let prefix = unique("regex");
    let names = [format!("{prefix}-a"), format!("{prefix}-b")];
    for name in &names {
        create_topic_with(&broker, name, 1, &[]).await;
    }
    let cluster = cluster(&broker, &[]);
    let pattern = format!("^{prefix}-.*");
    assert_eq!(
        cluster
            .describe(std::slice::from_ref(&pattern), PATIENCE)
            .await
            .unwrap(),
        []
    );
    let mut member = Member::join(&cluster, &unique("group"), &[&pattern]);
    member.until_assigned(2).await;
    let found: HashSet<String> = member
        .assigned
        .keys()
        .map(|partition| partition.topic.to_string())
        .collect();
    assert_eq!(found, HashSet::from(names));
    member.close().await;
}

#[tokio::test]
async fn paused_partitions_wait_and_lose_nothing() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let group = unique("group");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_assigned(2).await;
    send_numbers(&producer, &topic, 0..1000).await;
    member.until_records(1).await;

    let paused = TopicPartition::new(topic.clone(), 0);
    let of_paused = |member: &Member| {
        let records = member.records.iter();
        records
            .filter(|record| record.topic_partition == paused)
            .count()
    };
    member.log.pause(std::slice::from_ref(&paused));
    let at_pause = of_paused(&member);
    send_numbers(&producer, &topic, 1000..3000).await;
    // All of the other partition comes, nothing of the paused one.
    let other = TopicPartition::new(topic.clone(), 1);
    let end = common::end_of(&broker, &other).await;
    member
        .until("the other partition is read", |member| {
            member
                .records
                .iter()
                .any(|record| record.topic_partition == other && record.offset == end - 1)
        })
        .await;
    member.during(Duration::from_millis(300)).await;
    assert_eq!(of_paused(&member), at_pause);

    member.log.resume(std::slice::from_ref(&paused));
    member.until_records(3000).await;
    assert_in_order(&member);
    assert_eq!(member.records.len(), 3000);
    member.close().await;
}

#[tokio::test]
async fn a_paused_partition_goes_back_and_loses_nothing() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let group = unique("group");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_assigned(1).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let generation = member.assigned[&partition].generation;
    send_numbers(&producer, &topic, 0..5_000).await;
    member.until_records(1).await;
    // Again and again, while records are on their way.
    for round in 0..20_usize {
        member.log.pause(std::slice::from_ref(&partition));
        member.during(Duration::from_millis(5)).await;
        let back = member.records.len() * round / 20;
        member.records.truncate(back);
        let offset = i64::try_from(back).unwrap();
        member.log.rewind(&partition, generation, offset);
        if round % 2 == 0 {
            member.during(Duration::from_millis(5)).await;
            assert_eq!(
                member.records.len(),
                back,
                "nothing comes while it is paused"
            );
        }
        member.log.resume(std::slice::from_ref(&partition));
        member.until_records(back + 1).await;
    }
    // Of another assignment.
    member.log.pause(std::slice::from_ref(&partition));
    let other = prosody_core::record::Generation(generation.0 + 1);
    member.log.rewind(&partition, other, 0);
    member.log.resume(std::slice::from_ref(&partition));
    member.until_records(5_000).await;
    member.during(Duration::from_millis(300)).await;
    assert_eq!(member.records.len(), 5_000);
    assert_in_order(&member);
    member.close().await;
}

#[tokio::test]
async fn a_rebalance_does_not_undo_a_rewind() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let group = unique("group");
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_assigned(2).await;
    send_numbers(&producer, &topic, 0..2_000).await;
    first.until_records(2_000).await;
    let all: Vec<TopicPartition> = first.assigned.keys().cloned().collect();
    first.log.pause(&all);
    for partition in &all {
        first
            .log
            .rewind(partition, first.assigned[partition].generation, 0);
    }
    // librdkafka pauses and resumes what is kept while a partition changes hands.
    let mut second = Member::join(&cluster, &group, &[&topic]);
    first
        .until("a partition is revoked", |member| {
            !member.revoked.is_empty()
        })
        .await;
    first.during(Duration::from_millis(200)).await;
    let moved = first.revoked[0].clone();
    first.give_up();
    tokio::join!(
        second.until_assigned(1),
        first.during(Duration::from_secs(1))
    );
    first.records.clear();
    let kept = all.iter().find(|partition| **partition != moved).unwrap();
    first.log.resume(std::slice::from_ref(kept));
    let end = common::end_of(&broker, kept).await;
    first
        .until("the kept partition is read again", |member| {
            member.records.len() >= usize::try_from(end).unwrap()
        })
        .await;
    assert_in_order(&first);
    assert!(
        first
            .records
            .iter()
            .all(|record| record.topic_partition == *kept)
    );
    second.close().await;
    first.close().await;
}

/// Every partition's offsets are without gap or repetition.
fn assert_in_order(member: &Member) {
    let mut next = std::collections::HashMap::new();
    for record in &member.records {
        let expected = next.entry(record.topic_partition.clone()).or_insert(0);
        assert_eq!(record.offset, *expected, "{}", record.topic_partition);
        *expected += 1;
    }
}

#[tokio::test]
async fn a_pause_ends_with_its_assignment() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let group = unique("group");
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_assigned(2).await;
    let all: Vec<TopicPartition> = first.assigned.keys().cloned().collect();
    first.log.pause(&all);

    // A second member takes one partition, and gives it back.
    let mut second = Member::join(&cluster, &group, &[&topic]);
    first
        .until("a partition is revoked", |member| {
            !member.revoked.is_empty()
        })
        .await;
    let moved = first.revoked[0].clone();
    first.give_up();
    tokio::join!(
        second.until_assigned(1),
        first.during(Duration::from_secs(1))
    );
    second.close().await;
    first.until_assigned(2).await;

    let send = (0..100).map(|n| producer.send(outgoing(&topic, &n.to_string(), "x")));
    futures::future::join_all(send).await;
    first
        .until("the partition that came back is read", |member| {
            member
                .records
                .iter()
                .any(|record| record.topic_partition == moved)
        })
        .await;
    // The one that stayed is still paused.
    first.during(Duration::from_millis(500)).await;
    assert!(
        first
            .records
            .iter()
            .all(|record| record.topic_partition == moved)
    );
    first.close().await;
}

#[tokio::test]
async fn commands_take_effect_at_once() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_assigned(1).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let mut times = Vec::new();
    for _ in 0..200 {
        let begin = Instant::now();
        member
            .log
            .commit(vec![member.watermark(&partition, 0)])
            .await
            .unwrap();
        times.push(begin.elapsed());
    }
    times.sort();
    println!("commit: p50 {:?}, p99 {:?}", times[100], times[198]);
    // The poll interval is 100 ms: whoever waited for it would be far above.
    assert!(times[100] < Duration::from_millis(20), "{:?}", times[100]);
    member.close().await;
}

#[tokio::test]
async fn whoever_does_not_poll_stays_in_the_group() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(
        &broker,
        &[
            ("session.timeout.ms", "6000"),
            ("heartbeat.interval.ms", "500"),
            ("max.poll.interval.ms", "6000"),
        ],
    );
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..20_000).await;
    let group = unique("group");
    let mut member = Member::join(&cluster, &group, &[&topic]);
    member.until_assigned(2).await;
    member.until_records(1).await;
    let partition = TopicPartition::new(topic.clone(), 0);

    // Twice the poll interval, with far more records waiting than are ever buffered. Commits go
    // on meanwhile.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(13) {
        let watermark = member.watermark(&partition, 0);
        timeout(Duration::from_secs(1), member.log.commit(vec![watermark]))
            .await
            .unwrap()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    member.until_records(20_000).await;
    assert_in_order(&member);
    assert_eq!(member.records.len(), 20_000);
    assert!(member.lost.is_empty() && member.revoked.is_empty() && member.failed.is_none());
    member.close().await;
}

#[tokio::test]
async fn a_rebalance_reaches_a_member_that_has_a_full_buffer() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    send_numbers(&producer, &topic, 0..20_000).await;
    let group = unique("group");
    let mut first = Member::join(&cluster, &group, &[&topic]);
    first.until_assigned(2).await;
    // Nobody takes records; the first thing that is taken then is the revocation.
    let mut second = Member::join(&cluster, &group, &[&topic]);
    tokio::time::sleep(Duration::from_secs(2)).await;
    first.step().await;
    first
        .until("a partition is revoked", |member| {
            !member.revoked.is_empty()
        })
        .await;
    let moved = first.revoked[0].clone();
    first.give_up();
    tokio::join!(
        second.until_records(1),
        first.during(Duration::from_secs(1))
    );
    assert!(
        second
            .records
            .iter()
            .all(|record| record.topic_partition == moved)
    );
    first.close().await;
    second.close().await;
}

#[tokio::test]
async fn a_deleted_topic_is_lost_and_the_others_go_on() {
    let Some(broker) = broker() else { return };
    let kept = topic(&broker, 1).await;
    let deleted = topic(&broker, 2).await;
    let cluster = cluster(&broker, &[("topic.metadata.refresh.interval.ms", "500")]);
    let producer = cluster.producer().unwrap();
    let mut member = Member::join(&cluster, &unique("group"), &[&kept, &deleted]);
    member.until_assigned(3).await;
    delete_topic(&broker, &deleted).await;
    member
        .until("its partitions are gone", |member| {
            member.assigned.len() == 1
        })
        .await;
    assert_eq!(member.lost.len(), 2);
    assert!(
        member
            .lost
            .iter()
            .all(|partition| partition.topic == deleted)
    );
    send_numbers(&producer, &kept, 0..10).await;
    member.until_records(10).await;
    let partition = TopicPartition::new(kept.clone(), 0);
    member.commit(&partition, 10).await;

    // It comes back as another topic: the client is made anew, and all partitions with it.
    let before = member.assigned[&partition].generation;
    member.gives_up = true;
    create_topic_with(&broker, &deleted, 2, &[]).await;
    member
        .until("all partitions are assigned", |member| {
            let mut assigned = member.assigned.values();
            member.assigned.len() == 3 && assigned.all(|one| one.generation > before)
        })
        .await;
    send_numbers(&producer, &kept, 10..20).await;
    member.until_records(20).await;
    assert_eq!(member.payloads(), texts(0..20));
    member.close().await;
}
