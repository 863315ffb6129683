//! What prosody is: events, key queues, the journey of an event, ledgers and their stores.
//!
//! This crate knows no network, no disk and no Ruby. Time comes from tokio's clock, which tests
//! pause and move, and from [`clock::Clock`]; randomness comes from a seed.

pub mod decode;
pub mod in_process;
pub mod log;
pub mod record;
