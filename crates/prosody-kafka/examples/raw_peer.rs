//! The peer of `bench/*.rb`: librdkafka by rdkafka and nothing else, measured in the same run.
//!
//! `raw_peer consume BROKER TOPIC MESSAGES` prints messages per second of a consumer that counts;
//! `raw_peer produce BROKER TOPIC MESSAGES` prints p50 and p99 of acknowledged sends, one at a time,
//! in microseconds; `raw_peer fill BROKER TOPIC MESSAGES KEYS` fills a topic with 100-byte JSON.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, missing_docs)]

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{FutureProducer, FutureRecord};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, command, broker, topic, messages, rest @ ..] = arguments.as_slice() else {
        eprintln!("see the comment in raw_peer.rs");
        std::process::exit(2);
    };
    let messages = messages.parse().unwrap();
    match command.as_str() {
        "consume" => consume(broker, topic, messages),
        "produce" => produce(broker, topic, messages).await,
        "fill" => fill(broker, topic, messages, rest[0].parse().unwrap()).await,
        other => panic!("no command {other}"),
    }
}

fn consume(broker: &str, topic: &str, messages: usize) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("group.id", format!("raw-{}", std::process::id()))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    consumer.subscribe(&[topic]).unwrap();
    let mut begin = None;
    let mut seen = 0;
    while seen < messages {
        if let Some(Ok(_)) = consumer.poll(Duration::from_millis(100)) {
            begin.get_or_insert_with(Instant::now);
            seen += 1;
        }
    }
    let seconds = begin.unwrap().elapsed().as_secs_f64();
    println!("{:.0}", messages as f64 / seconds);
}

fn producer(broker: &str) -> FutureProducer {
    ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "0")
        .create()
        .unwrap()
}

const PAYLOAD: &str = r#"{"user":"ada","number":12345,"text":"a text that is neither long nor short","ok":true,"x":1.5,"y":2}"#;

async fn produce(broker: &str, topic: &str, messages: usize) {
    let producer = producer(broker);
    let mut times = Vec::with_capacity(messages);
    for number in 0..messages + messages / 10 {
        let key = format!("key-{}", number % 100);
        let record = FutureRecord::to(topic).key(&key).payload(PAYLOAD);
        let begin = Instant::now();
        producer.send(record, Duration::from_secs(5)).await.unwrap();
        // The first tenth warms up.
        if number >= messages / 10 {
            times.push(begin.elapsed().as_micros());
        }
    }
    times.sort_unstable();
    println!("{} {}", times[messages / 2], times[messages * 99 / 100]);
}

async fn fill(broker: &str, topic: &str, messages: usize, keys: usize) {
    let producer = producer(broker);
    for chunk in 0..messages.div_ceil(10_000) {
        let mut sends = Vec::with_capacity(10_000);
        for number in chunk * 10_000..messages.min((chunk + 1) * 10_000) {
            let key = format!("key-{}", number % keys);
            let record = FutureRecord::to(topic).key(&key).payload(PAYLOAD);
            sends.push(producer.send_result(record).unwrap());
        }
        for sent in sends {
            sent.await.unwrap().unwrap();
        }
    }
}
