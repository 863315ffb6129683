//! What others may know of a running consumer, without asking it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::record::TopicPartition;
use crate::sync::Mutex;

/// A partition that has unfinished events of which none has ended for `stall_threshold`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Since when.
    pub since: Instant,
    /// Its oldest unfinished offset.
    pub offset: i64,
}

/// How a partition gets on.
#[derive(Debug)]
pub(crate) struct Progress {
    origin: Instant,
    /// Microseconds from `origin` to the last sign of progress, plus one; 0 while nothing is
    /// unfinished.
    waiting_since_us: AtomicU64,
    oldest_offset: AtomicI64,
}

impl Progress {
    fn new(origin: Instant) -> Self {
        Self {
            origin,
            waiting_since_us: AtomicU64::new(0),
            oldest_offset: AtomicI64::new(-1),
        }
    }

    /// Notes that an event has started or ended.
    pub(crate) fn note(&self, oldest_unfinished: Option<i64>) {
        let now_us = self.origin.elapsed().as_micros();
        let now_us = u64::try_from(now_us).unwrap_or(u64::MAX - 1);
        let since = if oldest_unfinished.is_some() {
            now_us + 1
        } else {
            0
        };
        self.waiting_since_us.store(since, Ordering::Relaxed);
        self.oldest_offset
            .store(oldest_unfinished.unwrap_or(-1), Ordering::Relaxed);
    }

    /// Whether events were waiting before.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting_since_us.load(Ordering::Relaxed) == 0
    }

    fn waiting_since(&self) -> Option<Instant> {
        let since = self
            .waiting_since_us
            .load(Ordering::Relaxed)
            .checked_sub(1)?;
        Some(self.origin + Duration::from_micros(since))
    }
}

/// Assigned partitions and how they get on.
#[derive(Debug)]
pub struct ConsumerStatus {
    origin: Instant,
    stall_threshold: Duration,
    partitions: Mutex<HashMap<TopicPartition, Arc<Progress>>>,
}

impl ConsumerStatus {
    pub(crate) fn new(stall_threshold: Duration) -> Self {
        Self {
            origin: Instant::now(),
            stall_threshold,
            partitions: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, topic_partition: &TopicPartition) -> Arc<Progress> {
        let progress = Arc::new(Progress::new(self.origin));
        let mut partitions = self.partitions.lock();
        partitions.insert(topic_partition.clone(), Arc::clone(&progress));
        progress
    }

    pub(crate) fn remove(&self, topic_partition: &TopicPartition) {
        self.partitions.lock().remove(topic_partition);
    }

    /// How many partitions are assigned.
    pub fn assigned_partitions(&self) -> usize {
        self.partitions.lock().len()
    }

    /// The partitions that are stalled.
    pub fn stalls(&self) -> Vec<Stall> {
        let partitions = self.partitions.lock();
        let stalls = partitions.iter().filter_map(|(topic_partition, progress)| {
            let since = progress.waiting_since()?;
            (since.elapsed() >= self.stall_threshold).then(|| Stall {
                topic_partition: topic_partition.clone(),
                since,
                offset: progress.oldest_offset.load(Ordering::Relaxed),
            })
        });
        stalls.collect()
    }
}
