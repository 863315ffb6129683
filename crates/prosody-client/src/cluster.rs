//! Makes the cluster that the configuration names.

use std::sync::Arc;
use std::time::Duration;

use prosody_core::log::Cluster;
use prosody_kafka::{KafkaCluster, KafkaOptions};

use crate::client::ClientError;
use crate::process::Process;
use crate::settings::{ClientSettings, ClusterSettings};

/// How long the answer to a commit is waited for.
const COMMIT_LIMIT: Duration = Duration::from_secs(10);

/// Makes or finds the cluster.
pub(crate) fn make(
    process: &Process,
    settings: &ClientSettings,
) -> Result<Arc<dyn Cluster>, ClientError> {
    match &settings.cluster {
        ClusterSettings::Mock { name } => Ok(process.mock(name)),
        ClusterSettings::Kafka {
            bootstrap_servers,
            properties,
        } => {
            let mut options = KafkaOptions::new(bootstrap_servers.clone());
            options.properties.clone_from(properties);
            options.send_timeout = settings.send_timeout;
            options.commit_limit = COMMIT_LIMIT;
            let cluster = KafkaCluster::new(options).map_err(|error| {
                ClientError::Misconfigured(format!(
                    "kafka_config (or a variable PROSODY_KAFKA_...): {error}"
                ))
            })?;
            Ok(Arc::new(cluster))
        }
    }
}
