//! Who of a group's members is to have which partition.

use std::collections::BTreeMap;

use super::group::MemberId;
use crate::record::TopicPartition;

/// A partition that somebody of the group is to have.
pub(super) struct Candidate<'group> {
    pub(super) topic_partition: TopicPartition,
    /// Who has it, or was to have it.
    pub(super) holder: Option<MemberId>,
    /// Who subscribes to its topic; not empty.
    pub(super) eligible: &'group [MemberId],
}

/// Spreads partitions over members, moving as few as that needs.
///
/// Members with the same topics differ by at most one partition.
pub(super) fn balance(candidates: &[Candidate<'_>]) -> BTreeMap<TopicPartition, MemberId> {
    let mut loads = BTreeMap::<MemberId, usize>::new();
    let mut targets = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let keeps = candidate.holder.filter(|h| candidate.eligible.contains(h));
        if let Some(holder) = keeps {
            *loads.entry(holder).or_default() += 1;
        }
        targets.push(keeps);
    }
    // Each round lowers the sum of the squared loads, so that they end.
    loop {
        let mut moved = false;
        for (candidate, target) in candidates.iter().zip(&mut targets) {
            let load = |member: &MemberId| loads.get(member).copied().unwrap_or(0);
            let Some(lightest) = candidate.eligible.iter().copied().min_by_key(load) else {
                continue;
            };
            if target.is_some_and(|present| load(&present) <= load(&lightest) + 1) {
                continue;
            }
            *loads.entry(lightest).or_default() += 1;
            if let Some(load) = target.replace(lightest).and_then(|old| loads.get_mut(&old)) {
                *load -= 1;
            }
            moved = true;
        }
        if !moved {
            break;
        }
    }
    let partitions = candidates.iter().map(|c| c.topic_partition.clone());
    partitions
        .zip(targets)
        .filter_map(|(partition, target)| Some((partition, target?)))
        .collect()
}
