//! The wall clock, as a parameter.
//!
//! Waiting and measuring use tokio's clock, which tests pause and move. What is stored and compared
//! across processes (expiry) uses this one.

use std::time::{SystemTime, UNIX_EPOCH};

/// Tells the time of day.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
    }
}
