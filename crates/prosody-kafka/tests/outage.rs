//! A broker that crashes and comes back.
//!
//! Needs a broker of its own: `PROSODY_TEST_KAFKA` is a command that takes `up DIR PORT` and
//! `kill DIR` (services/kafka.sh).

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Member, cluster, outgoing, send_numbers, topic, unique};
use prosody_core::log::{Cluster, LogError, SendError};
use prosody_core::record::TopicPartition;
use prosody_kafka::{KafkaCluster, KafkaOptions};

/// A broker of this test's own.
struct Broker {
    script: String,
    dir: String,
    port: String,
}

impl Broker {
    fn up(&self) {
        let mut up = Command::new(&self.script);
        // The broker keeps the script's output open: only its errors are taken.
        let log = std::fs::File::create(format!("{}.log", self.dir)).unwrap();
        let status = up
            .args(["up", &self.dir, &self.port])
            .stdout(Stdio::null())
            .stderr(log)
            .status();
        let told = std::fs::read_to_string(format!("{}.log", self.dir)).unwrap();
        let _ = std::fs::remove_file(format!("{}.log", self.dir));
        assert!(status.unwrap().success(), "{told}");
    }

    fn kill(&self) {
        let status = Command::new(&self.script)
            .args(["kill", &self.dir])
            .status()
            .unwrap();
        assert!(status.success());
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = Command::new(&self.script)
            .args(["kill", &self.dir])
            .output();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[tokio::test]
async fn a_broker_that_crashes_is_waited_for() {
    let Ok(script) = std::env::var("PROSODY_TEST_KAFKA") else {
        println!("skipped: PROSODY_TEST_KAFKA is not set (services/kafka.sh)");
        return;
    };
    common::log();
    let dir = std::env::temp_dir()
        .join(unique("kafka"))
        .display()
        .to_string();
    // Two ports below those that outgoing connections take.
    let port = (20_000 + std::process::id() % 6_000 * 2).to_string();
    let broker = format!("127.0.0.1:{port}");
    let kafka = Broker { script, dir, port };
    kafka.up();
    let topic = topic(&broker, 1).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let patient = cluster(&broker, &[]);
    let hasty = KafkaCluster::new(KafkaOptions {
        commit_limit: Duration::from_secs(1),
        ..KafkaOptions::new(vec![broker.clone()])
    })
    .unwrap();
    send_numbers(&patient.producer().unwrap(), &topic, 0..10).await;
    let mut member = Member::join(&hasty, &unique("group"), &[&topic]);
    member.until_records(10).await;
    member
        .log
        .commit(vec![member.watermark(&partition, 5)])
        .await
        .unwrap();

    kafka.kill();
    let begin = Instant::now();
    let commit = member
        .log
        .commit(vec![member.watermark(&partition, 6)])
        .await;
    assert!(
        matches!(commit, Err(LogError::Unreachable { .. })),
        "{commit:?}"
    );
    let sent = hasty
        .producer()
        .unwrap()
        .send(outgoing(&topic, "key", "lost?"))
        .await;
    assert!(matches!(sent, Err(SendError::TimedOut { .. })), "{sent:?}");
    println!("{commit:?} {sent:?}");
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "{:?}",
        begin.elapsed()
    );
    // One that is sent while nobody is there arrives all the same.
    let waiting = patient
        .producer()
        .unwrap()
        .send(outgoing(&topic, "key", "patient"));

    kafka.up();
    waiting.await.unwrap();
    let last = |member: &Member| {
        member
            .payloads()
            .last()
            .is_some_and(|last| last == "patient")
    };
    member
        .until("the message after the crash has come", last)
        .await;
    let end = member.records.last().unwrap().offset + 1;
    let commit = async {
        // The group may still be on its way back.
        while member
            .log
            .commit(vec![member.watermark(&partition, end)])
            .await
            .is_err()
        {}
    };
    tokio::time::timeout(common::PATIENCE, commit)
        .await
        .unwrap();
    let positions = member
        .log
        .positions(std::slice::from_ref(&partition))
        .await
        .unwrap();
    assert_eq!(positions, [Some(end)]);
    assert!(member.lost.is_empty() && member.failed.is_none());

    // And a close with the broker gone ends within its limit.
    kafka.kill();
    let begin = Instant::now();
    member.log.close(Duration::from_secs(1)).await;
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
}
