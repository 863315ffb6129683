//! Runs a plan: sends its messages, and has things happen to the members.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fastrand::Rng;
use prosody_core::backoff::Randomness;
use prosody_core::clock::Clock;
use prosody_core::consumer::{Consumer, ConsumerHandle, ConsumerParts};
use prosody_core::in_process::{InProcessCluster, MemberId};
use prosody_core::log::{Cluster, LogError, Membership};
use prosody_core::record::TopicPartition;
use prosody_core::store::hostile::HostileStore;
use prosody_core::store::{MemoryStore, Store};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::handler::{Scripted, applied, scratch};
use super::log::WatchedLog;
use super::plan::{Durability, GROUP, Plan, TOPIC};
use super::store::{Durable, DurableClient};
use super::truth::Truth;

/// How long everything may take once nothing happens to members any more.
const PATIENCE: Duration = Duration::from_secs(900);

#[derive(Debug)]
pub struct Report {
    pub violations: Vec<String>,
    pub trace: Vec<String>,
    pub counts: Counts,
}

#[derive(Debug, Default)]
pub struct Counts {
    messages: usize,
    attempts: usize,
    members: u64,
    expelled: u64,
    crashed: u64,
    went_back: u64,
    claims_ended: u64,
    restarts: u64,
    overlaps_excused: u64,
    store_calls: u64,
    store_failures: u64,
    seconds: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.messages += other.messages;
        self.attempts += other.attempts;
        self.members += other.members;
        self.expelled += other.expelled;
        self.crashed += other.crashed;
        self.went_back += other.went_back;
        self.claims_ended += other.claims_ended;
        self.restarts += other.restarts;
        self.overlaps_excused += other.overlaps_excused;
        self.store_calls += other.store_calls;
        self.store_failures += other.store_failures;
        self.seconds += other.seconds;
    }
}

struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now_ms(&self) -> i64 {
        let since = i64::try_from(self.0.elapsed().as_millis()).unwrap();
        1_700_000_000_000 + since
    }
}

/// A process: a consumer and its handlers.
struct Process {
    member: MemberId,
    handle: ConsumerHandle,
    consumer: JoinHandle<Result<(), LogError>>,
    handler: Arc<Scripted>,
    store: Arc<HostileStore>,
}

struct World {
    plan: Arc<Plan>,
    cluster: InProcessCluster,
    truth: Arc<Truth>,
    durable: Arc<Durable>,
    processes: Vec<Process>,
    rng: Rng,
    counts: Counts,
    started: Instant,
}

pub fn run(plan: Plan) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut world = World::new(Arc::new(plan));
        world.live().await;
        let (violations, trace) = world.truth.take();
        Report {
            violations,
            trace,
            counts: world.counts,
        }
    })
}

impl World {
    fn new(plan: Arc<Plan>) -> Self {
        let started = Instant::now();
        let clock = VirtualClock(started);
        let cluster = InProcessCluster::new(plan.partitions, Arc::new(move || clock.now_ms()));
        let durable = Arc::new(Durable::default());
        let shared = plan.durability == Durability::Shared;
        let truth = Truth::new(Arc::clone(&plan), shared.then(|| Arc::clone(&durable)));
        Self {
            rng: Rng::with_seed(plan.seed ^ 0x5eed),
            cluster,
            truth: Arc::new(truth),
            durable,
            processes: Vec::new(),
            counts: Counts::default(),
            started,
            plan,
        }
    }

    async fn live(&mut self) {
        self.join();
        let sending = tokio::spawn(send_all(
            Arc::clone(&self.plan),
            self.cluster.clone(),
            Arc::clone(&self.truth),
        ));
        for _ in 0..self.plan.steps {
            let time = self.rng.u64(1..=800);
            sleep(Duration::from_millis(time)).await;
            self.bury().await;
            self.step().await;
        }
        sending.await.unwrap();
        self.come_to_an_end().await;
        while let Some(process) = self.processes.pop() {
            self.shut_down(process).await;
        }
        self.check_the_end();
        self.counts.messages = self.plan.messages.len();
        (self.counts.attempts, self.counts.overlaps_excused) = self.truth.attempts();
        self.counts.restarts = self.truth.restarted();
        self.counts.seconds = self.started.elapsed().as_secs();
    }

    fn join(&mut self) {
        let membership = Membership {
            group_id: GROUP.into(),
            topics: vec![TOPIC.to_owned()],
            poll_interval: Duration::from_millis(100),
        };
        let member = self.cluster.join_member(&membership).unwrap();
        let id = member.id();
        self.truth.note(&format!("{id:?} joins"));
        let store: Arc<dyn Store> = match self.plan.durability {
            Durability::Shared => Arc::new(DurableClient {
                durable: Arc::clone(&self.durable),
                cluster: self.cluster.clone(),
                member: id,
            }),
            Durability::PerMember => Arc::new(MemoryStore::new()),
        };
        let randomness = Randomness::from_seed(self.rng.u64(..));
        let store = Arc::new(HostileStore::new(store, randomness));
        let handler = Arc::new(Scripted::new(id, Arc::clone(&self.truth)));
        let parts = ConsumerParts {
            log: Arc::new(WatchedLog {
                member,
                truth: Arc::clone(&self.truth),
                committing: AtomicBool::new(false),
            }),
            store: Arc::clone(&store) as Arc<dyn Store>,
            handler: Arc::clone(&handler) as _,
            clock: Arc::new(VirtualClock(self.started)),
            randomness: Randomness::from_seed(self.rng.u64(..)),
        };
        let (consumer, handle) = Consumer::new(parts, self.plan.settings.clone());
        self.processes.push(Process {
            member: id,
            handle,
            consumer: tokio::spawn(consumer.run()),
            handler,
            store,
        });
        self.counts.members += 1;
    }

    /// Something happens.
    async fn step(&mut self) {
        let index = self.rng.usize(..self.processes.len());
        let choice = self.rng.u8(..if self.plan.rough { 11 } else { 5 });
        match choice {
            0 | 1 if self.processes.len() < self.plan.members_max => self.join(),
            2 => {
                let process = self.processes.remove(index);
                if self.processes.is_empty() {
                    self.join();
                }
                self.shut_down(process).await;
            }
            3 => {
                self.truth.note("rebalance");
                self.cluster.rebalance(GROUP);
            }
            5 | 6 => {
                let member = self.processes[index].member;
                self.truth.note(&format!("{member:?} is expelled"));
                self.truth.fence(member);
                self.cluster.expel(member);
                self.counts.expelled += 1;
            }
            7 => {
                let process = self.processes.remove(index);
                self.truth.note(&format!("{:?} crashes", process.member));
                self.counts.crashed += 1;
                self.remove(process).await;
                if self.processes.is_empty() {
                    self.join();
                }
            }
            8 => {
                let time = self.rng.u64(1..=3_000);
                self.truth.note("the broker does not take commits");
                self.truth.broker_goes_away(Duration::from_millis(time));
            }
            9 => {
                let partition = self.any_partition();
                let offset = self.rng.i64(0..=20);
                self.truth
                    .note(&format!("{partition} goes back to {offset}"));
                self.cluster.rewind(&partition, offset);
                self.counts.went_back += 1;
            }
            10 if self.plan.durability == Durability::Shared => {
                let partition = self.any_partition();
                self.truth.note(&format!("the claim of {partition} ends"));
                self.durable.end_claim(&partition);
                self.counts.claims_ended += 1;
            }
            _ => {}
        }
    }

    fn any_partition(&mut self) -> TopicPartition {
        TopicPartition::new(TOPIC, self.rng.i32(0..self.plan.partitions))
    }

    async fn shut_down(&mut self, mut process: Process) {
        let limit = Duration::from_millis(self.rng.u64(10..=2_000));
        self.truth
            .note(&format!("{:?} is shut down", process.member));
        let before = Instant::now();
        process.handle.shutdown(limit);
        let result = (&mut process.consumer).await;
        if !matches!(result, Ok(Ok(()))) {
            self.truth.violation(format!("shutdown: {result:?}"));
        }
        let took = before.elapsed();
        if took > limit + Duration::from_secs(1) {
            let violation = format!("shutdown took {took:?}, limit {limit:?}");
            self.truth.violation(violation);
        }
        self.remove(process).await;
    }

    /// A process is gone, with all that runs in it.
    async fn remove(&mut self, process: Process) {
        self.truth.fence(process.member);
        process.handler.kill();
        process.consumer.abort();
        // Until the group hears of it, it has the partitions.
        if !process.consumer.is_finished() {
            let _ = process.consumer.await;
        }
        let (calls, failures) = process.store.counts();
        self.counts.store_calls += calls;
        self.counts.store_failures += failures;
    }

    /// Replaces processes whose handlers asked them to exit.
    async fn bury(&mut self) {
        while let Some(index) = self
            .processes
            .iter()
            .position(|process| process.consumer.is_finished())
        {
            let mut process = self.processes.remove(index);
            let result = (&mut process.consumer).await;
            if !matches!(result, Ok(Ok(()))) {
                self.truth.violation(format!("ended: {result:?}"));
            }
            self.remove(process).await;
        }
        if self.processes.is_empty() {
            self.join();
        }
    }

    async fn come_to_an_end(&mut self) {
        let until = Instant::now() + PATIENCE;
        loop {
            self.bury().await;
            let ends = self.truth.ends();
            let mut open = ends.iter().filter(|(topic_partition, end)| {
                let committed = self.cluster.committed(GROUP, topic_partition);
                committed.unwrap_or(0) != **end
            });
            let Some((topic_partition, end)) = open.next() else {
                return;
            };
            if self.truth.is_violated() {
                return;
            }
            if Instant::now() >= until {
                let committed = self.cluster.committed(GROUP, topic_partition);
                self.truth.violation(format!(
                    "{topic_partition} has come to {committed:?} of {end} only"
                ));
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn check_the_end(&self) {
        if self.truth.is_violated() {
            return;
        }
        let unhandled = self.truth.unhandled();
        if !unhandled.is_empty() {
            let violation = format!("messages were never handled: {unhandled:?}");
            self.truth.violation(violation);
        }
        if self.plan.durability == Durability::PerMember {
            return;
        }
        for (topic_partition, key, effects, last) in self.truth.final_keys() {
            let rows = self.durable.peek(&topic_partition, &key);
            let text = rows.get(&applied()).map(|row| row.content.slice(1..));
            let text = String::from_utf8(text.unwrap_or_default().to_vec()).unwrap();
            if text != effects || rows.contains_key(&scratch()) {
                self.truth.violation(format!(
                    "{topic_partition} {key}: effects [{text}], expected [{effects}]"
                ));
            }
            let position = self.durable.position(&topic_partition, &key);
            if position != last {
                self.truth.violation(format!(
                    "{topic_partition} {key}: position {position:?}, expected {last:?}"
                ));
            }
        }
    }
}

async fn send_all(plan: Arc<Plan>, cluster: InProcessCluster, truth: Arc<Truth>) {
    let producer = cluster.producer().unwrap();
    for message in &plan.messages {
        if !message.wait_before.is_zero() {
            sleep(message.wait_before).await;
        }
        let delivery = producer.send(message.record()).await.unwrap();
        truth.sent(message.number, delivery);
    }
}
