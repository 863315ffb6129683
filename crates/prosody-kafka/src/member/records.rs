//! Copies librdkafka's messages into records.

use std::sync::Arc;

use bytes::Bytes;
use prosody_core::record::{Generation, Headers, Record, TopicPartition};
use rdkafka::message::{BorrowedMessage, Message};

use crate::ffi::{self, NativeHeaders};

/// Copies a message: one allocation for all of its bytes.
pub(crate) fn copy(
    message: &BorrowedMessage<'_>,
    topic: Arc<str>,
    generation: Generation,
) -> Record {
    let bytes = Copied::of(message);
    Record {
        topic_partition: TopicPartition {
            topic,
            partition: message.partition(),
        },
        generation,
        offset: message.offset(),
        leader_epoch: ffi::leader_epoch(message),
        timestamp_ms: message.timestamp().to_millis().unwrap_or(-1),
        key: bytes.key,
        payload: bytes.payload,
        headers: bytes.headers,
    }
}

/// The bytes of a message, slices of one buffer.
struct Copied {
    key: Option<Bytes>,
    payload: Option<Bytes>,
    headers: Headers,
}

impl Copied {
    fn of(message: &BorrowedMessage<'_>) -> Self {
        let key = message.key();
        let payload = message.payload();
        let headers: Vec<_> = NativeHeaders::of(message).into_iter().flatten().collect();

        let size = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let header_size: usize = headers
            .iter()
            .map(|(name, value)| name.len() + size(*value))
            .sum();
        let mut buffer = Vec::with_capacity(size(key) + size(payload) + header_size);
        let mut put = |part: &[u8]| buffer.extend_from_slice(part);
        key.map(&mut put);
        payload.map(&mut put);
        for (name, value) in &headers {
            put(name);
            value.map(&mut put);
        }

        let mut rest = Bytes::from(buffer);
        let mut cut = |part: Option<&[u8]>| part.map(|part| rest.split_to(part.len()));
        let key = cut(key);
        let payload = cut(payload);
        let headers = headers
            .into_iter()
            .map(|(name, value)| (cut(Some(name)).unwrap_or_default(), cut(value)))
            .collect();
        Self {
            key,
            payload,
            headers: Headers::new(headers),
        }
    }
}
