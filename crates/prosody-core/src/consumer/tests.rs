#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod backpressure;
mod commits;
mod deadline;
mod duplicates;
mod filters;
mod fresh;
mod generations;
mod interleaving;
mod rig;
mod shutdown;
