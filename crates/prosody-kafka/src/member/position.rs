//! Where an assignment begins, and what a commit says of the topic that it is of.
//!
//! A group's committed offset belongs to the name of a topic. One that was written for a topic which
//! has been deleted and created again since (a late commit brings it back after Kafka has forgotten
//! it) would have the first messages of the new one skipped. So each commit carries the id of its
//! topic in the metadata that Kafka keeps beside the offset.

use prosody_core::record::TopicId;
use rdkafka::Offset;

/// The name of the topic's id in a commit's metadata: `name=value`, separated by `;`.
const TOPIC_ID: &str = "topic-id=";

/// What a group has committed for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    pub offset: i64,
    /// The topic that it was committed for, if the commit says so.
    pub topic_id: Option<TopicId>,
}

/// What stands behind an assignment that was begun afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Former {
    pub topic_id: TopicId,
    /// Where its log has gone back to.
    pub from: Option<i64>,
}

/// The metadata of a commit for this topic; empty for a broker that has no ids.
pub(super) fn metadata(topic_id: TopicId) -> String {
    if topic_id == TopicId(0) {
        return String::new();
    }
    format!("{TOPIC_ID}{:032x}", topic_id.0)
}

/// The topic that a commit's metadata names.
pub(super) fn topic_of(metadata: &str) -> Option<TopicId> {
    let mut parts = metadata.split(';');
    let value = parts.find_map(|part| part.trim().strip_prefix(TOPIC_ID))?;
    Some(TopicId(u128::from_str_radix(value, 16).ok()?))
}

/// Where to begin. `if_none` is where a group begins that has committed nothing.
pub(super) fn start(
    topic_id: TopicId,
    committed: Option<&Committed>,
    former: Option<Former>,
    if_none: Offset,
) -> Offset {
    let is_other = |id: TopicId| id != topic_id && id != TopicId(0) && topic_id != TopicId(0);
    let made_anew = former.is_some_and(|former| is_other(former.topic_id));
    match committed {
        Some(committed) if committed.topic_id.is_some_and(is_other) => Offset::Beginning,
        // Committed before the topic was made anew, or nobody knows when.
        Some(committed) if made_anew && committed.topic_id.is_none() => Offset::Beginning,
        None if made_anew => Offset::Beginning,
        Some(committed) => {
            let back_to = former.filter(|_| !made_anew).and_then(|former| former.from);
            Offset::Offset(back_to.map_or(committed.offset, |from| from.min(committed.offset)))
        }
        None => match former.and_then(|former| former.from) {
            Some(from) if if_none != Offset::Beginning => Offset::Offset(from),
            _ => if_none,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: TopicId = TopicId(0xa1);
    const NEW: TopicId = TopicId(0xb2);

    fn committed(offset: i64, topic_id: Option<TopicId>) -> Committed {
        Committed { offset, topic_id }
    }

    fn former(topic_id: TopicId, from: Option<i64>) -> Former {
        Former { topic_id, from }
    }

    #[test]
    fn a_commit_names_its_topic() {
        assert_eq!(topic_of(&metadata(NEW)), Some(NEW));
        assert_eq!(
            topic_of(&metadata(TopicId(u128::MAX))),
            Some(TopicId(u128::MAX))
        );
        assert_eq!(metadata(TopicId(0)), "");
        let more = format!("block-end=7; {}", metadata(OLD));
        assert_eq!(topic_of(&more), Some(OLD));
        for foreign in ["", "consumer-1", "topic-id=", "topic-id=xyz"] {
            assert_eq!(topic_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn an_offset_of_the_same_topic_or_of_no_known_one_is_gone_on_from() {
        for id in [Some(NEW), None] {
            let known = committed(7, id);
            let at = |former| start(NEW, Some(&known), former, Offset::End);
            assert_eq!(at(None), Offset::Offset(7));
            assert_eq!(at(Some(former(NEW, None))), Offset::Offset(7));
            assert_eq!(at(Some(former(NEW, Some(3)))), Offset::Offset(3));
            assert_eq!(at(Some(former(NEW, Some(9)))), Offset::Offset(7));
        }
        let known = committed(7, Some(OLD));
        let no_ids = start(TopicId(0), Some(&known), None, Offset::End);
        assert_eq!(no_ids, Offset::Offset(7));
    }

    #[test]
    fn a_topic_made_anew_is_begun_at_its_first_record() {
        let known = committed(7, Some(OLD));
        assert_eq!(
            start(NEW, Some(&known), None, Offset::End),
            Offset::Beginning
        );
        let unnamed = committed(7, None);
        for known in [Some(&known), Some(&unnamed), None] {
            let at = start(NEW, known, Some(former(OLD, Some(3))), Offset::End);
            assert_eq!(at, Offset::Beginning, "{known:?}");
        }
        // Somebody of the group has had the new one already.
        let known = committed(2, Some(NEW));
        let at = start(NEW, Some(&known), Some(former(OLD, Some(1))), Offset::End);
        assert_eq!(at, Offset::Offset(2));
    }

    #[test]
    fn a_group_that_has_committed_nothing_begins_as_it_is_told() {
        for reset in [Offset::Beginning, Offset::End, Offset::Stored] {
            assert_eq!(start(NEW, None, None, reset), reset);
            assert_eq!(start(NEW, None, Some(former(NEW, None)), reset), reset);
        }
        let back = Some(former(NEW, Some(3)));
        assert_eq!(start(NEW, None, back, Offset::End), Offset::Offset(3));
        assert_eq!(start(NEW, None, back, Offset::Beginning), Offset::Beginning);
    }
}
