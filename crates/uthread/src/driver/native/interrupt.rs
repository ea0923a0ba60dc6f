//! Interrupting the system call of a thread, so that what it waits for can be cancelled.
//!
//! A signal does: SIGURG, which programs ignore unless they have installed a handler for urgent data. Ours
//! does nothing, and has no SA_RESTART, so that the call fails with `EINTR`. A thread that is about to make
//! its call is not interrupted: whoever cancels sends again until the thread has ended.
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

impl Interruptible {
    /// The calling thread, which lets the signal through from now on.
    pub(crate) fn new() -> Interruptible {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: it initialises the set it is given.
        unsafe { libc::sigemptyset(signals.as_mut_ptr()) };
        // SAFETY: the set was initialised just now, and the signal is one there is.
        unsafe { libc::sigaddset(signals.as_mut_ptr(), SIGNAL) };
        // SAFETY: the set is initialised; the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, signals.as_ptr(), ptr::null_mut()) };
        // SAFETY: it has no preconditions.
        Interruptible(unsafe { libc::pthread_self() })
    }

    /// Interrupts the thread's system call, if it is in one.
    ///
    /// # Safety
    ///
    /// The thread has not ended.
    pub(crate) unsafe fn interrupt(&self) {
        // SAFETY: the thread lives, as the caller promises. An error leaves nothing to be done: the
        // signal is sent again.
        unsafe { libc::pthread_kill(self.0, SIGNAL) };
    }
}

fn install() {
    // SAFETY: plain integers and addresses: zero is valid for each, an empty mask among them.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the action is initialised, and its handler may run at any time, as it does nothing.
    let result = unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0, "a signal there is takes a handler");
}
