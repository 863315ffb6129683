//! What a consumer is told by its configuration. Defaults are the configuration's.

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::outcome::Mode;

/// The options of spec/configuration.md that the consumer acts on.
#[derive(Clone, Debug)]
pub struct ConsumerSettings {
    /// `group_id`.
    pub group_id: Arc<str>,
    /// `mode`.
    pub mode: Mode,
    /// `max_concurrency`: handlers at a time, over all partitions.
    pub max_concurrency: usize,
    /// `max_uncommitted`: events of a partition that are taken and not finished.
    pub max_uncommitted: usize,
    /// `timeout` of a handler.
    pub timeout: Duration,
    /// `commit_interval`.
    pub commit_interval: Duration,
    /// `shutdown_timeout`: how long handlers may run on when a partition is to be given up.
    pub shutdown_timeout: Duration,
    /// `stall_threshold`.
    pub stall_threshold: Duration,
    /// `allowed_events`: prefixes of the payload's `type`; `None` allows all.
    pub allowed_events: Option<Vec<Arc<str>>>,
    /// `idempotence_field`; `None`: by position only.
    pub idempotence_field: Option<String>,
    /// `idempotence_version`.
    pub idempotence_version: String,
    /// `idempotence_ttl`.
    pub idempotence_ttl: Duration,
    /// `retry_base` and `max_retry_delay`.
    pub retry: Backoff,
    /// `state_cache_size_bytes`.
    pub state_cache_size_bytes: usize,
}
