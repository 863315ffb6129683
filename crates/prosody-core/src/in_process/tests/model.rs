//! Random lives of a group against a simple model.

mod steps;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;

use self::steps::{Step, steps};
use super::*;
use crate::log::LogError;
use crate::record::{Generation, TopicId};

const TOPICS: [&str; 2] = ["a", "b"];

/// A partition as the model has it.
#[derive(Default)]
struct Expected {
    payloads: Vec<String>,
    first: i64,
}

#[derive(Clone, Copy)]
struct Held {
    generation: Generation,
    topic_id: TopicId,
    /// The offset that is to come next.
    next: i64,
}

/// A member and what it believes.
struct Peer {
    member: Arc<Member>,
    holds: BTreeMap<TopicPartition, Held>,
    generation: Generation,
    revoked: Vec<TopicPartition>,
    /// Lost, whether it has heard of it or not: it owns nothing of these.
    to_lose: BTreeSet<TopicPartition>,
    paused: BTreeSet<TopicPartition>,
    stale: Vec<Watermark>,
}

struct Model {
    cluster: InProcessCluster,
    peers: Vec<Peer>,
    owners: BTreeMap<TopicPartition, super::super::MemberId>,
    committed: BTreeMap<TopicPartition, i64>,
    log: BTreeMap<TopicPartition, Expected>,
    produced: u32,
    /// All members have the same topics, so that balance is exact.
    uniform: bool,
}

impl Model {
    fn new(uniform: bool) -> Self {
        Self {
            cluster: cluster(),
            peers: Vec::new(),
            owners: BTreeMap::new(),
            committed: BTreeMap::new(),
            log: BTreeMap::new(),
            produced: 0,
            uniform,
        }
    }

    fn take(&mut self, step: Step) {
        let peers = self.peers.len();
        let choose = |index: Index| (peers > 0).then(|| index.index(peers));
        match step {
            Step::Join { pattern } if peers < 6 => self.join(pattern),
            Step::Join { .. } => {}
            Step::Rebalance => self.cluster.rebalance("g"),
            Step::Produce { topic, key } => self.produce(TOPICS[topic.index(2)], key),
            Step::DeleteRecords {
                topic,
                partition,
                offset,
            } => {
                self.delete_records(TOPICS[topic.index(2)], partition, offset);
            }
            Step::DeleteTopic(topic) => self.delete_topic(TOPICS[topic.index(2)]),
            Step::Clear => {
                self.cluster.clear();
                for topic in TOPICS {
                    self.forget_topic(topic);
                }
            }
            Step::Close(index)
            | Step::Drop(index)
            | Step::Expel(index)
            | Step::Poll(index)
            | Step::Resume(index)
            | Step::GiveUp { member: index, .. }
            | Step::Commit { member: index, .. }
            | Step::CommitStale { member: index, .. }
            | Step::Pause { member: index, .. } => {
                if let Some(peer) = choose(index) {
                    self.take_with(step, peer);
                }
            }
        }
        self.check_offsets();
    }

    fn take_with(&mut self, step: Step, peer: usize) {
        match step {
            Step::Close(_) => {
                let peer = self.remove(peer);
                peer.member.close(LIMIT).now_or_never().unwrap();
                assert!(matches!(
                    poll(&peer.member),
                    Some(LogEvent::Failed(LogError::Ended))
                ));
                for (partition, held) in &peer.holds {
                    let late = Held::watermark(held, partition, held.next);
                    assert_eq!(commit(&peer.member, vec![late]), Err(LogError::Ended));
                }
            }
            Step::Drop(_) => drop(self.remove(peer)),
            Step::Expel(_) => self.expel(peer),
            Step::Poll(_) => drop(self.poll(peer)),
            Step::GiveUp { partly, .. } => self.give_up(peer, partly),
            Step::Commit {
                partition, behind, ..
            } => self.commit(peer, partition, behind),
            Step::CommitStale { partition, .. } => {
                let peer = &self.peers[peer];
                if !peer.stale.is_empty() {
                    let stale = partition.get(&peer.stale).clone();
                    assert_eq!(commit(&peer.member, vec![stale]), Err(LogError::Ended));
                }
            }
            Step::Pause { partition, .. } => {
                let peer = &mut self.peers[peer];
                let held: Vec<_> = peer.holds.keys().cloned().collect();
                if !held.is_empty() {
                    let partition = partition.get(&held);
                    peer.member.pause(std::slice::from_ref(partition));
                    peer.paused.insert(partition.clone());
                }
            }
            Step::Resume(_) => self.resume(peer),
            _ => unreachable!(),
        }
    }

    fn join(&mut self, pattern: bool) {
        let topics: &[&str] = match (self.uniform, pattern) {
            (_, true) => &["^[ab]$"],
            (true, false) => &TOPICS,
            (false, false) => &TOPICS[..1],
        };
        let member = join(&self.cluster, "g", topics);
        let created = if pattern { &[] } else { topics };
        for topic in created {
            self.expect_topic(topic);
        }
        self.peers.push(Peer {
            member,
            holds: BTreeMap::new(),
            generation: Generation(0),
            revoked: Vec::new(),
            to_lose: BTreeSet::new(),
            paused: BTreeSet::new(),
            stale: Vec::new(),
        });
    }

    fn expect_topic(&mut self, topic: &str) {
        for number in 0..PARTITIONS {
            self.log
                .entry(TopicPartition::new(topic, number))
                .or_default();
        }
    }

    fn remove(&mut self, peer: usize) -> Peer {
        let peer = self.peers.remove(peer);
        self.owners.retain(|_, owner| *owner != peer.member.id());
        peer
    }

    fn expel(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        self.cluster.expel(peer.member.id());
        peer.to_lose.extend(peer.holds.keys().cloned());
        self.owners.retain(|_, owner| *owner != peer.member.id());
    }

    fn produce(&mut self, topic: &str, key: u8) {
        let key = if key == 0 {
            String::new()
        } else {
            key.to_string()
        };
        let payload = self.produced.to_string();
        self.produced += 1;
        let delivery = send(&self.cluster, topic, &key, &payload);
        self.expect_topic(topic);
        let expected = self
            .log
            .get_mut(&TopicPartition::new(topic, delivery.partition));
        let expected = expected.unwrap();
        assert_eq!(delivery.offset, expected.end());
        expected.payloads.push(payload);
    }

    fn delete_records(&mut self, topic: &str, partition: u8, offset: u8) {
        let (partition, offset) = (i32::from(partition), i64::from(offset));
        self.cluster.delete_records_before(topic, partition, offset);
        if let Some(expected) = self.log.get_mut(&TopicPartition::new(topic, partition)) {
            expected.first = expected.first.max(offset.min(expected.end()));
        }
    }

    fn delete_topic(&mut self, topic: &str) {
        self.cluster.delete_topic(topic);
        self.forget_topic(topic);
    }

    fn forget_topic(&mut self, topic: &str) {
        self.log.retain(|partition, _| &*partition.topic != topic);
        self.committed
            .retain(|partition, _| &*partition.topic != topic);
        self.owners
            .retain(|partition, _| &*partition.topic != topic);
        for peer in &mut self.peers {
            let held = peer.holds.keys();
            let of_topic = held.filter(|partition| &*partition.topic == topic);
            peer.to_lose.extend(of_topic.cloned());
        }
    }

    /// Polls once; says whether there was something.
    fn poll(&mut self, peer: usize) -> bool {
        let Some(event) = poll(&self.peers[peer].member) else {
            assert!(
                self.peers[peer].to_lose.is_empty(),
                "a loss is told at once"
            );
            return false;
        };
        match event {
            LogEvent::Records(records) => self.read(peer, &records),
            LogEvent::Assigned(assigned) => self.assign(peer, assigned),
            LogEvent::Revoked(partitions) => {
                let peer = &mut self.peers[peer];
                assert!(peer.revoked.is_empty(), "one revocation at a time");
                for partition in &partitions {
                    assert!(peer.holds.contains_key(partition));
                    assert!(!peer.to_lose.contains(partition));
                }
                assert!(!partitions.is_empty());
                peer.revoked = partitions;
            }
            LogEvent::Lost(partitions) => {
                let peer = &mut self.peers[peer];
                let lost: BTreeSet<_> = partitions.iter().cloned().collect();
                assert_eq!(lost.len(), partitions.len());
                assert_eq!(lost, std::mem::take(&mut peer.to_lose));
                for partition in &partitions {
                    peer.let_go(partition);
                }
            }
            LogEvent::PartitionsAdded(added) => panic!("{added:?}"),
            LogEvent::Failed(error) => panic!("{error}"),
        }
        true
    }

    fn assign(&mut self, peer: usize, assigned: Vec<Assigned>) {
        let peer = &mut self.peers[peer];
        assert!(!assigned.is_empty());
        assert!(
            peer.to_lose.is_empty(),
            "a loss comes before what follows it"
        );
        let generation = assigned[0].generation;
        assert!(generation > peer.generation, "generations grow");
        peer.generation = generation;
        for one in assigned {
            let partition = one.topic_partition;
            assert_eq!(one.generation, generation);
            assert_eq!(one.partition_count, PARTITIONS);
            let before = self.owners.insert(partition.clone(), peer.member.id());
            assert_eq!(before, None, "{partition} has two owners");
            assert!(self.log.contains_key(&partition));
            let held = Held {
                generation,
                topic_id: one.topic_id,
                next: self.committed.get(&partition).copied().unwrap_or(0),
            };
            assert!(peer.holds.insert(partition, held).is_none());
        }
    }

    fn read(&mut self, peer: usize, records: &[Record]) {
        let peer = &mut self.peers[peer];
        assert!(peer.to_lose.is_empty());
        assert!(!records.is_empty() && records.len() <= 512);
        for record in records {
            let partition = &record.topic_partition;
            assert_eq!(self.owners.get(partition), Some(&peer.member.id()));
            assert!(!peer.revoked.contains(partition));
            assert!(!peer.paused.contains(partition));
            let expected = &self.log[partition];
            let held = peer.holds.get_mut(partition).unwrap();
            let next = held.next.max(expected.first);
            assert_eq!(record.generation, held.generation);
            assert_eq!(record.offset, next, "no gap in {partition}");
            let payload = &expected.payloads[usize::try_from(next).unwrap()];
            assert_eq!(record.payload.as_deref(), Some(payload.as_bytes()));
            held.next = next + 1;
        }
    }

    fn give_up(&mut self, peer: usize, partly: bool) {
        let peer = &mut self.peers[peer];
        let kept = if partly { peer.revoked.len() / 2 } else { 0 };
        let given: Vec<_> = peer.revoked.drain(kept..).collect();
        peer.member.give_up(&given);
        for partition in &given {
            if !peer.to_lose.contains(partition) {
                self.owners.remove(partition);
                peer.let_go(partition);
            }
        }
    }

    fn commit(&mut self, peer: usize, partition: Index, behind: u8) {
        let peer = &self.peers[peer];
        let held: Vec<_> = peer.holds.iter().collect();
        if held.is_empty() {
            return;
        }
        let (partition, held) = *partition.get(&held);
        let offset = (held.next - i64::from(behind)).max(0);
        let result = commit(&peer.member, vec![held.watermark(partition, offset)]);
        if self.owners.get(partition) == Some(&peer.member.id()) {
            assert_eq!(result, Ok(()));
            self.committed.insert(partition.clone(), offset);
        } else {
            assert_eq!(result, Err(LogError::Ended));
        }
    }

    fn resume(&mut self, peer: usize) {
        let peer = &mut self.peers[peer];
        let paused: Vec<_> = std::mem::take(&mut peer.paused).into_iter().collect();
        peer.member.resume(&paused);
    }

    /// Only commits move the group's offsets.
    fn check_offsets(&self) {
        for topic in TOPICS {
            for number in 0..PARTITIONS {
                let partition = TopicPartition::new(topic, number);
                let committed = self.cluster.committed("g", &partition);
                assert_eq!(committed.as_ref(), self.committed.get(&partition));
                if let Some(owner) = self.owners.get(&partition) {
                    assert_eq!(self.cluster.owner("g", &partition), Some(*owner));
                }
            }
        }
    }

    /// Everybody reads on and answers until there is nothing more to hear. An expelled member that
    /// had nothing to lose joins again without a word, hence two rounds of silence.
    fn quiesce(&mut self) {
        let mut silent_rounds = 0;
        for _ in 0..200 {
            silent_rounds += 1;
            for peer in 0..self.peers.len() {
                self.resume(peer);
                while self.poll(peer) {
                    silent_rounds = 0;
                }
                if !self.peers[peer].revoked.is_empty() {
                    silent_rounds = 0;
                    self.give_up(peer, false);
                }
            }
            if silent_rounds == 2 {
                return;
            }
        }
        panic!("the group never comes to rest");
    }

    fn check_rest(&self) {
        if self.peers.is_empty() {
            assert!(self.owners.is_empty());
            return;
        }
        let unowned = |partition: &&TopicPartition| !self.owners.contains_key(*partition);
        let unowned: Vec<_> = self.log.keys().filter(unowned).collect();
        if self.uniform {
            assert!(unowned.is_empty(), "without owner: {unowned:?}");
            let loads = self.peers.iter().map(|peer| peer.holds.len());
            let (least, most) = (loads.clone().min().unwrap(), loads.max().unwrap());
            assert!(most - least <= 1, "{least} and {most}");
        } else {
            assert!(unowned.iter().all(|partition| &*partition.topic == "b"));
        }
        for peer in &self.peers {
            for (partition, held) in &peer.holds {
                let expected = &self.log[partition];
                assert_eq!(held.next.max(expected.first), expected.end(), "{partition}");
            }
        }
    }

    /// Whoever reads for the first time finds everything that is there.
    fn check_log(&self) {
        let auditor = join(&self.cluster, "auditors", &["^"]);
        let mut found = BTreeMap::<TopicPartition, Vec<String>>::new();
        while let Some(event) = poll(&auditor) {
            if let LogEvent::Records(records) = event {
                for record in &records {
                    let payload = payloads(std::slice::from_ref(record));
                    let partition = record.topic_partition.clone();
                    found.entry(partition).or_default().extend(payload);
                }
            }
        }
        for (partition, expected) in &self.log {
            let first = usize::try_from(expected.first).unwrap();
            let found = found.remove(partition).unwrap_or_default();
            assert_eq!(found, expected.payloads[first..]);
        }
        assert!(found.is_empty());
    }
}

impl Expected {
    fn end(&self) -> i64 {
        i64::try_from(self.payloads.len()).unwrap()
    }
}

impl Held {
    fn watermark(&self, partition: &TopicPartition, offset: i64) -> Watermark {
        Watermark {
            topic_partition: partition.clone(),
            generation: self.generation,
            topic_id: self.topic_id,
            offset,
        }
    }
}

impl Peer {
    fn let_go(&mut self, partition: &TopicPartition) {
        let held = self.holds.remove(partition).unwrap();
        self.stale.push(held.watermark(partition, held.next));
        self.revoked.retain(|revoked| revoked != partition);
        self.paused.remove(partition);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_group_keeps_its_promises(uniform: bool, steps in steps()) {
        let mut model = Model::new(uniform);
        for step in steps {
            model.take(step);
        }
        model.quiesce();
        model.check_rest();
        for key in 1..40 {
            model.produce(TOPICS[0], key);
            model.produce(TOPICS[1], key);
        }
        model.quiesce();
        model.check_rest();
        model.check_log();
    }
}
