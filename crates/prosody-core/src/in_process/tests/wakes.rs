//! Random lives of a group whose members wait in tasks: whatever happens, whom it concerns is
//! woken.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use tokio::task::JoinHandle;

use crate::sync::Mutex;

use super::*;

const TOPIC: &str = "t";

#[derive(Clone, Copy, Debug)]
enum Step {
    Join,
    Leave { index: Index, close: bool },
    Expel(Index),
    Rebalance,
    Produce(u8),
    Pause(Index),
    Resume(Index),
    DeleteTopic,
    Clear,
    LetRun,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<Index>;
    let step = prop_oneof![
        4 => Just(Step::Join),
        2 => (index(), any::<bool>()).prop_map(|(index, close)| Step::Leave { index, close }),
        2 => index().prop_map(Step::Expel),
        1 => Just(Step::Rebalance),
        8 => any::<u8>().prop_map(Step::Produce),
        2 => index().prop_map(Step::Pause),
        2 => index().prop_map(Step::Resume),
        1 => Just(Step::DeleteTopic),
        1 => Just(Step::Clear),
        6 => Just(Step::LetRun),
    ];
    prop::collection::vec(step, 1..80)
}

/// The next offset of each partition that a member owns.
type Positions = Arc<Mutex<BTreeMap<i32, i64>>>;

struct Running {
    member: Arc<Member>,
    positions: Positions,
    task: JoinHandle<()>,
}

async fn consume(member: Arc<Member>, positions: Positions) {
    loop {
        match member.poll(Intake::Open).await {
            LogEvent::Assigned(assigned) => {
                let numbers = assigned.iter().map(|one| one.topic_partition.partition);
                positions.lock().extend(numbers.map(|number| (number, 0)));
            }
            LogEvent::Records(records) => {
                let next = |record: &Record| (record.topic_partition.partition, record.offset + 1);
                positions.lock().extend(records.iter().map(next));
            }
            LogEvent::Revoked(partitions) => {
                forget(&positions, &partitions);
                tokio::task::yield_now().await;
                member.give_up(&partitions);
            }
            LogEvent::Lost(partitions) => forget(&positions, &partitions),
            LogEvent::PartitionsAdded(_) => {}
            LogEvent::Failed(_) => break,
        }
    }
}

fn forget(positions: &Positions, partitions: &[TopicPartition]) {
    let mut positions = positions.lock();
    for partition in partitions {
        positions.remove(&partition.partition);
    }
}

async fn let_run() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

fn all_partitions() -> Vec<TopicPartition> {
    let numbers = 0..PARTITIONS;
    numbers
        .map(|number| TopicPartition::new(TOPIC, number))
        .collect()
}

async fn take(step: Step, cluster: &InProcessCluster, running: &mut Vec<Running>) {
    let choose = |index: Index| (!running.is_empty()).then(|| index.index(running.len()));
    match step {
        Step::Join if running.len() < 5 => {
            let member = join(cluster, "g", &["^t"]);
            let positions = Positions::default();
            let task = tokio::spawn(consume(Arc::clone(&member), Arc::clone(&positions)));
            running.push(Running {
                member,
                positions,
                task,
            });
        }
        Step::Leave { index, close } => {
            if let Some(index) = choose(index) {
                let Running { member, task, .. } = running.remove(index);
                if close {
                    member.close(LIMIT).await;
                    task.await.unwrap();
                } else {
                    drop(member);
                    task.abort();
                }
            }
        }
        Step::Expel(index) => {
            if let Some(index) = choose(index) {
                cluster.expel(running[index].member.id());
            }
        }
        Step::Pause(index) => {
            if let Some(index) = choose(index) {
                running[index].member.pause(&all_partitions());
            }
        }
        Step::Resume(index) => {
            if let Some(index) = choose(index) {
                running[index].member.resume(&all_partitions());
            }
        }
        Step::Produce(key) => drop(send(cluster, TOPIC, &key.to_string(), "1")),
        Step::Rebalance => cluster.rebalance("g"),
        Step::DeleteTopic => drop(cluster.delete_topic(TOPIC)),
        Step::Clear => cluster.clear(),
        Step::LetRun => let_run().await,
        Step::Join => {}
    }
}

async fn live(steps: Vec<Step>) {
    let cluster = cluster();
    let mut running = Vec::new();
    for step in steps {
        take(step, &cluster, &mut running).await;
    }
    let_run().await;
    for one in &running {
        one.member.resume(&all_partitions());
    }
    let_run().await;
    if running.is_empty() {
        return;
    }
    let mut read = BTreeMap::new();
    for one in &running {
        for (number, next) in one.positions.lock().iter() {
            assert_eq!(read.insert(*number, *next), None, "two owners");
        }
    }
    let mut ends = BTreeMap::new();
    let names = [TOPIC.to_owned()];
    let known = cluster.records(TOPIC);
    if known.is_empty() && read.is_empty() {
        return;
    }
    let described = cluster.describe(&names, LIMIT).await.unwrap();
    ends.extend((0..described[0].partitions).map(|number| (number, 0)));
    ends.extend(
        known
            .iter()
            .map(|r| (r.topic_partition.partition, r.offset + 1)),
    );
    assert_eq!(read, ends);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whom_it_concerns_is_woken(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(live(steps));
    }
}

/// Answers each record of one topic with one in another.
fn answer(cluster: &InProcessCluster, from: &str, to: &str, rounds: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let member = join(cluster, from, &[from]);
    let playing = async {
        let mut heard = 0;
        while heard < rounds {
            if let LogEvent::Records(records) = member.poll(Intake::Open).await {
                heard += records.len();
                for _ in records {
                    send(cluster, to, "k", "1");
                }
            }
        }
    };
    let limit = Duration::from_secs(60);
    let played = runtime.block_on(async { tokio::time::timeout(limit, playing).await });
    assert!(played.is_ok(), "a wake was missed");
}

#[test]
fn no_wake_is_missed_between_threads() {
    const ROUNDS: usize = 20_000;
    let cluster = cluster();
    std::thread::scope(|scope| {
        scope.spawn(|| answer(&cluster, "ping", "pong", ROUNDS));
        scope.spawn(|| answer(&cluster, "pong", "ping", ROUNDS - 1));
        send(&cluster, "ping", "k", "1");
    });
}
