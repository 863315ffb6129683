//! What a reactor (lib/prosody/reactor.rb) is to do: attempts to start and to stop, fibers whose
//! operations have ended. One wake-up serves all that came since the last.

use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use magnus::{Class, Error, Module, Object, RArray, RModule, Ruby, function, method};
use prosody_core::attempt::Attempt;
use prosody_core::handler::Handler;
use prosody_core::sync::Mutex;

use crate::attempt::NativeAttempt;
use crate::error;
use crate::fork::Owned;

#[derive(Default)]
struct Waiting {
    attempts: VecDeque<Arc<Attempt>>,
    stops: Vec<Arc<Attempt>>,
    tickets: Vec<u64>,
    /// Set by Ruby before it sleeps: the next thing that comes wakes it.
    is_asleep: bool,
}

/// The queue between the core and one reactor.
pub struct ReactorQueue {
    waiting: Mutex<Waiting>,
    /// Looked at before each event without taking the lock.
    has_notices: AtomicBool,
    /// Until it is closed.
    wake: Mutex<Option<PipeWriter>>,
}

impl ReactorQueue {
    fn put(&self, put: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting.lock();
        put(&mut waiting);
        let must_wake = std::mem::take(&mut waiting.is_asleep);
        drop(waiting);
        if must_wake && let Some(mut wake) = self.wake.lock().as_ref() {
            // A full or closed pipe: the reactor is about to look, or gone.
            let _ = wake.write(&[0]);
        }
    }

    /// An operation of a fiber of this reactor has ended.
    pub fn completed(&self, ticket: u64) {
        self.put(|waiting| {
            waiting.tickets.push(ticket);
            self.has_notices.store(true, Ordering::Release);
        });
    }
}

/// The handler side of a reactor.
pub struct RubyHandler(pub Arc<ReactorQueue>);

impl Handler for RubyHandler {
    fn start(&self, attempt: Arc<Attempt>) {
        self.0.put(|waiting| waiting.attempts.push_back(attempt));
    }

    fn stop(&self, attempt: &Arc<Attempt>) {
        self.0.put(|waiting| {
            waiting.stops.push(Arc::clone(attempt));
            self.0.has_notices.store(true, Ordering::Release);
        });
    }
}

/// `Prosody::Native::Reactor`.
#[magnus::wrap(class = "Prosody::Native::Reactor", free_immediately)]
pub struct NativeReactor {
    queue: Owned<Arc<ReactorQueue>>,
}

impl NativeReactor {
    /// The queue, for native calls that end on this reactor.
    pub fn queue(&self, ruby: &Ruby) -> Result<Arc<ReactorQueue>, Error> {
        self.queue.get(ruby).map(Arc::clone)
    }

    /// `[reactor, fd]`: a byte can be read from the descriptor, which the caller owns, when there
    /// is something to do after `sleep?`.
    fn open(ruby: &Ruby) -> Result<RArray, Error> {
        let (read, wake) = std::io::pipe()
            .map_err(|reason| error::prosody(ruby, &format!("no pipe can be made: {reason}")))?;
        let queue = Arc::new(ReactorQueue {
            waiting: Mutex::default(),
            has_notices: AtomicBool::new(false),
            wake: Mutex::new(Some(wake)),
        });
        let reactor = Self {
            queue: Owned::new(queue),
        };
        let opened = ruby.ary_new_capa(2);
        opened.push(reactor)?;
        opened.push(read.into_raw_fd())?;
        Ok(opened)
    }

    /// The next attempt, begun, or nil.
    fn take(ruby: &Ruby, rb_self: &Self) -> Result<Option<NativeAttempt>, Error> {
        let queue = rb_self.queue.get(ruby)?;
        loop {
            let next = queue.waiting.lock().attempts.pop_front();
            match next {
                None => return Ok(None),
                Some(attempt) if attempt.begin() => return Ok(Some(NativeAttempt::new(attempt))),
                Some(_cancelled) => {}
            }
        }
    }

    /// Whether an attempt waits.
    fn has_attempts(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        Ok(!rb_self.queue.get(ruby)?.waiting.lock().attempts.is_empty())
    }

    /// Whether `take_notices` has something.
    fn has_notices(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        Ok(rb_self.queue.get(ruby)?.has_notices.load(Ordering::Acquire))
    }

    /// `[attempt ids to stop, tickets that are done]`.
    fn take_notices(ruby: &Ruby, rb_self: &Self) -> Result<RArray, Error> {
        let queue = rb_self.queue.get(ruby)?;
        let mut waiting = queue.waiting.lock();
        queue.has_notices.store(false, Ordering::Release);
        let stops = std::mem::take(&mut waiting.stops);
        let tickets = std::mem::take(&mut waiting.tickets);
        drop(waiting);
        let stops: Vec<_> = stops.iter().map(NativeAttempt::id_of).collect();
        let notices = ruby.ary_new_capa(2);
        notices.push(ruby.ary_from_vec(stops))?;
        notices.push(ruby.ary_from_vec(tickets))?;
        Ok(notices)
    }

    /// Whether there is nothing to do; if so, the next thing that comes writes to the descriptor.
    fn may_sleep(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        let mut waiting = rb_self.queue.get(ruby)?.waiting.lock();
        let idle =
            waiting.attempts.is_empty() && waiting.stops.is_empty() && waiting.tickets.is_empty();
        waiting.is_asleep = idle;
        Ok(idle)
    }

    /// Wakes the reactor from any thread.
    fn wake(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        rb_self.queue.get(ruby)?.put(|_| {});
        Ok(())
    }

    /// Gives the other end of the descriptor back: nobody is to be woken any more.
    fn close(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        rb_self.queue.get(ruby)?.wake.lock().take();
        Ok(())
    }
}

pub fn init(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Reactor", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("open", function!(NativeReactor::open, 0))?;
    class.define_method("take", method!(NativeReactor::take, 0))?;
    class.define_method("attempts?", method!(NativeReactor::has_attempts, 0))?;
    class.define_method("notices?", method!(NativeReactor::has_notices, 0))?;
    class.define_method("take_notices", method!(NativeReactor::take_notices, 0))?;
    class.define_method("sleep?", method!(NativeReactor::may_sleep, 0))?;
    class.define_method("wake", method!(NativeReactor::wake, 0))?;
    class.define_method("close", method!(NativeReactor::close, 0))?;
    Ok(())
}
