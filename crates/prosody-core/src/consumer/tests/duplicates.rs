//! Messages that were handled before, as the whole consumer sees them.

use std::sync::atomic::Ordering;

use super::rig::*;
use crate::outcome::FailureClass;

const NONE: [i64; 0] = [];

/// Sends messages one after the other to consumers that come one after the other, and says which
/// were handled.
async fn handled(rig: &Rig, payloads: &[&str]) -> Vec<i64> {
    let before = rig.puppet.started.lock().len();
    for payload in payloads {
        rig.send("key", payload);
        rig.settle().await;
    }
    let started = rig.puppet.started.lock();
    started[before..]
        .iter()
        .map(|(_, offset)| *offset)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn an_id_is_handled_once() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    let payloads = [
        r#"{"id": 5}"#,
        r#"{"id": "5"}"#,
        r#"{"id": 5, "other": true}"#,
        r#"{"id": 5.0}"#,
        r#"{"id": 6}"#,
        r#"{"id": "5"}"#,
    ];
    assert_eq!(handled(&rig, &payloads).await, [0, 1, 3, 4]);
    assert_eq!(rig.committed(0), Some(6));
    // Under another key it is another message.
    rig.send("another", r#"{"id": 5}"#);
    rig.settle().await;
    assert_eq!(rig.puppet.started.lock().last(), Some(&(0, 6)));
}

#[tokio::test(start_paused = true)]
async fn an_id_is_forgotten_in_time() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    let ttl = i64::try_from(settings().idempotence_ttl.as_millis()).unwrap();
    assert_eq!(handled(&rig, &[r#"{"id": 5}"#]).await, [0]);
    rig.clock.0.store(ttl - 1, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[r#"{"id": 5}"#]).await, NONE);
    rig.clock.0.store(ttl, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[r#"{"id": 5}"#]).await, [2]);
    // It starts anew with the message that was handled.
    rig.clock.0.store(2 * ttl - 1, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[r#"{"id": 5}"#]).await, NONE);
}

#[tokio::test(start_paused = true)]
async fn only_success_sets_a_mark() {
    let rig = Rig::start(1, settings());
    rig.send("key", r#"{"id": 5}"#);
    rig.settle().await;
    rig.end_only(failed(FailureClass::Permanent)).await;
    rig.send("key", r#"{"id": 5}"#);
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn another_version_or_field_makes_marks_invalid() {
    let mut rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    let payload = r#"{"id": 5, "other": 7}"#;
    assert_eq!(handled(&rig, &[payload]).await, [0]);
    rig.shut_down(ms(1_000)).await;

    let mut rig = rig.start_next(settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[payload]).await, NONE);
    rig.shut_down(ms(1_000)).await;

    let mut next = settings();
    next.idempotence_version = "2".to_owned();
    let mut rig = rig.start_next(next);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[payload, payload]).await, [2]);
    rig.shut_down(ms(1_000)).await;

    let mut next = settings();
    next.idempotence_field = Some("other".to_owned());
    let mut rig = rig.start_next(next);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[payload, payload]).await, [4]);
    rig.shut_down(ms(1_000)).await;

    let mut next = settings();
    next.idempotence_field = None;
    let rig = rig.start_next(next);
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &[payload, payload]).await, [6, 7]);
}

#[tokio::test(start_paused = true)]
async fn a_position_is_handled_once_although_its_commit_was_lost() {
    let mut rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    *rig.log.commits.lock() = Commits::Failing;
    assert_eq!(handled(&rig, &["1", "2"]).await, [0, 1]);
    rig.shut_down(ms(100)).await;
    assert_eq!(rig.committed(0), None);

    let rig = rig.start_next(settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &["3"]).await, [2]);
    assert_eq!(rig.committed(0), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_topic_made_anew_is_another_one() {
    let rig = Rig::start(1, settings());
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    assert_eq!(handled(&rig, &["1", "2"]).await, [0, 1]);
    rig.cluster.delete_topic(TOPIC);
    rig.settle().await;
    assert_eq!(handled(&rig, &["1"]).await, [0]);
    assert_eq!(rig.committed(0), Some(1));
}
