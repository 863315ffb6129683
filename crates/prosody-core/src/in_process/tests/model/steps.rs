//! What may happen in the life of a group.

use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Join {
        pattern: bool,
    },
    Close(Index),
    Drop(Index),
    Expel(Index),
    Rebalance,
    Produce {
        topic: Index,
        key: u8,
    },
    Poll(Index),
    GiveUp {
        member: Index,
        partly: bool,
    },
    Commit {
        member: Index,
        partition: Index,
        behind: u8,
    },
    CommitStale {
        member: Index,
        partition: Index,
    },
    Pause {
        member: Index,
        partition: Index,
    },
    Resume(Index),
    DeleteRecords {
        topic: Index,
        partition: u8,
        offset: u8,
    },
    DeleteTopic(Index),
    Clear,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<Index>;
    let step = prop_oneof![
        4 => any::<bool>().prop_map(|pattern| Step::Join { pattern }),
        1 => index().prop_map(Step::Close),
        1 => index().prop_map(Step::Drop),
        2 => index().prop_map(Step::Expel),
        1 => Just(Step::Rebalance),
        12 => (index(), 0..12_u8).prop_map(|(topic, key)| Step::Produce { topic, key }),
        24 => index().prop_map(Step::Poll),
        8 => (index(), any::<bool>()).prop_map(|(member, partly)| Step::GiveUp { member, partly }),
        8 => (index(), index(), 0..3_u8).prop_map(|(member, partition, behind)| {
            Step::Commit { member, partition, behind }
        }),
        3 => (index(), index())
            .prop_map(|(member, partition)| Step::CommitStale { member, partition }),
        2 => (index(), index()).prop_map(|(member, partition)| Step::Pause { member, partition }),
        1 => index().prop_map(Step::Resume),
        1 => (index(), 0..4_u8, 0..6_u8).prop_map(|(topic, partition, offset)| {
            Step::DeleteRecords { topic, partition, offset }
        }),
        1 => index().prop_map(Step::DeleteTopic),
        1 => Just(Step::Clear),
    ];
    prop::collection::vec(step, 1..150)
}
