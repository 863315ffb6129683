//! A client that has had a fatal error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use prosody_core::record::Headers;

use super::*;

/// A broker's address and a topic there, if there is one.
fn broker() -> Option<(KafkaOptions, Arc<str>)> {
    let Ok(broker) = std::env::var("PROSODY_TEST_BROKER") else {
        println!("skipped: PROSODY_TEST_BROKER is not set");
        return None;
    };
    let topic = format!("fatal-{}", std::process::id());
    let mut options = KafkaOptions::new(vec![broker]);
    options.send_timeout = Duration::from_secs(20);
    Some((options, topic.into()))
}

fn record(topic: &Arc<str>) -> OutgoingRecord {
    OutgoingRecord {
        topic: Arc::clone(topic),
        key: None,
        payload: Some(Bytes::from_static(b"1")),
        headers: Headers::default(),
    }
}

async fn create(options: &KafkaOptions, topic: &str) {
    use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
    let admin: AdminClient<_> = options.for_admin().create().unwrap();
    let new = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
    let made = admin.create_topics(&[new], &AdminOptions::new()).await;
    assert!(made.unwrap().iter().all(Result::is_ok));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_go_on_is_replaced() {
    let Some((options, topic)) = broker() else {
        return;
    };
    create(&options, &topic).await;
    let mut slow = options.clone();
    // Nothing is sent before the error comes.
    let linger = ("linger.ms".to_owned(), "2000".to_owned());
    slow.properties.extend([linger]);
    let producer = KafkaProducer::new(&slow).unwrap();
    let pending: Vec<_> = (0..10).map(|_| producer.send(record(&topic))).collect();
    let shared = Arc::clone(&producer.running.lock().shared);
    ffi::fail_for_good(shared.producer.client());
    drop(shared);
    for outcome in future::join_all(pending).await {
        assert!(matches!(outcome, Err(SendError::Lost(_))), "{outcome:?}");
    }

    let mut offsets = Vec::new();
    for _ in 0..3 {
        offsets.push(producer.send(record(&topic)).await.unwrap().offset);
    }
    assert_eq!(offsets, [0, 1, 2]);
}
