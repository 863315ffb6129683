//! What the tests against a real broker share.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    missing_docs
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use prosody_core::log::{
    Assigned, Cluster, Delivery, Intake, Log, LogError, LogEvent, Membership, PartitionsAdded,
    Producer, Watermark,
};
use prosody_core::record::{Headers, OutgoingRecord, Record, TopicPartition};
use prosody_kafka::{KafkaCluster, KafkaOptions};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tokio::time::timeout;

/// Beyond this a test has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The broker's address; prints why a test is skipped if there is none.
pub fn broker() -> Option<String> {
    log();
    let broker = std::env::var("PROSODY_TEST_BROKER").ok();
    if broker.is_none() {
        println!("skipped: PROSODY_TEST_BROKER is not set (services/kafka.sh up DIR PORT)");
    }
    broker
}

/// Prints log lines if `PROSODY_TEST_LOG` is set.
pub fn log() {
    if std::env::var_os("PROSODY_TEST_LOG").is_some() {
        let level = tracing::Level::DEBUG;
        let _ = tracing_subscriber::fmt().with_max_level(level).try_init();
    }
}

/// A name that no other test uses.
pub fn unique(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!(
        "{prefix}-{}-{}-{count}",
        now.as_micros(),
        std::process::id()
    )
}

pub fn options(broker: &str) -> KafkaOptions {
    KafkaOptions::new(vec![broker.to_owned()])
}

/// A cluster with these librdkafka properties.
pub fn cluster(broker: &str, properties: &[(&str, &str)]) -> KafkaCluster {
    let mut options = options(broker);
    for (name, value) in properties {
        options
            .properties
            .insert((*name).to_owned(), (*value).to_owned());
    }
    options.send_timeout = Duration::from_secs(10);
    KafkaCluster::new(options).unwrap()
}

pub fn admin(broker: &str) -> AdminClient<DefaultClientContext> {
    ClientConfig::new()
        .set("bootstrap.servers", broker)
        .create()
        .unwrap()
}

pub async fn create_topic_with(broker: &str, name: &str, partitions: i32, config: &[(&str, &str)]) {
    let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
    for (name, value) in config {
        topic = topic.set(name, value);
    }
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let results = admin(broker)
        .create_topics(&[topic], &options)
        .await
        .unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// A new topic.
pub async fn topic(broker: &str, partitions: i32) -> Arc<str> {
    let name = unique("topic");
    create_topic_with(broker, &name, partitions, &[]).await;
    name.into()
}

pub async fn delete_topic(broker: &str, name: &str) {
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let results = admin(broker)
        .delete_topics(&[name], &options)
        .await
        .unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

/// Deletes a topic and creates it again. Returns when the former one's log is gone: the broker tells of
/// the new topic before, and acknowledges until then what it deletes with the old one.
pub async fn recreate_topic(broker: &str, name: &str, partitions: i32) {
    delete_topic(broker, name).await;
    create_topic_with(broker, name, partitions, &[]).await;
    for number in 0..partitions {
        while end_of(broker, &TopicPartition::new(name, number)).await > 0 {
            tokio::task::yield_now().await;
        }
    }
}

pub fn membership(group: &str, topics: &[&str]) -> Membership {
    Membership {
        group_id: group.into(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        poll_interval: Duration::from_millis(100),
    }
}

pub fn outgoing(topic: &Arc<str>, key: &str, payload: &str) -> OutgoingRecord {
    OutgoingRecord {
        topic: Arc::clone(topic),
        key: Some(Bytes::copy_from_slice(key.as_bytes())),
        payload: Some(Bytes::copy_from_slice(payload.as_bytes())),
        headers: Headers::default(),
    }
}

/// Sends payloads "0", "1", … in order to a topic.
pub async fn send_numbers(
    producer: &Arc<dyn Producer>,
    topic: &Arc<str>,
    numbers: std::ops::Range<u32>,
) -> Vec<Delivery> {
    let sends: Vec<_> = numbers
        .map(|number| producer.send(outgoing(topic, &number.to_string(), &number.to_string())))
        .collect();
    let results = futures::future::join_all(sends).await;
    results.into_iter().map(|result| result.unwrap()).collect()
}

/// A member under test, with what it was told so far.
pub struct Member {
    pub log: Arc<dyn Log>,
    pub assigned: HashMap<TopicPartition, Assigned>,
    pub records: Vec<Record>,
    pub revoked: Vec<TopicPartition>,
    pub lost: Vec<TopicPartition>,
    pub added: Vec<PartitionsAdded>,
    /// Whether revocations are answered at once.
    pub gives_up: bool,
    pub failed: Option<LogError>,
}

impl Member {
    pub fn join(cluster: &KafkaCluster, group: &str, topics: &[&str]) -> Self {
        Self {
            log: cluster.join(membership(group, topics)).unwrap(),
            assigned: HashMap::new(),
            records: Vec::new(),
            revoked: Vec::new(),
            lost: Vec::new(),
            added: Vec::new(),
            gives_up: false,
            failed: None,
        }
    }

    /// Takes one event.
    pub async fn step(&mut self) {
        match self.log.poll(Intake::Open).await {
            LogEvent::Records(records) => self.records.extend(records),
            LogEvent::Assigned(assigned) => {
                for one in assigned {
                    self.assigned.insert(one.topic_partition.clone(), one);
                }
            }
            LogEvent::Revoked(partitions) => {
                self.revoked.extend(partitions);
                if self.gives_up {
                    self.give_up();
                }
            }
            LogEvent::Lost(partitions) => {
                for partition in &partitions {
                    self.assigned.remove(partition);
                }
                self.lost.extend(partitions);
            }
            LogEvent::PartitionsAdded(added) => self.added.push(added),
            LogEvent::Failed(error) => self.failed = Some(error),
        }
    }

    /// Takes events until something holds.
    pub async fn until(&mut self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let wait = async {
            while !holds(self) {
                self.step().await;
            }
        };
        let held = timeout(PATIENCE, wait).await.is_ok();
        assert!(
            held,
            "waited in vain until {what}: {} records, {:?}, revoked {:?}, failed {:?}",
            self.records.len(),
            self.assigned.keys(),
            self.revoked,
            self.failed
        );
    }

    pub async fn until_assigned(&mut self, count: usize) {
        self.until("partitions are assigned", |member| {
            member.assigned.len() >= count
        })
        .await;
    }

    pub async fn until_records(&mut self, count: usize) {
        self.until("records have come", |member| member.records.len() >= count)
            .await;
    }

    /// Takes events for a while, which is how one sees that something does not come.
    pub async fn during(&mut self, time: Duration) {
        let _ = timeout(time, async {
            loop {
                self.step().await;
            }
        })
        .await;
    }

    pub fn payloads(&self) -> Vec<String> {
        let text = |record: &Record| {
            String::from_utf8_lossy(record.payload.as_deref().unwrap_or_default()).into_owned()
        };
        self.records.iter().map(text).collect()
    }

    pub fn watermark(&self, partition: &TopicPartition, offset: i64) -> Watermark {
        let assigned = &self.assigned[partition];
        Watermark {
            topic_partition: partition.clone(),
            generation: assigned.generation,
            topic_id: assigned.topic_id,
            offset,
        }
    }

    /// Commits a partition's offset as the consumer does: one that the group refuses because it is
    /// rebalancing is sent again.
    pub async fn commit(&mut self, partition: &TopicPartition, offset: i64) {
        let commit = async {
            while let Err(refused) = self
                .log
                .commit(vec![self.watermark(partition, offset)])
                .await
            {
                assert!(refused.to_string().contains("rebalance"), "{refused}");
                self.during(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, commit).await.unwrap();
    }

    /// Answers a revocation.
    pub fn give_up(&mut self) {
        let revoked = std::mem::take(&mut self.revoked);
        for partition in &revoked {
            self.assigned.remove(partition);
        }
        self.log.give_up(&revoked);
    }

    pub async fn close(&self) {
        self.log.close(PATIENCE).await;
    }
}

/// The numbers as texts, as [`send_numbers`] sends them.
pub fn texts(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| number.to_string()).collect()
}

/// The offset of the next record of a partition.
pub async fn end_of(broker: &str, partition: &TopicPartition) -> i64 {
    let broker = broker.to_owned();
    let partition = partition.clone();
    let look = move || {
        use rdkafka::consumer::{BaseConsumer, Consumer};
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", broker)
            .create()
            .unwrap();
        consumer
            .fetch_watermarks(&partition.topic, partition.partition, PATIENCE)
            .unwrap()
            .1
    };
    tokio::task::spawn_blocking(look).await.unwrap()
}
