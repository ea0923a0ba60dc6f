//! Sleeps, and letting others run.

use std::ffi::{c_int, c_uint};
use std::io;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::{Duration, Instant};

use uthread::sync::futex;

use crate::deadline;
use crate::errno::{code, returned};
use crate::{record, signals};

/// Waits until the moment, or for ever. A cancellation point.
fn until(deadline: Option<Instant>) -> io::Result<()> {
    record::point(|| pause(deadline))
}

/// Waits until the moment, or for ever, within a call that is a cancellation point.
///
/// # Errors
///
/// `ECANCELED` if the caller is cancelled.
pub(crate) fn pause(deadline: Option<Instant>) -> io::Result<()> {
    if signals::is_handler()
        && let Some(deadline) = deadline
    {
        // Blocks the thread, as a handler of a signal may.
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        return Ok(());
    }
    let nobody = AtomicU32::new(0);
    match futex::wait(&nobody, 0, deadline) {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
        ended => ended,
    }
}

/// Lets other threads run. Returns 0.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C" fn uthread_yield() -> c_int {
    uthread::yield_now();
    0
}

/// Sleeps for some seconds. A cancellation point. Returns 0.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_sleep(seconds: c_uint) -> c_uint {
    // A sleep ends early only if the thread ends.
    let _ = until(deadline::after(Duration::from_secs(seconds.into())));
    0
}

/// Sleeps for some microseconds. A cancellation point. Returns 0.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub extern "C-unwind" fn uthread_usleep(microseconds: c_uint) -> c_int {
    let time = Duration::from_micros(microseconds.into());
    returned(until(deadline::after(time)).map(|()| 0))
}

/// Sleeps for a time. A cancellation point. Returns 0, or -1 with `EINVAL`. `rest` is not used: no
/// signal ends the sleep.
///
/// # Safety
///
/// `time` points to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_nanosleep(
    time: *const libc::timespec,
    _rest: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let time = deadline::duration(unsafe { &*time });
    returned(time.and_then(|time| until(deadline::after(time)).map(|()| 0)))
}

/// Sleeps for a time, or with `TIMER_ABSTIME` until a time of this clock, `CLOCK_REALTIME` or
/// `CLOCK_MONOTONIC`. A cancellation point. Returns 0 or an error number.
///
/// # Safety
///
/// `time` points to the time.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    _rest: *mut libc::timespec,
) -> c_int {
    // SAFETY: the caller's contract.
    let time = unsafe { &*time };
    let deadline = match flags & libc::TIMER_ABSTIME {
        0 => deadline::check(clock).and_then(|()| deadline::duration(time).map(deadline::after)),
        _ => deadline::of(clock, time),
    };
    code(deadline.and_then(until))
}
