//! stub
use futures::future::BoxFuture;
use prosody_core::log::*;
use std::sync::Arc;
use std::time::Duration;
pub struct KafkaOptions {
    pub bootstrap_servers: Vec<String>,
    pub properties: std::collections::BTreeMap<String, String>,
    pub send_timeout: Duration,
    pub commit_limit: Duration,
}
impl KafkaOptions {
    pub fn new(b: Vec<String>) -> Self {
        Self {
            bootstrap_servers: b,
            properties: Default::default(),
            send_timeout: Duration::from_secs(1),
            commit_limit: Duration::from_secs(1),
        }
    }
}
pub struct KafkaCluster;
impl KafkaCluster {
    pub fn new(_: KafkaOptions) -> Result<Self, LogError> {
        Ok(Self)
    }
}
impl Cluster for KafkaCluster {
    fn describe<'a>(
        &'a self,
        _: &'a [String],
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<TopicDescription>, LogError>> {
        todo!()
    }
    fn join(&self, _: Membership) -> Result<Arc<dyn Log>, LogError> {
        todo!()
    }
    fn producer(&self) -> Result<Arc<dyn Producer>, LogError> {
        todo!()
    }
}
