//! Interrupting the system call of a thread, so that its wait can be cancelled.
//!
//! This uses the signal SIGURG, which programs ignore unless they handle urgent data. The installed
//! handler does nothing and has no SA_RESTART, so the call fails with `EINTR`. A thread that is
//! about to make its call misses the signal, so the canceller repeats it until the thread has
//! noticed.
#![allow(
    unsafe_code,
    reason = "signals to one thread, which no crate of ours has"
)]

use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::Once;

const SIGNAL: libc::c_int = libc::SIGURG;

extern "C" fn ignore(_: libc::c_int) {}

/// A thread whose system calls can be interrupted.
pub(crate) struct Interruptible(libc::pthread_t);

// SAFETY: the value names a thread, and `pthread_kill(3)` takes that name in any thread. musl's is
// a pointer, which is not followed here.
unsafe impl Send for Interruptible {}

impl Interruptible {
    /// Returns the calling thread, and unblocks the signal for it.
    pub(crate) fn new() -> Interruptible {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the call initializes the set that it is given.
        unsafe { libc::sigemptyset(signals.as_mut_ptr()) };
        // SAFETY: the set was initialized above, and the signal is valid.
        unsafe { libc::sigaddset(signals.as_mut_ptr(), SIGNAL) };
        // SAFETY: the set is initialized; the old mask is not requested.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, signals.as_ptr(), ptr::null_mut()) };
        // SAFETY: the call has no preconditions.
        Interruptible(unsafe { libc::pthread_self() })
    }

    /// Interrupts the thread's system call, if it is in one.
    ///
    /// # Safety
    ///
    /// The thread has not ended.
    pub(crate) unsafe fn interrupt(&self) {
        // SAFETY: the thread is alive, by the caller's contract. An error is ignored, as the signal
        // is repeated.
        unsafe { libc::pthread_kill(self.0, SIGNAL) };
    }
}

fn install() {
    // SAFETY: plain integers and addresses, for all of which zero is valid; the mask is empty.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the action is initialized, and its handler may run at any time, as it does nothing.
    let result = unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0, "a signal there is takes a handler");
}
