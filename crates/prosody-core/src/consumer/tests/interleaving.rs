//! Any interleaving of messages, handlers' ends and rebalances, against a plain model.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::rig::*;
use crate::outcome::{FailureClass, Outcome};

const PARTITIONS: i32 = 2;
const KEYS: usize = 4;
const CONCURRENCY: usize = 3;
const UNCOMMITTED: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    /// 0 is no key.
    Send(usize),
    End(prop::sample::Index, End),
    Rebalance,
    Expel,
    Wait(u16),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Succeed,
    FailPermanent,
    FailTransient,
    Stopped,
}

fn step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        5 => Just(End::Succeed),
        1 => Just(End::FailPermanent),
        1 => Just(End::FailTransient),
        1 => Just(End::Stopped),
    ];
    prop_oneof![
        10 => (0..=KEYS).prop_map(Step::Send),
        10 => (any::<prop::sample::Index>(), end).prop_map(|(index, end)| Step::End(index, end)),
        1 => Just(Step::Rebalance),
        1 => Just(Step::Expel),
        1 => (0_u16..3_000).prop_map(Step::Wait),
    ]
}

/// What must hold, from outside.
#[derive(Default)]
struct Model {
    keys: BTreeMap<(i32, i64), usize>,
    /// Succeeded, or failed for good, under an assignment that was still there.
    done: BTreeSet<(i32, i64)>,
    seen: usize,
}

impl Model {
    fn check(&mut self, rig: &Rig) -> Result<(), TestCaseError> {
        let running = rig.puppet.running();
        let counted = running.iter().filter(|attempt| !attempt.is_over());
        prop_assert!(counted.count() <= CONCURRENCY);
        let mut keys = BTreeSet::new();
        for attempt in &running {
            let place = place(attempt);
            let key = self.keys[&place];
            prop_assert!(
                key == 0 || keys.insert((place.0, key)),
                "overlap at {:?}",
                place
            );
        }
        let started: Vec<_> = rig.puppet.started.lock()[self.seen..].to_vec();
        self.seen += started.len();
        for place in started {
            let key = self.keys[&place];
            let before = self.keys.range((place.0, 0)..place);
            let open = before
                .filter(|(_, other)| key != 0 && **other == key)
                .find(|(other, _)| !self.done.contains(other));
            prop_assert!(open.is_none(), "{:?} overtakes {:?}", place, open);
            let behind = self.keys.range((place.0, 0)..place);
            let open = behind.filter(|(other, _)| !self.done.contains(other));
            prop_assert!(
                open.count() < UNCOMMITTED,
                "{:?} is beyond the window",
                place
            );
        }
        for partition in 0..PARTITIONS {
            let committed = rig.committed(partition).unwrap_or(0);
            for offset in 0..committed {
                prop_assert!(
                    self.done.contains(&(partition, offset)),
                    "{} is not done",
                    offset
                );
            }
        }
        Ok(())
    }
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let mut settings = settings();
    settings.max_concurrency = CONCURRENCY;
    settings.max_uncommitted = UNCOMMITTED;
    let rig = Rig::start(PARTITIONS, settings);
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Send(key) => {
                let name = if key == 0 {
                    String::new()
                } else {
                    format!("key-{key}")
                };
                let delivery = rig.send(&name, "1");
                model
                    .keys
                    .insert((delivery.partition, delivery.offset), key);
            }
            Step::End(index, end) => {
                let running = rig.puppet.running();
                if running.is_empty() {
                    continue;
                }
                let attempt = index.get(&running);
                if !attempt.is_over() && matches!(end, End::Succeed | End::FailPermanent) {
                    model.done.insert(place(attempt));
                }
                let outcome = match end {
                    End::Succeed => Outcome::Success,
                    End::FailPermanent => failed(FailureClass::Permanent),
                    End::FailTransient => failed(FailureClass::Transient),
                    End::Stopped => Outcome::Stopped,
                };
                rig.puppet.end(attempt, outcome);
            }
            Step::Rebalance => rig.cluster.rebalance(GROUP),
            Step::Expel => rig.expel(),
            Step::Wait(time) => tokio::time::sleep(ms(time.into())).await,
        }
        model.check(&rig)?;
        // Every other step comes before the last one's consequences.
        if model.seen % 2 == 0 {
            rig.settle().await;
            model.check(&rig)?;
        }
    }
    // In the end everything is done.
    for _ in 0..model.keys.len() * 4 + 100 {
        rig.settle().await;
        model.check(&rig)?;
        if let Some(attempt) = rig.puppet.running().first() {
            if !attempt.is_over() {
                model.done.insert(place(attempt));
            }
            rig.puppet.end(attempt, Outcome::Success);
        }
    }
    tokio::time::sleep(ms(5_000)).await;
    for partition in 0..PARTITIONS {
        let sent = model.keys.range((partition, 0)..(partition + 1, 0)).count();
        let committed = rig.committed(partition).unwrap_or(0);
        prop_assert_eq!(committed, i64::try_from(sent).unwrap());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The committed offset never passes one that is not done; a key's handlers run one at a time
    /// and in order; no more events are open than allowed, overall and per partition; and all of
    /// them are done in the end.
    #[test]
    fn holds_under_any_interleaving(steps in prop::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(run(steps))?;
    }
}
