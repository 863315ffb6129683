//! Waiting: deadlines, and waking the one thread that serves a librdkafka client.

use std::sync::OnceLock;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Far enough for everybody who waits "for ever".
const FAR: Duration = Duration::from_secs(30 * 24 * 3600);

/// The moment when a limit is over; limits that are too large for a clock are cut.
pub(crate) fn deadline(limit: Duration) -> Instant {
    Instant::now() + limit.min(FAR)
}

/// The thread to be woken, once it is there.
///
/// A wake-up before the thread waits is not lost: the next [`Waker::wait`] returns at once.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Makes the calling thread the one that is woken.
    pub fn adopt_current_thread(&self) {
        let _ = self.thread.set(thread::current());
    }

    /// Wakes the thread. Cheap, and called by librdkafka with a queue's lock held.
    pub fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Waits, on the adopted thread, for a wake-up or for at most `limit`.
    pub fn wait(limit: Duration) {
        thread::park_timeout(limit);
    }
}
