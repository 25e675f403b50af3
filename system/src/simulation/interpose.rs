//! libc's clocks and random numbers, replaced in a thread that simulates.
#![allow(unsafe_code)]

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_long, c_uint, c_void},
    time::Duration,
};

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore as _, SeedableRng as _},
};

/// Where simulated clocks begin: 2026-01-01.
const WALL_BEGIN: Duration = Duration::from_secs(1_767_225_600);
/// A monotonic clock does not begin at 0: ages of things before the begin are computed from it.
const MONOTONIC_BEGIN: Duration = Duration::from_secs(1_000_000);

thread_local! {
    /// Time since the begin of the simulation; none in other threads.
    static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
    /// By how much the wall clock of the host that runs is off.
    static WALL_OFFSET_MS: Cell<i64> = const { Cell::new(0) };
    static ENTROPY: RefCell<Option<ChaCha8Rng>> = const { RefCell::new(None) };
}

/// From here on this thread has the simulation's clock and its random numbers.
pub(super) fn begin(seed: u64) {
    let (clock, random) = (clock_gettime as *const (), getrandom as *const ());
    std::hint::black_box((clock, random)); // or the linker would take libc's
    ENTROPY.set(Some(ChaCha8Rng::seed_from_u64(seed)));
    NOW.set(Some(Duration::ZERO));
}

pub(super) fn set_now(now: Duration) {
    NOW.set(Some(now));
}

pub(super) fn set_wall_offset_ms(offset_ms: i64) {
    WALL_OFFSET_MS.set(offset_ms);
}

/// # Safety
/// As POSIX has it: `to` is to be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: c_int, to: *mut libc::timespec) -> c_int {
    let Some(now) = NOW.get() else {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, c_long::from(clock), to) } as c_int;
    };
    let time = match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE => {
            let (right, offset_ms) = (WALL_BEGIN + now, WALL_OFFSET_MS.get());
            let offset = Duration::from_millis(offset_ms.unsigned_abs());
            if offset_ms < 0 { right.saturating_sub(offset) } else { right + offset }
        }
        _ => MONOTONIC_BEGIN + now,
    };
    let time = libc::timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
    // SAFETY: the caller's promise.
    unsafe { to.write(time) };
    0
}

/// # Safety
/// As Linux has it: `length` bytes from `buffer` on are to be written to.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    ENTROPY.with_borrow_mut(|entropy| match entropy {
        Some(_) if length == 0 => 0,
        Some(entropy) => {
            // SAFETY: the caller's promise.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
            entropy.fill_bytes(bytes);
            length.cast_signed()
        }
        // SAFETY: the caller's promise.
        None => unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize },
    })
}
