//! Watermarks on their way to the log, and partitions that stand still.

use std::sync::atomic::Ordering;

use tokio::time::sleep;

use super::rig::*;
use crate::outcome::{FailureClass, Outcome};

#[tokio::test(start_paused = true)]
async fn commits_that_fail_for_a_while_are_made_up_for() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    *rig.log.commits.lock() = Commits::Failing;
    for _ in 0..5 {
        rig.send("key", "1");
        rig.settle().await;
    }
    assert_eq!(rig.committed(0), None);
    assert_eq!(rig.puppet.started.lock().len(), 5);
    *rig.log.commits.lock() = Commits::Answered;
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(5));
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_is_not_committed_again() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    rig.send("key", "1");
    rig.settle().await;
    let asked = rig.log.asked.load(Ordering::Relaxed);
    sleep(ms(1_000)).await;
    assert_eq!(rig.log.asked.load(Ordering::Relaxed), asked);
}

#[tokio::test(start_paused = true)]
async fn no_commit_follows_one_that_is_not_answered() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    *rig.log.commits.lock() = Commits::Unanswered;
    for _ in 0..5 {
        rig.send("key", "1");
        rig.settle().await;
    }
    assert_eq!(rig.log.asked.load(Ordering::Relaxed), 1);
    assert_eq!(rig.puppet.started.lock().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn commits_of_kept_partitions_do_not_hold_up_those_that_go() {
    let rig = Rig::start(2, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    *rig.log.commits.lock() = Commits::Slow;
    // There is always something to commit.
    let work = async {
        for number in 0.. {
            rig.send(&format!("key-{number}"), "1");
            sleep(ms(5)).await;
        }
    };
    let hand_over = async {
        sleep(SLOW_COMMIT * 2).await;
        let next = rig.start_next(settings());
        let before = tokio::time::Instant::now();
        while next.handle.status().assigned_partitions() == 0 {
            sleep(ms(5)).await;
        }
        before.elapsed()
    };
    let took = tokio::select! {
        took = hand_over => took,
        () = work => unreachable!(),
    };
    // The commit in flight, and then its own.
    assert!(took <= SLOW_COMMIT * 2 + ms(50), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_offset_is_committed_only_after_its_ledger() {
    let rig = Rig::start(1, settings());
    rig.store.silence(&[Silent::Commit]);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    rig.send("key", "1");
    rig.settle().await;
    assert_eq!(rig.puppet.started.lock().len(), 1);
    assert_eq!(rig.committed(0), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_stands_still_is_stalled() {
    let mut settings = settings();
    settings.stall_threshold = ms(10_000);
    let rig = Rig::start(2, settings);
    let status = || rig.handle.status().stalls();
    sleep(ms(60_000)).await;
    assert!(status().is_empty(), "nothing to do is no stall");

    let stuck = rig.send("key", "1").partition;
    rig.send("key", "2");
    sleep(ms(9_900)).await;
    assert!(status().is_empty());
    sleep(ms(200)).await;
    let stall = status().remove(0);
    assert_eq!((stall.topic_partition.partition, stall.offset), (stuck, 0));

    rig.end_only(Outcome::Success).await;
    assert!(status().is_empty());
    sleep(ms(10_100)).await;
    assert_eq!(status()[0].offset, 1);
    // Another attempt is no progress.
    rig.end_only(failed(FailureClass::Transient)).await;
    assert_eq!(status()[0].offset, 1);
    sleep(ms(100)).await;
    rig.end_only(Outcome::Success).await;
    assert!(status().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_be_read_stalls_its_partition() {
    let mut settings = settings();
    settings.stall_threshold = ms(10_000);
    let rig = Rig::start(1, settings);
    rig.store.silence(&[Silent::Hydrate]);
    rig.send("key", "1");
    sleep(ms(10_100)).await;
    assert_eq!(rig.handle.status().stalls()[0].offset, 0);
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_cannot_be_claimed_stalls() {
    let mut settings = settings();
    settings.stall_threshold = ms(10_000);
    let rig = Rig::start(1, settings);
    rig.store.silence(&[Silent::Claim]);
    rig.send("key", "1");
    sleep(ms(10_100)).await;
    assert_eq!(rig.handle.status().stalls()[0].offset, 0);
}
