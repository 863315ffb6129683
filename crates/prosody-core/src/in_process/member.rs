//! One member of one consumer group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use tokio::sync::Notify;

use super::cluster::Shared;
use super::group::{Group, MemberId, Wakes};
use super::topic::Topics;
use crate::log::{Intake, LoadError, Log, LogError, LogEvent, Watermark};
use crate::record::{Coordinates, Generation, Record, TopicPartition};

/// A member of a group. Dropped without [`Log::close`] it leaves the group all the same.
///
/// After it has left, [`Log::poll`] gives [`LogEvent::Failed`] with [`LogError::Ended`].
pub struct Member {
    shared: Arc<Shared>,
    group_id: Arc<str>,
    id: MemberId,
    notify: Arc<Notify>,
}

impl Member {
    pub(super) fn new(
        shared: Arc<Shared>,
        group_id: Arc<str>,
        id: MemberId,
        notify: Arc<Notify>,
    ) -> Self {
        Self {
            shared,
            group_id,
            id,
            notify,
        }
    }

    /// Names it for the hooks of [`super::InProcessCluster`].
    pub fn id(&self) -> MemberId {
        self.id
    }

    fn in_group<R: Default>(
        &self,
        work: impl FnOnce(&mut Group, &mut Topics, &mut Wakes) -> R,
    ) -> R {
        self.shared
            .with(|state| state.in_group(&self.group_id, work))
    }

    fn leave(&self) {
        self.in_group(|group, topics, wakes| group.leave(self.id, topics, wakes));
    }
}

impl Log for Member {
    fn poll(&self, intake: Intake) -> BoxFuture<'_, LogEvent> {
        async move {
            // Without this, a log that never runs dry would keep its task from ever yielding.
            tokio::task::consume_budget().await;
            loop {
                // Made before looking: a wake in between is not missed.
                let woken = self.notify.notified();
                let event = self
                    .shared
                    .with(|state| state.next_event(&self.group_id, self.id, intake));
                match event {
                    Some(event) => return event,
                    None => woken.await,
                }
            }
        }
        .boxed()
    }

    fn positions<'a>(
        &'a self,
        partitions: &'a [TopicPartition],
    ) -> BoxFuture<'a, Result<Vec<Option<i64>>, LogError>> {
        async move {
            Ok(self.in_group(|group, _, _| {
                let partitions = partitions.iter();
                partitions
                    .map(|partition| group.committed(partition))
                    .collect()
            }))
        }
        .boxed()
    }

    fn commit(&self, watermarks: Vec<Watermark>) -> BoxFuture<'_, Result<(), LogError>> {
        async move {
            let committed = self.in_group(|group, _, _| Some(group.commit(self.id, watermarks)));
            committed.unwrap_or(Err(LogError::Ended))
        }
        .boxed()
    }

    fn pause(&self, partitions: &[TopicPartition]) {
        self.in_group(|group, _, _| group.pause(self.id, partitions));
    }

    fn rewind(&self, partition: &TopicPartition, generation: Generation, offset: i64) {
        self.in_group(|group, _, wakes| {
            group.rewind(self.id, partition, generation, offset, wakes);
        });
    }

    fn resume(&self, partitions: &[TopicPartition]) {
        self.in_group(|group, _, wakes| group.resume(self.id, partitions, wakes));
    }

    fn restart(&self, partition: &TopicPartition, generation: Generation, from: Option<i64>) {
        self.in_group(|group, topics, wakes| {
            group.restart(self.id, partition, generation, from, topics, wakes);
        });
    }

    fn give_up(&self, partitions: &[TopicPartition]) {
        self.in_group(|group, topics, wakes| group.give_up(self.id, partitions, topics, wakes));
    }

    fn load<'a>(
        &'a self,
        coordinates: &'a Coordinates,
        _limit: Duration,
    ) -> BoxFuture<'a, Result<Record, LoadError>> {
        async move { self.shared.with(|state| state.load(coordinates)) }.boxed()
    }

    fn close(&self, _limit: Duration) -> BoxFuture<'_, ()> {
        self.leave();
        ready(()).boxed()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("group_id", &self.group_id)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
