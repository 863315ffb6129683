//! How long a handler may run, and what follows from how it ends.

use std::sync::atomic::Ordering;

use tokio::time::sleep;

use super::rig::*;
use crate::attempt::CancelReason;
use crate::outcome::{FailureClass, Mode, Outcome};

fn with_timeout(mode: Mode) -> crate::consumer::ConsumerSettings {
    let mut settings = settings();
    settings.timeout = ms(1_000);
    settings.mode = mode;
    settings
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_handler_counts_from_its_begin() {
    let rig = Rig::start(1, with_timeout(Mode::Pipeline));
    rig.puppet.waits.store(true, Ordering::Relaxed);
    rig.send("key", "1");
    sleep(ms(5_700)).await;
    let attempt = rig.puppet.only();
    assert!(!attempt.should_cancel(), "it waits for its turn");
    assert!(attempt.begin());
    sleep(ms(999)).await;
    assert!(!attempt.should_cancel());
    sleep(ms(2)).await;
    assert_eq!(attempt.cancel_reason(), Some(CancelReason::Deadline));
    assert_eq!(rig.puppet.stopped.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_stopped_by_its_deadline_is_tried_again() {
    let rig = Rig::start(1, with_timeout(Mode::Pipeline));
    rig.send("key", "1");
    rig.send("key", "2");
    sleep(ms(1_100)).await;
    rig.end_only(Outcome::Stopped).await;
    sleep(ms(100)).await;
    assert_eq!(rig.puppet.places(), [(0, 0)]);
    assert_eq!(rig.puppet.only().number(), 1);
    assert!(!rig.puppet.only().should_cancel());
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_swallows_its_cancellation_succeeds() {
    let rig = Rig::start(1, with_timeout(Mode::Pipeline));
    rig.send("key", "1");
    sleep(ms(10_000)).await;
    assert_eq!(rig.puppet.stopped.lock().len(), 1, "it is stopped once");
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_handler_under_a_handover_is_no_failure() {
    let rig = Rig::start(1, with_timeout(Mode::BestEffort));
    rig.send("key", "1");
    sleep(ms(1_100)).await;
    // The deadline came first; the handover outweighs it.
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    rig.end_only(Outcome::Stopped).await;
    assert_eq!(rig.puppet.places(), [(0, 0)]);
    assert_eq!(rig.committed(0), Some(0));
}

#[tokio::test(start_paused = true)]
async fn best_effort_does_not_try_again() {
    let rig = Rig::start(1, with_timeout(Mode::BestEffort));
    rig.send("key", "1");
    rig.settle().await;
    rig.puppet.only().write(counter(), b"1").unwrap();
    rig.end_only(failed(FailureClass::Transient)).await;
    assert_eq!(rig.committed(0), Some(1));
    rig.send("key", "2");
    rig.settle().await;
    assert_eq!(rig.puppet.only().read(&counter()), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_done_and_leaves_no_state() {
    for mode in [Mode::Pipeline, Mode::LowLatency, Mode::BestEffort] {
        let rig = Rig::start(1, with_timeout(mode));
        rig.send("key", "1");
        rig.settle().await;
        rig.puppet.only().write(counter(), b"1").unwrap();
        rig.end_only(failed(FailureClass::Permanent)).await;
        assert_eq!(rig.committed(0), Some(1), "{mode:?}");
        rig.send("key", "2");
        rig.settle().await;
        assert_eq!(rig.puppet.only().read(&counter()), Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_store_refuses_fails_the_attempt() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.store.refuses.store(true, Ordering::Relaxed);
    rig.end_only(Outcome::Success).await;
    rig.store.refuses.store(false, Ordering::Relaxed);
    sleep(ms(100)).await;
    assert_eq!(rig.puppet.only().number(), 1);
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_asks_to_exit_shuts_the_consumer_down() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.send("other", "2");
    rig.settle().await;
    let other = rig.puppet.running().remove(1);
    rig.puppet.end(&rig.puppet.running()[0], Outcome::Exit);
    rig.settle().await;
    assert!(other.should_cancel());
    rig.puppet.end(&other, Outcome::Success);
    rig.task.await.unwrap().unwrap();
    let committed = rig.cluster.committed(GROUP, &partition(0));
    assert_eq!(committed, Some(0), "its event is handled again");
}

#[tokio::test(start_paused = true)]
async fn the_next_attempt_waits_for_what_the_last_one_publishes() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.store.silence(&[Silent::Commit]);
    let attempt = rig.puppet.only();
    attempt.write(counter(), b"1").unwrap();
    let publication = tokio::spawn(attempt.publish("counter".into()).unwrap());
    rig.settle().await;
    rig.end_only(failed(FailureClass::Transient)).await;
    sleep(ms(10_000)).await;
    assert!(rig.puppet.places().is_empty());

    rig.store.speak();
    publication.await.unwrap().unwrap();
    sleep(ms(100)).await;
    let next = rig.puppet.only();
    assert_eq!(
        next.read(&counter()),
        Ok(Some(bytes::Bytes::from_static(b"1")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_interrupted_for_another_one_is_tried_again_in_every_mode() {
    for mode in [Mode::Pipeline, Mode::LowLatency, Mode::BestEffort] {
        let rig = Rig::start(1, with_timeout(mode));
        rig.send("key", "1");
        rig.settle().await;
        rig.end_only(Outcome::Interrupted).await;
        sleep(ms(100)).await;
        assert_eq!(rig.puppet.places(), [(0, 0)], "{mode:?}");
        assert_eq!(rig.puppet.only().number(), 1, "{mode:?}");
        assert_eq!(rig.committed(0), Some(0), "{mode:?}");
    }
}
