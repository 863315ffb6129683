//! Knowing that the process was forked.
//!
//! A forked child has none of the parent's threads: tokio and librdkafka hang or crash there when
//! they are used or dropped. So every native handle remembers in which process it was made, raises
//! when it is used in another, and is forgotten there, not dropped.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};

use magnus::{Error, Ruby};

use crate::{error, process};

/// Counts the forks between the first process and this one.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    process::forget_parent();
}

/// Has every fork counted, in the child.
pub fn watch() {
    // SAFETY: the callback only touches atomics, which is allowed between fork and exec.
    unsafe { libc::pthread_atfork(None, None, Some(forked)) };
}

/// Something that belongs to the process in which it was made.
pub struct Owned<T> {
    value: ManuallyDrop<T>,
    forks: u64,
}

impl<T> Owned<T> {
    /// Takes a value of this process.
    pub fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            forks: FORKS.load(Ordering::Relaxed),
        }
    }

    fn is_ours(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// The value; an error in a process that was forked since.
    pub fn get(&self, ruby: &Ruby) -> Result<&T, Error> {
        if self.is_ours() {
            return Ok(&self.value);
        }
        Err(error::prosody(
            ruby,
            "made in another process: this one was forked since, and has none of the threads that \
             it needs; make a new client after the fork",
        ))
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: dropped once, here, and never used again.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
