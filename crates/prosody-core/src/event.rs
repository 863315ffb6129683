//! Events: what waits in a key's queue and ends in one transaction.

use std::fmt;
use std::str::Utf8Error;

use bytes::Bytes;
use thiserror::Error;

use crate::decode::Undecodable;
use crate::ledger::{Fingerprint, Position};
use crate::record::{Generation, Record};

/// A Kafka key: UTF-8, never empty.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(Bytes);

/// These bytes are no key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum NoKey {
    /// Not UTF-8.
    #[error("key is not UTF-8: {0}")]
    NotUtf8(#[from] Utf8Error),
    /// Without bytes.
    #[error("key is empty")]
    Empty,
}

impl Key {
    /// Takes the bytes of a key.
    pub fn new(bytes: Bytes) -> Result<Self, NoKey> {
        std::str::from_utf8(&bytes)?;
        if bytes.is_empty() {
            return Err(NoKey::Empty);
        }
        Ok(Self(bytes))
    }

    /// The same in memory of its own: a key is a slice of its record, and whoever keeps it would
    /// keep the payload, too.
    pub(crate) fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A message of the log, decoded as far as the journey needs. The raw record stays at hand until
/// the outcome is settled.
#[derive(Clone, Debug)]
pub struct Message {
    /// The record as read.
    pub record: Record,
    /// Its key; `None` for a record without key, which has no ledger.
    pub key: Option<Key>,
    /// Where it stands and which id it has.
    pub fingerprint: Fingerprint,
    /// Why it does not decode, if so: such a message never reaches a handler.
    pub undecodable: Option<Undecodable>,
}

impl Message {
    /// Where it stands.
    pub fn position(&self) -> Position {
        self.fingerprint.position
    }
}

/// What is handled one after the other under a key.
///
/// Messages are the first kind; timers and retries enter the key queues in the same way.
#[derive(Clone, Debug)]
pub enum Event {
    /// A message of the log.
    Message(Message),
}

impl Event {
    /// The key whose queue it waits in; `None`: it waits for nobody.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Self::Message(message) => message.key.as_ref(),
        }
    }

    /// The assignment that it belongs to.
    pub fn generation(&self) -> Generation {
        match self {
            Self::Message(message) => message.record.generation,
        }
    }

    /// Bytes that it holds in memory, roughly.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Message(message) => message.record.weight(),
        }
    }
}

/// Topic, partition, offset and key, as every log line about a message names them.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record {
            topic_partition,
            offset,
            ..
        } = &self.record;
        let (topic, partition) = (&topic_partition.topic, topic_partition.partition);
        write!(
            f,
            "topic={topic} partition={partition} offset={offset} key="
        )?;
        match (&self.key, &self.record.key) {
            (Some(key), _) => write!(f, "{key:?}"),
            (None, Some(raw)) => write!(f, "\"{}\"", raw[..raw.len().min(200)].escape_ascii()),
            (None, None) => f.write_str("none"),
        }
    }
}
