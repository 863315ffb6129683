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
    /// Until when the commit in flight, and then the last one, may take.
    settle_until: Instant,
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
            settle_until: now + limit + SETTLE_GRACE,
        }
    }

    /// What is to be done, given how many journeys are under way and whether a commit is.
    pub(crate) fn step(&mut self, travelling: usize, commit_in_flight: bool) -> Step {
        let now = Instant::now();
        let drained = travelling == 0 || now >= self.give_up_at;
        if drained && self.stage < Stage::Drained {
            self.stage = Stage::Drained;
            self.settle_until = self.give_up_at.min(now + SETTLE_MAX) + SETTLE_GRACE;
        }
        match self.stage {
            Stage::Draining if now >= self.stop_at => {
                self.stage = Stage::Stopping;
                Step::Stop
            }
            Stage::Drained if !commit_in_flight || now >= self.settle_until => {
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
            Stage::Drained => Some(self.settle_until),
            Stage::Settling => None,
        }
    }

    /// Until when the last commit may take.
    pub(crate) fn settle_until(&self) -> Instant {
        self.settle_until
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn begin(limit: Duration) -> Handover {
        Handover::begin(1, vec![TopicPartition::new("topic", 0)], limit)
    }

    async fn until(handover: &Handover) -> Duration {
        let before = Instant::now();
        tokio::time::sleep_until(handover.wake_at().unwrap_or(before)).await;
        before.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn settles_at_once_when_nothing_is_under_way() {
        let mut handover = begin(LIMIT);
        assert_eq!(handover.step(0, false), Step::Settle);
        assert_eq!(handover.step(0, false), Step::Wait, "once");
        assert_eq!(handover.wake_at(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn stops_handlers_after_nine_tenths_and_lets_go_of_them_after_all() {
        let mut handover = begin(LIMIT);
        assert_eq!(handover.step(1, false), Step::Wait);
        assert_eq!(until(&handover).await, LIMIT.mul_f64(0.9));
        assert_eq!(handover.step(1, false), Step::Stop);
        assert_eq!(handover.step(1, false), Step::Wait, "once");
        assert_eq!(until(&handover).await, LIMIT.mul_f64(0.1));
        assert_eq!(handover.step(1, false), Step::Settle);
    }

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_commit_in_flight_and_not_for_ever() {
        let mut handover = begin(Duration::from_secs(600));
        assert_eq!(handover.step(0, true), Step::Wait);
        let until = handover.settle_until();
        assert_eq!(until, Instant::now() + SETTLE_MAX + SETTLE_GRACE);
        tokio::time::sleep_until(until - Duration::from_millis(1)).await;
        assert_eq!(handover.step(0, true), Step::Wait);
        tokio::time::sleep_until(until).await;
        assert_eq!(handover.step(0, true), Step::Settle);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_that_starts_again_takes_it_back() {
        let mut handover = begin(LIMIT);
        assert_eq!(handover.step(0, true), Step::Wait);
        assert_eq!(handover.step(1, true), Step::Wait);
        assert_eq!(handover.step(1, false), Step::Settle);
    }

    proptest! {
        /// Whatever happens: in the order of the stages, each at most once, and settled within the
        /// limit and its grace.
        #[test]
        fn settles_in_time(
            limit_ms in 0_u64..20_000,
            course in prop::collection::vec((0_usize..3, any::<bool>(), 0_u64..2_000), 0..40)
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap_or_else(|error| unreachable!("{error}"));
            runtime.block_on(async {
                let limit = Duration::from_millis(limit_ms);
                let mut handover = begin(limit);
                let before = Instant::now();
                let mut steps = Vec::new();
                let mut course = course.into_iter();
                loop {
                    let (travelling, in_flight, wait_ms) = course.next().unwrap_or((1, true, 0));
                    let step = handover.step(travelling, in_flight);
                    if step != Step::Wait {
                        steps.push(step);
                    }
                    if step == Step::Settle {
                        break;
                    }
                    let Some(wake_at) = handover.wake_at() else { break };
                    prop_assert!(wake_at >= before);
                    let other = Instant::now() + Duration::from_millis(wait_ms);
                    // Something else may come first.
                    tokio::time::sleep_until(if wait_ms == 0 { wake_at } else { wake_at.min(other) }).await;
                }
                prop_assert!(steps == [Step::Settle] || steps == [Step::Stop, Step::Settle]);
                prop_assert!(before.elapsed() <= limit + SETTLE_GRACE + Duration::from_millis(2));
                Ok(())
            })?;
        }
    }
}
