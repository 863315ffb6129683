use futures::FutureExt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::*;
use crate::in_process::MESSAGE_BYTES_MAX;
use crate::log::{LoadError, LogError};
use crate::record::{Coordinates, Generation};

#[test]
fn a_topic_comes_into_being_when_it_is_first_used() {
    let cluster = cluster();
    send(&cluster, "produced", "k", "1");
    let member = join(&cluster, "g", &["joined"]);
    let names = ["produced", "joined", "described", "^pattern-.*"].map(str::to_owned);
    let described = cluster
        .describe(&names, LIMIT)
        .now_or_never()
        .unwrap()
        .unwrap();

    let counts: Vec<_> = described.iter().map(|topic| topic.partitions).collect();
    assert_eq!(counts, [PARTITIONS; 3]);
    assert_eq!(assigned(&member).len(), 4);
    assert_eq!(cluster.records("produced").len(), 1);
}

#[test]
fn names_follow_the_rules_of_kafka() {
    let cluster = cluster();
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "ä", "a/b", &long] {
        let sent = try_send(&cluster, outgoing(name, "k", "1"));
        assert!(matches!(sent, Err(SendError::Refused(_))), "{name:?}");
        assert!(cluster.create_topic(name, 1).is_err(), "{name:?}");
    }
    assert!(cluster.create_topic("", 1).is_err());
    assert!(cluster.create_topic("a", 0).is_err());
    for name in ["a", "...", "A.b_c-9", &"x".repeat(249)] {
        assert!(cluster.create_topic(name, 1).is_ok(), "{name:?}");
        assert!(cluster.create_topic(name, 1).is_err(), "{name:?} exists");
    }
    let membership = |topic: &str| Membership {
        group_id: "g".into(),
        topics: vec![topic.to_owned()],
        poll_interval: LIMIT,
    };
    for topic in ["a b", "^(", "^a{2"] {
        let refused = cluster.join_member(&membership(topic));
        assert!(matches!(refused, Err(LogError::Refused(_))), "{topic:?}");
    }
}

#[test]
fn a_key_has_one_partition_and_keyless_records_take_turns() {
    let cluster = cluster();
    for key in ["a", "b", "some longer key", "ä"] {
        let first = send(&cluster, "t", key, "1");
        let second = send(&cluster, "t", key, "2");
        assert_eq!(first.partition, second.partition);
    }
    // crc32("123456789") is 0xCBF43926, the checksum's published test value.
    let known = send(&cluster, "t", "123456789", "1").partition;
    assert_eq!(i64::from(known), 0xCBF4_3926_i64 % 4);

    let turns: Vec<_> = (0..8)
        .map(|_| send(&cluster, "keyless", "", "1").partition)
        .collect();
    assert_eq!(turns, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn a_record_arrives_as_it_was_sent() {
    let cluster = cluster();
    let headers = vec![
        (Bytes::from_static(b"h"), Some(Bytes::from_static(b"\xff"))),
        (Bytes::from_static(b"h"), None),
    ];
    let sent = OutgoingRecord {
        topic: "t".into(),
        key: Some(Bytes::from_static(b"\xfe")),
        payload: None,
        headers: Headers::new(headers),
    };
    let payload = Bytes::from(vec![7; 100]);
    let shared = OutgoingRecord {
        payload: Some(payload.clone()),
        ..sent.clone()
    };
    let delivery = try_send(&cluster, sent.clone()).unwrap();
    try_send(&cluster, shared).unwrap();
    let member = join(&cluster, "g", &["t"]);
    let assigned = assigned(&member);
    let read = records(&member);

    assert_eq!(
        read[0].topic_partition,
        TopicPartition::new("t", delivery.partition)
    );
    assert_eq!(read[0].generation, assigned[0].generation);
    assert_eq!((read[0].offset, read[1].offset), (0, 1));
    assert_eq!((read[0].timestamp_ms, read[1].timestamp_ms), (1_000, 1_001));
    assert_eq!(read[0].key, sent.key);
    assert_eq!(read[0].payload, None);
    assert_eq!(read[0].headers, sent.headers);
    let read_payload = read[1].payload.as_ref().unwrap();
    assert_eq!(read_payload.as_ptr(), payload.as_ptr(), "bytes are shared");
}

#[test]
fn a_record_that_is_too_large_is_refused_with_its_sizes() {
    let cluster = cluster();
    let record = |payload: usize| OutgoingRecord {
        topic: "t".into(),
        key: Some(Bytes::from_static(b"key")),
        payload: Some(Bytes::from(vec![b'1'; payload])),
        headers: Headers::new(vec![(
            Bytes::from_static(b"name"),
            Some(Bytes::from_static(b"v")),
        )]),
    };
    try_send(&cluster, record(MESSAGE_BYTES_MAX - 8)).unwrap();
    let refused = try_send(&cluster, record(MESSAGE_BYTES_MAX - 7)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the message has 1000001 bytes (key 3, payload 999993, headers 5), more than 1000000"
    );
}

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
    let first = join(&cluster, "g", &["t"]);
    assigned(&first);
    let second = join(&cluster, "g", &["t"]);
    let moving = revoked(&first);
    let third = join(&cluster, "g", &["t"]);
    assert!(
        poll(&first).is_none(),
        "the first revocation is not answered"
    );
    first.give_up(&moving);
    let all = [&first, &second, &third];
    let mut owned = [2, 0, 0];
    for _ in 0..4 {
        for (member, owned) in all.iter().zip(&mut owned) {
            match poll(member) {
                Some(LogEvent::Assigned(more)) => *owned += more.len(),
                Some(LogEvent::Revoked(partitions)) => {
                    *owned -= partitions.len();
                    member.give_up(&partitions);
                }
                None => {}
                other => panic!("{other:?}"),
            }
        }
    }
    owned.sort_unstable();
    assert_eq!(owned, [1, 1, 2]);
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
fn what_retention_deleted_is_passed_over() {
    let cluster = cluster();
    cluster.create_topic("t", 1).unwrap();
    for payload in ["0", "1", "2", "3"] {
        send(&cluster, "t", "k", payload);
    }
    cluster.delete_records_before("t", 0, 2);
    let member = join(&cluster, "g", &["t"]);
    let mine = assigned(&member);
    let read = records(&member);
    assert_eq!(payloads(&read), ["2", "3"]);
    assert_eq!(read[0].offset, 2);

    let load = |offset| {
        let coordinates = Coordinates {
            topic_partition: mine[0].topic_partition.clone(),
            topic_id: mine[0].topic_id,
            offset,
        };
        member.load(&coordinates, LIMIT).now_or_never().unwrap()
    };
    let loaded = load(3).unwrap();
    assert_eq!(
        loaded,
        Record {
            generation: Generation(0),
            ..read[1].clone()
        }
    );
    for offset in [-1, 0, 1, 4, i64::MIN, i64::MAX] {
        assert_eq!(load(offset), Err(LoadError::Gone), "{offset}");
    }
    cluster.delete_records_before("t", 0, 9);
    assert_eq!(load(3), Err(LoadError::Gone));
    assert_eq!(send(&cluster, "t", "k", "4").offset, 4);
}

#[test]
fn a_topic_made_anew_is_another_one() {
    let cluster = cluster();
    let old = cluster.create_topic("t", 1).unwrap();
    send(&cluster, "t", "k", "old");
    let member = join(&cluster, "g", &["t"]);
    let mine = assigned(&member);
    records(&member);
    commit(&member, vec![watermark(&mine[0], 1)]).unwrap();

    assert!(cluster.delete_topic("t"));
    assert!(!cluster.delete_topic("t"));
    assert_eq!(cluster.committed("g", &mine[0].topic_partition), None);
    assert_eq!(lost(&member), partitions_of(&mine));
    assert!(poll(&member).is_none());

    let new = cluster.create_topic("t", 2).unwrap();
    assert_ne!(new.id, old.id);
    let again = assigned(&member);
    assert_eq!(again.len(), 2);
    assert_eq!((again[0].topic_id, again[0].partition_count), (new.id, 2));
    let coordinates = Coordinates {
        topic_partition: TopicPartition::new("t", 0),
        topic_id: old.id,
        offset: 0,
    };
    let partition = send(&cluster, "t", "k", "new").partition;
    let load = |topic_id| {
        let topic_partition = TopicPartition::new("t", partition);
        let coordinates = Coordinates {
            topic_partition,
            topic_id,
            ..coordinates
        };
        member.load(&coordinates, LIMIT).now_or_never().unwrap()
    };
    assert!(load(new.id).is_ok());
    let coordinates = Coordinates {
        topic_partition: TopicPartition::new("t", partition),
        ..coordinates
    };
    let gone = member.load(&coordinates, LIMIT).now_or_never().unwrap();
    assert_eq!(gone, Err(LoadError::Gone));
    assert_eq!(payloads(&records(&member)), ["new"]);
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
fn batches_are_bounded_and_fair() {
    let cluster = cluster();
    for number in 0..3_000 {
        send(&cluster, "t", "busy", &number.to_string());
    }
    let busy = send(&cluster, "t", "busy", "last").partition;
    send(&cluster, "t", "", "quiet");
    send(&cluster, "t", "", "quiet");
    let member = join(&cluster, "g", &["t"]);
    assigned(&member);
    let batch = records(&member);
    assert_eq!(batch.len(), 512);
    let quiet = payloads(&batch).iter().filter(|p| *p == "quiet").count();
    assert!(
        quiet >= 1,
        "a busy partition {busy} does not crowd out others"
    );

    let mut next = batch
        .iter()
        .filter(|r| r.topic_partition.partition == busy)
        .count();
    while let Some(LogEvent::Records(batch)) = poll(&member) {
        for record in batch.iter().filter(|r| r.topic_partition.partition == busy) {
            assert_eq!(record.offset, i64::try_from(next).unwrap());
            next += 1;
        }
    }
    assert!(next >= 3_001);
}

#[test]
fn clear_empties_the_log_under_running_members() {
    let cluster = cluster();
    send(&cluster, "t", "k", "1");
    let member = join(&cluster, "g", &["t"]);
    let old = assigned(&member);
    records(&member);
    let marks = old.iter().map(|one| watermark(one, 1)).collect();
    commit(&member, marks).unwrap();
    let waiting = join(&cluster, "h", &["t"]);

    cluster.clear();
    assert_eq!(lost(&member), partitions_of(&old));
    assert!(poll(&member).is_none());
    assert!(poll(&waiting).is_none(), "it had not been told of any");
    assert_eq!(cluster.records("t"), []);

    send(&cluster, "t", "k", "2");
    let new = assigned(&member);
    assert_ne!(new[0].topic_id, old[0].topic_id);
    assert!(new[0].generation > old[0].generation);
    assert_eq!(payloads(&records(&member)), ["2"]);
    let stale = old.iter().map(|one| watermark(one, 1)).collect();
    assert_eq!(commit(&member, stale), Err(LogError::Ended));
    assert_eq!(cluster.committed("g", &old[0].topic_partition), None);
    assert_eq!(assigned(&waiting).len(), 4);
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
