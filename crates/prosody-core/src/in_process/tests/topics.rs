//! What topics and their records promise.

use bytes::Bytes;
use futures::FutureExt;

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

#[test]
fn a_topic_that_grows_has_its_members_told() {
    let cluster = cluster();
    cluster.create_topic("t", 2).unwrap();
    let member = join(&cluster, "g", &["t"]);
    assert_eq!(assigned(&member).len(), 2);
    assert!(cluster.add_partitions("none", 4).is_err());
    assert!(cluster.add_partitions("t", 2).is_err());
    cluster.add_partitions("t", 3).unwrap();
    cluster.add_partitions("t", 5).unwrap();
    for (before, now) in [(2, 3), (3, 5)] {
        let Some(LogEvent::PartitionsAdded(added)) = poll(&member) else {
            panic!("nothing is told")
        };
        assert_eq!((&*added.topic, added.before, added.now), ("t", before, now));
    }
    let more = assigned(&member);
    assert_eq!(more.len(), 3);
    assert!(more.iter().all(|one| one.partition_count == 5));
    assert!(poll(&member).is_none());
}

#[test]
fn a_partition_is_begun_afresh_where_the_log_went_back_to() {
    let cluster = cluster();
    cluster.create_topic("t", 1).unwrap();
    for payload in ["0", "1", "2", "3"] {
        send(&cluster, "t", "k", payload);
    }
    let member = join(&cluster, "g", &["t"]);
    let mine = assigned(&member).remove(0);
    records(&member);
    commit(&member, vec![watermark(&mine, 3)]).unwrap();
    cluster.delete_records_from("t", 0, 2);
    assert!(poll(&member).is_none());
    send(&cluster, "t", "k", "new 2");
    let read = records(&member);
    assert_eq!((read[0].offset, read[0].generation), (2, mine.generation));

    let partition = &mine.topic_partition;
    member.restart(partition, Generation(9), Some(2));
    assert!(poll(&member).is_none(), "of another generation");
    member.restart(partition, mine.generation, Some(2));
    member.restart(partition, mine.generation, Some(0));
    assert_eq!(lost(&member), std::slice::from_ref(partition));
    let next = assigned(&member).remove(0);
    assert!(next.generation > mine.generation);
    assert_eq!(payloads(&records(&member)), ["new 2"]);

    commit(&member, vec![watermark(&next, 1)]).unwrap();
    member.restart(partition, next.generation, Some(2));
    lost(&member);
    assigned(&member);
    assert_eq!(payloads(&records(&member)), ["1", "new 2"]);
}

#[test]
fn a_partition_that_is_revoked_is_not_begun_afresh() {
    let cluster = cluster();
    cluster.create_topic("t", 1).unwrap();
    let member = join(&cluster, "g", &["t"]);
    let mine = assigned(&member).remove(0);
    cluster.rebalance("g");
    let revoked = revoked(&member);
    member.restart(&mine.topic_partition, mine.generation, None);
    assert!(poll(&member).is_none());
    member.give_up(&revoked);
    assert_eq!(assigned(&member).len(), 1);
}

#[test]
fn what_goes_back_while_it_is_paused_at_its_end_comes_again() {
    let cluster = cluster();
    cluster.create_topic("t", 1).unwrap();
    for payload in ["0", "1", "2"] {
        send(&cluster, "t", "k", payload);
    }
    let member = join(&cluster, "g", &["t"]);
    let generation = assigned(&member)[0].generation;
    let partition = TopicPartition::new("t", 0);
    let paused = std::slice::from_ref(&partition);
    assert_eq!(payloads(&records(&member)), ["0", "1", "2"]);

    // The member asks for it.
    member.pause(paused);
    member.rewind(&partition, generation, 1);
    assert!(poll(&member).is_none());
    member.resume(paused);
    assert_eq!(payloads(&records(&member)), ["1", "2"]);

    // The log does it.
    member.pause(paused);
    cluster.rewind(&partition, 0);
    assert!(poll(&member).is_none());
    member.resume(paused);
    assert_eq!(payloads(&records(&member)), ["0", "1", "2"]);
}
