//! `Prosody::Native::Client`: a client, as lib/prosody/client.rb holds it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use magnus::{
    Class, Error, Module, Object, RArray, RHash, RModule, RString, Ruby, Symbol, Value, function,
    method,
};
use prosody_client::{Client, ConsumerState};
use prosody_core::record::{Headers, OutgoingRecord};

use crate::bridge::{self, Success};
use crate::error::Reason;
use crate::fork::Owned;
use crate::process;
use crate::reactor::{NativeReactor, RubyHandler};
use crate::settings;

/// See the module.
#[magnus::wrap(class = "Prosody::Native::Client", free_immediately)]
pub struct NativeClient {
    client: Owned<Arc<Client>>,
}

impl NativeClient {
    fn new(ruby: &Ruby, options: RHash) -> Result<Self, Error> {
        let settings = settings::client(ruby, options)?;
        let state = process::state(ruby)?;
        let _context = state.process.runtime().enter();
        let client = Client::new(&state.process, settings);
        let client = client.map_err(|error| Reason::from(error).raise(ruby))?;
        Ok(Self {
            client: Owned::new(Arc::new(client)),
        })
    }

    /// Key and payload are nil or Strings, headers an Array of `[name, value or nil]`.
    fn send(
        ruby: &Ruby,
        rb_self: &Self,
        topic: String,
        key: Option<RString>,
        payload: Option<RString>,
        headers: Option<RArray>,
        reactor: Option<&NativeReactor>,
    ) -> Result<Value, Error> {
        let client = rb_self.client.get(ruby)?;
        let record = OutgoingRecord {
            topic: topic.into(),
            key: key.map(copied),
            payload: payload.map(copied),
            headers: headers.map(headers_of).transpose()?.unwrap_or_default(),
        };
        let reactor = reactor.map(|reactor| reactor.queue(ruby)).transpose()?;
        let state = process::state(ruby)?;
        let _context = state.process.runtime().enter();
        let sent = client.send(record).map(|sent| match sent {
            Ok(()) => Ok(Success::Nil),
            Err(error) => Err(error.into()),
        });
        bridge::start(ruby, reactor, sent)
    }

    fn subscribe(ruby: &Ruby, rb_self: &Self, reactor: &NativeReactor) -> Result<Value, Error> {
        let client = rb_self.client.get(ruby)?;
        let handler = RubyHandler(reactor.queue(ruby)?);
        let subscribed = client
            .subscribe(Arc::new(handler))
            .map(|subscribed| match subscribed {
                Ok(()) => Ok(Success::Nil),
                Err(error) => Err(error.into()),
            });
        bridge::start(ruby, None, subscribed)
    }

    /// True if the client was consuming.
    fn unsubscribe(ruby: &Ruby, rb_self: &Self, limit_seconds: f64) -> Result<Value, Error> {
        let client = rb_self.client.get(ruby)?;
        let limit = Duration::try_from_secs_f64(limit_seconds).unwrap_or_default();
        let stopped = client
            .unsubscribe(limit)
            .map(|was_running| Ok(Success::Bool(was_running)));
        bridge::start(ruby, None, stopped)
    }

    fn consumer_state(ruby: &Ruby, rb_self: &Self) -> Result<Symbol, Error> {
        Ok(
            ruby.to_symbol(match rb_self.client.get(ruby)?.consumer_state() {
                ConsumerState::Unconfigured => "unconfigured",
                ConsumerState::Configured => "configured",
                ConsumerState::Running => "running",
            }),
        )
    }

    fn assigned_partitions(ruby: &Ruby, rb_self: &Self) -> Result<usize, Error> {
        Ok(rb_self.client.get(ruby)?.assigned_partitions())
    }

    fn is_stalled(ruby: &Ruby, rb_self: &Self) -> Result<bool, Error> {
        Ok(!rb_self.client.get(ruby)?.stalls().is_empty())
    }
}

fn copied(string: RString) -> Bytes {
    // SAFETY: nothing calls Ruby before the bytes are copied.
    Bytes::copy_from_slice(unsafe { string.as_slice() })
}

fn headers_of(pairs: RArray) -> Result<Headers, Error> {
    let mut headers = Vec::with_capacity(pairs.len());
    for index in 0..pairs.len() {
        let index = isize::try_from(index).unwrap_or(isize::MAX);
        let (name, value): (RString, Option<RString>) = pairs.entry(index)?;
        headers.push((copied(name), value.map(copied)));
    }
    Ok(Headers::new(headers))
}

pub fn init(ruby: &Ruby, native: RModule) -> Result<(), Error> {
    let class = native.define_class("Client", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_singleton_method("new", function!(NativeClient::new, 1))?;
    class.define_method("send_record", method!(NativeClient::send, 5))?;
    class.define_method("subscribe", method!(NativeClient::subscribe, 1))?;
    class.define_method("unsubscribe", method!(NativeClient::unsubscribe, 1))?;
    class.define_method("consumer_state", method!(NativeClient::consumer_state, 0))?;
    class.define_method(
        "assigned_partitions",
        method!(NativeClient::assigned_partitions, 0),
    )?;
    class.define_method("stalled?", method!(NativeClient::is_stalled, 0))?;
    Ok(())
}
