//! Locks for a process that may fork.
//!
//! Those of the standard library keep their whole state in themselves. `parking_lot` keeps the waiting
//! threads of all locks in one table for the process: a forked child inherits it, with threads of
//! the parent in it that do not exist there, and crashes or hangs at the first of its own locks that
//! is contended. So nothing here, nor any dependency, may use that.

use std::sync::PoisonError;
use std::time::Duration;

pub use std::sync::MutexGuard;

/// A lock. A panic of whoever holds it leaves it usable.
#[derive(Debug, Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    /// An open lock.
    pub const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Waits for it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes threads that wait for a change of what a [`Mutex`] holds.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    /// Opens the lock until it is notified, or for no reason.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, not for longer than `limit`.
    pub fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        let waited = self.0.wait_timeout(guard, limit);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
