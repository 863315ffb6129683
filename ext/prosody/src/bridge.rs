//! Operations that Ruby waits for.
//!
//! A native call polls its operation once. If it is not ready, it goes on in the runtime and the
//! call returns a ticket; Ruby waits for the ticket (lib/prosody/bridge.rb), takes the result, and
//! forgets the ticket however the wait ends. So no Rust frame stands on a waiting fiber's stack.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use magnus::{Error, IntoValue, Object, RArray, RModule, Ruby, Value, function};
use prosody_core::sync::{Condvar, Mutex};

use crate::error::Reason;
use crate::logging::Line;
use crate::reactor::ReactorQueue;
use crate::{gvl, process};

/// What an operation ended with.
pub type Completion = Result<Success, Reason>;

/// What Ruby gets of an operation that succeeded.
#[derive(Debug)]
pub enum Success {
    Nil,
    Bool(bool),
}

impl IntoValue for Success {
    fn into_value_with(self, ruby: &Ruby) -> Value {
        match self {
            Self::Nil => ruby.qnil().into_value_with(ruby),
            Self::Bool(answer) => answer.into_value_with(ruby),
        }
    }
}

#[derive(Default)]
struct Operation {
    state: Mutex<OperationState>,
    changed: Condvar,
}

#[derive(Default)]
struct OperationState {
    completion: Option<Completion>,
    interrupted: bool,
}

/// Log lines that wait for Ruby, and then are dropped and counted.
const LINES_MAX: usize = 10_000;

/// What the dispatcher thread is to do.
#[derive(Default)]
struct Dispatch {
    lines: Vec<Line>,
    dropped_lines: u64,
    tickets: Vec<u64>,
    interrupted: bool,
}

impl Dispatch {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.tickets.is_empty() && self.dropped_lines == 0
    }
}

/// All operations of the process that Ruby waits for, and what its dispatcher thread is to do.
#[derive(Default)]
pub struct Bridge {
    next: AtomicU64,
    operations: Mutex<HashMap<u64, Arc<Operation>>>,
    dispatch: Mutex<Dispatch>,
    dispatch_changed: Condvar,
}

impl Bridge {
    fn open(&self) -> (u64, Arc<Operation>) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        let operation = Arc::new(Operation::default());
        self.operations
            .lock()
            .insert(ticket, Arc::clone(&operation));
        (ticket, operation)
    }

    fn operation(&self, ticket: u64) -> Option<Arc<Operation>> {
        self.operations.lock().get(&ticket).cloned()
    }

    fn complete(
        &self,
        ticket: u64,
        operation: &Operation,
        reactor: Option<&ReactorQueue>,
        completion: Completion,
    ) {
        operation.state.lock().completion = Some(completion);
        operation.changed.notify_all();
        // Forgotten meanwhile: nobody waits.
        if !self.operations.lock().contains_key(&ticket) {
            return;
        }
        if let Some(reactor) = reactor {
            reactor.completed(ticket);
        } else {
            self.dispatch.lock().tickets.push(ticket);
            self.dispatch_changed.notify_one();
        }
    }

    /// Hands a log line to Ruby. Never waits.
    pub fn log(&self, line: Line) {
        let mut dispatch = self.dispatch.lock();
        if dispatch.lines.len() >= LINES_MAX {
            dispatch.dropped_lines += 1;
            return;
        }
        dispatch.lines.push(line);
        drop(dispatch);
        self.dispatch_changed.notify_one();
    }

    fn wait_dispatch(&self) {
        let mut dispatch = self.dispatch.lock();
        while dispatch.is_empty() && !dispatch.interrupted {
            dispatch = self.dispatch_changed.wait(dispatch);
        }
    }

    fn interrupt_dispatch(&self) {
        self.dispatch.lock().interrupted = true;
        self.dispatch_changed.notify_one();
    }
}

/// Starts an operation: its result if it is ready at once, else its ticket, an Integer. `reactor`
/// is where the waiting fiber runs, if that is one of ours.
pub fn start<F>(ruby: &Ruby, reactor: Option<Arc<ReactorQueue>>, future: F) -> Result<Value, Error>
where
    F: Future<Output = Completion> + Send + Unpin + 'static,
{
    let state = process::state(ruby)?;
    let runtime = state.process.runtime();
    let _context = runtime.enter();
    let mut future = future;
    if let Poll::Ready(completion) = pin!(&mut future).poll(&mut Context::from_waker(Waker::noop()))
    {
        let success = completion.map_err(|reason| reason.raise(ruby))?;
        return Ok(success.into_value_with(ruby));
    }
    let (ticket, operation) = state.bridge.open();
    runtime.spawn(async move {
        let completion = future.await;
        state
            .bridge
            .complete(ticket, &operation, reactor.as_deref(), completion);
    });
    Ok(ticket.into_value_with(ruby))
}

/// Whether the result can be taken.
fn is_done(ruby: &Ruby, ticket: u64) -> Result<bool, Error> {
    let operation = process::state(ruby)?.bridge.operation(ticket);
    Ok(operation.is_none_or(|operation| operation.state.lock().completion.is_some()))
}

/// Blocks the thread, without the lock, until the result can be taken or the thread is
/// interrupted. With `look_every_s` it looks for signals so often: up to 3.2, Ruby does not interrupt
/// the main thread for one while all of its threads are in native calls.
fn wait(ruby: &Ruby, ticket: u64, look_every_s: Option<f64>) -> Result<(), Error> {
    let look_every = look_every_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let Some(operation) = process::state(ruby)?.bridge.operation(ticket) else {
        return Ok(());
    };
    loop {
        let wait = || {
            let mut state = operation.state.lock();
            while state.completion.is_none() && !state.interrupted {
                if let Some(look_every) = look_every {
                    drop(operation.changed.wait_for(state, look_every));
                    return;
                }
                state = operation.changed.wait(state);
            }
        };
        let wake = || {
            operation.state.lock().interrupted = true;
            operation.changed.notify_all();
        };
        gvl::without(ruby, &wait, &wake)?;
        let mut state = operation.state.lock();
        state.interrupted = false;
        if state.completion.is_some() {
            return Ok(());
        }
    }
}

/// Takes the result; raises what the operation failed with.
fn take(ruby: &Ruby, ticket: u64) -> Result<Value, Error> {
    let operation = process::state(ruby)?
        .bridge
        .operations
        .lock()
        .remove(&ticket);
    let completion = operation.and_then(|operation| operation.state.lock().completion.take());
    let gone = || {
        Err(Reason::Prosody(
            "the result of an operation was taken already".to_owned(),
        ))
    };
    let success = completion
        .unwrap_or_else(gone)
        .map_err(|reason| reason.raise(ruby))?;
    Ok(success.into_value_with(ruby))
}

/// Drops the result, now or when it comes.
fn forget(ruby: &Ruby, ticket: u64) -> Result<(), Error> {
    process::state(ruby)?
        .bridge
        .operations
        .lock()
        .remove(&ticket);
    Ok(())
}

/// For the dispatcher thread: waits until there is something for `drain_dispatch`.
fn wait_dispatch(ruby: &Ruby) -> Result<(), Error> {
    let bridge = &process::state(ruby)?.bridge;
    gvl::without(ruby, &|| bridge.wait_dispatch(), &|| {
        bridge.interrupt_dispatch();
    })
}

/// Log lines, and tickets of fibers that do not run on a reactor of ours. Answers
/// `[lines, dropped_lines, tickets]`, a line being `[severity, target, text]`.
fn drain_dispatch(ruby: &Ruby) -> Result<RArray, Error> {
    let bridge = &process::state(ruby)?.bridge;
    let dispatch = std::mem::take(&mut *bridge.dispatch.lock());
    let lines = ruby.ary_new_capa(dispatch.lines.len());
    for line in dispatch.lines {
        lines.push(line.into_array(ruby)?)?;
    }
    let tickets = ruby.ary_from_vec(dispatch.tickets);
    let result = ruby.ary_new_capa(3);
    result.push(lines)?;
    result.push(dispatch.dropped_lines)?;
    result.push(tickets)?;
    Ok(result)
}

pub fn init(_ruby: &Ruby, native: RModule) -> Result<(), Error> {
    native.define_singleton_method("done?", function!(is_done, 1))?;
    native.define_singleton_method("wait", function!(wait, 2))?;
    native.define_singleton_method("take", function!(take, 1))?;
    native.define_singleton_method("forget", function!(forget, 1))?;
    native.define_singleton_method("wait_dispatch", function!(wait_dispatch, 0))?;
    native.define_singleton_method("drain_dispatch", function!(drain_dispatch, 0))?;
    Ok(())
}
