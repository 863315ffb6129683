//! What the consumer has done beside journeys: claims, commits, releases. None of it holds it up.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, warn};

use super::assignment::Assignment;
use crate::ledger::Claim;
use crate::ledger_writer::LedgerRoom;
use crate::log::{Log, LogError, Watermark};

/// How long to wait before a last commit is tried again.
const COMMIT_RETRY: Duration = Duration::from_millis(50);

/// How long after the store ended a claim the partition is begun afresh. Whoever claimed it may own it
/// by right: the group gets time to say so.
const RECLAIM_DELAY: Duration = Duration::from_secs(1);

/// An errand that is done.
pub(crate) enum Errand {
    /// An assignment may be worked on.
    Ready(Arc<Assignment>),
    /// An assignment was drained before it was ready.
    Dropped,
    /// A regular commit was answered.
    Committed(Vec<Watermark>, Result<(), LogError>),
    /// It is time to start afresh after the store ended this assignment.
    Reclaim(Arc<Assignment>),
    /// The partitions of this handover may be given up.
    Settled(u64),
}

/// Claims a partition, and waits until no handler of its earlier assignments runs.
pub(crate) async fn make_ready(
    assignment: Arc<Assignment>,
    predecessors: Vec<Arc<Assignment>>,
    room: Arc<LedgerRoom>,
) -> Errand {
    let ready = async {
        for predecessor in predecessors {
            predecessor.idle().await;
        }
        assignment.set_claim(claim(&assignment, &room).await);
    };
    tokio::select! {
        biased;
        () = assignment.draining() => Errand::Dropped,
        () = ready => Errand::Ready(Arc::clone(&assignment)),
    }
}

async fn claim(assignment: &Assignment, room: &LedgerRoom) -> Claim {
    let mut tries = 0;
    loop {
        let claim = room
            .store
            .claim(assignment.partition(), assignment.generation());
        match claim.await {
            Ok(claim) => return claim,
            Err(error) => {
                if tries == 0 {
                    let partition = assignment.topic_partition();
                    warn!(
                        "partition cannot be claimed, its messages wait: {error} partition={partition}"
                    );
                }
                sleep(room.backoff.delay(tries, &room.randomness)).await;
                tries += 1;
            }
        }
    }
}

/// Waits until a partition whose claim the store has ended may be claimed again.
pub(crate) async fn wait_to_reclaim(assignment: Arc<Assignment>) -> Errand {
    sleep(RECLAIM_DELAY).await;
    Errand::Reclaim(assignment)
}

/// Commits watermarks once.
pub(crate) async fn commit(log: Arc<dyn Log>, watermarks: Vec<Watermark>) -> Errand {
    let result = log.commit(watermarks.clone()).await;
    Errand::Committed(watermarks, result)
}

/// Commits the last watermarks of ended assignments, and releases their claims.
pub(crate) async fn settle(
    handover: u64,
    log: Arc<dyn Log>,
    watermarks: Vec<Watermark>,
    leaving: Vec<(Arc<Assignment>, bool)>,
    room: Arc<LedgerRoom>,
    until: Instant,
) -> Errand {
    if !watermarks.is_empty()
        && timeout_at(until, commit_repeatedly(&*log, &watermarks))
            .await
            .is_err()
    {
        let offsets: Vec<_> = watermarks
            .iter()
            .map(|watermark| format!("{}: {}", watermark.topic_partition, watermark.offset))
            .collect();
        warn!(
            "offsets could not be committed before their partitions were given up, events beyond are filtered or handled again: {}",
            offsets.join(", ")
        );
    }
    for (assignment, clean) in &leaving {
        let Some(claim) = assignment.claim() else {
            continue;
        };
        let release = room.store.release(assignment.partition(), claim, *clean);
        match timeout_at(until, release).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => debug!("claim is not released: {error}"),
            Err(_) => debug!("claim is not released in time"),
        }
    }
    Errand::Settled(handover)
}

async fn commit_repeatedly(log: &dyn Log, watermarks: &[Watermark]) {
    while let Err(error) = log.commit(watermarks.to_vec()).await {
        if error == LogError::Ended {
            return;
        }
        debug!("last commit before partitions are given up is repeated: {error}");
        sleep(COMMIT_RETRY).await;
    }
}
