//! What prosody is: events, key queues, the journey of an event, ledgers and their stores.
//!
//! This crate knows no network, no disk and no Ruby. Waiting uses tokio's clock, which tests
//! pause and move; the time of day comes from [`clock::Clock`], chance from a seed.

pub mod attempt;
pub mod backoff;
pub mod clock;
pub mod consumer;
pub mod decode;
mod duplicates;
pub mod event;
mod failure_report;
pub mod handler;
pub mod in_process;
pub mod journey;
pub mod ledger;
mod ledger_cache;
mod ledger_writer;
pub mod log;
pub mod outcome;
pub mod record;
pub mod store;
pub mod sync;
