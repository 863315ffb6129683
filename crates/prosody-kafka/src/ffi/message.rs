//! Single messages: what is read of one, and sending one.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

use rdkafka::client::{Client, ClientContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka::util::IntoOpaque;
use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

/// The epoch of the leader that wrote the record; -1 if unknown.
pub(crate) fn leader_epoch(message: &BorrowedMessage<'_>) -> i32 {
    // SAFETY: the message is alive.
    unsafe { sys::rd_kafka_message_leader_epoch(message.ptr()) }
}

/// The headers of a message, raw: rdkafka's own reader panics on names that are not UTF-8.
pub(crate) struct NativeHeaders<'m> {
    headers: *const sys::rd_kafka_headers_t,
    next: usize,
    _message: PhantomData<&'m ()>,
}

impl<'m> NativeHeaders<'m> {
    /// `None` if there are none.
    pub fn of(message: &'m BorrowedMessage<'_>) -> Option<Self> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message is alive, and owns the headers.
        let code = unsafe { sys::rd_kafka_message_headers(message.ptr(), &raw mut headers) };
        (code == RD_KAFKA_RESP_ERR_NO_ERROR && !headers.is_null()).then_some(Self {
            headers,
            next: 0,
            _message: PhantomData,
        })
    }
}

impl<'m> Iterator for NativeHeaders<'m> {
    type Item = (&'m [u8], Option<&'m [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut name = ptr::null();
        let mut value = ptr::null();
        let mut size = 0;
        // SAFETY: the headers live as long as the message ('m); an index beyond the last is an
        // error. Names end with a NUL.
        unsafe {
            let code = sys::rd_kafka_header_get_all(
                self.headers,
                self.next,
                &raw mut name,
                &raw mut value,
                &raw mut size,
            );
            if code != RD_KAFKA_RESP_ERR_NO_ERROR {
                return None;
            }
            self.next += 1;
            let value = (!value.is_null()).then(|| slice::from_raw_parts(value.cast(), size));
            Some((CStr::from_ptr(name).to_bytes(), value))
        }
    }
}

/// What is sent, borrowed: librdkafka copies it.
pub(crate) struct Outgoing<'r, H> {
    pub topic: &'r CStr,
    pub key: Option<&'r [u8]>,
    pub payload: Option<&'r [u8]>,
    pub headers: H,
}

/// Hands a record over to a producer. Its outcome comes with `opaque` to the context's `delivery`;
/// if it is not taken, `opaque` is returned.
pub(crate) fn produce<'r, C, O, H>(
    client: &Client<C>,
    record: Outgoing<'r, H>,
    opaque: O,
) -> Result<(), (RDKafkaErrorCode, O)>
where
    C: ClientContext,
    O: IntoOpaque,
    H: Iterator<Item = (&'r [u8], Option<&'r [u8]>)>,
{
    use sys::rd_kafka_vtype_t::{
        RD_KAFKA_VTYPE_END, RD_KAFKA_VTYPE_HEADERS, RD_KAFKA_VTYPE_KEY, RD_KAFKA_VTYPE_MSGFLAGS,
        RD_KAFKA_VTYPE_OPAQUE, RD_KAFKA_VTYPE_TOPIC, RD_KAFKA_VTYPE_VALUE,
    };
    let (key, key_size) = raw_parts(record.key);
    let (payload, payload_size) = raw_parts(record.payload);
    let headers = native_headers(record.headers);
    let opaque = opaque.into_ptr();
    // SAFETY: the arguments follow the tags as librdkafka's documentation lists them, ended by
    // RD_KAFKA_VTYPE_END. Key and payload are copied (MSG_F_COPY). The headers are librdkafka's
    // when the record is taken, and ours to destroy when it is not; so is the opaque pointer.
    unsafe {
        let code = sys::rd_kafka_producev(
            client.native_ptr(),
            RD_KAFKA_VTYPE_TOPIC,
            record.topic.as_ptr(),
            RD_KAFKA_VTYPE_MSGFLAGS,
            sys::RD_KAFKA_MSG_F_COPY,
            RD_KAFKA_VTYPE_VALUE,
            payload,
            payload_size,
            RD_KAFKA_VTYPE_KEY,
            key,
            key_size,
            RD_KAFKA_VTYPE_OPAQUE,
            opaque,
            RD_KAFKA_VTYPE_HEADERS,
            headers,
            RD_KAFKA_VTYPE_END,
        );
        if code == RD_KAFKA_RESP_ERR_NO_ERROR {
            return Ok(());
        }
        if !headers.is_null() {
            sys::rd_kafka_headers_destroy(headers);
        }
        Err((code.into(), O::from_ptr(opaque)))
    }
}

/// Headers in librdkafka's form; null if there are none.
fn native_headers<'r>(
    headers: impl Iterator<Item = (&'r [u8], Option<&'r [u8]>)>,
) -> *mut sys::rd_kafka_headers_t {
    let mut native: *mut sys::rd_kafka_headers_t = ptr::null_mut();
    for (name, value) in headers {
        let (value, value_size) = raw_parts(value);
        // SAFETY: name and value are copied; sizes are those of slices, hence not negative.
        unsafe {
            if native.is_null() {
                native = sys::rd_kafka_headers_new(8);
            }
            sys::rd_kafka_header_add(
                native,
                name.as_ptr().cast(),
                signed(name.len()),
                value,
                signed(value_size),
            );
        }
    }
    native
}

/// The size of a slice, which always fits.
fn signed(size: usize) -> isize {
    isize::try_from(size).unwrap_or(isize::MAX)
}

fn raw_parts(bytes: Option<&[u8]>) -> (*mut c_void, usize) {
    bytes.map_or((ptr::null_mut(), 0), |bytes| {
        (bytes.as_ptr().cast_mut().cast(), bytes.len())
    })
}
