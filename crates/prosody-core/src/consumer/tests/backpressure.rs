//! A partition that is full takes no more, and holds nobody else up.

use std::sync::atomic::Ordering;

use tokio::time::sleep;

use super::rig::*;
use crate::consumer::backpressure::{FED_RECORDS, PAUSED_RECORDS, TAKEN_BYTES};
use crate::outcome::Outcome;

#[tokio::test(start_paused = true)]
async fn a_full_partition_does_not_hold_up_others() {
    let mut settings = settings();
    settings.max_uncommitted = 3;
    let rig = Rig::start(2, settings);
    let stuck = rig.send("stuck", "1").partition;
    let mut elsewhere = 0;
    for number in 0..20_000 {
        let key = format!("key-{number}");
        elsewhere += i64::from(rig.send(&key, "1").partition != stuck);
    }
    rig.settle().await;
    let open: Vec<_> = rig
        .puppet
        .running()
        .into_iter()
        .filter(|attempt| place(attempt).0 == stuck)
        .collect();
    assert_eq!(open.len(), 3);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    for attempt in rig.puppet.running() {
        if place(&attempt).0 != stuck {
            rig.puppet.end(&attempt, Outcome::Success);
        }
    }
    // As soon as the other one has nothing waiting, the stuck one is paused after a while.
    sleep(ms(600)).await;
    rig.settle().await;
    assert_eq!(rig.committed(1 - stuck), Some(elsewhere));
    assert_eq!(rig.committed(stuck), Some(0));

    // The window counts what is unfinished, not what lies beyond the oldest.
    rig.puppet.end(&open[1], Outcome::Success);
    rig.settle().await;
    assert_eq!(rig.committed(stuck), Some(0));
    rig.puppet.end(&open[0], Outcome::Success);
    rig.puppet.end(&open[2], Outcome::Success);
    sleep(ms(600)).await;
    rig.settle().await;
    assert_eq!(rig.committed(stuck), Some(20_001 - elsewhere));
}

/// One key of each partition, in their order; a message of each is handled.
async fn key_of_each_partition(rig: &Rig, partitions: i32) -> Vec<String> {
    let mut keys = std::collections::BTreeMap::new();
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    for number in 0.. {
        let key = format!("key-{number}");
        keys.insert(rig.send(&key, "1").partition, key);
        if i32::try_from(keys.len()) == Ok(partitions) {
            break;
        }
    }
    rig.settle().await;
    rig.puppet.succeeds.store(false, Ordering::Relaxed);
    keys.into_values().collect()
}

/// Records that were taken and have not been started.
fn held(rig: &Rig) -> i64 {
    let started = rig.puppet.started.lock().len();
    let taken: i64 = rig.log.delivered.lock().values().sum();
    taken - i64::try_from(started).unwrap()
}

#[tokio::test(start_paused = true)]
async fn partitions_that_stand_still_one_after_the_other_do_not_hold_more_and_more() {
    const STUCK: i32 = 12;
    const EACH: i64 = 6_000;
    let mut settings = settings();
    settings.max_uncommitted = 4;
    settings.max_concurrency = 100;
    let rig = Rig::start(STUCK + 1, settings);
    let mut keys = key_of_each_partition(&rig, STUCK + 1).await;
    let flowing = keys.remove(0);
    for key in &keys {
        for _ in 0..EACH {
            rig.send(key, "1");
        }
        // Longer than it takes until others are fed again.
        sleep(ms(600)).await;
        rig.send(&flowing, "1");
        rig.settle().await;
        let attempts = rig.puppet.running();
        let attempt = attempts.iter().find(|attempt| place(attempt).0 == 0);
        rig.puppet
            .end(attempt.expect("the others go on"), Outcome::Success);
        let bound = PAUSED_RECORDS + 2 * FED_RECORDS;
        assert!(
            held(&rig) <= i64::try_from(bound).unwrap(),
            "{}",
            held(&rig)
        );
    }
    assert!(rig.log.rewinds.load(Ordering::Relaxed) > 0);

    // What went back comes again, each once and in order.
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    for attempt in rig.puppet.running() {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    sleep(ms(5_000)).await;
    let mut next = std::collections::BTreeMap::<i32, i64>::new();
    for (partition, offset) in rig.puppet.started.lock().iter() {
        let next = next.entry(*partition).or_default();
        assert_eq!(offset, next, "partition {partition}");
        *next += 1;
    }
    let handled: i64 = next.values().skip(1).sum();
    assert!(handled >= EACH * i64::from(STUCK), "{handled}");
    for (partition, end) in next {
        assert_eq!(rig.committed(partition), Some(end));
    }
}

#[tokio::test(start_paused = true)]
async fn large_events_do_not_fill_every_window() {
    const BYTES: usize = 900_000;
    let mut settings = settings();
    settings.max_concurrency = 1_000;
    let rig = Rig::start(2, settings);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    let mut keys = [Vec::new(), Vec::new()];
    for number in 0..200 {
        let key = format!("key-{number}");
        let partition = rig.send(&key, "1").partition;
        keys[usize::try_from(partition).unwrap()].push(key);
    }
    rig.settle().await;
    rig.puppet.succeeds.store(false, Ordering::Relaxed);

    let payload = format!("\"{}\"", "x".repeat(BYTES));
    for key in &keys[0][..45] {
        rig.send(key, &payload);
    }
    sleep(ms(600)).await;
    for key in &keys[1][..3] {
        rig.send(key, &payload);
    }
    rig.settle().await;
    let running = |partition| {
        let running = rig.puppet.running().into_iter();
        let of_it = running.filter(|attempt| place(attempt).0 == partition);
        of_it.collect::<Vec<_>>()
    };
    let room = TAKEN_BYTES / BYTES + 1;
    assert_eq!(running(0).len(), room);
    assert_eq!(running(1).len(), 1, "one of each partition");

    // Whoever makes room, those who wait for it take it.
    for attempt in running(0) {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    sleep(ms(600)).await;
    assert_eq!((running(0).len(), running(1).len()), (45 - room, 3));
    for attempt in rig.puppet.running() {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    rig.settle().await;
    for (partition, keys) in (0..).zip(&keys) {
        let large = if partition == 0 { 45 } else { 3 };
        let all = i64::try_from(keys.len() + large).unwrap();
        assert_eq!(rig.committed(partition), Some(all));
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_does_not_keep_the_record_of_its_key() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    let attempt = rig.puppet.only();
    let of_record = message(&attempt).key.as_ref().unwrap();
    let of_ledger = rig.store.keys.lock()[0].clone();
    assert_eq!(*of_record, of_ledger);
    assert_ne!(of_record.bytes().as_ptr(), of_ledger.bytes().as_ptr());
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_than_allowed_run_at_a_time() {
    let mut settings = settings();
    settings.max_concurrency = 3;
    let rig = Rig::start(4, settings);
    for number in 0..40 {
        rig.send(&format!("key-{number}"), "1");
    }
    for left in (0..40_usize).rev() {
        rig.settle().await;
        assert_eq!(rig.puppet.running().len(), (left + 1).min(3));
        rig.puppet.end(&rig.puppet.running()[0], Outcome::Success);
    }
    rig.settle().await;
    assert_eq!(rig.puppet.started.lock().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn a_wait_between_attempts_takes_no_permit() {
    let mut settings = settings();
    settings.max_concurrency = 1;
    settings.retry.base = ms(1_000);
    settings.retry.max = ms(1_000);
    let rig = Rig::start(1, settings);
    rig.send("one", "1");
    rig.send("two", "1");
    rig.settle().await;
    rig.end_only(failed(crate::outcome::FailureClass::Transient))
        .await;
    assert_eq!(rig.puppet.places(), [(0, 1)]);
    rig.end_only(Outcome::Success).await;
    tokio::time::sleep(ms(1_000)).await;
    assert_eq!(rig.puppet.places(), [(0, 0)]);
    assert_eq!(rig.puppet.only().number(), 1);
}

#[tokio::test(start_paused = true)]
async fn records_without_key_wait_for_nobody() {
    let rig = Rig::start(1, settings());
    rig.send("", "1");
    rig.send("", "2");
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 0), (0, 1)]);
    assert!(!rig.puppet.running()[0].has_ledger());
    assert_eq!(rig.store.hydrations.load(Ordering::Relaxed), 0);
}
