//! A broker that crashes and comes back.
//!
//! Needs a broker of its own: `PROSODY_TEST_KAFKA` is a command that takes `up DIR auto` and
//! `kill DIR` (bin/kafka).

#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use std::process::Command;
use std::time::{Duration, Instant};

use common::{Member, cluster, outgoing, send_numbers, topic, unique};
use prosody_core::log::{Cluster, LogError, SendError};
use prosody_core::record::TopicPartition;
use prosody_kafka::{KafkaCluster, KafkaOptions};

/// A broker of this test's own.
struct Broker {
    script: String,
    dir: String,
}

impl Broker {
    /// Starts one, if it is known how; with its address.
    fn start() -> Option<(Self, String)> {
        let Ok(script) = std::env::var("PROSODY_TEST_KAFKA") else {
            println!("skipped: PROSODY_TEST_KAFKA is not set (bin/kafka)");
            return None;
        };
        common::log();
        let dir = std::env::temp_dir().join(unique("kafka"));
        let dir = dir.display().to_string();
        let kafka = Self { script, dir };
        let address = kafka.up();
        Some((kafka, address))
    }

    /// Starts it, again at the same address after [`Broker::kill`].
    fn up(&self) -> String {
        // Files: the broker inherits them, and would keep a pipe open.
        let [output, log] = ["out", "err"].map(|name| format!("{}.{name}", self.dir));
        let status = Command::new(&self.script)
            .args(["up", &self.dir, "auto"])
            .stdout(std::fs::File::create(&output).unwrap())
            .stderr(std::fs::File::create(&log).unwrap())
            .status();
        let [address, told] = [output, log].map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let _ = std::fs::remove_file(path);
            text
        });
        assert!(status.unwrap().success(), "{told}");
        address.trim().to_owned()
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
    let Some((kafka, broker)) = Broker::start() else {
        return;
    };
    let topic = topic(&broker, 1).await;
    let partition = TopicPartition::new(topic.clone(), 0);
    let patient = cluster(&broker, &[]);
    let hasty = KafkaCluster::new(KafkaOptions {
        commit_limit: Duration::from_secs(2),
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
        begin.elapsed() < Duration::from_secs(5),
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

/// An election raises a partition's leader epoch. Made anew, the topic begins with the first one
/// again, which librdkafka takes for outdated as long as it knows the former topic.
#[tokio::test]
async fn a_topic_made_anew_after_an_election_is_read() {
    let Some((kafka, broker)) = Broker::start() else {
        return;
    };
    let topic = topic(&broker, 2).await;
    let other = common::topic(&broker, 1).await;
    kafka.kill();
    kafka.up();
    let cluster = cluster(&broker, &[]);
    send_numbers(&cluster.producer().unwrap(), &topic, 0..10).await;
    let mut member = Member::join(&cluster, &unique("group"), &[&topic, &other]);
    member.gives_up = true;
    member.until_records(10).await;
    assert!(member.records[0].leader_epoch > 0);

    common::recreate_topic(&broker, &topic, 2).await;
    let producer = common::cluster(&broker, &[]).producer().unwrap();
    send_numbers(&producer, &topic, 100..130).await;
    let begin = Instant::now();
    member.until_records(40).await;
    println!("it is read after {:?}", begin.elapsed());
    let mut payloads = member.payloads();
    payloads[10..].sort();
    assert_eq!(payloads[10..], common::texts(100..130));
    assert_eq!(member.records[39].leader_epoch, 0);
    // The partition of the other topic was given up, and has come again.
    send_numbers(&producer, &other, 200..210).await;
    member.until_records(50).await;
    member.close().await;
}
