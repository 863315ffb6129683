//! The whole journey under virtual time, against a store and a log that make trouble: members
//! join, leave, crash and are expelled while scripted handlers succeed, fail, hang and ignore
//! being stopped. What is true is known beforehand ([`plan`]) and checked all along ([`truth`]).
//!
//! Everything that happens follows from one number. `PROSODY_SIM_RUNS` sets how many are tried,
//! `PROSODY_SIM_SEED` replays one and prints what happened.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    reason = "a test fails by panicking, and says what it did"
)]

mod handler;
mod log;
mod plan;
mod store;
mod truth;
mod world;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plan::{Durability, Plan};
use world::Report;

const RUNS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap())
}

fn runs() -> u64 {
    number("PROSODY_SIM_RUNS").unwrap_or(RUNS)
}

fn simulate(seed: u64, durability: Durability) -> Report {
    world::run(Plan::from_seed(seed, durability))
}

/// Tries seeds on all processors. The first that fails is shown and ends the test.
fn simulate_all(runs: u64, durability: Durability) {
    if let Some(seed) = number("PROSODY_SIM_SEED") {
        let report = simulate(seed, durability);
        println!("{}", report.trace.join("\n"));
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        return;
    }
    let next = AtomicU64::new(0);
    let failed: Mutex<Option<(u64, Report)>> = Mutex::new(None);
    let total: Mutex<world::Counts> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= runs || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let report = simulate(seed, durability);
                    total.lock().unwrap().add(&report.counts);
                    if !report.violations.is_empty() {
                        failed.lock().unwrap().get_or_insert((seed, report));
                    }
                }
            });
        }
    });
    if let Some((seed, report)) = failed.into_inner().unwrap() {
        let from = report.trace.len().saturating_sub(150);
        println!("{}", report.trace[from..].join("\n"));
        panic!(
            "{} (replay with PROSODY_SIM_SEED={seed})",
            report.violations.join("\n")
        );
    }
    println!("{runs} runs: {:?}", total.into_inner().unwrap());
}

/// Exactly one effect of each message, in order, whatever happens to members and handlers.
#[test]
fn a_durable_store_has_every_effect_exactly_once() {
    simulate_all(runs(), Durability::Shared);
}

/// Memory stores forget with their process: at least once, in order, and never two at a time.
#[test]
fn memory_stores_have_every_message_handled() {
    simulate_all(runs() / 2, Durability::PerMember);
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        let first = simulate(seed, Durability::Shared);
        let second = simulate(seed, Durability::Shared);
        let differs = first
            .trace
            .iter()
            .zip(&second.trace)
            .position(|(one, other)| one != other);
        if let Some(index) = differs {
            panic!(
                "seed {seed} differs at {index}:\n{}\n{}",
                first.trace[index], second.trace[index]
            );
        }
        assert_eq!(first.trace.len(), second.trace.len());
    }
}
