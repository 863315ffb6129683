//! Giving partitions up, for a rebalance or for good: drain, commit, release, answer.

use std::time::Duration;

use tokio::time::Instant;

use crate::record::TopicPartition;

/// What a final commit may take beyond the handlers' time.
const SETTLE_GRACE: Duration = Duration::from_millis(500);

/// What a final commit may take at most, plus the grace: a broker that does not answer for that
/// long will not do so soon.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// How far a handover is. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// No handler starts; running ones may end.
    Draining,
    /// As before, and the running ones were interrupted.
    Stopping,
    /// Waits for a commit in flight: there is one at a time.
    Drained,
    /// The last watermarks are committed and the claims released.
    Settling,
}

/// Partitions on their way out.
#[derive(Debug)]
pub(crate) struct Handover {
    /// Tells it from earlier ones of the same consumer.
    pub(crate) number: u64,
    pub(crate) partitions: Vec<TopicPartition>,
    pub(crate) stage: Stage,
    stop_at: Instant,
    give_up_at: Instant,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing before the next event or [`Handover::wake_at`].
    Wait,
    /// Interrupt the running handlers.
    Stop,
    /// Let go of handlers that still run, if any, then settle.
    Settle,
}

impl Handover {
    /// Starts one whose handlers may run for `limit`.
    pub(crate) fn begin(number: u64, partitions: Vec<TopicPartition>, limit: Duration) -> Self {
        let now = Instant::now();
        Self {
            number,
            partitions,
            stage: Stage::Draining,
            stop_at: now + limit.mul_f64(0.9),
            give_up_at: now + limit,
        }
    }

    /// What is to be done, given how many journeys are under way and whether a commit is.
    pub(crate) fn step(&mut self, travelling: usize, commit_in_flight: bool) -> Step {
        let now = Instant::now();
        let drained = travelling == 0 || now >= self.give_up_at;
        if drained && self.stage < Stage::Drained {
            self.stage = Stage::Drained;
        }
        match self.stage {
            Stage::Draining if now >= self.stop_at => {
                self.stage = Stage::Stopping;
                Step::Stop
            }
            Stage::Drained if !commit_in_flight || now >= self.settle_until() => {
                self.stage = Stage::Settling;
                Step::Settle
            }
            _ => Step::Wait,
        }
    }

    /// When [`Handover::step`] has something to do at the latest.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Draining => Some(self.stop_at),
            Stage::Stopping => Some(self.give_up_at),
            Stage::Drained => Some(self.settle_until()),
            Stage::Settling => None,
        }
    }

    /// Until when the last commit may take.
    pub(crate) fn settle_until(&self) -> Instant {
        self.give_up_at.min(Instant::now() + SETTLE_MAX) + SETTLE_GRACE
    }
}
