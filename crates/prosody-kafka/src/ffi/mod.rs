//! The calls that rdkafka does not wrap; the only unsafe code of this crate.
//!
//! Everything that holds a native pointer borrows the client that it came from, so that it is gone
//! before the client is destroyed.

#![allow(unsafe_code)]

mod message;
mod replies;

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;
use std::ptr::NonNull;

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

pub(crate) use self::message::{NativeHeaders, Outgoing, leader_epoch, produce};
pub(crate) use self::replies::{DescribedTopic, GroupOffset, Replies, Reply};

/// An error of librdkafka, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NativeError {
    pub code: RDKafkaErrorCode,
    pub text: String,
}

/// A consumer's own queue, for its length only.
pub(crate) struct ConsumerQueue<'c> {
    queue: NonNull<sys::rd_kafka_queue_t>,
    _client: PhantomData<&'c ()>,
}

impl<'c> ConsumerQueue<'c> {
    /// The queue of a consumer with a group.
    pub fn new<C: ClientContext>(client: &'c Client<C>) -> Option<Self> {
        // SAFETY: the client is alive; the returned reference is ours to destroy.
        let queue = unsafe { sys::rd_kafka_queue_get_consumer(client.native_ptr()) };
        Some(Self {
            queue: NonNull::new(queue)?,
            _client: PhantomData,
        })
    }

    /// Whether nothing waits in it.
    pub fn is_empty(&self) -> bool {
        // SAFETY: the queue is alive.
        unsafe { sys::rd_kafka_queue_length(self.queue.as_ptr()) == 0 }
    }
}

impl Drop for ConsumerQueue<'_> {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and the client is alive ('c).
        unsafe { sys::rd_kafka_queue_destroy(self.queue.as_ptr()) }
    }
}

/// Has a client meet a fatal error.
#[cfg(test)]
pub(crate) fn fail_for_good<C: ClientContext>(client: &Client<C>) {
    let code = sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: the client is alive, and the text a C string.
    unsafe { sys::rd_kafka_test_fatal_error(client.native_ptr(), code, c"a test".as_ptr()) };
}

fn check(code: sys::rd_kafka_resp_err_t) -> Result<(), NativeError> {
    if code == RD_KAFKA_RESP_ERR_NO_ERROR {
        Ok(())
    } else {
        Err(native_error(code))
    }
}

fn native_error(code: sys::rd_kafka_resp_err_t) -> NativeError {
    // SAFETY: returns a static string for every code.
    let text = unsafe { text(sys::rd_kafka_err2str(code)) };
    NativeError {
        code: code.into(),
        text,
    }
}

/// # Safety
/// `text` is null or a C string.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
