//! What the binding keeps for the process: made at first use, forgotten in a forked child.

use std::sync::atomic::{AtomicPtr, Ordering};

use magnus::{Error, Object, RModule, Ruby, function};
use prosody_client::Process;

use crate::bridge::Bridge;
use crate::error;

/// Everything that ends with the process.
pub struct ProcessState {
    /// Runtime and mock logs.
    pub process: Process,
    /// Operations that Ruby waits for.
    pub bridge: Bridge,
}

static STATE: AtomicPtr<ProcessState> = AtomicPtr::new(std::ptr::null_mut());

/// The state of this process. Called with the GVL, so that two threads do not make it at once.
pub fn state(ruby: &Ruby) -> Result<&'static ProcessState, Error> {
    if let Some(state) = present() {
        return Ok(state);
    }
    let process = Process::start()
        .map_err(|reason| error::prosody(ruby, &format!("threads cannot be started: {reason}")))?;
    let state = Box::new(ProcessState {
        process,
        bridge: Bridge::default(),
    });
    let state: &'static ProcessState = Box::leak(state);
    STATE.store(std::ptr::from_ref(state).cast_mut(), Ordering::Release);
    Ok(state)
}

/// The state, if there is one already. From any thread.
pub fn present() -> Option<&'static ProcessState> {
    // SAFETY: a pointer to what `state` leaked, which is never freed.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// Called in a forked child.
pub fn forget_parent() {
    STATE.store(std::ptr::null_mut(), Ordering::Release);
}

fn reset_mock(_ruby: &Ruby) {
    if let Some(state) = present() {
        let _context = state.process.runtime().enter();
        state.process.reset_mock();
    }
}

pub fn init(_ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("reset_mock", function!(reset_mock, 0))?;
    Ok(())
}
