//! A partition that is full takes no more, and holds nobody else up.

use std::sync::atomic::Ordering;

use tokio::time::sleep;

use super::rig::*;
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
