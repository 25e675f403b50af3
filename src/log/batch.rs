//! The one place that calls librdkafka without rdkafka's own wrapper, for two reasons: its batch call costs half of what
//! `BaseConsumer::poll` does a record, and it tells the offset at which a partition ends, which `poll` leaves out
//! and without which "caught up" could only be guessed from silence.
#![allow(unsafe_code)]

use std::{borrow::Cow, ffi::CStr, marker::PhantomData, ptr, slice, time::Duration};

use hotspare_cluster::{Offset, PartitionId};
use rdkafka::{
    bindings as sys,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    types::RDKafkaRespErr,
};

use super::{Event, LogError, Record};

const BATCH_MESSAGES: usize = 1024;

/// The queue on which a consumer's messages arrive.
pub(super) struct Queue {
    queue: *mut sys::rd_kafka_queue_t,
    messages: Vec<*mut sys::rd_kafka_message_t>,
}

// SAFETY: librdkafka's queues may be used from any thread; this handle is used by one at a time (`&mut self`).
unsafe impl Send for Queue {}

impl Queue {
    /// The consumer must outlive the queue's use: [`Queue::poll`] takes it as a witness.
    pub(super) fn of<C: ConsumerContext>(consumer: &BaseConsumer<C>) -> Self {
        // SAFETY: the client is valid as long as `consumer` lives; the call adds a reference to the queue.
        let queue = unsafe { sys::rd_kafka_queue_get_consumer(consumer.client().native_ptr()) };
        Self { queue, messages: vec![ptr::null_mut(); BATCH_MESSAGES] }
    }

    /// Waits for one event at most so long, then takes what else is there, up to a bound.
    pub(super) fn poll<C: ConsumerContext>(
        &mut self,
        _alive: &BaseConsumer<C>,
        timeout: Duration,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // The call waits until the array is full, so the first one asks for one message only.
        if self.take(timeout_ms, 1, sink) == 1 {
            self.take(0, BATCH_MESSAGES, sink);
        }
    }

    fn take(&mut self, timeout_ms: i32, size: usize, sink: &mut dyn FnMut(Event<'_>)) -> usize {
        if self.queue.is_null() {
            return 0;
        }
        // SAFETY: the array holds at least `size` places, and the queue is valid until it is dropped.
        let count =
            unsafe { sys::rd_kafka_consume_batch_queue(self.queue, timeout_ms, self.messages.as_mut_ptr(), size) };
        let count = usize::try_from(count).unwrap_or(0);
        for place in &mut self.messages[..count] {
            let message = Owned(std::mem::replace(place, ptr::null_mut()));
            if let Some(event) = event_of(&message) {
                sink(event);
            }
        }
        count
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.queue.is_null() {
            // SAFETY: gives back the one reference that this handle holds.
            unsafe { sys::rd_kafka_queue_destroy(self.queue) };
        }
    }
}

struct Owned(*mut sys::rd_kafka_message_t);

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: the message came from the batch call and is destroyed once.
        unsafe { sys::rd_kafka_message_destroy(self.0) };
    }
}

fn event_of(message: &Owned) -> Option<Event<'_>> {
    // SAFETY: the message is valid until `Owned` is dropped, and all that is borrowed here lives no longer.
    let raw = unsafe { &*message.0 };
    let partition = PartitionId(u32::try_from(raw.partition).ok()?);
    match raw.err {
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {}
        RDKafkaRespErr::RD_KAFKA_RESP_ERR__PARTITION_EOF => return Some(Event::End(partition, Offset(raw.offset))),
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE
        | RDKafkaRespErr::RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET => {
            return Some(Event::Error(partition, LogError::OffsetOutOfRange { offset: raw.offset }));
        }
        error => {
            let code = rdkafka::types::RDKafkaErrorCode::from(error);
            return Some(Event::Error(partition, LogError::Unavailable(code.to_string())));
        }
    }
    let mut kind = sys::rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: as above.
    let timestamp_ms = unsafe { sys::rd_kafka_message_timestamp(message.0, &mut kind) };
    Some(Event::Record(
        partition,
        Record {
            offset: Offset(raw.offset),
            timestamp_ms,
            key: bytes(raw.key, raw.key_len),
            value: bytes(raw.payload, raw.len),
            headers: super::Headers::Client(Headers { message: message.0, lives: PhantomData }),
        },
    ))
}

fn bytes<'a>(data: *const std::ffi::c_void, length: usize) -> Option<&'a [u8]> {
    // SAFETY: librdkafka gives null, or a pointer to `length` bytes that live as long as the message.
    (!data.is_null()).then(|| unsafe { slice::from_raw_parts(data.cast(), length) })
}

/// The headers of a message, decoded when asked for.
#[derive(Debug)]
pub(super) struct Headers<'a> {
    message: *const sys::rd_kafka_message_t,
    lives: PhantomData<&'a ()>,
}

impl<'a> Headers<'a> {
    pub(super) fn to_vec(&self) -> Vec<(Cow<'a, str>, Option<&'a [u8]>)> {
        let mut headers = ptr::null_mut();
        // SAFETY: the message lives for 'a; the call fills `headers` with a pointer that the message owns.
        let found = unsafe { sys::rd_kafka_message_headers(self.message, &mut headers) };
        if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Vec::new();
        }
        let mut all = Vec::new();
        loop {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: `headers` is valid; an index beyond the last gives an error and changes nothing.
            let found = unsafe { sys::rd_kafka_header_get_all(headers, all.len(), &mut name, &mut value, &mut length) };
            if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                return all;
            }
            // SAFETY: the name is a terminated string that the message owns.
            let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
            all.push((name, bytes(value, length)));
        }
    }
}
