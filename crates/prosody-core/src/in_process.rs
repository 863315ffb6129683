//! A log inside the process, for mock mode and for tests: the same promises as Kafka's, nothing
//! to contact, nothing kept.
//!
//! It does no I/O, starts no threads and knows no time but the clock it is given, so that it works
//! under a paused tokio clock and gives the same result each time. All of it lives behind one
//! lock ([`cluster::Shared`]); each call takes it once and never while it waits.
//!
//! [`InProcessCluster`] also has what only tests need: topics deleted and made anew, records that
//! are gone, members that lose their partitions without being asked.

mod assignment;
mod cluster;
mod group;
mod member;
mod producer;
mod subscription;
mod topic;

#[cfg(test)]
mod tests;

pub use self::cluster::{InProcessCluster, MESSAGE_BYTES_MAX};
pub use self::group::MemberId;
pub use self::member::Member;
