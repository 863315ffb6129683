//! Lists of partitions, ours and librdkafka's.

use prosody_core::log::LogError;
use prosody_core::record::TopicPartition;
use rdkafka::TopicPartitionList;

/// Makes librdkafka's list of ours.
///
/// Names must have passed [`check_topic`]; those that come from Kafka itself have.
pub(crate) fn to_native<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for TopicPartition { topic, partition } in partitions {
        list.add_partition(topic, *partition);
    }
    list
}

/// Makes our list of librdkafka's.
pub(crate) fn from_native(list: &TopicPartitionList) -> Vec<TopicPartition> {
    list.elements()
        .iter()
        .map(|element| TopicPartition::new(element.topic(), element.partition()))
        .collect()
}

/// Refuses a topic name that librdkafka's C strings cannot hold.
pub(crate) fn check_topic(topic: &str) -> Result<(), LogError> {
    if topic.is_empty() || topic.contains('\0') {
        return Err(LogError::Refused(format!(
            "{topic:?} is not the name of a topic"
        )));
    }
    Ok(())
}
