//! What a member has asked of the brokers, until it is answered.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::time::Duration;

use prosody_core::log::{LogError, Watermark};
use prosody_core::record::TopicPartition;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::assignment::Assignment;
use super::{Answer, POSITIONS_LIMIT, position};
use crate::ffi::{GroupOffset, NativeError, Replies, Reply};
use crate::health::Health;
use crate::partitions::to_native;

/// The partitions whose offsets are asked for, and who waits for them.
type Asked = (Vec<TopicPartition>, Answer<Vec<Option<i64>>>);

/// Requests on their way, and who waits for them.
pub(super) struct Requests<'c> {
    replies: Replies<'c>,
    group: CString,
    /// Numbers requests, so that answers find the right one.
    number: u64,
    /// The look at topics and offsets that is on its way, by the numbers of its two requests.
    describing: Option<u64>,
    reading: Option<u64>,
    positions: HashMap<u64, Asked>,
    /// The one commit that is on its way, and whether it left watermarks out.
    commit: Option<(Answer<()>, bool)>,
    /// Commits that wait for it: callers that gave up waiting for an earlier one.
    commits: VecDeque<(Vec<Watermark>, Answer<()>)>,
}

impl<'c> Requests<'c> {
    pub fn new(replies: Replies<'c>, group: CString) -> Self {
        Self {
            replies,
            group,
            number: 0,
            describing: None,
            reading: None,
            positions: HashMap::new(),
            commit: None,
            commits: VecDeque::new(),
        }
    }

    /// The next answer that has come.
    pub fn next_reply(&self) -> Option<Reply> {
        self.replies.next()
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    // ---- looks at topics and their offsets -------------------------------------------------

    /// Asks for topics, and for what the group has committed for partitions, if there are any.
    pub fn look_up(&mut self, topics: &[CString], partitions: &[TopicPartition], limit: Duration) {
        let number = self.next_number();
        self.describing = Some(number);
        self.replies.describe(number, topics, limit);
        if !partitions.is_empty() {
            let number = self.next_number();
            self.reading = Some(number);
            let list = to_native(partitions);
            self.replies.offsets(number, &self.group, &list, limit);
        }
    }

    /// Whether one of its answers is missing.
    pub fn is_looking_up(&self) -> bool {
        self.describing.is_some() || self.reading.is_some()
    }

    /// Whether this answers the description that was asked for.
    pub fn described(&mut self, number: u64) -> bool {
        self.describing.take_if(|asked| *asked == number).is_some()
    }

    /// Whether this answers the look at committed offsets.
    pub fn read(&mut self, number: u64) -> bool {
        self.reading.take_if(|asked| *asked == number).is_some()
    }

    // ---- committed offsets ---------------------------------------------------------------

    pub fn positions(&mut self, partitions: Vec<TopicPartition>, answer: Answer<Vec<Option<i64>>>) {
        let number = self.next_number();
        let list = to_native(&partitions);
        let group: &CStr = &self.group;
        self.replies.offsets(number, group, &list, POSITIONS_LIMIT);
        self.positions.retain(|_, (_, answer)| !answer.is_closed());
        self.positions.insert(number, (partitions, answer));
    }

    pub fn offsets(
        &mut self,
        number: u64,
        result: Result<Vec<GroupOffset>, NativeError>,
        health: &Health,
    ) {
        let Some((partitions, answer)) = self.positions.remove(&number) else {
            return;
        };
        let offsets = match result {
            Ok(offsets) => in_order(&partitions, offsets),
            Err(error) => Err(no_offsets(&error, health)),
        };
        let _ = answer.send(offsets);
    }

    // ---- commits -------------------------------------------------------------------------

    /// Whether a commit is on its way.
    pub fn is_committing(&self) -> bool {
        self.commit.is_some()
    }

    /// Commits what belongs to present assignments, after the commit that is on its way.
    pub fn commit(
        &mut self,
        assignment: &Assignment,
        watermarks: Vec<Watermark>,
        answer: Answer<()>,
    ) {
        if self.commit.is_some() {
            self.commits.retain(|(_, answer)| !answer.is_closed());
            self.commits.push_back((watermarks, answer));
            return;
        }
        let asked = watermarks.len();
        let mut list = TopicPartitionList::with_capacity(asked);
        let current = watermarks
            .iter()
            .filter(|watermark| assignment.is_current(watermark));
        for watermark in current {
            let TopicPartition { topic, partition } = &watermark.topic_partition;
            let mut entry = list.add_partition(topic, *partition);
            entry.set_metadata(position::metadata(watermark.topic_id));
            if let Err(error) = entry.set_offset(Offset::Offset(watermark.offset)) {
                let text = format!("commit of {topic}/{partition}: {error}");
                let _ = answer.send(Err(LogError::Refused(text)));
                return;
            }
        }
        let left_out = list.count() < asked;
        if list.count() == 0 {
            let _ = answer.send(ended(left_out));
            return;
        }
        match self.replies.commit(&list) {
            Ok(()) => self.commit = Some((answer, left_out)),
            Err(error) => {
                let text = format!("commit: {}", error.text);
                let _ = answer.send(Err(LogError::Refused(text)));
            }
        }
    }

    /// The commit that was on its way is answered; the next one goes.
    pub fn committed(
        &mut self,
        assignment: &Assignment,
        result: Result<Vec<(TopicPartition, NativeError)>, NativeError>,
        health: &Health,
    ) {
        if let Some((answer, left_out)) = self.commit.take() {
            let _ = answer.send(match result {
                Ok(refused) if refused.is_empty() => ended(left_out),
                Ok(refused) => Err(refused_partitions(&refused)),
                Err(error) if error.code == RDKafkaErrorCode::BrokerDestroy => Err(LogError::Ended),
                Err(error) => {
                    let reason = health.reason();
                    Err(LogError::Refused(format!(
                        "commit: {} ({reason})",
                        error.text
                    )))
                }
            });
        }
        while self.commit.is_none() {
            let Some((watermarks, answer)) = self.commits.pop_front() else {
                return;
            };
            if !answer.is_closed() {
                self.commit(assignment, watermarks, answer);
            }
        }
    }
}

fn ended(left_out: bool) -> Result<(), LogError> {
    if left_out {
        Err(LogError::Ended)
    } else {
        Ok(())
    }
}

fn refused_partitions(refused: &[(TopicPartition, NativeError)]) -> LogError {
    let names: Vec<String> = refused
        .iter()
        .map(|(partition, error)| format!("{partition}: {}", error.text))
        .collect();
    LogError::Refused(format!("commit of {}", names.join(", ")))
}

/// Answers in the order of the question.
fn in_order(
    partitions: &[TopicPartition],
    offsets: Vec<GroupOffset>,
) -> Result<Vec<Option<i64>>, LogError> {
    let mut known = HashMap::with_capacity(offsets.len());
    for GroupOffset {
        partition, offset, ..
    } in offsets
    {
        let offset = offset.map_err(|error| {
            LogError::Refused(format!("committed offset of {partition}: {}", error.text))
        })?;
        known.insert(partition, offset);
    }
    let find = |partition| known.get(partition).copied().filter(|offset| *offset >= 0);
    Ok(partitions.iter().map(find).collect())
}

/// Tells a cluster that does not answer from one that refuses.
fn no_offsets(error: &NativeError, health: &Health) -> LogError {
    use RDKafkaErrorCode as Code;
    match error.code {
        Code::OperationTimedOut
        | Code::TimedOutQueue
        | Code::RequestTimedOut
        | Code::BrokerTransportFailure
        | Code::AllBrokersDown
        | Code::WaitingForCoordinator => LogError::Unreachable {
            what: "committed offsets".to_owned(),
            limit: POSITIONS_LIMIT,
            reason: health.reason(),
        },
        Code::BrokerDestroy => LogError::Ended,
        _ => LogError::Refused(format!("committed offsets: {}", error.text)),
    }
}
