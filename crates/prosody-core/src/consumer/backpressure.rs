//! How much is taken: bounds over all partitions, and what happens at them.

use std::cmp::Reverse;
use std::time::Duration;

use tokio::time::Instant;

use super::Consumer;
use super::partition::Partition;
use crate::log::Intake;

/// Records that may wait in all buffers together before no more are taken.
pub(super) const FED_RECORDS: usize = 4_096;

/// The same in bytes.
const FED_BYTES: usize = 8 * 1024 * 1024;

/// Records that may wait in buffers of paused partitions. What is beyond goes back to the log:
/// partitions that come to stand still one after the other would hold as much as they like.
pub(super) const PAUSED_RECORDS: usize = 4 * FED_RECORDS;

/// The same in bytes.
const PAUSED_BYTES: usize = 2 * FED_BYTES;

/// Bytes of all events that are taken and not finished, beyond one event of each partition.
pub(super) const TAKEN_BYTES: usize = 32 * 1024 * 1024;

/// How long records of all partitions wait because of those that have many. A pause throws away
/// what the client has fetched ahead, so partitions that are worked off sooner are never paused.
const UNFED_MAX: Duration = Duration::from_millis(500);

impl Consumer {
    /// While much is waiting, taking more would only move it from the client's buffers into ours.
    pub(super) fn intake(&self) -> Intake {
        if self.is_full() {
            Intake::Closed
        } else {
            Intake::Open
        }
    }

    fn is_full(&self) -> bool {
        self.load.records >= FED_RECORDS || self.load.bytes >= FED_BYTES
    }

    /// When the partitions that have much waiting are paused, for the sake of those without.
    pub(super) fn pause_at(&mut self) -> Option<Instant> {
        let somebody_waits = self.load.fed < self.partitions.len();
        if !(self.is_full() && somebody_waits) {
            self.unfed_since = None;
            return None;
        }
        Some(*self.unfed_since.get_or_insert_with(Instant::now) + UNFED_MAX)
    }

    pub(super) fn pause_if_due(&mut self) {
        if self.pause_at().is_none_or(|at| Instant::now() < at) {
            return;
        }
        let holders = (self.load.fed - self.load.paused).max(1);
        let share = self.load.bytes / holders / 2;
        let mut heavy: Vec<_> = self.partitions.iter_mut().collect();
        heavy.retain(|(_, partition)| partition.load().bytes >= share.max(1));
        let mut names = Vec::new();
        for (topic_partition, partition) in heavy {
            let before = partition.load();
            partition.pause();
            self.load.replace(before, partition.load());
            names.push(topic_partition.clone());
        }
        names.sort();
        self.unfed_since = None;
        self.log.pause(&names);
    }

    /// Gives records of paused partitions back to the log, as many as they hold too many.
    pub(super) fn rewind_if_due(&mut self) {
        while self.load.paused_records > PAUSED_RECORDS || self.load.paused_bytes > PAUSED_BYTES {
            let held = |partition: &Partition| {
                let load = partition.load();
                (load.paused_bytes, load.paused_records)
            };
            let heaviest = self
                .partitions
                .iter_mut()
                .max_by_key(|(name, partition)| (held(partition), Reverse(*name)));
            let Some((topic_partition, partition)) = heaviest else {
                return;
            };
            let before = partition.load();
            let Some(offset) = partition.rewind() else {
                return;
            };
            self.load.replace(before, partition.load());
            let generation = partition.assignment.generation();
            self.log.rewind(topic_partition, generation, offset);
        }
    }

    /// Lets partitions take on events that there is room for by now.
    pub(super) fn admit_crowded(&mut self) {
        if self.crowded.is_empty() || self.load.taken_bytes > TAKEN_BYTES / 4 * 3 {
            return;
        }
        for topic_partition in std::mem::take(&mut self.crowded) {
            self.admit(&topic_partition);
        }
    }
}
