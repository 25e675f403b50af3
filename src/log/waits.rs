//! librdkafka's waits, made independent of the wall clock.
//!
//! librdkafka waits by C11's `cnd_timedwait`, whose deadline is a time of the wall clock. When that clock is set back while a
//! thread waits, the thread sleeps on until the clock has made up for it: hours, if it was set back by hours. On a standby
//! where nothing arrives this is the thread that a failover waits for. So this program brings its own `cnd_timedwait`,
//! which the linker takes before glibc's: it turns the deadline into a span at once and waits by the monotonic clock.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// `CLOCK_MONOTONIC`.
const MONOTONIC: c_int = 1;
/// `thrd_success`, `thrd_error` and `thrd_timedout` of glibc's `threads.h`.
const SUCCESS: c_int = 0;
const ERROR: c_int = 2;
const TIMED_OUT: c_int = 4;

unsafe extern "C" {
    fn pthread_cond_clockwait(cond: *mut c_void, mutex: *mut c_void, clock: c_int, until: *const Timespec) -> c_int;
}

/// Keeps [`cnd_timedwait`] from being left out of the program, where glibc's would take its place.
pub(super) fn install() {
    let ours: unsafe extern "C" fn(*mut c_void, *mut c_void, *const Timespec) -> c_int = cnd_timedwait;
    std::hint::black_box(ours);
}

/// C11's `cnd_timedwait`.
///
/// # Safety
/// As C11 has it: an initialised condition variable, a mutex that the caller holds, and a time.
#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_timedwait(cond: *mut c_void, mutex: *mut c_void, until: *const Timespec) -> c_int {
    // SAFETY: the caller gives a time.
    let until = unsafe { *until };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timespec { tv_sec: now.as_secs().cast_signed(), tv_nsec: now.subsec_nanos().into() };
    let deadline = add(clock_gettime(ClockId::Monotonic), span(now, until));
    // SAFETY: glibc's `cnd_t` and `mtx_t` are its condition variable and mutex of POSIX threads, as its own
    // `cnd_timedwait` takes them; `deadline` lives on this stack.
    let result = unsafe { pthread_cond_clockwait(cond, mutex, MONOTONIC, &deadline) };
    match result {
        0 => SUCCESS,
        error if error == rustix::io::Errno::TIMEDOUT.raw_os_error() => TIMED_OUT,
        _ => ERROR,
    }
}

/// From one time to another; none if that is over.
fn span(now: Timespec, until: Timespec) -> Duration {
    let ns = |time: Timespec| i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    u64::try_from(ns(until) - ns(now)).map_or(Duration::ZERO, Duration::from_nanos)
}

fn add(time: Timespec, span: Duration) -> Timespec {
    let nanos = time.tv_nsec + i64::from(span.subsec_nanos());
    let (carry, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    Timespec { tv_sec: time.tv_sec.saturating_add(span.as_secs().cast_signed()).saturating_add(carry), tv_nsec: nanos }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tv_sec: i64, tv_nsec: i64) -> Timespec {
        Timespec { tv_sec, tv_nsec }
    }

    #[test]
    fn a_deadline_becomes_a_span_and_one_that_is_over_none() {
        assert_eq!(span(time(5, 999_999_999), time(7, 1)), Duration::new(1, 2));
        assert_eq!(span(time(5, 1), time(5, 0)), Duration::ZERO);
        assert_eq!(span(time(5, 0), time(-1, -1)), Duration::ZERO, "librdkafka's mark for no end is no deadline");
        assert_eq!(add(time(7, 999_999_999), Duration::new(1, 2)), time(9, 1));
    }

    #[test]
    fn a_wait_ends_at_its_deadline() {
        // Zeros are an initialised condition variable and mutex.
        let (mut cond, mut mutex) = ([0_u64; 6], [0_u64; 5]);
        unsafe extern "C" {
            fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let begin = std::time::Instant::now();
        let until = add(time(now.as_secs().cast_signed(), now.subsec_nanos().into()), Duration::from_millis(30));
        let (cond, mutex) = (cond.as_mut_ptr().cast(), mutex.as_mut_ptr().cast());
        // SAFETY: as initialised above; this thread takes the mutex first.
        let result = unsafe {
            assert_eq!(pthread_mutex_lock(mutex), 0);
            cnd_timedwait(cond, mutex, &until)
        };
        assert_eq!(result, TIMED_OUT);
        assert!(begin.elapsed() >= Duration::from_millis(29), "{:?}", begin.elapsed());
    }
}
