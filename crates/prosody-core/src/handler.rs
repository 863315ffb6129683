//! What handles events: Ruby, or a simulation.

use std::sync::Arc;

use crate::attempt::Attempt;

/// Handles attempts, in a world of its own.
pub trait Handler: Send + Sync + 'static {
    /// Takes an attempt over and returns at once. The handler calls [`Attempt::begin`] when it
    /// starts and [`Attempt::finish`] when it has ended.
    fn start(&self, attempt: Arc<Attempt>);

    /// Interrupts the attempt's handler at its next yield, and returns at once. It may have ended
    /// already.
    fn stop(&self, attempt: &Arc<Attempt>);
}
