//! Signals: what interrupts a system call, and what kills a process that writes to nobody.
#![allow(unsafe_code, reason = "no crate of ours has these calls")]

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::thread::Pid;

/// How often the handler ran.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn handled() -> usize {
    HANDLED.load(Ordering::Relaxed)
}

extern "C" fn count(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Makes SIGUSR1 interrupt what a thread waits for in the kernel from now on, and counts it. One
/// test at a time counts its own.
pub(crate) fn count_interruptions() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: zeroes are a valid `sigaction`: an empty mask and no flags, so without SA_RESTART.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does what is allowed in one: it adds to an atomic.
    let result = unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
    alone
}

/// Sends SIGUSR1 to one thread of this process; does nothing once that has ended.
pub(crate) fn interrupt(thread: Pid) {
    let process = rustix::process::getpid().as_raw_nonzero().get();
    let thread = thread.as_raw_nonzero().get();
    // SAFETY: plain numbers; SIGUSR1 is handled, as `count_interruptions` saw to.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1) };
}

/// Undoes what Rust did at the start: a write to a peer that has gone kills the process again.
pub(crate) fn make_broken_pipes_deadly() {
    // SAFETY: the default action needs no handler.
    let previous = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    assert_eq!(previous, libc::SIG_IGN, "Rust ignores SIGPIPE");
}

/// Makes a write beyond the limit on the size of files an error from now on, and nothing else.
pub(crate) fn ignore_long_files() {
    // SAFETY: to ignore a signal needs no handler.
    let previous = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    assert_ne!(previous, libc::SIG_ERR, "{}", io::Error::last_os_error());
}
