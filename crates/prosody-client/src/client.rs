//! A client: sends from the start, consumes while it is subscribed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use prosody_core::consumer::Stall;
use prosody_core::handler::Handler;
use prosody_core::journey::SOURCE_SYSTEM_HEADER;
use prosody_core::log::{Cluster, LogError, Producer, SendError};
use prosody_core::record::{Headers, OutgoingRecord};
use prosody_core::sync::Mutex;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::warn;

use crate::process::Process;
use crate::settings::{ClientSettings, ClusterSettings, StoreKind, SubscriptionSettings};
use crate::subscription::Subscription;
use crate::{cluster, store};

/// How long broker and store may take to answer at `subscribe` (spec/ruby-api.md).
const SUBSCRIBE_LIMIT: Duration = Duration::from_secs(10);

/// A client could not do what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ClientError {
    /// The caller must change something.
    #[error("{0}")]
    Misconfigured(String),
    /// The surroundings do not answer or refuse.
    #[error("{0}")]
    Failed(String),
}

impl From<LogError> for ClientError {
    fn from(error: LogError) -> Self {
        match error {
            LogError::TopicsMissing(_) => Self::Misconfigured(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerState {
    /// It cannot consume: no group or no topics.
    Unconfigured,
    /// It could consume.
    Configured,
    /// It consumes, or is about to, or has not stopped yet.
    Running,
}

enum Consumption {
    Idle,
    /// The sender tells the start to come to an end.
    Starting(Arc<watch::Sender<bool>>),
    Running(Arc<Subscription>),
}

/// What there is to stop.
enum Stoppable {
    Nothing,
    Start(Arc<watch::Sender<bool>>),
    Running(Arc<Subscription>),
}

/// A client.
pub struct Client {
    settings: ClientSettings,
    runtime: Handle,
    cluster: Arc<dyn Cluster>,
    producer: Mutex<Option<Arc<dyn Producer>>>,
    consumption: Mutex<Consumption>,
}

impl Client {
    /// Makes a client. Nothing is contacted before it is used.
    pub fn new(process: &Process, settings: ClientSettings) -> Result<Self, ClientError> {
        let cluster = cluster::make(process, &settings)?;
        Ok(Self {
            settings,
            runtime: process.runtime().clone(),
            cluster,
            producer: Mutex::default(),
            consumption: Mutex::new(Consumption::Idle),
        })
    }

    /// The header value on what it sends.
    pub fn source_system(&self) -> Option<&Arc<str>> {
        self.settings.source_system.as_ref()
    }

    /// Sends a record and waits for its acknowledgement. It is handed over before this returns.
    pub fn send(&self, mut record: OutgoingRecord) -> BoxFuture<'static, Result<(), SendError>> {
        if let Some(source_system) = &self.settings.source_system {
            record.headers = with_source(&record.headers, source_system);
        }
        match self.producer() {
            Ok(producer) => producer.send(record).map(|sent| sent.map(|_| ())).boxed(),
            Err(error) => ready(Err(SendError::Refused(error.to_string()))).boxed(),
        }
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, LogError> {
        let mut made = self.producer.lock();
        if let Some(producer) = &*made {
            return Ok(Arc::clone(producer));
        }
        let producer = self.cluster.producer()?;
        *made = Some(Arc::clone(&producer));
        Ok(producer)
    }

    /// Starts to consume. The future ends when broker and store have answered, within 10 s; it
    /// must be driven to its end.
    pub fn subscribe(
        self: &Arc<Self>,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'static, Result<(), ClientError>> {
        let client = Arc::clone(self);
        async move {
            let mut cancelled = client.reserve()?;
            let started = tokio::select! {
                biased;
                _ = cancelled.wait_for(|cancelled| *cancelled) => Err(unsubscribed()),
                started = client.start(handler) => started,
            };
            let (next, result) = match started {
                Ok(subscription) => (Consumption::Running(subscription), Ok(())),
                Err(error) => (Consumption::Idle, Err(error)),
            };
            *client.consumption.lock() = next;
            result
        }
        .boxed()
    }

    fn reserve(&self) -> Result<watch::Receiver<bool>, ClientError> {
        let mut consumption = self.consumption.lock();
        if !matches!(*consumption, Consumption::Idle) {
            let text = "client is subscribed already: `unsubscribe` first, or make another client";
            return Err(ClientError::Misconfigured(text.to_owned()));
        }
        let (cancel, cancelled) = watch::channel(false);
        *consumption = Consumption::Starting(Arc::new(cancel));
        Ok(cancelled)
    }

    async fn start(&self, handler: Arc<dyn Handler>) -> Result<Arc<Subscription>, ClientError> {
        let settings = self.subscription_settings()?;
        let store = store::make(settings.store)?;
        self.warn_of_memory(settings);
        self.cluster
            .describe(&settings.topics, SUBSCRIBE_LIMIT)
            .await?;
        let subscription = Subscription::start(
            &self.runtime,
            Arc::clone(&self.cluster),
            settings.clone(),
            store,
            handler,
        )?;
        Ok(Arc::new(subscription))
    }

    fn subscription_settings(&self) -> Result<&SubscriptionSettings, ClientError> {
        self.settings.subscription.as_ref().ok_or_else(|| {
            let text = "group_id and subscribed_topics are required to subscribe";
            ClientError::Misconfigured(text.to_owned())
        })
    }

    fn warn_of_memory(&self, settings: &SubscriptionSettings) {
        let is_kafka = matches!(self.settings.cluster, ClusterSettings::Kafka { .. });
        if is_kafka && settings.store == Some(StoreKind::Memory) {
            warn!(
                "store is :memory: state, and what says which messages were handled, are lost when \
                 this process ends or a partition is revoked"
            );
        }
    }

    /// Stops consuming: handlers may run for `limit`, then what is finished is committed. Ends
    /// within `limit` plus a second. A start that is under way is ended with an error. `true`: it
    /// was consuming.
    pub fn unsubscribe(self: &Arc<Self>, limit: Duration) -> BoxFuture<'static, bool> {
        let client = Arc::clone(self);
        async move {
            let subscription = match client.what_to_stop() {
                Stoppable::Nothing => return false,
                Stoppable::Start(cancel) => {
                    cancel.send_replace(true);
                    // The start holds the receiver for as long as it lasts.
                    cancel.closed().await;
                    return false;
                }
                Stoppable::Running(subscription) => subscription,
            };
            subscription.stop(limit).await;
            let mut consumption = client.consumption.lock();
            let same = matches!(&*consumption, Consumption::Running(present) if Arc::ptr_eq(present, &subscription));
            if same {
                *consumption = Consumption::Idle;
            }
            true
        }
        .boxed()
    }

    fn what_to_stop(&self) -> Stoppable {
        match &*self.consumption.lock() {
            Consumption::Idle => Stoppable::Nothing,
            Consumption::Starting(cancel) => Stoppable::Start(Arc::clone(cancel)),
            Consumption::Running(subscription) => Stoppable::Running(Arc::clone(subscription)),
        }
    }

    /// What it is doing.
    pub fn consumer_state(&self) -> ConsumerState {
        match (&*self.consumption.lock(), &self.settings.subscription) {
            (Consumption::Running(_) | Consumption::Starting(_), _) => ConsumerState::Running,
            (Consumption::Idle, Some(_)) => ConsumerState::Configured,
            (Consumption::Idle, None) => ConsumerState::Unconfigured,
        }
    }

    /// How many partitions are assigned to it.
    pub fn assigned_partitions(&self) -> usize {
        let subscription = self.subscription();
        subscription.map_or(0, |subscription| subscription.assigned_partitions())
    }

    /// The partitions that are stalled.
    pub fn stalls(&self) -> Vec<Stall> {
        let subscription = self.subscription();
        subscription.map_or_else(Vec::new, |subscription| subscription.stalls())
    }

    fn subscription(&self) -> Option<Arc<Subscription>> {
        match &*self.consumption.lock() {
            Consumption::Running(subscription) => Some(Arc::clone(subscription)),
            Consumption::Idle | Consumption::Starting(_) => None,
        }
    }
}

fn unsubscribed() -> ClientError {
    ClientError::Failed("unsubscribed before broker and store had answered".to_owned())
}

fn with_source(headers: &Headers, source_system: &Arc<str>) -> Headers {
    let mut headers: Vec<_> = headers.iter().cloned().collect();
    let value = Bytes::copy_from_slice(source_system.as_bytes());
    headers.push((Bytes::from_static(SOURCE_SYSTEM_HEADER), Some(value)));
    Headers::new(headers)
}
