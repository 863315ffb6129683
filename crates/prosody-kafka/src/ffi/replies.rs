//! Requests whose answers arrive on a queue of their own.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use prosody_core::record::{TopicId, TopicPartition};
use rdkafka::TopicPartitionList;
use rdkafka::client::{Client, ClientContext};
use rdkafka_sys as sys;
use sys::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_NO_ERROR;

use super::{NativeError, check, native_error, text};
use crate::wake::Waker;

/// A topic as `DescribeTopics` tells of it.
#[derive(Clone, Debug)]
pub(crate) struct DescribedTopic {
    pub name: String,
    /// Its id and number of partitions.
    pub found: Result<(TopicId, i32), NativeError>,
}

/// What a partition of a group's offsets holds.
pub(crate) struct GroupOffset {
    pub partition: TopicPartition,
    /// The committed offset; negative if there is none.
    pub offset: Result<i64, NativeError>,
    /// What its commit says besides.
    pub metadata: String,
}

/// An answer to a request whose answers go to a [`Replies`].
pub(crate) enum Reply {
    /// Of [`Replies::commit`]: the partitions that were refused.
    Committed(Result<Vec<(TopicPartition, NativeError)>, NativeError>),
    /// Of [`Replies::describe`].
    Topics(u64, Result<Vec<DescribedTopic>, NativeError>),
    /// Of [`Replies::offsets`].
    Offsets(u64, Result<Vec<GroupOffset>, NativeError>),
}

/// A queue of one client on which its answers arrive, apart from records.
pub(crate) struct Replies<'c> {
    client: *mut sys::rd_kafka_t,
    queue: NonNull<sys::rd_kafka_queue_t>,
    /// Used by librdkafka until the callback is taken back in `drop`.
    _waker: Arc<Waker>,
    _client: PhantomData<&'c ()>,
}

impl<'c> Replies<'c> {
    /// Makes a queue that wakes `waker` when an answer arrives.
    pub fn new<C: ClientContext>(client: &'c Client<C>, waker: &Arc<Waker>) -> Option<Self> {
        let waker = Arc::clone(waker);
        let native = client.native_ptr();
        // SAFETY: the client is alive (borrowed for 'c), and so is the waker as long as the
        // callback is set: `self` owns a count of it and takes the callback back first.
        let queue = unsafe {
            let queue = NonNull::new(sys::rd_kafka_queue_new(native))?;
            let opaque = Arc::as_ptr(&waker).cast_mut().cast();
            sys::rd_kafka_queue_cb_event_enable(queue.as_ptr(), Some(wake), opaque);
            queue
        };
        Some(Self {
            client: native,
            queue,
            _waker: waker,
            _client: PhantomData,
        })
    }

    /// Commits offsets; answered by [`Reply::Committed`].
    pub fn commit(&self, offsets: &TopicPartitionList) -> Result<(), NativeError> {
        // SAFETY: client and queue are alive; librdkafka copies the list. The callback only marks
        // the answer as one for this queue: answers that are polled as events do not call it.
        let code = unsafe {
            sys::rd_kafka_commit_queue(
                self.client,
                offsets.ptr(),
                self.queue.as_ptr(),
                Some(ignore_commit),
                ptr::null_mut(),
            )
        };
        check(code)
    }

    /// Describes topics; answered by [`Reply::Topics`] with the same number.
    pub fn describe(&self, number: u64, topics: &[CString], limit: Duration) {
        let mut names: Vec<*const c_char> = topics.iter().map(|name| name.as_ptr()).collect();
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        // SAFETY: the names live until the end of this call, and librdkafka copies them and the
        // options before it returns.
        unsafe {
            let topics =
                sys::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
            let options = self.admin_options(operation, number, limit);
            sys::rd_kafka_DescribeTopics(self.client, topics, options, self.queue.as_ptr());
            sys::rd_kafka_AdminOptions_destroy(options);
            sys::rd_kafka_TopicCollection_destroy(topics);
        }
    }

    /// Asks for a group's committed offsets; answered by [`Reply::Offsets`] with the same number.
    pub fn offsets(&self, number: u64, group: &CStr, list: &TopicPartitionList, limit: Duration) {
        let operation = sys::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS;
        // SAFETY: as in `describe`; the request object is ours and destroyed after librdkafka
        // copied it.
        unsafe {
            let mut request =
                sys::rd_kafka_ListConsumerGroupOffsets_new(group.as_ptr(), list.ptr());
            let options = self.admin_options(operation, number, limit);
            // Offsets of a transaction that is under way count once it is over. Fails only for
            // other operations than this.
            let error = sys::rd_kafka_AdminOptions_set_require_stable_offsets(options, 1);
            if !error.is_null() {
                sys::rd_kafka_error_destroy(error);
            }
            let queue = self.queue.as_ptr();
            sys::rd_kafka_ListConsumerGroupOffsets(
                self.client,
                &raw mut request,
                1,
                options,
                queue,
            );
            sys::rd_kafka_AdminOptions_destroy(options);
            sys::rd_kafka_ListConsumerGroupOffsets_destroy(request);
        }
    }

    /// The next answer, if there is one.
    pub fn next(&self) -> Option<Reply> {
        loop {
            // SAFETY: the queue is alive; the event is ours, and destroyed below after everything
            // was copied out of it.
            unsafe {
                let event = sys::rd_kafka_queue_poll(self.queue.as_ptr(), 0);
                if event.is_null() {
                    return None;
                }
                let reply = read_reply(event);
                sys::rd_kafka_event_destroy(event);
                if reply.is_some() {
                    return reply;
                }
            }
        }
    }

    /// # Safety
    /// The caller destroys the options.
    unsafe fn admin_options(
        &self,
        operation: sys::rd_kafka_admin_op_t,
        number: u64,
        limit: Duration,
    ) -> *mut sys::rd_kafka_AdminOptions_t {
        // librdkafka takes 0 to 3,600,000; within that the call cannot fail.
        let limit_ms = c_int::try_from(limit.as_millis())
            .unwrap_or(c_int::MAX)
            .min(3_600_000);
        let opaque = ptr::without_provenance_mut::<c_void>(usize::try_from(number).unwrap_or(0));
        // SAFETY: the client is alive; a null error buffer of size 0 is allowed.
        unsafe {
            let options = sys::rd_kafka_AdminOptions_new(self.client, operation);
            sys::rd_kafka_AdminOptions_set_request_timeout(options, limit_ms, ptr::null_mut(), 0);
            sys::rd_kafka_AdminOptions_set_opaque(options, opaque);
            options
        }
    }
}

impl Drop for Replies<'_> {
    fn drop(&mut self) {
        // SAFETY: the client is alive ('c). librdkafka calls back under the queue's lock, which
        // taking the callback back takes too: afterwards the waker is not used any more.
        unsafe {
            sys::rd_kafka_queue_cb_event_enable(self.queue.as_ptr(), None, ptr::null_mut());
            sys::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// # Safety
/// `event` is alive.
unsafe fn event_error(event: *mut sys::rd_kafka_event_t) -> Option<NativeError> {
    // SAFETY: the event is alive, and owns the text.
    unsafe {
        let code = sys::rd_kafka_event_error(event);
        (code != RD_KAFKA_RESP_ERR_NO_ERROR).then(|| NativeError {
            code: code.into(),
            text: text(sys::rd_kafka_event_error_string(event)),
        })
    }
}

/// # Safety
/// `event` is alive. Nothing of the result points into it.
unsafe fn read_reply(event: *mut sys::rd_kafka_event_t) -> Option<Reply> {
    // SAFETY: the accessors belong to the event's type, and everything is copied.
    unsafe {
        let error = event_error(event);
        let number = sys::rd_kafka_event_opaque(event).addr() as u64;
        match sys::rd_kafka_event_type(event) {
            sys::RD_KAFKA_EVENT_OFFSET_COMMIT => Some(Reply::Committed(match error {
                Some(error) => Err(error),
                None => Ok(read_refused(sys::rd_kafka_event_topic_partition_list(
                    event,
                ))),
            })),
            sys::RD_KAFKA_EVENT_DESCRIBETOPICS_RESULT => Some(Reply::Topics(
                number,
                error.map_or_else(|| Ok(read_topics(event)), Err),
            )),
            sys::RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT => Some(Reply::Offsets(
                number,
                error.map_or_else(|| read_offsets(event), Err),
            )),
            _ => None,
        }
    }
}

/// # Safety
/// `start` is null or the start of so many bytes, which live for as long as the result.
unsafe fn bytes<'a>(start: *const u8, length: usize) -> &'a [u8] {
    if start.is_null() {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { slice::from_raw_parts(start, length) }
}

/// # Safety
/// `list` is null or alive.
unsafe fn read_list(list: *const sys::rd_kafka_topic_partition_list_t) -> Vec<GroupOffset> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: `elems` are `cnt` initialised elements with a C string each.
    let elements = unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        if count == 0 {
            return Vec::new();
        }
        slice::from_raw_parts((*list).elems, count)
    };
    let read = |element: &sys::rd_kafka_topic_partition_t| {
        // SAFETY: as above.
        let topic = unsafe { text(element.topic) };
        // SAFETY: the metadata, if there is any, has so many bytes.
        let metadata = unsafe { bytes(element.metadata.cast(), element.metadata_size) };
        GroupOffset {
            partition: TopicPartition::new(topic, element.partition),
            offset: check(element.err).map(|()| element.offset),
            metadata: String::from_utf8_lossy(metadata).into_owned(),
        }
    };
    elements.iter().map(read).collect()
}

/// # Safety
/// `list` is null or alive.
unsafe fn read_refused(
    list: *const sys::rd_kafka_topic_partition_list_t,
) -> Vec<(TopicPartition, NativeError)> {
    // SAFETY: by this function's contract.
    let all = unsafe { read_list(list) };
    all.into_iter()
        .filter_map(|one| Some((one.partition, one.offset.err()?)))
        .collect()
}

/// # Safety
/// `event` is the alive result of a `DescribeTopics`.
unsafe fn read_topics(event: *mut sys::rd_kafka_event_t) -> Vec<DescribedTopic> {
    // SAFETY: the accessors belong to this event; what they return lives as long as it.
    unsafe {
        let result = sys::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        let topics = sys::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if topics.is_null() || count == 0 {
            return Vec::new();
        }
        let topics = slice::from_raw_parts(topics, count);
        topics.iter().map(|topic| read_topic(*topic)).collect()
    }
}

/// # Safety
/// `topic` is alive.
unsafe fn read_topic(topic: *const sys::rd_kafka_TopicDescription_t) -> DescribedTopic {
    // SAFETY: by this function's contract; the id may be null for an error.
    unsafe {
        let name = text(sys::rd_kafka_TopicDescription_name(topic));
        let error = sys::rd_kafka_TopicDescription_error(topic);
        let code = sys::rd_kafka_error_code(error);
        if code != RD_KAFKA_RESP_ERR_NO_ERROR {
            let found = Err(native_error(code));
            return DescribedTopic { name, found };
        }
        let mut partitions = 0;
        sys::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = sys::rd_kafka_TopicDescription_topic_id(topic);
        let id = if id.is_null() { 0 } else { read_id(id) };
        let count = i32::try_from(partitions).unwrap_or(i32::MAX);
        let found = Ok((TopicId(id), count));
        DescribedTopic { name, found }
    }
}

/// # Safety
/// `id` is alive.
unsafe fn read_id(id: *const sys::rd_kafka_Uuid_t) -> u128 {
    // SAFETY: by this function's contract.
    let (high, low) = unsafe {
        (
            sys::rd_kafka_Uuid_most_significant_bits(id),
            sys::rd_kafka_Uuid_least_significant_bits(id),
        )
    };
    let bits = |half: i64| u128::from(u64::from_ne_bytes(half.to_ne_bytes()));
    (bits(high) << 64) | bits(low)
}

/// # Safety
/// `event` is the alive result of a `ListConsumerGroupOffsets` for one group.
unsafe fn read_offsets(event: *mut sys::rd_kafka_event_t) -> Result<Vec<GroupOffset>, NativeError> {
    // SAFETY: the accessors belong to this event; what they return lives as long as it.
    unsafe {
        let result = sys::rd_kafka_event_ListConsumerGroupOffsets_result(event);
        let mut count = 0;
        let groups = sys::rd_kafka_ListConsumerGroupOffsets_result_groups(result, &raw mut count);
        if groups.is_null() || count == 0 {
            return Ok(Vec::new());
        }
        let group = *groups;
        let error = sys::rd_kafka_group_result_error(group);
        if !error.is_null() {
            check(sys::rd_kafka_error_code(error))?;
        }
        Ok(read_list(sys::rd_kafka_group_result_partitions(group)))
    }
}

/// # Safety
/// `opaque` is the [`Waker`] that [`Replies::new`] set.
unsafe extern "C" fn wake(_: *mut sys::rd_kafka_t, opaque: *mut c_void) {
    // SAFETY: the waker lives until the callback was taken back.
    unsafe { (*opaque.cast::<Waker>()).wake() }
}

unsafe extern "C" fn ignore_commit(
    _: *mut sys::rd_kafka_t,
    _: sys::rd_kafka_resp_err_t,
    _: *mut sys::rd_kafka_topic_partition_list_t,
    _: *mut c_void,
) {
}
