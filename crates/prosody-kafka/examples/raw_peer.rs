//! The peer of `bench/*.rb`: librdkafka by rdkafka and nothing else, measured in the same run.
//!
//! `raw_peer consume BROKER TOPIC MESSAGES` prints messages per second of a consumer that counts;
//! `raw_peer produce BROKER TOPIC MESSAGES` prints p50 and p99 of acknowledged sends, one at a time,
//! in microseconds; `raw_peer fill BROKER TOPIC MESSAGES KEYS [BYTES]` fills a topic with JSON of 100 bytes, or
//! so many.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    missing_docs
)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, command, broker, topic, messages, rest @ ..] = arguments.as_slice() else {
        eprintln!("see the comment in raw_peer.rs");
        std::process::exit(2);
    };
    let messages = messages.parse().unwrap();
    match command.as_str() {
        "consume" => consume(broker, topic, messages),
        "produce" => produce(broker, topic, messages),
        "fill" => {
            let payload = rest.get(1).map_or_else(
                || PAYLOAD.to_owned(),
                |bytes| format!("\"{}\"", "x".repeat(bytes.parse::<usize>().unwrap() - 2)),
            );
            fill(broker, topic, messages, rest[0].parse().unwrap(), &payload);
        }
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

/// Tells of each acknowledgement.
struct Acknowledged(Sender<KafkaResult<()>>);

impl ClientContext for Acknowledged {}

impl ProducerContext for Acknowledged {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let result = result.as_ref().map(|_| ());
        self.0
            .send(result.map_err(|(error, _)| error.clone()))
            .unwrap();
    }
}

type Producer = ThreadedProducer<Acknowledged>;

fn producer(broker: &str) -> (Producer, Receiver<KafkaResult<()>>) {
    let (sender, acknowledgements) = channel();
    let producer = ClientConfig::new()
        .set("bootstrap.servers", broker)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "0")
        .create_with_context(Acknowledged(sender))
        .unwrap();
    (producer, acknowledgements)
}

fn send(producer: &Producer, topic: &str, key: &str, payload: &str) {
    let record = BaseRecord::to(topic).key(key).payload(payload);
    producer.send(record).map_err(|(error, _)| error).unwrap();
}

const PAYLOAD: &str = r#"{"user":"ada","number":12345,"text":"a text that is neither long nor short","ok":true,"x":1.5,"y":2}"#;

fn produce(broker: &str, topic: &str, messages: usize) {
    let (producer, acknowledgements) = producer(broker);
    let mut times = Vec::with_capacity(messages);
    for number in 0..messages + messages / 10 {
        let begin = Instant::now();
        send(&producer, topic, &format!("key-{}", number % 100), PAYLOAD);
        acknowledgements.recv().unwrap().unwrap();
        // The first tenth warms up.
        if number >= messages / 10 {
            times.push(begin.elapsed().as_micros());
        }
    }
    times.sort_unstable();
    println!("{} {}", times[messages / 2], times[messages * 99 / 100]);
}

fn fill(broker: &str, topic: &str, messages: usize, keys: usize, payload: &str) {
    let (producer, acknowledgements) = producer(broker);
    let in_flight = (64 * 1024 * 1024 / payload.len()).min(10_000);
    for number in 0..messages {
        send(&producer, topic, &format!("key-{}", number % keys), payload);
        if number >= in_flight {
            acknowledgements.recv().unwrap().unwrap();
        }
    }
    for _ in 0..messages.min(in_flight) {
        acknowledgements.recv().unwrap().unwrap();
    }
}
