//! `cargo test --release -p prosody-core speed -- --ignored --nocapture --test-threads=1`

use std::hint::black_box;
use std::time::Instant;

use super::*;

const RECORDS: u32 = 1_000_000;

#[test]
#[ignore = "a measurement, for a release build"]
fn produce_and_poll() {
    let cluster = cluster();
    let producer = cluster.producer().unwrap();
    let payload = Bytes::from(vec![b'x'; 100]);
    let topic = Arc::from("t");
    let keys: Vec<_> = (0..1_000)
        .map(|key| Bytes::from(format!("key-{key}")))
        .collect();
    let start = Instant::now();
    for number in 0..RECORDS {
        let record = OutgoingRecord {
            topic: Arc::clone(&topic),
            key: Some(keys[number as usize % keys.len()].clone()),
            payload: Some(payload.clone()),
            headers: Headers::default(),
        };
        let sent = producer.send(record).now_or_never().unwrap();
        black_box(sent.unwrap());
    }
    report("produce", start);

    let member = join(&cluster, "g", &["t"]);
    assigned(&member);
    let start = Instant::now();
    let mut read = 0;
    while let Some(LogEvent::Records(records)) = poll(&member) {
        read += records.len();
        black_box(records);
    }
    report("poll", start);
    assert_eq!(read, RECORDS as usize);

    let start = Instant::now();
    for _ in 0..RECORDS {
        let record = OutgoingRecord {
            topic: Arc::clone(&topic),
            key: Some(keys[0].clone()),
            payload: Some(payload.clone()),
            headers: Headers::default(),
        };
        producer.send(record).now_or_never().unwrap().unwrap();
        black_box(records(&member));
    }
    report("produce and poll one by one", start);
}

fn report(what: &str, start: Instant) {
    let elapsed = start.elapsed();
    let rate = f64::from(RECORDS) / elapsed.as_secs_f64();
    println!("{what}: {rate:.0}/s, {:?} each", elapsed / RECORDS);
}
