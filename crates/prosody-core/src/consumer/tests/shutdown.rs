//! A shutdown comes to its end in time, whatever handlers, store and broker do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::rig::*;
use crate::outcome::{FailureClass, Mode, Outcome};

const LIMIT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn it_ends_in_time_whatever_the_others_do() {
    let silences: [&[Silent]; 7] = [
        &[],
        &[Silent::Claim],
        &[Silent::Hydrate],
        &[Silent::Commit],
        &[Silent::Release],
        &[Silent::Commit, Silent::Release],
        &[
            Silent::Claim,
            Silent::Hydrate,
            Silent::Commit,
            Silent::Release,
        ],
    ];
    for limit in [Duration::ZERO, ms(10), LIMIT, Duration::from_secs(60)] {
        for silence in silences {
            for commits in [Commits::Answered, Commits::Failing, Commits::Unanswered] {
                for handler_ends in [false, true] {
                    let mut rig = Rig::start(2, settings());
                    // Something is handled and committed, something is on its way.
                    rig.puppet.succeeds.store(true, Ordering::Relaxed);
                    rig.send("key", "1");
                    rig.settle().await;
                    rig.puppet.succeeds.store(handler_ends, Ordering::Relaxed);
                    rig.store.silence(silence);
                    *rig.log.commits.lock() = commits;
                    rig.cluster.rebalance(GROUP);
                    for number in 0..10 {
                        rig.send(&format!("key-{number}"), "1");
                    }
                    sleep(ms(3)).await;
                    let took = rig.shut_down(limit).await;
                    let what = format!("{silence:?} {commits:?} {handler_ends}: {took:?}");
                    assert!(took <= limit + GRACE, "{limit:?} {what}");
                    assert!(rig.log.closed.load(Ordering::Relaxed), "{what}");
                    let running = rig.puppet.running();
                    assert!(running.iter().all(|attempt| attempt.is_over()), "{what}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_once_when_nothing_runs() {
    let mut rig = Rig::start(2, settings());
    rig.settle().await;
    assert!(rig.shut_down(LIMIT).await < ms(100));
}

#[tokio::test(start_paused = true)]
async fn running_handlers_are_told_then_stopped_then_let_go() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.send("key", "2");
    rig.settle().await;
    let attempt = rig.puppet.only();
    let before = Instant::now();
    rig.handle.shutdown(LIMIT);
    rig.settle().await;
    assert!(attempt.should_cancel() && !attempt.is_over());
    rig.task.await.unwrap().unwrap();
    let stopped: Vec<_> = rig.puppet.stopped.lock().clone();
    let after = stopped[0].0.duration_since(before);
    assert!(
        (LIMIT * 9 / 10..LIMIT * 9 / 10 + ms(10)).contains(&after),
        "{after:?}"
    );
    assert!(attempt.is_over());
    assert_eq!(*rig.puppet.started.lock(), [(0, 0)], "nothing new starts");
    // Nobody hears of this any more.
    attempt.finish(Outcome::Success);
}

#[tokio::test(start_paused = true)]
async fn what_was_finished_is_committed() {
    let rig = Rig::start(1, settings());
    rig.send("one", "1");
    rig.send("two", "2");
    rig.settle().await;
    rig.handle.shutdown(LIMIT);
    rig.settle().await;
    let before = Instant::now();
    for attempt in rig.puppet.running() {
        rig.puppet.end(&attempt, Outcome::Success);
    }
    rig.task.await.unwrap().unwrap();
    assert!(before.elapsed() < ms(100), "it does not wait for the limit");
    assert_eq!(rig.cluster.committed(GROUP, &partition(0)), Some(2));
}

#[tokio::test(start_paused = true)]
async fn a_last_commit_is_repeated_until_it_comes_through() {
    let rig = Rig::start(1, settings());
    *rig.log.commits.lock() = Commits::Failing;
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    rig.send("one", "1");
    rig.settle().await;
    rig.handle.shutdown(LIMIT);
    sleep(ms(1_000)).await;
    *rig.log.commits.lock() = Commits::Answered;
    rig.task.await.unwrap().unwrap();
    assert_eq!(rig.cluster.committed(GROUP, &partition(0)), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_is_not_waited_for_until_the_limit() {
    let mut rig = Rig::start(1, settings());
    *rig.log.commits.lock() = Commits::Unanswered;
    rig.puppet.succeeds.store(true, Ordering::Relaxed);
    rig.send("one", "1");
    rig.settle().await;
    let took = rig.shut_down(Duration::from_secs(600)).await;
    assert!(took < Duration::from_secs(6), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn it_may_come_in_the_middle_of_a_rebalance() {
    let rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.cluster.rebalance(GROUP);
    rig.settle().await;
    rig.handle.shutdown(LIMIT);
    rig.handle.shutdown(LIMIT * 2);
    rig.settle().await;
    rig.end_only(Outcome::Success).await;
    rig.task.await.unwrap().unwrap();
    assert_eq!(rig.cluster.committed(GROUP, &partition(0)), Some(1));
    assert!(rig.cluster.members(GROUP).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_shorter_limit_replaces_a_longer_one() {
    let mut rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.handle.shutdown(Duration::from_secs(600));
    rig.settle().await;
    let took = rig.shut_down(LIMIT).await;
    assert!(took <= LIMIT + GRACE, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_publication_without_answer_does_not_hold_it_up() {
    let mut rig = Rig::start(1, settings());
    rig.send("key", "1");
    rig.settle().await;
    rig.store.silence(&[Silent::Commit]);
    let attempt = rig.puppet.only();
    attempt.write(counter(), b"1").unwrap();
    let publication = tokio::spawn(attempt.publish("counter".into()).unwrap());
    rig.settle().await;
    rig.puppet.end(&attempt, Outcome::Success);
    let took = rig.shut_down(LIMIT).await;
    assert!(took <= LIMIT + GRACE, "{took:?}");
    assert!(
        publication.await.unwrap().is_err(),
        "the handler hears of it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_makes_an_error_of_the_stop_is_handled_again() {
    for mode in [Mode::Pipeline, Mode::BestEffort] {
        for class in [FailureClass::Transient, FailureClass::Permanent] {
            let mut settings = settings();
            settings.mode = mode;
            let rig = Rig::start(1, settings.clone());
            rig.send("key", "1");
            rig.settle().await;
            rig.handle.shutdown(LIMIT);
            sleep(LIMIT * 9 / 10 + ms(10)).await;
            assert_eq!(rig.puppet.stopped.lock().len(), 1);
            rig.end_only(failed(class)).await;
            let next = rig.start_next(settings);
            rig.task.await.unwrap().unwrap();
            next.settle().await;
            assert_eq!(next.puppet.places(), [(0, 0)], "{mode:?} {class}");
        }
    }
}
