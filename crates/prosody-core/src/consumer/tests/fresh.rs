//! Assignments that end although the group still gives the partition to this member: the log went
//! back, the topic is another one, the store ended the claim.

use std::sync::atomic::Ordering;

use tokio::time::sleep;

use super::rig::*;
use crate::outcome::Outcome;

fn succeeding(partitions: i32) -> Rig {
    let rig = Rig::start(partitions, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    rig
}

#[tokio::test(start_paused = true)]
async fn a_tail_that_is_written_anew_is_handled() {
    let rig = succeeding(1);
    for number in 0..10 {
        rig.send("key", &number.to_string());
    }
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(10));

    rig.cluster.delete_records_from(TOPIC, 0, 6);
    rig.settle().await;
    for number in 0..3 {
        rig.send("other", &number.to_string());
    }
    rig.settle().await;
    let first: Vec<_> = (0..10).map(|offset| (0, offset)).collect();
    let started = rig.puppet.started.lock().clone();
    assert_eq!(started[..10], first);
    assert_eq!(started[10..], [(0, 6), (0, 7), (0, 8)]);
    assert_eq!(rig.committed(0), Some(9), "the offset goes back, too");
}

#[tokio::test(start_paused = true)]
async fn a_log_that_goes_back_below_the_unfinished_is_begun_there_once() {
    let rig = Rig::start(1, settings());
    for number in 0..3 {
        rig.send(&format!("key-{number}"), "1");
    }
    rig.settle().await;
    let old = rig.puppet.running();
    rig.cluster.rewind(&partition(0), 1);
    rig.send("key-3", "1");
    rig.settle().await;
    assert!(old.iter().all(|attempt| attempt.is_over()));
    // Its successor waits for all of them: no key has two at a time.
    assert_eq!(rig.puppet.started.lock().len(), 3);
    for attempt in &old {
        rig.puppet.end(attempt, Outcome::Success);
    }
    rig.settle().await;
    // From the committed offset, which is lower than where the log went back to.
    assert_eq!(rig.puppet.places(), [(0, 0), (0, 1), (0, 2), (0, 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_anew_is_handled_from_its_first_record() {
    let rig = succeeding(1);
    for round in 0..5 {
        for number in 0..10 * (round + 1) {
            rig.send("key", &number.to_string());
        }
        rig.settle().await;
        assert_eq!(rig.committed(0), Some(10 * (round + 1)));
        assert!(rig.cluster.delete_topic(TOPIC));
        if round % 2 == 0 {
            rig.settle().await;
        }
        rig.cluster.create_topic(TOPIC, 1).unwrap();
    }
    let expected: Vec<_> = (1..=5)
        .flat_map(|round| (0..10 * round).map(|offset| (0, offset)))
        .collect();
    assert_eq!(*rig.puppet.started.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_a_deleted_topic_holds_the_new_one_back_and_counts_for_nothing() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    let old = rig.puppet.only();
    rig.cluster.delete_topic(TOPIC);
    rig.cluster.create_topic(TOPIC, 1).unwrap();
    rig.send("key", "2");
    rig.settle().await;
    assert!(old.is_over());
    assert_eq!(rig.puppet.started.lock().len(), 1);
    rig.puppet.end(&old, Outcome::Success);
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(0));
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn partitions_that_are_added_are_consumed() {
    let rig = succeeding(1);
    rig.send("key", "1");
    rig.settle().await;
    rig.cluster.add_partitions(TOPIC, 4).unwrap();
    for number in 0..40 {
        rig.send(&format!("key-{number}"), "1");
    }
    rig.settle().await;
    assert_eq!(rig.handle.status().assigned_partitions(), 4);
    let committed: i64 = (0..4).filter_map(|number| rig.committed(number)).sum();
    assert_eq!((committed, rig.puppet.started.lock().len()), (41, 41));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_store_ends_is_made_anew() {
    let rig = Rig::start(2, settings());
    for number in 0..8 {
        rig.send(&format!("key-{number}"), "1");
    }
    rig.settle().await;
    let running = rig.puppet.running().into_iter();
    let (stolen, kept): (Vec<_>, Vec<_>) = running.partition(|attempt| place(attempt).0 == 0);
    rig.store.steal(0);
    rig.puppet.end(&stolen[0], Outcome::Success);
    rig.settle().await;
    assert!(stolen.iter().all(|attempt| attempt.is_over()));
    assert!(kept.iter().all(|attempt| !attempt.is_over()));
    for attempt in &stolen[1..] {
        rig.puppet.end(attempt, Outcome::Success);
    }
    sleep(ms(1_500)).await;
    let count = stolen.len();
    let again = rig
        .puppet
        .places()
        .iter()
        .filter(|place| place.0 == 0)
        .count();
    assert_eq!(again, count, "all of them are handled again");
    for attempt in rig.puppet.running() {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(i64::try_from(count).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn so_is_one_whose_end_a_read_reveals() {
    let rig = succeeding(1);
    rig.send("key", "1");
    rig.settle().await;
    rig.store.steal(0);
    rig.send("other", "1");
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(1));
    sleep(ms(1_500)).await;
    assert_eq!(rig.committed(0), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_over_is_not_made_anew() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.store.steal(0);
    rig.end_only(Outcome::Success).await;
    // The group takes the partition back and gives it again before its time has come.
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    let again = rig.puppet.only();
    assert_eq!(rig.store.claims.load(Ordering::Relaxed), 2);
    sleep(ms(5_000)).await;
    assert_eq!(rig.store.claims.load(Ordering::Relaxed), 2);
    assert!(!again.is_over());
}
