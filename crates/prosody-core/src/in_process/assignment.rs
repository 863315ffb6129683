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
    let mut loads = Loads::default();
    let mut targets: Vec<Option<MemberId>> = candidates
        .iter()
        .map(|candidate| {
            let stays = |holder: &MemberId| candidate.eligible.contains(holder);
            candidate.holder.filter(stays)
        })
        .collect();
    for holder in targets.iter().flatten() {
        loads.add(*holder);
    }
    for (candidate, target) in candidates.iter().zip(&mut targets) {
        if target.is_none() {
            loads.hand_over(target, candidate.eligible);
        }
    }
    // From the heaviest first: taken from others, a partition would have to be made up for by
    // one more move. Each move lowers the sum of the squared loads, so that they end.
    loop {
        let gap_of = |(candidate, target): (&Candidate<'_>, &Option<MemberId>)| {
            loads.gap(*target, candidate.eligible)
        };
        let widest = candidates.iter().zip(&targets).map(gap_of).max();
        let Some(widest) = widest.filter(|gap| *gap > 1) else {
            break;
        };
        for (candidate, target) in candidates.iter().zip(&mut targets) {
            if loads.gap(*target, candidate.eligible) >= widest {
                loads.hand_over(target, candidate.eligible);
            }
        }
    }
    let partitions = candidates.iter().map(|c| c.topic_partition.clone());
    partitions
        .zip(targets)
        .filter_map(|(partition, target)| Some((partition, target?)))
        .collect()
}

/// How many partitions each member has.
#[derive(Default)]
struct Loads(BTreeMap<MemberId, usize>);

impl Loads {
    fn of(&self, member: MemberId) -> usize {
        self.0.get(&member).copied().unwrap_or(0)
    }

    fn add(&mut self, member: MemberId) {
        *self.0.entry(member).or_default() += 1;
    }

    /// Gives a partition to whoever has least.
    fn hand_over(&mut self, owner: &mut Option<MemberId>, eligible: &[MemberId]) {
        if let Some(load) = owner.and_then(|owner| self.0.get_mut(&owner)) {
            *load -= 1;
        }
        *owner = self.lightest(eligible);
        if let Some(owner) = *owner {
            self.add(owner);
        }
    }

    fn lightest(&self, members: &[MemberId]) -> Option<MemberId> {
        members
            .iter()
            .copied()
            .min_by_key(|member| self.of(*member))
    }

    /// By how much a partition's owner has more than another who could have it.
    fn gap(&self, owner: Option<MemberId>, eligible: &[MemberId]) -> usize {
        let owner = owner.map_or(0, |owner| self.of(owner));
        let lightest = self.lightest(eligible).map_or(0, |member| self.of(member));
        owner.saturating_sub(lightest)
    }
}
