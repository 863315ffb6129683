//! Looks at topics: before partitions are begun, at times while they are assigned, and before records
//! whose topic may be another one are handed on.

use std::collections::HashMap;
use std::ffi::CString;
use std::time::{Duration, Instant};

use prosody_core::record::{TopicId, TopicPartition};
use rdkafka::error::RDKafkaErrorCode;
use tracing::warn;

use super::assignment::Change;
use super::position::{self, Committed};
use super::worker::Worker;
use crate::admin::is_missing;
use crate::ffi::{DescribedTopic, GroupOffset, NativeError};

/// How long partitions wait for the description of their topics and for their offsets.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a look at topics that are consumed may take: records may wait for it.
const CHECK_LIMIT: Duration = Duration::from_secs(1);
/// Between two looks at the topics that are consumed.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// After a look that did not tell all that is needed.
const BACKOFF: Duration = Duration::from_millis(500);

/// When to look, and what the last look has told.
pub(super) struct LookUps {
    /// When topics are looked at next.
    pub at: Option<Instant>,
    asked_at: Instant,
    /// Whether the last look was for partitions that are to begin.
    began: bool,
    all_found: bool,
    /// What is known of topics that were found.
    topics: HashMap<String, (TopicId, i32)>,
    /// What the group has committed for partitions that were asked for.
    offsets: HashMap<TopicPartition, Option<Committed>>,
}

impl LookUps {
    pub fn new() -> Self {
        Self {
            at: None,
            asked_at: Instant::now(),
            began: false,
            all_found: true,
            topics: HashMap::new(),
            offsets: HashMap::new(),
        }
    }

    /// Looks as soon as it can be done.
    pub fn soon(&mut self) {
        self.at = Some(Instant::now());
    }

    /// Looks then, if not earlier.
    fn by(&mut self, at: Instant) {
        self.at = Some(self.at.map_or(at, |earlier| earlier.min(at)));
    }

    pub fn began(&self) -> bool {
        self.began
    }

    pub fn asked_at(&self) -> Instant {
        self.asked_at
    }

    /// A partition's topic, if it has the partition and what is committed for it is known, too.
    pub fn ready(&self, partition: &TopicPartition) -> Option<(TopicId, i32)> {
        let (id, count) = *self.topics.get(&*partition.topic)?;
        let known = partition.partition < count && self.offsets.contains_key(partition);
        known.then_some((id, count))
    }

    pub fn committed(&self, partition: &TopicPartition) -> Option<&Committed> {
        self.offsets.get(partition)?.as_ref()
    }
}

impl Worker<'_> {
    pub(super) fn look_up_if_due(&mut self) {
        let is_due = self.look_ups.at.is_some_and(|at| at <= Instant::now());
        if !is_due || self.requests.is_looking_up() {
            return;
        }
        let waiting: Vec<TopicPartition> = self.assignment.waiting().cloned().collect();
        if !waiting.is_empty() && self.requests.is_committing() {
            // What is being committed is to be read.
            return;
        }
        let topics = self.assignment.all_topics();
        let names: Vec<CString> = topics
            .iter()
            .filter_map(|topic| CString::new(topic.as_bytes()).ok())
            .collect();
        self.look_ups.at = None;
        if names.is_empty() {
            return;
        }
        let limit = if waiting.is_empty() {
            CHECK_LIMIT
        } else {
            BEGIN_LIMIT
        };
        self.look_ups.asked_at = Instant::now();
        self.look_ups.began = !waiting.is_empty();
        self.look_ups.topics.clear();
        self.look_ups.offsets.clear();
        self.requests.look_up(&names, &waiting, limit);
    }

    pub(super) fn described(&mut self, result: Result<Vec<DescribedTopic>, NativeError>) {
        match result {
            Ok(topics) => {
                self.shared.health.answered();
                self.take_topics(topics);
            }
            Err(error) => {
                let text = format!("assigned topics cannot be described: {}", error.text);
                self.shared.health.warn_once(&text);
                // Better late than never: without an answer they are taken for what they were.
                self.release_doubtful();
            }
        }
        self.end_look_up();
    }

    fn take_topics(&mut self, topics: Vec<DescribedTopic>) {
        self.look_ups.all_found = true;
        for DescribedTopic { name, found } in topics {
            match found {
                Ok((id, count)) => {
                    match self.assignment.describe(&name, id, count) {
                        Some(Change::Grown(added)) => self.shared.outbox.partitions_added(added),
                        Some(Change::MadeAnew(before)) => self.take_made_anew(&name, id, before),
                        None => {}
                    }
                    let asked_at = self.look_ups.asked_at();
                    self.assignment.known(&name, id, asked_at);
                    self.look_ups.topics.insert(name, (id, count));
                }
                Err(error) => {
                    self.look_ups.all_found = false;
                    self.miss(&name, &error);
                }
            }
        }
        self.release_doubtful();
    }

    /// A topic is another one than this client has known. librdkafka would go on with what it knows
    /// of the former one's leaders, and never read from the new one if these had changed.
    fn take_made_anew(&mut self, topic: &str, id: TopicId, before: TopicId) {
        let (before, now) = (before.0, id.0);
        warn!(
            "topic was deleted and created again, it is begun at its first message: topic={topic} id={now:032x} before={before:032x}"
        );
        self.restart_topic(topic);
        self.rejoins = true;
    }

    /// A topic is not there, or cannot be described.
    fn miss(&mut self, topic: &str, error: &NativeError) {
        let text = format!("topic {topic} is assigned, but: {}", error.text);
        self.shared.health.warn_once(&text);
        if is_missing(error.code) && self.doubtful.has_topic(topic) {
            // Whose records these are is known when the topic is back, and they come again then.
            self.restart_topic(topic);
        }
    }

    pub(super) fn read_offsets(&mut self, result: Result<Vec<GroupOffset>, NativeError>) {
        match result {
            Ok(offsets) => {
                for one in offsets {
                    self.take_offset(one);
                }
            }
            Err(error) => {
                let text = format!("committed offsets cannot be read: {}", error.text);
                self.shared.health.warn_once(&text);
            }
        }
        self.end_look_up();
    }

    fn take_offset(&mut self, one: GroupOffset) {
        match one.offset {
            Ok(offset) => {
                let topic_id = position::topic_of(&one.metadata);
                let committed = (offset >= 0).then_some(Committed { offset, topic_id });
                self.look_ups.offsets.insert(one.partition, committed);
            }
            // A transaction is under way.
            Err(error) if error.code == RDKafkaErrorCode::UnstableOffsetCommit => {}
            Err(error) => {
                let (partition, text) = (&one.partition, error.text);
                let text = format!("committed offset of {partition} cannot be read: {text}");
                self.shared.health.warn_once(&text);
            }
        }
    }

    /// One of the answers has come, or failed: begins what can be begun after the last one.
    fn end_look_up(&mut self) {
        if self.requests.is_looking_up() {
            return;
        }
        self.begin_ready();
        let now = Instant::now();
        let waits = self.assignment.waiting().next().is_some()
            || !self.doubtful.is_empty()
            || !self.look_ups.all_found;
        self.look_ups
            .by(now + if waits { BACKOFF } else { CHECK_INTERVAL });
    }
}
