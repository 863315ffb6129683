//! Records through a real broker: what is sent is what is read.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use bytes::Bytes;
use common::{Member, broker, cluster, send_numbers, texts, topic, unique};
use prosody_core::log::Cluster;
use prosody_core::record::{Headers, OutgoingRecord, TopicPartition};

fn bytes(bytes: &'static [u8]) -> Bytes {
    Bytes::from_static(bytes)
}

#[tokio::test]
async fn records_arrive_as_they_were_sent() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let headers = Headers::new(vec![
        (bytes(b"name"), Some(bytes(b"first"))),
        (bytes(b"name"), Some(bytes(b"second"))),
        (bytes(b"no value"), None),
        (bytes(b"empty"), Some(bytes(b""))),
        (bytes(b"binary"), Some(bytes(b"\x00\xff\x00"))),
        (bytes(b"\xff\xfe not UTF-8"), Some(bytes(b"x"))),
        (bytes(b""), Some(bytes(b"no name"))),
    ]);
    let sent: Vec<(Option<Bytes>, Option<Bytes>, Headers)> = vec![
        (Some(bytes(b"key")), Some(bytes(b"payload")), headers),
        (None, Some(bytes(b"without key")), Headers::default()),
        (
            Some(bytes(b"")),
            Some(bytes(b"empty key")),
            Headers::default(),
        ),
        (
            Some(bytes(b"\x00\xff\x80")),
            Some(bytes(b"\x00\xff")),
            Headers::default(),
        ),
        (Some(bytes(b"tombstone")), None, Headers::default()),
        (
            Some(bytes(b"zero bytes")),
            Some(bytes(b"")),
            Headers::default(),
        ),
    ];
    for (offset, (key, payload, headers)) in sent.iter().enumerate() {
        let delivery = producer
            .send(OutgoingRecord {
                topic: topic.clone(),
                key: key.clone(),
                payload: payload.clone(),
                headers: headers.clone(),
            })
            .await
            .unwrap();
        assert_eq!(
            (delivery.partition, delivery.offset),
            (0, i64::try_from(offset).unwrap())
        );
    }

    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_records(sent.len()).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let assigned = &member.assigned[&partition];
    assert_eq!(assigned.partition_count, 1);
    assert_ne!(assigned.topic_id.0, 0);
    for (offset, (record, (key, payload, headers))) in member.records.iter().zip(&sent).enumerate()
    {
        assert_eq!(record.offset, i64::try_from(offset).unwrap());
        assert_eq!(record.topic_partition, partition);
        assert_eq!(record.generation, assigned.generation);
        assert_eq!(record.leader_epoch, 0);
        assert!(record.timestamp_ms > 1_600_000_000_000);
        assert_eq!(&record.key, key);
        assert_eq!(&record.payload, payload);
        assert_eq!(&record.headers, headers);
    }
    member.close().await;
}

#[tokio::test]
async fn pipelined_sends_keep_their_order() {
    let Some(broker) = broker() else { return };
    let topic = topic(&broker, 1).await;
    let cluster = cluster(&broker, &[]);
    let producer = cluster.producer().unwrap();
    let deliveries = send_numbers(&producer, &topic, 0..20_000).await;
    let offsets: Vec<i64> = deliveries.iter().map(|delivery| delivery.offset).collect();
    assert_eq!(offsets, (0..20_000).collect::<Vec<i64>>());

    let mut member = Member::join(&cluster, &unique("group"), &[&topic]);
    member.until_records(20_000).await;
    assert_eq!(member.payloads(), texts(0..20_000));
    member.close().await;
}
