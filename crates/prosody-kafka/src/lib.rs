//! The log trait of prosody-core on Kafka, by librdkafka.
//!
//! | module | what |
//! |---|---|
//! | [`options`](KafkaOptions) | what a user may set, and our defaults below it |
//! | [`cluster`](KafkaCluster) | the door: describes topics, makes members and the producer |
//! | `member` | one member of a group: a poll thread, and the handle that talks to it |
//! | `loader` | loads single messages by their coordinates |
//! | `producer` | sends, with a time limit of its own |
//! | `admin` | describes topics |
//! | [`library`](Library) | which librdkafka is built in |
//! | `health` | what librdkafka reports: log lines, and errors that are told once |
//! | `ffi` | the calls that rdkafka does not wrap; the only unsafe code |

mod admin;
mod cluster;
mod ffi;
mod health;
mod library;
mod loader;
mod member;
mod options;
mod partitions;
mod producer;
mod wake;

pub use cluster::KafkaCluster;
pub use library::Library;
pub use options::{KafkaOptions, MANAGED_PROPERTIES};
pub use producer::KafkaProducer;
