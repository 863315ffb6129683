//! Telling of partitions that have come to stand still.

use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::Consumer;
use super::partition::Partition;
use super::status::Stall;
use crate::event::Event;
use crate::record::TopicPartition;

impl Consumer {
    /// Tells once of each partition that has come to stand still.
    pub(super) fn report_stalls(&mut self) {
        let now = Instant::now();
        if now < self.stalls_at {
            return;
        }
        self.stalls_at = now
            + (self.settings.stall_threshold / 4)
                .clamp(Duration::from_millis(100), Duration::from_secs(10));
        let stalls = self.status.stalls();
        for stall in &stalls {
            if !self.reported_stalls.contains(&stall.topic_partition) {
                let partition = self.partitions.get(&stall.topic_partition);
                report_stall(stall, partition);
            }
        }
        self.reported_stalls = stalls
            .into_iter()
            .map(|stall| stall.topic_partition)
            .collect();
    }
}

fn report_stall(stall: &Stall, partition: Option<&Partition>) {
    let seconds = stall.since.elapsed().as_secs();
    let Some((event, partition)) = partition.and_then(|partition| {
        let event = partition.tracker.oldest_event()?;
        Some((event, partition))
    }) else {
        let TopicPartition { topic, partition } = &stall.topic_partition;
        let offset = stall.offset;
        warn!(
            "partition is stalled: no event has ended for {seconds} s, and none can be started \
             topic={topic} partition={partition} offset={offset}"
        );
        return;
    };
    let Event::Message(message) = event;
    if let Some(since) = partition.assignment.running_since(event) {
        let running = since.elapsed().as_secs();
        warn!(
            "partition is stalled: no event has ended for {seconds} s, the handler of the oldest \
             one runs for {running} s: {message}"
        );
    } else {
        warn!(
            "partition is stalled: no event has ended for {seconds} s, the oldest one waits to be \
             handled: {message}"
        );
    }
}
