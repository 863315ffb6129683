use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::in_process::MemberId;
use crate::in_process::assignment::{Candidate, balance};
use crate::record::TopicPartition;

type Targets = BTreeMap<TopicPartition, MemberId>;

fn assign(partitions: i32, members: &[MemberId], before: &Targets) -> Targets {
    let partitions = (0..partitions).map(|number| TopicPartition::new("t", number));
    let candidates: Vec<_> = partitions
        .map(|topic_partition| Candidate {
            holder: before.get(&topic_partition).copied(),
            topic_partition,
            eligible: members,
        })
        .collect();
    balance(&candidates)
}

fn load(targets: &Targets, member: MemberId) -> usize {
    targets.values().filter(|owner| **owner == member).count()
}

proptest! {
    #[test]
    fn only_what_has_to_move_moves(
        partitions in 0..40_i32,
        changes in prop::collection::vec((any::<bool>(), any::<Index>()), 1..20),
    ) {
        let mut members = Vec::new();
        let mut targets = Targets::new();
        for (number, (joins, index)) in (0..).zip(changes) {
            let changed = if joins || members.len() < 2 {
                let member = MemberId(number);
                members.push(member);
                member
            } else {
                members.remove(index.index(members.len()))
            };
            let before = std::mem::take(&mut targets);
            targets = assign(partitions, &members, &before);

            prop_assert_eq!(targets.len(), usize::try_from(partitions).unwrap());
            let loads = members.iter().map(|member| load(&targets, *member));
            let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
            prop_assert!(most - least <= 1, "{} and {}", least, most);
            for (partition, owner) in &targets {
                if let Some(old) = before.get(partition).filter(|old| *old != owner) {
                    let necessary = [*old, *owner].contains(&changed);
                    prop_assert!(necessary, "{} moved", partition);
                }
            }
        }
    }
}
