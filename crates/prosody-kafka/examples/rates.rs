//! Measures this crate against bare rdkafka, on one broker, in one run.
//!
//! `PROSODY_TEST_BROKER=127.0.0.1:19092 cargo run --release -p prosody-kafka --example rates`

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use prosody_core::log::{Cluster, Intake, Log, LogEvent, Membership, Producer};
use prosody_core::record::{Headers, OutgoingRecord, TopicPartition};
use prosody_kafka::{KafkaCluster, KafkaOptions};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};

const MESSAGES: usize = 1_000_000;
const MESSAGE_BYTES: usize = 100;
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() {
    let Ok(broker) = std::env::var("PROSODY_TEST_BROKER") else {
        println!("PROSODY_TEST_BROKER is not set");
        return;
    };
    let name = format!("rates-{}", std::process::id());
    create(&broker, &name).await;
    let topic: Arc<str> = name.as_str().into();
    let cluster = KafkaCluster::new(KafkaOptions {
        send_timeout: Duration::from_secs(60),
        ..KafkaOptions::new(vec![broker.clone()])
    })
    .unwrap();
    let producer = cluster.producer().unwrap();
    produce(&producer, &topic).await;
    latency(&producer, &topic).await;
    for round in 0..ROUNDS {
        bare(&broker, &topic, round);
        through_poll(&cluster, &topic, round).await;
    }
    idle(&cluster, &topic).await;
}

async fn create(broker: &str, topic: &str) {
    let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .create()
        .unwrap();
    let topic = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
    admin
        .create_topics(&[topic], &AdminOptions::new())
        .await
        .unwrap();
}

fn outgoing(topic: &Arc<str>, number: usize) -> OutgoingRecord {
    OutgoingRecord {
        topic: Arc::clone(topic),
        key: Some(Bytes::from(format!("{:08}", number % 1000))),
        payload: Some(Bytes::from(vec![b'x'; MESSAGE_BYTES])),
        headers: Headers::default(),
    }
}

async fn produce(producer: &Arc<dyn Producer>, topic: &Arc<str>) {
    let begin = Instant::now();
    for chunk in 0..MESSAGES / 10_000 {
        let sends: Vec<_> = (0..10_000)
            .map(|n| producer.send(outgoing(topic, chunk * 10_000 + n)))
            .collect();
        for sent in sends {
            sent.await.unwrap();
        }
    }
    report("produce, 10,000 at a time", begin.elapsed());
}

async fn latency(producer: &Arc<dyn Producer>, topic: &Arc<str>) {
    let mut times = Vec::new();
    for number in 0..5_000 {
        let begin = Instant::now();
        producer.send(outgoing(topic, number)).await.unwrap();
        times.push(begin.elapsed());
    }
    times.sort();
    println!(
        "produce, one at a time: p50 {:?}, p99 {:?}",
        times[2_500], times[4_950]
    );
}

fn bare(broker: &str, topic: &str, round: usize) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", format!("bare-{topic}-{round}"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let mut begin = None;
    let mut seen = 0;
    let mut bytes = 0;
    while seen < MESSAGES {
        if let Some(Ok(message)) = consumer.poll(Duration::from_millis(100)) {
            begin.get_or_insert_with(Instant::now);
            bytes += message.payload_len();
            seen += 1;
        }
    }
    report("consume, bare BaseConsumer", begin.unwrap().elapsed());
    assert_eq!(bytes, MESSAGES * MESSAGE_BYTES);
}

fn membership(topic: &str, round: usize) -> Membership {
    Membership {
        group_id: format!("poll-{topic}-{round}").into(),
        topics: vec![topic.to_owned()],
        poll_interval: Duration::from_millis(100),
    }
}

async fn through_poll(cluster: &KafkaCluster, topic: &str, round: usize) {
    let log = cluster.join(membership(topic, round)).unwrap();
    let mut begin = None;
    let mut seen = 0;
    let mut batches = 0;
    while seen < MESSAGES {
        if let LogEvent::Records(records) = log.poll(Intake::Open).await {
            begin.get_or_insert_with(Instant::now);
            seen += records.len();
            batches += 1;
        }
    }
    report("consume, Log::poll", begin.unwrap().elapsed());
    println!("  {} records per batch", seen / batches);
    log.close(Duration::from_secs(10)).await;
}

/// What a member costs that has nothing to do, and how fast its commits are.
async fn idle(cluster: &KafkaCluster, topic: &Arc<str>) {
    let log = cluster.join(membership(topic, ROUNDS)).unwrap();
    let LogEvent::Assigned(assigned) = log.poll(Intake::Open).await else {
        return;
    };
    let watermark = prosody_core::log::Watermark {
        topic_partition: TopicPartition::new(Arc::clone(topic), 0),
        generation: assigned[0].generation,
        topic_id: assigned[0].topic_id,
        offset: 0,
    };
    drain(&*log).await;
    let mut times = Vec::new();
    for _ in 0..1_000 {
        let begin = Instant::now();
        log.commit(vec![watermark.clone()]).await.unwrap();
        times.push(begin.elapsed());
    }
    times.sort();
    println!("commit: p50 {:?}, p99 {:?}", times[500], times[990]);
    let before = cpu_ms();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!(
        "idle member and producer: {} ms of CPU in 5 s",
        cpu_ms() - before
    );
    log.close(Duration::from_secs(10)).await;
}

async fn drain(log: &dyn Log) {
    while tokio::time::timeout(Duration::from_millis(500), log.poll(Intake::Open))
        .await
        .is_ok()
    {}
}

/// CPU time of this process (Linux, 100 ticks a second).
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok());
    (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)) * 10
}

fn report(what: &str, time: Duration) {
    println!(
        "{what}: {:.0} messages per second",
        MESSAGES as f64 / time.as_secs_f64()
    );
}
