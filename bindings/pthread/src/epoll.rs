//! Waits for events of an epoll instance: `epoll_wait(2)`. The instance is a descriptor itself, which
//! is readable while it has events.

use std::ffi::c_int;

use uthread::ring::Events;

use crate::blocking::blocking;
use crate::errno::{outcome, returned};
use crate::poll::{Wanted, await_some, milliseconds_of};

/// Waits for events of an epoll instance: `epoll_wait(2)`. A cancellation point.
///
/// # Safety
///
/// `events` points to room for `count` of them.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_epoll_wait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    milliseconds: c_int,
) -> c_int {
    // SAFETY: the caller's contract.
    let now = || outcome(unsafe { libc::epoll_wait(epoll, events, count, 0) });
    let wanted = || Ok(Wanted::One(epoll, Events::READABLE));
    returned(await_some(now, wanted, milliseconds_of(milliseconds)))
}

/// Waits for events of an epoll instance: `epoll_pwait(2)`. A cancellation point. With a mask of
/// signals, the call blocks the thread of the fiber, and is no cancellation point while it waits.
///
/// # Safety
///
/// `events` points to room for `count` of them, and `mask` is null or points to a mask.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_epoll_pwait(
    epoll: c_int,
    events: *mut libc::epoll_event,
    count: c_int,
    milliseconds: c_int,
    mask: *const libc::sigset_t,
) -> c_int {
    if mask.is_null() {
        // SAFETY: the caller's contract.
        return unsafe { uthread_epoll_wait(epoll, events, count, milliseconds) };
    }
    // SAFETY: the caller's contract.
    returned(blocking("epoll_pwait", || unsafe {
        libc::epoll_pwait(epoll, events, count, milliseconds, mask)
    }))
}
