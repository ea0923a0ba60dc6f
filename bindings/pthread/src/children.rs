//! Waits for child processes: `waitpid(2)`, `wait4(2)` and `waitid(2)`.
//!
//! The end of one child is an event of its pidfd. Other changes (the end of any child, a child that is
//! stopped) are events of no descriptor: a wait for them blocks the thread of the fiber.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use uthread::ring::Events;

use crate::blocking::blocking;
use crate::descriptor::{for_ever, is_nonblocking, wait};
use crate::errno::{outcome, returned};
use crate::record;

/// What says that a child has ended.
enum End {
    /// A pidfd, which is closed after the wait.
    Own(OwnedFd),
    /// A pidfd of the program.
    Program(RawFd),
}

impl End {
    /// Returns a new pidfd of a process, if the kernel has them.
    #[allow(unsafe_code, reason = "a system call that std has no function for")]
    fn of(process: libc::pid_t) -> Option<End> {
        // SAFETY: the call takes no memory.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
        let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: nothing else has the new descriptor.
        Some(End::Own(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn wait(&self) -> io::Result<()> {
        let fd = match self {
            End::Own(fd) => fd.as_raw_fd(),
            End::Program(fd) => *fd,
        };
        wait(fd, Events::READABLE, for_ever()).map(drop)
    }
}

/// Waits until `look`, which takes options, finds a child. `end` is asked for if only the end of one
/// child is waited for.
fn await_child<T: Send + PartialOrd + Default>(
    name: &'static str,
    options: c_int,
    end: impl FnOnce() -> Option<End>,
    look: impl Fn(c_int) -> T,
    has_found: impl Fn(&T) -> bool,
) -> io::Result<T> {
    record::point(|| {
        let now = || outcome(look(options | libc::WNOHANG));
        let found = now()?;
        if has_found(&found) || options & libc::WNOHANG != 0 {
            // The caller may look in a loop.
            record::let_others_run();
            return Ok(found);
        }
        if let Some(end) = end() {
            end.wait()?;
            let found = now()?;
            // A child that is traced has ended for its tracer first.
            if has_found(&found) {
                return Ok(found);
            }
        }
        blocking(name, || look(options))
    })
}

/// Waits for a child process: `waitpid(2)`. A cancellation point. Where the end of one child is not all
/// that is waited for, the call blocks the thread of the fiber, and is no cancellation point while it
/// waits.
///
/// # Safety
///
/// `status` is null or points to where the status is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_waitpid(
    process: libc::pid_t,
    status: *mut c_int,
    options: c_int,
) -> libc::pid_t {
    // SAFETY: the caller's contract.
    unsafe { await_process("waitpid", process, status, options, ptr::null_mut()) }
}

/// Waits for a child process like `uthread_waitpid`, and stores what it has used: `wait4(2)`.
///
/// # Safety
///
/// `status` and `usage` are null or point to where both are stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_wait4(
    process: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> libc::pid_t {
    // SAFETY: the caller's contract.
    unsafe { await_process("wait4", process, status, options, usage) }
}

/// # Safety
///
/// As for `uthread_wait4`.
#[allow(unsafe_code, reason = "results in variables of the program")]
unsafe fn await_process(
    name: &'static str,
    process: libc::pid_t,
    status: *mut c_int,
    options: c_int,
    usage: *mut libc::rusage,
) -> libc::pid_t {
    let end = || {
        let others = libc::WUNTRACED | libc::WCONTINUED;
        (process > 0 && options & others == 0).then(|| End::of(process))?
    };
    // SAFETY: the caller's contract.
    let look = |options| unsafe { libc::wait4(process, status, options, usage) };
    returned(await_child(name, options, end, look, |found| *found > 0))
}

/// Waits for a child process: `waitid(2)`. A cancellation point. Where the end of one child is not all
/// that is waited for, the call blocks the thread of the fiber, and is no cancellation point while it
/// waits.
///
/// # Safety
///
/// `info` is null or points to where the information is stored.
#[allow(unsafe_code, reason = "a C function")]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn uthread_waitid(
    kind: libc::idtype_t,
    id: libc::id_t,
    info: *mut libc::siginfo_t,
    options: c_int,
) -> c_int {
    let found = Cell::new(MaybeUninit::<libc::siginfo_t>::zeroed());
    // SAFETY: the structure has room for the result.
    let look = |options| unsafe { libc::waitid(kind, id, found.as_ptr().cast(), options) };
    // SAFETY: the structure was zeroed, and each bit pattern is valid.
    let stored = || unsafe { found.get().assume_init() };
    // SAFETY: the field is there in what the call stores, or zero.
    let has_found = |_: &c_int| unsafe { stored().si_pid() } != 0;
    let end = || {
        let process = libc::pid_t::try_from(id).ok()?;
        match kind {
            _ if options & (libc::WSTOPPED | libc::WCONTINUED) != 0 => None,
            libc::P_PID => End::of(process),
            // One that is non-blocking has no wait to replace.
            libc::P_PIDFD if !is_nonblocking(process) => Some(End::Program(process)),
            _ => None,
        }
    };
    let result = await_child("waitid", options, end, look, has_found);
    if result.is_ok() && !info.is_null() {
        // SAFETY: the caller's contract.
        unsafe { info.write(stored()) };
    }
    returned(result)
}
