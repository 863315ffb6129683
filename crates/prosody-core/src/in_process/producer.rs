//! Sends records into the log.

use std::sync::Arc;

use futures::FutureExt;
use futures::future::{BoxFuture, ready};

use super::cluster::Shared;
use crate::log::{Delivery, Producer, SendError};
use crate::record::OutgoingRecord;

/// The cluster's producer: a record is in the log when [`Producer::send`] returns.
pub(super) struct InProcessProducer {
    shared: Arc<Shared>,
}

impl InProcessProducer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl Producer for InProcessProducer {
    fn send(&self, record: OutgoingRecord) -> BoxFuture<'static, Result<Delivery, SendError>> {
        ready(self.shared.send(record)).boxed()
    }
}
