//! A member of the group whose commits are watched and go wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use prosody_core::in_process::Member;
use prosody_core::log::{Intake, LoadError, Log, LogError, LogEvent, Watermark};
use prosody_core::record::{Coordinates, Generation, Record, TopicPartition};
use tokio::time::sleep;

use super::truth::Truth;

pub struct WatchedLog {
    pub member: Arc<Member>,
    pub truth: Arc<Truth>,
    pub committing: AtomicBool,
}

/// There is one commit at a time, also when its future is dropped.
struct Committing<'a>(&'a AtomicBool);

impl Drop for Committing<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

fn unreachable() -> LogError {
    LogError::Unreachable {
        what: "commit".to_owned(),
        limit: Duration::ZERO,
        reason: "simulated".to_owned(),
    }
}

impl Log for WatchedLog {
    fn poll(&self, intake: Intake) -> BoxFuture<'_, LogEvent> {
        async move {
            let event = self.member.poll(intake).await;
            self.truth.heard(self.member.id(), &event);
            event
        }
        .boxed()
    }

    fn positions<'a>(
        &'a self,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>, LogError>> {
        self.member.positions(partitions)
    }

    fn commit(&self, watermarks: Vec<Watermark>) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            if self.committing.swap(true, Ordering::Relaxed) {
                self.truth.violation("two commits at a time".to_owned());
            }
            let _committing = Committing(&self.committing);
            let trouble = self.truth.chance(20);
            if trouble < 4 {
                sleep(Duration::from_millis(self.truth.chance(200))).await;
            }
            if self.truth.is_broker_away() || trouble == 0 {
                return Err(unreachable());
            }
            self.truth.committed(self.member.id(), &watermarks);
            let result = self.member.commit(watermarks).await;
            if trouble == 1 {
                return Err(unreachable());
            }
            result
        }
        .boxed()
    }

    fn pause(&self, partitions: &[TopicPartition]) {
        self.member.pause(partitions);
    }

    fn rewind(&self, partition: &TopicPartition, generation: Generation, offset: i64) {
        self.member.rewind(partition, generation, offset);
    }

    fn resume(&self, partitions: &[TopicPartition]) {
        self.member.resume(partitions);
    }

    fn restart(&self, partition: &TopicPartition, generation: Generation, from: Option<i64>) {
        self.truth
            .restarts(self.member.id(), partition, generation, from);
        self.member.restart(partition, generation, from);
    }

    fn give_up(&self, partitions: &[TopicPartition]) {
        self.truth.gave_up(self.member.id(), partitions);
        self.member.give_up(partitions);
    }

    fn load<'a>(
        &'a self,
        coordinates: &'a Coordinates,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Record, LoadError>> {
        self.member.load(coordinates, limit)
    }

    fn close(&self, limit: Duration) -> BoxFuture<'_, ()> {
        self.truth.left(self.member.id());
        self.member.close(limit)
    }
}
