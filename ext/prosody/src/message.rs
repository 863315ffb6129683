//! `Prosody::Message`: a message of the log. Its payload becomes a Ruby object only when asked for
//! (lib/prosody/message.rb).

use std::sync::Arc;

use magnus::value::ReprValue;
use magnus::{Class, Error, Module, RHash, RModule, RString, Ruby, method};
use prosody_core::event::{Event, Message};

use crate::fork::Owned;

/// Records that are smaller are not reported to Ruby's garbage collector: their objects alone bring
/// it about often enough.
const REPORTED_BYTES_MIN: usize = 4_096;

/// See the module.
#[magnus::wrap(class = "Prosody::Message", free_immediately)]
pub struct NativeMessage {
    event: Owned<Arc<Event>>,
    /// Bytes that the garbage collector was told of: it sees a small object only, and would let
    /// large records pile up behind those that nobody refers to any more.
    reported: isize,
}

impl NativeMessage {
    /// The message of an event.
    pub fn new(ruby: &Ruby, event: Arc<Event>) -> Self {
        let Event::Message(message) = &*event;
        let bytes = message.record.weight();
        let mut reported = 0;
        if bytes >= REPORTED_BYTES_MIN {
            reported = isize::try_from(bytes).unwrap_or(0);
            ruby.gc_adjust_memory_usage(reported);
        }
        Self {
            event: Owned::new(event),
            reported,
        }
    }

    fn message(&self, ruby: &Ruby) -> Result<&Message, Error> {
        let Event::Message(message) = &**self.event.get(ruby)?;
        Ok(message)
    }

    fn topic(ruby: &Ruby, rb_self: &Self) -> Result<RString, Error> {
        let message = rb_self.message(ruby)?;
        Ok(ruby.str_new(&message.record.topic_partition.topic))
    }

    fn partition(ruby: &Ruby, rb_self: &Self) -> Result<i32, Error> {
        Ok(rb_self.message(ruby)?.record.topic_partition.partition)
    }

    fn offset(ruby: &Ruby, rb_self: &Self) -> Result<i64, Error> {
        Ok(rb_self.message(ruby)?.record.offset)
    }

    fn timestamp_ms(ruby: &Ruby, rb_self: &Self) -> Result<i64, Error> {
        Ok(rb_self.message(ruby)?.record.timestamp_ms)
    }

    fn key(ruby: &Ruby, rb_self: &Self) -> Result<RString, Error> {
        let key = rb_self.message(ruby)?.key.as_ref();
        Ok(ruby.str_new(key.map_or("", |key| key.as_str())))
    }

    /// The payload's bytes, which are known to be JSON; nil for a tombstone.
    fn payload_json(ruby: &Ruby, rb_self: &Self) -> Result<Option<RString>, Error> {
        let payload = rb_self.message(ruby)?.record.payload.as_ref();
        Ok(payload.map(|payload| ruby.enc_str_new(&**payload, ruby.utf8_encoding())))
    }

    /// Name to value, the last of the same name; not frozen.
    fn header_pairs(ruby: &Ruby, rb_self: &Self) -> Result<RHash, Error> {
        let headers = ruby.hash_new();
        for (name, value) in rb_self.message(ruby)?.record.headers.iter() {
            let name = match std::str::from_utf8(name) {
                Ok(name) => ruby.str_new(name),
                Err(_) => ruby.str_from_slice(name),
            };
            let value = value.as_ref().map(|value| {
                let value = ruby.str_from_slice(value);
                value.freeze();
                value
            });
            headers.aset(name, value)?;
        }
        Ok(headers)
    }
}

impl Drop for NativeMessage {
    fn drop(&mut self) {
        if self.reported == 0 {
            return;
        }
        // The garbage collector drops it, on a thread of Ruby's.
        if let Ok(ruby) = Ruby::get() {
            ruby.gc_adjust_memory_usage(-self.reported);
        }
    }
}

pub fn init(ruby: &Ruby, prosody: RModule) -> Result<(), Error> {
    let class = prosody.define_class("Message", ruby.class_object())?;
    class.undef_default_alloc_func();
    class.define_method("topic", method!(NativeMessage::topic, 0))?;
    class.define_method("partition", method!(NativeMessage::partition, 0))?;
    class.define_method("offset", method!(NativeMessage::offset, 0))?;
    class.define_method("key", method!(NativeMessage::key, 0))?;
    class.define_private_method("timestamp_ms", method!(NativeMessage::timestamp_ms, 0))?;
    class.define_private_method("payload_json", method!(NativeMessage::payload_json, 0))?;
    class.define_private_method("header_pairs", method!(NativeMessage::header_pairs, 0))?;
    Ok(())
}
