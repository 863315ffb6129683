//! `Prosody::NativeValueState`: a value of the key at hand, as JSON text.

use std::sync::Arc;
use std::thread::{self, ThreadId};

use bytes::Bytes;
use futures::FutureExt;
use magnus::{Class, Error, Module, RModule, RString, Ruby, Value, method};
use prosody_core::attempt::Attempt;
use prosody_core::ledger::Coordinate;

use crate::bridge::{self, Success};
use crate::error::{self, Reason};
use crate::fork::Owned;
use crate::reactor::NativeReactor;

/// See the module.
#[magnus::wrap(class = "Prosody::NativeValueState", free_immediately)]
pub struct NativeValueState {
    attempt: Owned<Arc<Attempt>>,
    thread: ThreadId,
    collection: Arc<str>,
    cell: Coordinate,
}

impl NativeValueState {
    /// The handle of one collection in one attempt.
    pub fn new(attempt: Arc<Attempt>, thread: ThreadId, collection: &str) -> Self {
        let collection: Arc<str> = collection.into();
        Self {
            attempt: Owned::new(attempt),
            thread,
            cell: Coordinate::Cell {
                collection: Arc::clone(&collection),
                coordinate: Bytes::new(),
            },
            collection,
        }
    }

    fn attempt(&self, ruby: &Ruby) -> Result<&Arc<Attempt>, Error> {
        let attempt = self.attempt.get(ruby).map_err(|forked| {
            error::transient_state(ruby, format!("handle outlived its event: {forked}"))
        })?;
        if thread::current().id() != self.thread {
            let text = "state is used from another thread than its handler's: hand over what was \
                        read instead of the handle";
            return Err(error::transient_state(ruby, text.to_owned()));
        }
        Ok(attempt)
    }

    fn get(ruby: &Ruby, rb_self: &Self) -> Result<Option<RString>, Error> {
        let item = rb_self.attempt(ruby)?.read(&rb_self.cell);
        let item = item.map_err(|error| Reason::from(error).raise(ruby))?;
        Ok(item.map(|item| ruby.enc_str_new(&*item, ruby.utf8_encoding())))
    }

    fn set(ruby: &Ruby, rb_self: &Self, json: RString) -> Result<(), Error> {
        let attempt = rb_self.attempt(ruby)?;
        // SAFETY: nothing calls Ruby before the bytes are copied.
        let written = attempt.write(rb_self.cell.clone(), unsafe { json.as_slice() });
        written.map_err(|error| Reason::from(error).raise(ruby))
    }

    fn clear(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        let removed = rb_self.attempt(ruby)?.remove(rb_self.cell.clone());
        removed.map_err(|error| Reason::from(error).raise(ruby))
    }

    fn commit(
        ruby: &Ruby,
        rb_self: &Self,
        reactor: Option<&NativeReactor>,
    ) -> Result<Value, Error> {
        let attempt = rb_self.attempt(ruby)?;
        let reactor = reactor.map(|reactor| reactor.queue(ruby)).transpose()?;
        let publication = attempt.publish(Arc::clone(&rb_self.collection));
        let publication = publication.map_err(|error| Reason::from(error).raise(ruby))?;
        let completion = async move {
            publication.await?;
            Ok(Success::Nil)
        };
        bridge::start(ruby, reactor, completion.boxed())
    }

    fn rollback(ruby: &Ruby, rb_self: &Self) -> Result<(), Error> {
        let dropped = rb_self.attempt(ruby)?.rollback(&rb_self.collection);
        dropped.map_err(|error| Reason::from(error).raise(ruby))
    }
}

pub fn init(ruby: &Ruby, prosody: RModule) -> Result<(), Error> {
    let class = prosody.define_class("NativeValueState", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_method("get", method!(NativeValueState::get, 0))?;
    class.define_method("set", method!(NativeValueState::set, 1))?;
    class.define_method("clear", method!(NativeValueState::clear, 0))?;
    class.define_method("commit", method!(NativeValueState::commit, 1))?;
    class.define_method("rollback", method!(NativeValueState::rollback, 0))?;
    Ok(())
}
