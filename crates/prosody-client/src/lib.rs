//! Assembles prosody's parts into a running client: which cluster, which store, one runtime for
//! the process.

mod client;
mod cluster;
mod process;
mod settings;
mod store;
mod subscription;

pub use client::{Client, ClientError, ConsumerState};
pub use process::Process;
pub use prosody_kafka::Library;
pub use settings::{ClientSettings, ClusterSettings, StoreKind, SubscriptionSettings};
