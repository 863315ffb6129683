//! What an assignment that is over still does changes nothing.

use super::rig::*;
use crate::outcome::Outcome;

#[tokio::test(start_paused = true)]
async fn a_late_success_of_a_lost_assignment_changes_nothing() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    let old = rig.puppet.only();
    old.write(counter(), b"1").unwrap();

    rig.expel();
    rig.settle().await;
    assert!(old.is_over() && old.should_cancel());
    assert!(old.read(&counter()).is_err() && old.write(counter(), b"2").is_err());
    // The same member has the partition again, and waits for the handler that still runs.
    assert_eq!(
        rig.cluster.owner(GROUP, &partition(0)).map(|id| id.0),
        Some(1)
    );
    assert_eq!(rig.puppet.places(), [(0, 0)]);

    rig.puppet.end(&old, Outcome::Success);
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(0));
    let new = rig.puppet.only();
    assert_eq!(new.read(&counter()), Ok(None));
    new.write(counter(), b"3").unwrap();
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_outlives_the_handover_holds_its_successor_back() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    let old = rig.puppet.only();
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    assert!(old.should_cancel() && !old.is_over());
    assert!(rig.puppet.stopped.lock().is_empty());

    tokio::time::sleep(settings().shutdown_timeout * 2).await;
    assert!(old.is_over());
    assert!(!rig.puppet.stopped.lock().is_empty());
    // Assigned again, but nothing is handled: neither its key nor any other of the partition.
    rig.send("other", "1");
    rig.settle().await;
    assert_eq!(rig.handle.status().assigned_partitions(), 1);
    assert_eq!(rig.puppet.places(), [(0, 0)]);

    rig.puppet.end(&old, Outcome::Success);
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 0), (0, 1)]);
    assert_eq!(rig.committed(0), Some(0));
}

#[tokio::test(start_paused = true)]
async fn what_ends_within_the_handover_is_committed_before_the_partition_is_given_up() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.send("key", "2");
    rig.settle().await;
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(1));
    // The second one is handled under the next assignment, once.
    assert_eq!(*rig.puppet.started.lock(), [(0, 0), (0, 1)]);
    rig.end_only(Outcome::Success).await;
    assert_eq!(rig.committed(0), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_handover_whose_partition_is_lost_leaves_the_next_assignment_alone() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    *rig.log.commits.lock() = Commits::Failing;
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    // Its last commit is repeated for a while; meanwhile the partition is lost and comes back.
    rig.end_only(Outcome::Success).await;
    rig.expel();
    rig.settle().await;
    *rig.log.commits.lock() = Commits::Answered;
    tokio::time::sleep(settings().shutdown_timeout * 2).await;

    assert_eq!(rig.handle.status().assigned_partitions(), 1);
    rig.send("key", "2");
    rig.settle().await;
    assert_eq!(rig.puppet.places(), [(0, 1)]);
}

#[tokio::test(start_paused = true)]
async fn an_assignment_that_the_store_ends_leaves_nothing_behind() {
    let mut settings = settings();
    settings.max_uncommitted = 1;
    let rig = Rig::start(1, settings);
    for _ in 0..6_000 {
        rig.send("key", "1");
    }
    rig.settle().await;
    rig.store.steal(0);
    rig.end_only(Outcome::Success).await;
    assert!(rig.puppet.places().is_empty() && rig.committed(0) == Some(0));

    // What it had taken does not count against the next one.
    rig.puppet
        .succeeds
        .store(true, std::sync::atomic::Ordering::Relaxed);
    rig.expel();
    rig.settle().await;
    assert_eq!(rig.committed(0), Some(6_000));
}

#[tokio::test(start_paused = true)]
async fn another_member_waits_for_the_answer_to_a_revocation() {
    let first = Rig::start(2, settings());
    for number in 0..20 {
        first.send(&format!("key-{number}"), "1");
    }
    first.settle().await;
    let second = first.start_next(settings());
    first.settle().await;
    assert!(second.puppet.places().is_empty());
    let cancelled: Vec<_> = first
        .puppet
        .running()
        .into_iter()
        .filter(|attempt| attempt.should_cancel())
        .collect();
    assert!(!cancelled.is_empty());
    for attempt in &cancelled {
        first.puppet.end(attempt, Outcome::Success);
    }
    first.settle().await;
    // All of what moved was handled, so nothing is handled again.
    assert!(second.puppet.places().is_empty());
    let moved = place(&cancelled[0]).0;
    let handled = i64::try_from(cancelled.len()).unwrap();
    assert_eq!(first.committed(moved), Some(handled));
}

#[tokio::test(start_paused = true)]
async fn no_handler_starts_after_a_revocation_however_late_its_ledger_comes() {
    let rig = Rig::start(1, settings());
    rig.store.silence(&[Silent::Hydrate]);
    rig.send("key", "1");
    rig.settle().await;
    rig.handle.shutdown(settings().shutdown_timeout);
    rig.settle().await;
    rig.store.speak();
    rig.task.await.unwrap().unwrap();
    assert!(rig.puppet.started.lock().is_empty());
}
