//! Tells operators, once per topic, of skipped messages that look like mistakes.

use std::collections::HashSet;
use std::sync::Arc;

use tracing::warn;

use crate::event::Message;
use crate::ledger::Duplicate;
use crate::sync::Mutex;

/// The topics that were warned of.
#[derive(Debug, Default)]
pub(crate) struct DuplicateNotices {
    topics: Mutex<HashSet<Arc<str>>>,
}

impl DuplicateNotices {
    pub(crate) fn notice(&self, duplicate: Duplicate, message: &Message) {
        let Duplicate::Id {
            content_differs: true,
        } = duplicate
        else {
            return;
        };
        let topic = &message.record.topic_partition.topic;
        if self.topics.lock().insert(Arc::clone(topic)) {
            warn!(
                "a message was skipped because one of its key with the same id was handled, but its \
                 payload is another one: the id may be that of an entity, not of a message (see \
                 idempotence_field; said once per topic) {message}"
            );
        }
    }
}
