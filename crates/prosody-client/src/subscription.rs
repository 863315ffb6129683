//! A subscription: a consumer, and another one after it should the first be unable to go on.

use std::sync::Arc;
use std::time::Duration;

use prosody_core::backoff::{Backoff, Randomness};
use prosody_core::clock::SystemClock;
use prosody_core::consumer::{Consumer, ConsumerHandle, ConsumerParts, Stall};
use prosody_core::handler::Handler;
use prosody_core::log::{Cluster, LogError, Membership};
use prosody_core::store::Store;
use prosody_core::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tracing::error;

use crate::settings::SubscriptionSettings;

/// How long to wait before a member that failed is replaced.
const REJOIN: Backoff = Backoff {
    base: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// What the consumer's own bound may be exceeded by before it is not waited for any more.
const STOP_GRACE: Duration = Duration::from_millis(950);

struct Parts {
    cluster: Arc<dyn Cluster>,
    settings: SubscriptionSettings,
    store: Arc<dyn Store>,
    handler: Arc<dyn Handler>,
}

impl Parts {
    fn consumer(&self) -> Result<(Consumer, ConsumerHandle), LogError> {
        let log = self.cluster.join(Membership {
            group_id: Arc::clone(&self.settings.consumer.group_id),
            topics: self.settings.topics.clone(),
            poll_interval: self.settings.poll_interval,
        })?;
        let parts = ConsumerParts {
            log,
            store: Arc::clone(&self.store),
            handler: Arc::clone(&self.handler),
            clock: Arc::new(SystemClock),
            randomness: Randomness::from_entropy(),
        };
        Ok(Consumer::new(parts, self.settings.consumer.clone()))
    }
}

/// A running subscription.
pub(crate) struct Subscription {
    handle: Arc<Mutex<ConsumerHandle>>,
    stopping: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
}

impl Subscription {
    pub(crate) fn start(
        runtime: &Handle,
        cluster: Arc<dyn Cluster>,
        settings: SubscriptionSettings,
        store: Arc<dyn Store>,
        handler: Arc<dyn Handler>,
    ) -> Result<Self, LogError> {
        let parts = Parts {
            cluster,
            settings,
            store,
            handler,
        };
        let _context = runtime.enter();
        let (consumer, handle) = parts.consumer()?;
        let handle = Arc::new(Mutex::new(handle));
        let (stopping, stop) = watch::channel(false);
        let (end, ended) = watch::channel(false);
        let present = Arc::clone(&handle);
        runtime.spawn(async move {
            consume(parts, consumer, &present, stop).await;
            end.send_replace(true);
        });
        Ok(Self {
            handle,
            stopping,
            ended,
        })
    }

    /// Stops it; ends within `limit` plus a second.
    pub(crate) async fn stop(&self, limit: Duration) {
        let deadline = Instant::now() + limit + STOP_GRACE;
        self.stopping.send_replace(true);
        self.handle.lock().shutdown(limit);
        let mut ended = self.ended.clone();
        // Either it has ended, or its time is up: nothing is left to be done in both cases.
        let _ = timeout_at(deadline, ended.wait_for(|ended| *ended)).await;
    }

    pub(crate) fn assigned_partitions(&self) -> usize {
        self.handle.lock().status().assigned_partitions()
    }

    pub(crate) fn stalls(&self) -> Vec<Stall> {
        self.handle.lock().status().stalls()
    }
}

async fn consume(
    parts: Parts,
    first: Consumer,
    handle: &Mutex<ConsumerHandle>,
    mut stop: watch::Receiver<bool>,
) {
    let randomness = Randomness::from_entropy();
    let mut next = Ok(first);
    let mut failures = 0;
    loop {
        let result = match next {
            Ok(consumer) => consumer.run().await,
            Err(error) => Err(error),
        };
        let Err(reason) = result else {
            return;
        };
        let delay = REJOIN.delay(failures, &randomness);
        failures += 1;
        let seconds = delay.as_secs_f64();
        error!("member of the group cannot go on, another one joins in {seconds:.1} s: {reason}");
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep(delay) => {}
        }
        next = parts.consumer().map(|(consumer, renewed)| {
            *handle.lock() = renewed;
            consumer
        });
        if *stop.borrow() {
            return;
        }
    }
}
