//! The door: describes topics, makes members and the producer.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use prosody_core::log::{Cluster, Log, LogError, Membership, Producer, TopicDescription};
use prosody_core::sync::Mutex;

use crate::admin;
use crate::member::KafkaMember;
use crate::options::KafkaOptions;
use crate::producer::KafkaProducer;

/// A Kafka cluster. Nothing is contacted before something is asked of it.
#[derive(Debug)]
pub struct KafkaCluster {
    options: KafkaOptions,
    producer: Mutex<Option<Arc<KafkaProducer>>>,
}

impl KafkaCluster {
    /// Checks the options. Fails with everything that is wrong with the properties.
    pub fn new(options: KafkaOptions) -> Result<Self, LogError> {
        options.validate()?;
        Ok(Self {
            options,
            producer: Mutex::new(None),
        })
    }
}

impl Cluster for KafkaCluster {
    fn describe<'a>(
        &'a self,
        topics: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Vec<TopicDescription>, LogError>> {
        admin::describe(self.options.for_admin(), topics, limit).boxed()
    }

    fn join(&self, membership: Membership) -> Result<Arc<dyn Log>, LogError> {
        Ok(Arc::new(KafkaMember::join(&self.options, membership)?))
    }

    fn producer(&self) -> Result<Arc<dyn Producer>, LogError> {
        let mut producer = self.producer.lock();
        if let Some(producer) = &*producer {
            return Ok(Arc::clone(producer) as Arc<dyn Producer>);
        }
        let made = Arc::new(KafkaProducer::new(&self.options)?);
        *producer = Some(Arc::clone(&made));
        Ok(made)
    }
}
