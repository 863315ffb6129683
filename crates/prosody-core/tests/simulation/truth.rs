//! What is true, known beforehand or seen from outside, and what contradicts it.

mod commits;
mod end;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use prosody_core::attempt::Attempt;
use prosody_core::event::Event;
use prosody_core::in_process::MemberId;
use prosody_core::log::{Delivery, LogEvent};
use prosody_core::outcome::{FailureClass, Mode, Outcome};
use prosody_core::record::{Generation, TopicPartition};
use tokio::time::Instant;

use super::plan::{Act, Kind, Message, Plan, Script, TOPIC};
use super::store::Durable;

/// Partition and offset.
pub type Place = (i32, i64);

/// Partition and key.
type KeyName = (i32, String);

pub struct Truth {
    plan: Arc<Plan>,
    /// Set if ledgers outlive their owners.
    durable: Option<Arc<Durable>>,
    started: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    rng: Rng,
    /// Which message stands where.
    places: BTreeMap<Place, usize>,
    keys: BTreeMap<KeyName, KeyTruth>,
    /// Attempts begun, by message.
    attempts: Vec<usize>,
    /// Messages whose handler has come to an end that settles them.
    ended: Vec<bool>,
    running: Vec<Running>,
    members: BTreeMap<MemberId, MemberTruth>,
    /// By partition: below it everything was seen to be settled.
    verified: BTreeMap<i32, i64>,
    broker_away_until: Instant,
    violations: Vec<String>,
    trace: Vec<String>,
    overlaps_excused: u64,
    restarts: u64,
}

#[derive(Default)]
struct KeyTruth {
    handled_ids: HashSet<u32>,
    /// Offsets of the messages whose effect must be there in the end, in order.
    effects: Vec<i64>,
    /// What the published cell may hold.
    published: Vec<String>,
}

#[derive(Default)]
struct MemberTruth {
    generation: u64,
    /// Assignments up to this one were taken from it without asking.
    fenced: Option<u64>,
    owned: BTreeMap<TopicPartition, u64>,
    /// By partition, the last assignment that it gave back for a fresh one.
    restarted: BTreeMap<TopicPartition, u64>,
    has_left: bool,
    /// The last offset begun, by assignment and key.
    begun: BTreeMap<(u64, KeyName), i64>,
}

struct Running {
    number: usize,
    serial: u64,
    member: MemberId,
    generation: u64,
    key: Option<KeyName>,
    attempt: Arc<Attempt>,
}

/// An attempt as it begins.
pub struct Run {
    pub message: usize,
    pub serial: u64,
    pub place: Place,
    pub script: Script,
    truth: Arc<Truth>,
    key: Option<KeyName>,
    fenced: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        let mut inner = self.truth.lock();
        inner
            .running
            .retain(|running| running.serial != self.serial);
    }
}

pub fn place_of(attempt: &Attempt) -> Place {
    let Event::Message(message) = attempt.event();
    let record = &message.record;
    (record.topic_partition.partition, record.offset)
}

impl Truth {
    pub fn new(plan: Arc<Plan>, durable: Option<Arc<Durable>>) -> Self {
        let count = plan.messages.len();
        let now = Instant::now();
        let inner = Inner {
            rng: Rng::with_seed(plan.seed.wrapping_mul(31).wrapping_add(7)),
            places: BTreeMap::new(),
            keys: BTreeMap::new(),
            attempts: vec![0; count],
            ended: vec![false; count],
            running: Vec::new(),
            members: BTreeMap::new(),
            verified: BTreeMap::new(),
            broker_away_until: now,
            violations: Vec::new(),
            trace: Vec::new(),
            overlaps_excused: 0,
            restarts: 0,
        };
        Self {
            plan,
            durable,
            started: now,
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn note(&self, what: &str) {
        let at = self.started.elapsed().as_micros();
        self.lock().trace.push(format!("{at:>10} {what}"));
    }

    pub fn violation(&self, what: String) {
        self.note(&format!("VIOLATION {what}"));
        self.lock().violations.push(what);
    }

    pub fn is_violated(&self) -> bool {
        !self.lock().violations.is_empty()
    }

    pub fn take(&self) -> (Vec<String>, Vec<String>) {
        let mut inner = self.lock();
        let violations = std::mem::take(&mut inner.violations);
        (violations, std::mem::take(&mut inner.trace))
    }

    pub fn attempts(&self) -> (usize, u64) {
        let inner = self.lock();
        (inner.attempts.iter().sum(), inner.overlaps_excused)
    }

    pub fn restarted(&self) -> u64 {
        self.lock().restarts
    }

    /// A number below `limit`.
    pub fn chance(&self, limit: u64) -> u64 {
        self.lock().rng.u64(..limit)
    }

    pub fn broker_goes_away(&self, time: Duration) {
        self.lock().broker_away_until = Instant::now() + time;
    }

    pub fn is_broker_away(&self) -> bool {
        Instant::now() < self.lock().broker_away_until
    }

    /// How long a handler may run.
    pub fn timeout(&self) -> Duration {
        self.plan.settings.timeout
    }

    fn message(&self, number: usize) -> &Message {
        &self.plan.messages[number]
    }

    pub fn sent(&self, number: usize, delivery: Delivery) {
        let message = self.message(number);
        let (partition, offset) = (delivery.partition, delivery.offset);
        let mut inner = self.lock();
        inner.places.insert((partition, offset), number);
        if let Some(key) = &message.key {
            let truth = inner.keys.entry((partition, key.clone())).or_default();
            if message.has_effect(&mut truth.handled_ids) {
                truth.effects.push(offset);
            }
        }
    }

    pub fn heard(&self, member: MemberId, event: &LogEvent) {
        match event {
            LogEvent::Records(_) | LogEvent::PartitionsAdded(_) => {}
            LogEvent::Assigned(assigned) => {
                let mut inner = self.lock();
                let truth = inner.members.entry(member).or_default();
                for one in assigned {
                    truth.generation = truth.generation.max(one.generation.0);
                    let name = one.topic_partition.clone();
                    truth.owned.insert(name, one.generation.0);
                }
                let names: Vec<_> = assigned.iter().map(|one| &one.topic_partition).collect();
                drop(inner);
                self.note(&format!("{member:?} assigned {}", list(&names)));
            }
            LogEvent::Revoked(partitions) => {
                self.note(&format!("{member:?} revoked {}", list(partitions)));
            }
            LogEvent::Lost(partitions) => {
                let mut inner = self.lock();
                let truth = inner.members.entry(member).or_default();
                truth.owned.retain(|name, _| !partitions.contains(name));
                drop(inner);
                self.note(&format!("{member:?} lost {}", list(partitions)));
            }
            LogEvent::Failed(error) => self.violation(format!("{member:?} failed: {error}")),
        }
    }

    pub fn gave_up(&self, member: MemberId, partitions: &[TopicPartition]) {
        self.note(&format!("{member:?} gives up {}", list(partitions)));
        let mut inner = self.lock();
        let truth = inner.members.entry(member).or_default();
        truth.owned.retain(|name, _| !partitions.contains(name));
        let still = inner.running.iter().find(|running| {
            let (partition, _) = place_of(&running.attempt);
            let given_up = partitions.contains(&TopicPartition::new(TOPIC, partition));
            running.member == member && given_up && !running.attempt.is_over()
        });
        if let Some(still) = still {
            let message = still.number;
            drop(inner);
            self.violation(format!(
                "{member:?} gave up while it counts on message {message}"
            ));
        }
    }

    pub fn restarts(
        &self,
        member: MemberId,
        partition: &TopicPartition,
        generation: Generation,
        from: Option<i64>,
    ) {
        self.note(&format!("{member:?} restarts {partition} from {from:?}"));
        let mut inner = self.lock();
        inner.restarts += 1;
        let truth = inner.members.entry(member).or_default();
        truth.restarted.insert(partition.clone(), generation.0);
    }

    pub fn left(&self, member: MemberId) {
        self.note(&format!("{member:?} leaves"));
        let mut inner = self.lock();
        inner.members.entry(member).or_default().has_left = true;
    }

    /// From now on what this member does under its present assignments must not count.
    pub fn fence(&self, member: MemberId) {
        let mut inner = self.lock();
        let truth = inner.members.entry(member).or_default();
        truth.fenced = Some(truth.generation);
    }

    /// What the attempt will do when it begins.
    pub fn next_script(&self, attempt: &Attempt) -> Script {
        let inner = self.lock();
        let number = inner.places[&place_of(attempt)];
        self.message(number).script(inner.attempts[number])
    }

    /// A handler begins.
    pub fn begin(self: &Arc<Self>, member: MemberId, attempt: &Arc<Attempt>) -> Run {
        let place = place_of(attempt);
        let generation = attempt.event().generation();
        let mut inner = self.lock();
        let number = inner.places[&place];
        let message = self.message(number);
        let key = message.key.clone().map(|key| (place.0, key));
        let script = message.script(inner.attempts[number]);
        inner.attempts[number] += 1;
        let mut faults = inner.faults_of_begin(member, generation, key.as_ref(), place.1);
        if message.kind != Kind::Plain {
            faults.push(format!("a message of kind {:?} is handled", message.kind));
        }
        let of_member = |running: &&Running| running.member == member && !running.attempt.is_over();
        let concurrent = inner.running.iter().filter(of_member).count() + 1;
        if concurrent > self.plan.settings.max_concurrency {
            faults.push(format!("{concurrent} handlers run at a time"));
        }
        if let (Some(key), Some(_)) = (&key, &self.durable)
            && message.act() == Act::Succeed
            && !inner.keys[key].effects.contains(&place.1)
        {
            faults.push("a duplicate by id is handled".to_owned());
        }
        let serial = inner.rng.u64(..);
        inner.running.push(Running {
            number,
            serial,
            member,
            generation: generation.0,
            key: key.clone(),
            attempt: Arc::clone(attempt),
        });
        let fenced = inner.is_fenced(member, generation);
        drop(inner);
        self.note(&format!(
            "{member:?} begins message {number} at {place:?} key {key:?} attempt {}",
            attempt.number()
        ));
        for fault in faults {
            self.violation(format!("message {number} at {place:?}: {fault}"));
        }
        Run {
            message: number,
            serial,
            place,
            script,
            truth: Arc::clone(self),
            key,
            fenced,
        }
    }

    /// What the handler reads of its key's state as it begins.
    pub fn read(&self, run: &Run, applied: &str, published: Option<&str>) {
        let (Some(key), Some(_)) = (&run.key, &self.durable) else {
            return;
        };
        let inner = self.lock();
        let truth = &inner.keys[key];
        let before = truth.effects.iter().filter(|effect| **effect < run.place.1);
        let expected = join(before);
        let known = published.map_or(truth.published.is_empty(), |published| {
            truth.published.iter().any(|known| known == published)
        });
        // The first one may not have come through.
        let known = known || published.is_none() && !truth.published.contains(&String::new());
        drop(inner);
        if applied != expected {
            self.violation(format!(
                "message {} at {:?} sees effects [{applied}], expected [{expected}]",
                run.message, run.place
            ));
        }
        if !known && !run.fenced {
            self.violation(format!(
                "message {} at {:?} does not see what was published: {published:?}",
                run.message, run.place
            ));
        }
    }

    pub fn publishes(&self, run: &Run, value: &str) {
        let mut inner = self.lock();
        if let Some(truth) = run.key.as_ref().and_then(|key| inner.keys.get_mut(key)) {
            truth.published.push(value.to_owned());
        }
    }

    pub fn published(&self, run: &Run, value: &str) {
        let mut inner = self.lock();
        if let Some(truth) = run.key.as_ref().and_then(|key| inner.keys.get_mut(key)) {
            // The empty one says that there is no way back to none.
            truth.published = vec![value.to_owned(), String::new()];
        }
    }

    /// A handler ends, just before prosody hears of it.
    pub fn end(&self, run: Run, outcome: &Outcome) {
        let settles = match outcome {
            Outcome::Success => true,
            Outcome::Failed(failure) => {
                failure.class == FailureClass::Permanent
                    || self.plan.settings.mode == Mode::BestEffort
            }
            Outcome::Stopped | Outcome::Interrupted | Outcome::Exit => false,
        };
        self.note(&format!(
            "message {} ends: {}",
            run.message,
            match outcome {
                Outcome::Failed(failure) => failure.class.to_string(),
                other => format!("{other:?}"),
            }
        ));
        self.lock().ended[run.message] |= settles;
        drop(run);
    }
}

impl Inner {
    fn is_fenced(&self, member: MemberId, generation: Generation) -> bool {
        let truth = self.members.get(&member);
        truth.is_some_and(|truth| truth.is_fenced(generation))
    }

    fn faults_of_begin(
        &mut self,
        member: MemberId,
        generation: Generation,
        key: Option<&KeyName>,
        offset: i64,
    ) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(key) = key else {
            return faults;
        };
        let fenced = self.is_fenced(member, generation);
        for other in &self.running {
            if other.key.as_ref() != Some(key) {
                continue;
            }
            let excused = other.member != member
                && (fenced
                    || other.attempt.is_over()
                    || self.is_fenced(other.member, Generation(other.generation)));
            if excused {
                self.overlaps_excused += 1;
            } else {
                faults.push(format!(
                    "overlaps with message {} of {:?}",
                    other.number, other.member
                ));
            }
        }
        let truth = self.members.entry(member).or_default();
        let last = truth.begun.insert((generation.0, key.clone()), offset);
        if let Some(last) = last.filter(|last| *last > offset) {
            faults.push(format!("comes after offset {last} of its key"));
        }
        faults
    }
}

impl MemberTruth {
    fn has_restarted(&self, partition: &TopicPartition, generation: Generation) -> bool {
        let restarted = self.restarted.get(partition);
        restarted.is_some_and(|restarted| generation.0 <= *restarted)
    }

    fn is_fenced(&self, generation: Generation) -> bool {
        self.fenced.is_some_and(|fenced| generation.0 <= fenced)
    }
}

fn join<'a>(offsets: impl Iterator<Item = &'a i64>) -> String {
    let texts: Vec<_> = offsets.map(ToString::to_string).collect();
    texts.join(",")
}

fn list(partitions: &[impl ToString]) -> String {
    let names: Vec<_> = partitions.iter().map(ToString::to_string).collect();
    names.join(" ")
}
