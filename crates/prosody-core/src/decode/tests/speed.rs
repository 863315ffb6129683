//! `cargo test --release -p prosody-core speed -- --ignored --nocapture --test-threads=1`

use std::hint::black_box;
use std::time::Instant;

use super::*;

const ROUNDS: u32 = 1_000_000;

#[test]
#[ignore = "a measurement, for a release build"]
fn decode_and_hash() {
    let hundred = br#"{"id":"6f1b2c3d-0001","type":"order.created","amount":1250,"currency":"EUR","items":[1,2,3],"ok":true}"#;
    let escaped = br#"{"id":"6f1b2c3d-0001","type":"order.created","note":"line one\nline two \u00e4","items":[1,2,3],"o":1}"#;
    let item = r#"{"sku":"A-1","count":1},"#;
    let large = format!(r#"{{"id":1,"items":[{}1]}}"#, item.repeat(400));
    let payloads = [
        ("100 bytes", &hundred[..]),
        ("100 bytes with escapes", escaped),
        ("10 kB, 400 brackets", large.as_bytes()),
    ];
    for (what, payload) in payloads {
        let record = record(Some(b"customer-1234"), Some(payload));
        let options = options();
        let start = Instant::now();
        for _ in 0..ROUNDS {
            let record = black_box(&record);
            black_box(decode(record, &options).unwrap());
        }
        let each = start.elapsed() / ROUNDS;
        println!("decode {what} ({} bytes): {each:?}", payload.len());
    }

    let id = IdempotenceId::String("6f1b2c3d-0001".into());
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(mark_hash(black_box("1"), black_box(&id)));
    }
    println!("mark_hash: {:?}", start.elapsed() / ROUNDS);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(content_hash(black_box(hundred)));
    }
    println!("content_hash: {:?}", start.elapsed() / ROUNDS);
}
