//! `Prosody::Native::Attempt`: one attempt at handling an event, as Ruby holds it.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use futures::FutureExt;
use magnus::{Class, Error, Module, RModule, Ruby, Value, method};
use prosody_core::attempt::Attempt;
use prosody_core::event::Event;
use prosody_core::outcome::{Failure, FailureClass, Outcome};

use crate::bridge::{self, Success};
use crate::fork::Owned;
use crate::message::NativeMessage;
use crate::reactor::NativeReactor;
use crate::value_state::NativeValueState;

/// See the module.
#[magnus::wrap(class = "Prosody::Native::Attempt", free_immediately)]
pub struct NativeAttempt {
    attempt: Owned<Arc<Attempt>>,
    thread: ThreadId,
}

impl NativeAttempt {
    /// Takes an attempt on the thread that runs its handler.
    pub fn new(attempt: Arc<Attempt>) -> Self {
        Self {
            attempt: Owned::new(attempt),
            thread: thread::current().id(),
        }
    }

    /// What tells an attempt from others that live at the same time.
    pub fn id_of(attempt: &Arc<Attempt>) -> usize {
        Arc::as_ptr(attempt) as usize
    }

    fn id(ruby: &Ruby, rb_self: &Self) -> Result<usize, Error> {
        rb_self.attempt.get(ruby).map(Self::id_of)
    }

    fn message(ruby: &Ruby, rb_self: &Self) -> Result<NativeMessage, Error> {
        let attempt = rb_self.attempt.get(ruby)?;
        let Event::Message(_) = attempt.event();
        Ok(NativeMessage::new(ruby, attempt.shared_event()))
    }

    fn has_ledger(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        Ok(rb_self.attempt.get(ruby)?.has_ledger())
    }

    fn should_cancel(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        Ok(rb_self.attempt.get(ruby)?.should_cancel())
    }

    /// Waits until the handler should come to an end.
    fn cancelled(
        ruby: &Ruby,
        rb_self: &Self,
        reactor: Option<&NativeReactor>,
    ) -> Result<Value, Error> {
        let attempt = Arc::clone(rb_self.attempt.get(ruby)?);
        let reactor = reactor.map(|reactor| reactor.queue(ruby)).transpose()?;
        let cancelled = async move {
            attempt.cancelled().await;
            Ok(Success::Nil)
        };
        bridge::start(ruby, reactor, cancelled.boxed())
    }

    fn value_state(
        ruby: &Ruby,
        rb_self: &Self,
        collection: String,
    ) -> Result<NativeValueState, Error> {
        let attempt = Arc::clone(rb_self.attempt.get(ruby)?);
        Ok(NativeValueState::new(attempt, rb_self.thread, &collection))
    }

    fn succeed(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        Self::finish(ruby, rb_self, Outcome::Success)
    }

    fn fail(
        ruby: &Ruby,
        rb_self: &Self,
        is_permanent: bool,
        error: String,
        message: String,
        backtrace: Vec<String>,
    ) -> Result<(), Error> {
        let class = if is_permanent {
            FailureClass::Permanent
        } else {
            FailureClass::Transient
        };
        let failure = Failure {
            class,
            error,
            message,
            backtrace,
        };
        Self::finish(ruby, rb_self, Outcome::Failed(failure))
    }

    fn stopped(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        Self::finish(ruby, rb_self, Outcome::Stopped)
    }

    /// As `stopped`, for something that another handler has done.
    fn interrupted(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        Self::finish(ruby, rb_self, Outcome::Interrupted)
    }

    fn exit(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        Self::finish(ruby, rb_self, Outcome::Exit)
    }

    fn finish(ruby: &Ruby, rb_self: &Self, outcome: Outcome) -> Result<(), Error> {
        rb_self.attempt.get(ruby)?.finish(outcome);
        Ok(())
    }
}

pub fn init(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Attempt", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_method("id", method!(NativeAttempt::id, 0))?;
    class.define_method("message", method!(NativeAttempt::message, 0))?;
    class.define_method("ledger?", method!(NativeAttempt::has_ledger, 0))?;
    class.define_method("should_cancel?", method!(NativeAttempt::should_cancel, 0))?;
    class.define_method("cancelled", method!(NativeAttempt::cancelled, 1))?;
    class.define_method("value_state", method!(NativeAttempt::value_state, 1))?;
    class.define_method("succeed", method!(NativeAttempt::succeed, 0))?;
    class.define_method("fail", method!(NativeAttempt::fail, 4))?;
    class.define_method("stopped", method!(NativeAttempt::stopped, 0))?;
    class.define_method("interrupted", method!(NativeAttempt::interrupted, 0))?;
    class.define_method("exit", method!(NativeAttempt::exit, 0))?;
    Ok(())
}
