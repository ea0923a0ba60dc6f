//! Changes of the user and the groups, as glibc makes them for all threads.
//!
//! Credentials belong to a kernel thread. `setuid(3)` and its relatives signal each thread that
//! glibc lists, whose handler makes the system call and records that in the block of its thread. It
//! finds that block by the thread pointer. If this was a fiber's, the caller would wait for the
//! record, and signal the thread, again and again.
//!
//! So glibc's handler is called by one that sets the pointer of the thread itself meanwhile. That
//! pointer is found by the thread's list of robust mutexes: glibc tells the kernel the address of
//! the list, which is in the block, when a thread starts, and no fiber changes it. So the pointer is
//! right wherever the signal interrupts the thread: while a worker changes the pointer, and also
//! after its worker was taken. A thread that [ends](super::donor) a block has no such list, and
//! already has the pointer of the block that glibc lists.

use std::ffi::{c_int, c_long, c_ulong, c_void};
use std::ptr;
use std::sync::OnceLock;

use super::thread_pointer::{self, Way};

/// `SIGSETXID` of glibc, whose own functions refuse to handle it.
const SIGNAL: c_int = 33;

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// `struct sigaction` of the kernel.
#[derive(Clone, Copy)]
#[repr(C)]
struct Action {
    handler: Option<Handler>,
    flags: c_ulong,
    restorer: usize,
    mask: u64,
}

/// The handler of the C library, and how it is called.
struct Wrapped {
    action: Action,
    handler: Handler,
    /// The offset of the list of robust mutexes from the thread pointer.
    list: usize,
    way: Way,
}

static WRAPPED: OnceLock<Option<Wrapped>> = OnceLock::new();

/// Replaces the handler, if there is one of glibc's. Called after a thread was created, by a thread
/// that has its own thread pointer.
pub(super) fn install() {
    if let Some(wrapped) = WRAPPED.get_or_init(find) {
        let action = Action {
            handler: Some(handle),
            // Handlers of the program run with the pointer of the fiber.
            mask: u64::MAX,
            ..wrapped.action
        };
        // A failure leaves the handler of the C library.
        exchange(Some(&action));
    }
}

fn find() -> Option<Wrapped> {
    if !cfg!(target_env = "gnu") {
        return None;
    }
    let action = exchange(None)?;
    let takes_information = action.flags & libc::SA_SIGINFO as c_ulong != 0;
    Some(Wrapped {
        action,
        handler: action.handler.filter(|_| takes_information)?,
        list: robust_list()?.wrapping_sub(thread_pointer::get()),
        way: Way::best(),
    })
}

/// Runs between any two instructions of a thread, of a fiber or of the loop of a worker.
#[allow(unsafe_code, reason = "the thread pointer of the thread")]
extern "C" fn handle(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(Some(wrapped)) = WRAPPED.get() else {
        return;
    };
    let present = thread_pointer::get();
    let own = robust_list().map_or(present, |list| list.wrapping_sub(wrapped.list));
    if own != present {
        // SAFETY: it is that of this thread, whose block no other thread uses.
        unsafe { thread_pointer::set(wrapped.way, own) };
    }
    // SAFETY: the arguments are those that the kernel has passed for this signal.
    unsafe { (wrapped.handler)(signal, information, context) };
    if own != present {
        // SAFETY: the interrupted code has set it, and goes on with it.
        unsafe { thread_pointer::set(wrapped.way, present) };
    }
}

/// Sets the action of the signal, if there is a new one, and returns the one before.
#[allow(unsafe_code, reason = "a signal that the C library refuses to handle")]
fn exchange(new: Option<&Action>) -> Option<Action> {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = Action {
        handler: None,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    // SAFETY: the call reads and writes structures of this type. The new handler is safe to run at
    // any time, and the restorer is that of the C library.
    let result = unsafe {
        let bytes = size_of::<u64>();
        libc::syscall(libc::SYS_rt_sigaction, SIGNAL, new, &raw mut old, bytes)
    };
    (result == 0).then_some(old)
}

/// Returns the address of the calling thread's list of robust mutexes, if it has one. May be called
/// in a signal handler: the call does not fail for the calling thread.
#[allow(unsafe_code, reason = "a call that no crate offers")]
fn robust_list() -> Option<usize> {
    const CALLING_THREAD: c_long = 0;
    let (mut list, mut bytes) = (0_usize, 0_usize);
    // SAFETY: the call writes an address and a number.
    let result = unsafe {
        let (list, bytes) = (&raw mut list, &raw mut bytes);
        libc::syscall(libc::SYS_get_robust_list, CALLING_THREAD, list, bytes)
    };
    (result == 0 && list != 0).then_some(list)
}
