//! Which offsets of a partition are unfinished, and up to where all of them are finished.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::event::Event;

/// How many offsets may start from the oldest unfinished one on: a partition whose oldest event
/// never ends takes no more, since all of them are handled again, or filtered, after a restart.
pub const SPAN_MAX: usize = 1 << 20;

/// Tracks offsets from start to finish. Offsets start in ascending order and finish in any.
///
/// It holds what is unfinished, which is little, however long ago the oldest of it has started.
#[derive(Debug, Default)]
pub struct OffsetTracker {
    /// In ascending order.
    unfinished: VecDeque<Unfinished>,
    /// How many offsets have started.
    started: usize,
    next: Option<i64>,
}

#[derive(Debug)]
struct Unfinished {
    offset: i64,
    /// How many had started before it.
    place: usize,
    event: Option<Arc<Event>>,
}

impl OffsetTracker {
    /// Takes an offset on. `false`: it does not lie above all earlier ones and was taken before.
    pub fn start(&mut self, offset: i64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            return false;
        }
        self.unfinished.push_back(Unfinished {
            offset,
            place: self.started,
            event: None,
        });
        self.started += 1;
        self.next = Some(offset + 1);
        true
    }

    /// Holds the event of the offset that was started last, until that is finished.
    pub(crate) fn hold(&mut self, event: &Arc<Event>) {
        if let Some(last) = self.unfinished.back_mut() {
            last.event = Some(Arc::clone(event));
        }
    }

    /// Marks an offset as finished; one that was not started, or is finished, changes nothing.
    pub fn finish(&mut self, offset: i64) {
        let found = self
            .unfinished
            .binary_search_by_key(&offset, |unfinished| unfinished.offset);
        if let Ok(index) = found {
            self.unfinished.remove(index);
        }
    }

    /// How many offsets are started and not finished.
    pub fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// The oldest unfinished offset.
    pub fn oldest_unfinished(&self) -> Option<i64> {
        self.unfinished.front().map(|oldest| oldest.offset)
    }

    /// The event of that offset.
    pub(crate) fn oldest_event(&self) -> Option<&Event> {
        self.unfinished.front()?.event.as_deref()
    }

    /// Whether no further offset should be started before an old one is finished.
    pub fn is_full(&self, unfinished_max: usize) -> bool {
        let span = |oldest: &Unfinished| self.started - oldest.place;
        self.unfinished.len() >= unfinished_max
            || self.unfinished.front().map_or(0, span) >= SPAN_MAX
    }

    /// The next offset to be handled after a restart: everything below is finished. `None` before
    /// the first start.
    pub fn watermark(&self) -> Option<i64> {
        self.oldest_unfinished().or(self.next)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The watermark is the lowest unfinished offset, or the one after the last.
        #[test]
        fn watermark_never_passes_an_unfinished_offset(
            steps in prop::collection::vec((0_u8..3, 1_i64..4, any::<prop::sample::Index>()), 1..200)
        ) {
            let mut tracker = OffsetTracker::default();
            let mut unfinished = BTreeSet::new();
            let mut next = None;
            for (kind, gap, index) in steps {
                if kind == 0 || unfinished.is_empty() {
                    let offset = next.unwrap_or(0) + gap - 1;
                    prop_assert!(tracker.start(offset));
                    unfinished.insert(offset);
                    next = Some(offset + 1);
                } else {
                    let offset = *index.get(&unfinished.iter().copied().collect::<Vec<_>>());
                    tracker.finish(offset);
                    tracker.finish(offset);
                    unfinished.remove(&offset);
                }
                prop_assert_eq!(tracker.watermark(), unfinished.first().copied().or(next));
                prop_assert_eq!(tracker.unfinished(), unfinished.len());
                let known = next.unwrap_or(0);
                prop_assert!(known == 0 || !tracker.start(known - 1));
            }
        }
    }

    #[test]
    fn it_is_full_with_what_is_unfinished_or_a_long_time_after_the_oldest() {
        let mut tracker = OffsetTracker::default();
        assert!(tracker.start(7) && tracker.start(9));
        assert!(tracker.is_full(2) && !tracker.is_full(3));
        tracker.finish(9);
        assert!(!tracker.is_full(2));
        for offset in 10..i64::try_from(SPAN_MAX).unwrap() + 7 {
            assert!(tracker.start(offset));
            tracker.finish(offset);
        }
        assert_eq!(tracker.unfinished.capacity(), 4);
        assert!(!tracker.is_full(2));
        assert!(tracker.start(i64::MAX - 1));
        assert!(tracker.is_full(3));
        tracker.finish(7);
        assert!(!tracker.is_full(3));
    }
}
