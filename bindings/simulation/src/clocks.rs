//! The functions of the C library that read a clock. `std` and C call them, and so every crate.

use std::ffi::{c_int, c_void};
use std::time::Duration;

use uthread::interposition;
use uthread_interpose::system_call;

use crate::world;

/// Writes what `clock_gettime(2)` does for this clock.
///
/// # Safety
///
/// `time` is valid for a write.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let Some(now) = world::time(clock) else {
        // SAFETY: the contract of the call is the caller's.
        return unsafe { system_call(libc::SYS_clock_gettime, [clock as usize, time.addr()]) }
            as c_int;
    };
    // The library reads clocks as often as real time makes it.
    if interposition::may_suspend() {
        interposition::note_read();
    }
    let now = libc::timespec {
        tv_sec: now.as_secs().cast_signed(),
        tv_nsec: now.subsec_nanos().into(),
    };
    // SAFETY: by the caller's contract.
    unsafe { time.write(now) };
    0
}

/// Writes what `gettimeofday(2)` does. No time zone is written, as glibc writes none.
///
/// # Safety
///
/// `time` is valid for a write.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn gettimeofday(time: *mut libc::timeval, _zone: *mut c_void) -> c_int {
    let now = since_epoch();
    let now = libc::timeval {
        tv_sec: now.as_secs().cast_signed(),
        tv_usec: now.subsec_micros().into(),
    };
    // SAFETY: by the caller's contract.
    unsafe { time.write(now) };
    0
}

/// Returns what `time(2)` does, and writes it if there is a place for it.
///
/// # Safety
///
/// `place` is null, or valid for a write.
#[allow(unsafe_code, reason = "a function of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn time(place: *mut libc::time_t) -> libc::time_t {
    let now = since_epoch().as_secs().cast_signed();
    if !place.is_null() {
        // SAFETY: by the caller's contract.
        unsafe { place.write(now) };
    }
    now
}

#[allow(unsafe_code, reason = "a function of the C library")]
fn since_epoch() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time is valid for a write. This clock exists.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    // Neither is negative.
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
