//! What the caller is given, and when.

use prosody_core::record::{Headers, TopicId};

use super::*;

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("topic", number)
}

fn record(number: i32, offset: i64) -> Record {
    Record {
        topic_partition: partition(number),
        generation: Generation(1),
        offset,
        leader_epoch: 0,
        timestamp_ms: 0,
        key: None,
        payload: None,
        headers: Headers::default(),
    }
}

fn outbox() -> Outbox {
    let outbox = Outbox::new(Arc::default());
    let assigned = |number| Assigned {
        topic_partition: partition(number),
        generation: Generation(1),
        topic_id: TopicId(1),
        partition_count: 2,
    };
    outbox.assigned(vec![assigned(0), assigned(1)]);
    assert!(matches!(
        outbox.take_now(Intake::Open),
        Some(LogEvent::Assigned(_))
    ));
    outbox
}

fn offsets(outbox: &Outbox) -> Vec<(i32, i64)> {
    let mut all = Vec::new();
    while let Some(event) = outbox.take_now(Intake::Open) {
        let LogEvent::Records(records) = event else {
            panic!("{event:?}")
        };
        let name = |record: &Record| (record.topic_partition.partition, record.offset);
        all.extend(records.iter().map(name));
    }
    all
}

#[test]
fn what_is_held_back_comes_before_what_follows() {
    let outbox = outbox();
    outbox.add_records(vec![record(0, 0), record(1, 0)], 2);
    let known = outbox.pause(&[partition(0), partition(7)]);
    assert_eq!(known, [(partition(0), Generation(1))]);
    outbox.add_records(vec![record(0, 1), record(1, 1)], 2);
    assert_eq!(offsets(&outbox), [(1, 0), (1, 1)]);
    outbox.add_records(vec![record(0, 2)], 1);
    outbox.resume(&[partition(0)]);
    assert_eq!(offsets(&outbox), [(0, 0), (0, 1), (0, 2)]);
    let state = outbox.state.lock();
    assert_eq!((state.records, state.bytes), (0, 0));
}

#[test]
fn what_was_under_way_before_a_rewind_does_not_arrive_after_it() {
    let outbox = outbox();
    outbox.add_records(vec![record(0, 0), record(0, 1), record(1, 0)], 3);
    outbox.pause(&[partition(0)]);
    assert_eq!(offsets(&outbox), [(1, 0)]);
    outbox.add_records(vec![record(0, 2), record(1, 1)], 2);
    for _ in 0..2 {
        assert!(outbox.begin_rewind(&partition(0), Generation(1)));
    }
    outbox.resume(&[partition(0)]);
    // The poll thread has not heard of it, or of the first one only.
    outbox.add_records(vec![record(0, 3)], 1);
    outbox.rewound(&partition(0), Generation(1));
    outbox.add_records(vec![record(0, 1), record(1, 2)], 2);
    assert_eq!(offsets(&outbox), [(1, 1), (1, 2)]);
    outbox.rewound(&partition(0), Generation(1));
    outbox.add_records(vec![record(0, 1)], 1);
    assert_eq!(offsets(&outbox), [(0, 1)]);
    let state = outbox.state.lock();
    assert_eq!((state.records, state.bytes), (0, 0));
}

#[test]
fn a_rewind_is_of_one_assignment() {
    let outbox = outbox();
    let next = |offset| Record {
        generation: Generation(2),
        ..record(0, offset)
    };
    assert!(!outbox.begin_rewind(&partition(0), Generation(2)));
    assert!(outbox.begin_rewind(&partition(0), Generation(1)));
    outbox.lost(vec![partition(0)]);
    outbox.assigned(vec![Assigned {
        topic_partition: partition(0),
        generation: Generation(2),
        topic_id: TopicId(1),
        partition_count: 2,
    }]);
    // The caller has not heard of that yet: what it says is of the assignment before.
    outbox.add_records(vec![next(4)], 1);
    assert!(outbox.begin_rewind(&partition(0), Generation(1)));
    for _ in 0..2 {
        assert!(outbox.take_now(Intake::Open).is_some());
    }
    outbox.add_records(vec![next(5)], 1);
    assert_eq!(offsets(&outbox), [(0, 4), (0, 5)]);
    assert!(outbox.begin_rewind(&partition(0), Generation(2)));
    // Of the assignment before.
    outbox.rewound(&partition(0), Generation(1));
    outbox.add_records(vec![next(6)], 1);
    assert_eq!(offsets(&outbox), []);
}

#[test]
fn a_revocation_overtakes_records_and_drops_those_of_its_partitions() {
    let outbox = outbox();
    outbox.add_records(vec![record(0, 0), record(1, 0)], 2);
    outbox.pause(&[partition(0)]);
    outbox.revoked(vec![partition(0)]);
    assert!(matches!(
        outbox.take_now(Intake::Open),
        Some(LogEvent::Revoked(_))
    ));
    assert_eq!(offsets(&outbox), [(1, 0)]);
    outbox.given_up(&[partition(0)]);
    outbox.resume(&[partition(0)]);
    assert_eq!(offsets(&outbox), []);
    assert_eq!(outbox.generation(&partition(0)), Generation(0));
    assert_eq!(outbox.generation(&partition(1)), Generation(1));
}

#[test]
fn a_late_pause_is_of_the_assignment_that_the_caller_knows() {
    let outbox = outbox();
    let again = Assigned {
        topic_partition: partition(0),
        generation: Generation(2),
        topic_id: TopicId(1),
        partition_count: 2,
    };
    outbox.lost(vec![partition(0)]);
    outbox.assigned(vec![again]);
    outbox.add_records(vec![record(0, 0)], 1);
    // The caller has heard of neither.
    assert_eq!(
        outbox.pause(&[partition(0)]),
        [(partition(0), Generation(1))]
    );
    assert!(matches!(
        outbox.take_now(Intake::Open),
        Some(LogEvent::Lost(_))
    ));
    assert_eq!(outbox.pause(&[partition(0)]), []);
    assert!(matches!(
        outbox.take_now(Intake::Open),
        Some(LogEvent::Assigned(_))
    ));
    assert_eq!(offsets(&outbox), [(0, 0)], "it does not hold for the next");
    assert_eq!(
        outbox.resume(&[partition(0)]),
        [(partition(0), Generation(2))]
    );
}

#[test]
fn it_is_full_after_some_records_and_ends_for_good() {
    let outbox = outbox();
    assert!(outbox.has_room() && outbox.is_low());
    for offset in 0..4096 {
        outbox.add_records(vec![record(0, offset)], 1);
    }
    assert!(!outbox.has_room() && !outbox.is_low());
    outbox.failed(LogError::Refused("why".to_owned()));
    outbox.end();
    assert!(matches!(
        outbox.take_now(Intake::Open),
        Some(LogEvent::Failed(LogError::Refused(_)))
    ));
    for _ in 0..2 {
        assert!(matches!(
            outbox.take_now(Intake::Open),
            Some(LogEvent::Failed(LogError::Ended))
        ));
    }
}
