//! Which offsets of a partition are finished, and up to where all of them are.

use std::collections::VecDeque;

/// How many offsets beyond the oldest unfinished one are kept track of. A partition whose oldest
/// event never ends takes no more than this many after it.
pub const SPAN_MAX: usize = 1 << 20;

/// Tracks offsets from start to finish. Offsets start in ascending order and finish in any.
#[derive(Debug, Default)]
pub struct OffsetTracker {
    /// Offsets from the oldest unfinished one on, and whether each is finished.
    offsets: VecDeque<(i64, bool)>,
    unfinished: usize,
    next: Option<i64>,
}

impl OffsetTracker {
    /// Takes an offset on. `false`: it does not lie above all earlier ones and was taken before.
    pub fn start(&mut self, offset: i64) -> bool {
        if self.next.is_some_and(|next| offset < next) {
            return false;
        }
        self.offsets.push_back((offset, false));
        self.unfinished += 1;
        self.next = Some(offset + 1);
        true
    }

    /// Marks an offset as finished; one that was not started, or is finished, changes nothing.
    pub fn finish(&mut self, offset: i64) {
        let Ok(index) = self
            .offsets
            .binary_search_by_key(&offset, |(known, _)| *known)
        else {
            return;
        };
        let finished = &mut self.offsets[index].1;
        if std::mem::replace(finished, true) {
            return;
        }
        self.unfinished -= 1;
        while self.offsets.front().is_some_and(|(_, finished)| *finished) {
            self.offsets.pop_front();
        }
    }

    /// How many offsets are started and not finished.
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// The oldest unfinished offset.
    pub fn oldest_unfinished(&self) -> Option<i64> {
        self.offsets.front().map(|(offset, _)| *offset)
    }

    /// Whether no further offset should be started before an old one is finished.
    pub fn is_full(&self, unfinished_max: usize) -> bool {
        self.unfinished >= unfinished_max || self.offsets.len() >= SPAN_MAX
    }

    /// The next offset to be handled after a restart: everything below is finished. `None` before
    /// the first start.
    pub fn watermark(&self) -> Option<i64> {
        self.oldest_unfinished().or(self.next)
    }
}

#[cfg(test)]
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
}
