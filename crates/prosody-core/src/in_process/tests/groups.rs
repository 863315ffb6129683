//! What groups and their members promise.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;

use super::*;
use crate::log::LogError;

#[test]
fn a_partition_moves_when_it_is_given_up_and_no_earlier() {
    let cluster = cluster();
    let first = join(&cluster, "g", &["t"]);
    let all = assigned(&first);
    let second = join(&cluster, "g", &["t"]);
    assert!(poll(&second).is_none());

    let moving = revoked(&first);
    assert_eq!(moving.len(), 2, "no more than balance needs");
    assert!(poll(&second).is_none());
    assert!(poll(&first).is_none());

    let mark = |partition: &TopicPartition| {
        let found = all.iter().find(|one| one.topic_partition == *partition);
        watermark(found.unwrap(), 1)
    };
    commit(&first, vec![mark(&moving[0])]).unwrap();
    first.give_up(&moving[..1]);
    assert_eq!(commit(&first, vec![mark(&moving[0])]), Err(LogError::Ended));
    assert_eq!(partitions_of(&assigned(&second)), moving[..1]);
    first.give_up(&moving);
    assert_eq!(partitions_of(&assigned(&second)), moving[1..]);
}

#[test]
fn one_revocation_at_a_time() {
    let cluster = cluster();
    cluster.create_topic("t", 6).unwrap();
    let first = join(&cluster, "g", &["t"]);
    assigned(&first);
    let second = join(&cluster, "g", &["t"]);
    let moving = revoked(&first);
    assert_eq!(moving.len(), 3);
    let third = join(&cluster, "g", &["t"]);
    assert!(
        poll(&first).is_none(),
        "the first revocation is not answered"
    );
    first.give_up(&moving);
    let one_more = revoked(&first);
    assert_eq!(one_more.len(), 1);
    first.give_up(&one_more);
    assert!(poll(&first).is_none());
    assert_eq!(assigned(&second).len(), 2);
    assert_eq!(assigned(&third).len(), 2);
}

#[test]
fn a_rebalance_during_a_revocation_follows_it() {
    let cluster = cluster();
    let first = join(&cluster, "g", &["t"]);
    let all = assigned(&first);
    let _second = join(&cluster, "g", &["t"]);
    let moving = revoked(&first);
    cluster.rebalance("g");
    assert!(poll(&first).is_none());
    first.give_up(&moving);
    let others = revoked(&first);
    assert_eq!(moving.len() + others.len(), all.len());
    first.give_up(&others);
    assert_eq!(partitions_of(&assigned(&first)), others);
}

#[test]
fn close_and_drop_leave_the_group() {
    let cluster = cluster();
    let first = join(&cluster, "g", &["t"]);
    let second = join(&cluster, "g", &["t"]);
    assert_eq!(assigned(&first).len() + assigned(&second).len(), 4);

    // Not even awaited.
    drop(first.close(LIMIT));
    assert_eq!(assigned(&second).len(), 2);
    assert!(matches!(
        poll(&first),
        Some(LogEvent::Failed(LogError::Ended))
    ));
    first.close(LIMIT).now_or_never().unwrap();

    let third = join(&cluster, "g", &["t"]);
    drop(second);
    assert_eq!(assigned(&third).len(), 4);
    assert_eq!(cluster.members("g"), [third.id()]);
}

#[test]
fn groups_do_not_know_each_other() {
    let cluster = cluster();
    send(&cluster, "t", "k", "1");
    for group_id in ["g", "h"] {
        let member = join(&cluster, group_id, &["t"]);
        assert_eq!(assigned(&member).len(), 4);
        assert_eq!(payloads(&records(&member)), ["1"]);
    }
}

#[test]
fn a_stale_generation_commits_nothing_and_others_do() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    let old = assigned(&member);
    cluster.rebalance("g");
    let all = revoked(&member);
    assert_eq!(all, partitions_of(&old));
    member.give_up(&all);
    let new = assigned(&member);
    assert_eq!(partitions_of(&new), all);
    assert!(new[0].generation > old[0].generation);

    let watermarks = vec![watermark(&old[0], 5), watermark(&new[1], 6)];
    assert_eq!(commit(&member, watermarks), Err(LogError::Ended));
    let positions = member.positions(&all).now_or_never().unwrap().unwrap();
    assert_eq!(positions, [None, Some(6), None, None]);
    assert_eq!(cluster.committed("g", &all[1]), Some(6));
}

#[test]
fn an_expelled_member_is_fenced_and_comes_back() {
    let cluster = cluster();
    let first = join(&cluster, "g", &["t"]);
    let second = join(&cluster, "g", &["t"]);
    let mine = assigned(&first);
    assigned(&second);

    cluster.expel(first.id());
    assert_eq!(
        commit(&first, vec![watermark(&mine[0], 1)]),
        Err(LogError::Ended)
    );
    assert_eq!(partitions_of(&assigned(&second)), partitions_of(&mine));
    assert_eq!(
        cluster.owner("g", &mine[0].topic_partition),
        Some(second.id())
    );

    assert_eq!(lost(&first), partitions_of(&mine));
    let moving = revoked(&second);
    assert_eq!(moving.len(), 2);
    second.give_up(&moving);
    let back = assigned(&first);
    assert_eq!(partitions_of(&back), moving);
    assert!(back[0].generation > mine[0].generation);
}

#[test]
fn a_late_answer_to_a_revocation_takes_nothing() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    assigned(&member);
    cluster.rebalance("g");
    let revoked = revoked(&member);
    cluster.expel(member.id());
    lost(&member);
    let again = assigned(&member);
    member.give_up(&revoked);
    assert_eq!(commit(&member, vec![watermark(&again[0], 1)]), Ok(()));
}

#[test]
fn a_new_owner_goes_on_at_the_committed_offset() {
    let cluster = cluster();
    cluster.create_topic("t", 1).unwrap();
    for payload in ["0", "1", "2", "3"] {
        send(&cluster, "t", "k", payload);
    }
    let first = join(&cluster, "g", &["t"]);
    let mine = assigned(&first);
    assert_eq!(records(&first).len(), 4);
    commit(&first, vec![watermark(&mine[0], 2)]).unwrap();
    drop(first);

    let second = join(&cluster, "g", &["t"]);
    assigned(&second);
    assert_eq!(payloads(&records(&second)), ["2", "3"]);
    assert!(poll(&second).is_none());
    send(&cluster, "t", "k", "4");
    assert_eq!(payloads(&records(&second)), ["4"]);
}

#[test]
fn a_pattern_finds_topics_that_come_later() {
    let cluster = cluster();
    send(&cluster, "orders.eu", "k", "1");
    send(&cluster, "my-orders.eu", "k", "1");
    let member = join(&cluster, "g", &["^orders\\..*", "plain"]);
    let names = |assigned: &[Assigned]| {
        let mut names: Vec<_> = assigned
            .iter()
            .map(|one| one.topic_partition.topic.to_string())
            .collect();
        names.dedup();
        names
    };
    assert_eq!(names(&assigned(&member)), ["orders.eu", "plain"]);
    assert_eq!(records(&member).len(), 1);
    send(&cluster, "orders.us", "k", "1");
    send(&cluster, "other", "k", "1");
    assert_eq!(names(&assigned(&member)), ["orders.us"]);
    assert_eq!(records(&member).len(), 1);
    assert!(poll(&member).is_none());
}

#[test]
fn members_with_other_topics_get_only_those() {
    let cluster = cluster();
    let first = join(&cluster, "g", &["a", "b"]);
    assert_eq!(assigned(&first).len(), 8);
    let second = join(&cluster, "g", &["b"]);
    let moving = revoked(&first);
    assert!(moving.iter().all(|partition| &*partition.topic == "b"));
    first.give_up(&moving);
    assert_eq!(partitions_of(&assigned(&second)), moving);
    assert_eq!(moving.len(), 4);
}

#[test]
fn a_paused_partition_is_skipped_and_a_new_assignment_is_not_paused() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    let all = partitions_of(&assigned(&member));
    let key = send(&cluster, "t", "k", "1");
    let paused = [TopicPartition::new("t", key.partition)];
    member.pause(&paused);
    assert!(poll(&member).is_none());
    send(&cluster, "t", "k", "2");
    assert!(poll(&member).is_none());
    let other = send(&cluster, "t", "another", "3");
    assert_ne!(other.partition, key.partition);
    assert_eq!(payloads(&records(&member)), ["3"]);
    member.resume(&paused);
    member.resume(&paused);
    assert_eq!(payloads(&records(&member)), ["1", "2"]);
    assert!(poll(&member).is_none());

    member.pause(&all);
    cluster.rebalance("g");
    member.give_up(&revoked(&member));
    member.pause(&all);
    assigned(&member);
    assert_eq!(records(&member).len(), 3);
}

#[test]
fn a_closed_intake_holds_back_records_and_nothing_else() {
    let cluster = cluster();
    send(&cluster, "t", "k", "1");
    let member = join(&cluster, "g", &["t"]);
    let poll_closed = || member.poll(Intake::Closed).now_or_never();
    assert!(matches!(poll_closed(), Some(LogEvent::Assigned(_))));
    assert!(poll_closed().is_none());
    cluster.rebalance("g");
    let Some(LogEvent::Revoked(all)) = poll_closed() else {
        panic!("expected a revocation");
    };
    member.give_up(&all);
    assert!(matches!(poll_closed(), Some(LogEvent::Assigned(_))));
    assert!(poll_closed().is_none());
    assert_eq!(payloads(&records(&member)), ["1"]);
}

#[test]
fn batches_are_bounded_and_fair() {
    let cluster = cluster();
    let key_of = |partition: usize| {
        let mut keys = (0..).map(|number: u32| number.to_string());
        keys.find(|key| crc32fast::hash(key.as_bytes()) as usize % 4 == partition)
            .unwrap()
    };
    let [busy, busier, quiet] = [0, 1, 2].map(key_of);
    for number in 0..3_000 {
        send(&cluster, "t", &busy, &number.to_string());
        send(&cluster, "t", &busier, &number.to_string());
    }
    send(&cluster, "t", &quiet, "quiet");
    let member = join(&cluster, "g", &["t"]);
    assigned(&member);

    let mut next = [0; 4];
    let mut batches = 0;
    while let Some(LogEvent::Records(batch)) = poll(&member) {
        assert!(batch.len() <= 512);
        for record in &batch {
            let next = &mut next[usize::try_from(record.topic_partition.partition).unwrap()];
            assert_eq!(record.offset, *next);
            *next += 1;
        }
        if batches == 0 {
            assert_eq!(
                next,
                [256, 255, 1, 0],
                "each has its share of the first batch"
            );
        }
        batches += 1;
    }
    assert_eq!(next, [3_000, 3_000, 1, 0]);
    assert_eq!(batches, 12);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_poll_is_woken_by_whatever_there_is() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    assigned(&member);
    let (events, mut heard) = mpsc::unbounded_channel();
    let polling = tokio::spawn({
        let member = Arc::clone(&member);
        async move {
            loop {
                let event = member.poll(Intake::Open).await;
                let last = matches!(event, LogEvent::Failed(_));
                events.send(event).unwrap();
                if last {
                    break;
                }
            }
        }
    });
    let start = tokio::time::Instant::now();
    tokio::task::yield_now().await;

    send(&cluster, "t", "k", "1");
    assert!(matches!(heard.recv().await, Some(LogEvent::Records(_))));
    member.pause(&[TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    for key in ["a", "b", "c", "d", "e"] {
        send(&cluster, "t", key, "1");
    }
    assert!(matches!(heard.recv().await, Some(LogEvent::Records(_))));
    tokio::task::yield_now().await;
    member.resume(&[TopicPartition::new("t", 0), TopicPartition::new("t", 1)]);
    assert!(matches!(heard.recv().await, Some(LogEvent::Records(_))));

    let other = join(&cluster, "g", &["t"]);
    let Some(LogEvent::Revoked(partitions)) = heard.recv().await else {
        panic!("expected a revocation");
    };
    member.give_up(&partitions);
    assert!(matches!(
        other.poll(Intake::Open).await,
        LogEvent::Assigned(_)
    ));
    drop(other);
    assert!(matches!(heard.recv().await, Some(LogEvent::Assigned(_))));
    // Nothing of those partitions was committed.
    assert!(matches!(heard.recv().await, Some(LogEvent::Records(_))));
    cluster.expel(member.id());
    assert!(matches!(heard.recv().await, Some(LogEvent::Lost(_))));
    assert!(matches!(heard.recv().await, Some(LogEvent::Assigned(_))));
    assert!(matches!(heard.recv().await, Some(LogEvent::Records(_))));
    member.close(LIMIT).await;
    assert!(matches!(heard.recv().await, Some(LogEvent::Failed(_))));
    polling.await.unwrap();
    assert_eq!(start.elapsed(), std::time::Duration::ZERO);
}

#[tokio::test]
async fn a_poll_that_is_dropped_while_it_waits_loses_nothing() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    assigned(&member);
    for number in 0..100 {
        let mut waiting = member.poll(Intake::Open);
        assert!((&mut waiting).now_or_never().is_none());
        send(&cluster, "t", "k", &number.to_string());
        drop(waiting);
        let LogEvent::Records(records) = member.poll(Intake::Open).await else {
            panic!("expected records");
        };
        assert_eq!(payloads(&records), [number.to_string()]);
    }
}

#[tokio::test]
async fn a_log_that_never_runs_dry_lets_other_tasks_run() {
    let cluster = cluster();
    let member = join(&cluster, "g", &["t"]);
    let (sender, mut stop) = tokio::sync::oneshot::channel();
    tokio::spawn(async move { sender.send(()).unwrap() });
    while stop.try_recv().is_err() {
        send(&cluster, "t", "k", "1");
        member.poll(Intake::Open).await;
    }
}
