//! What the log says of handlers that fail.

use std::time::Duration;

use tracing::{error, info, warn};

use crate::event::Message;
use crate::outcome::Failure;

/// A failure after which the message is done.
pub(crate) fn report_done(message: &Message, failure: &Failure, number: u32) {
    let attempts = number.saturating_add(1);
    error!(
        "handler failed, {} failure, message is done: {} {message} attempts={attempts}",
        failure.class,
        Described(failure)
    );
}

/// A failure after which the message is tried again.
pub(crate) fn report_retry(message: &Message, failure: &Failure, number: u32, delay: Duration) {
    let attempts = number.saturating_add(1);
    let seconds = delay.as_secs_f64();
    warn!(
        "handler failed, message is retried in {seconds:.3} s: {} {message} attempts={attempts}",
        Described(failure)
    );
    if number == 0 {
        info!("its key waits until then, other keys go on: {message}");
    }
}

/// An error as a log line shows it: class, message, innermost frames.
struct Described<'a>(&'a Failure);

impl std::fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.0.error, self.0.message)?;
        let frames = self.0.backtrace.iter().take(5).map(String::as_str);
        let frames: Vec<_> = frames.collect();
        if !frames.is_empty() {
            write!(f, " ({})", frames.join(" < "))?;
        }
        Ok(())
    }
}
