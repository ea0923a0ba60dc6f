//! A fiber that calls `fork`: in the child it is the only thread, and a plain one.
//!
//! ```text
//!   parent   fork -------------------------------------------> the fiber continues as before
//!              \
//!   child       a copy of its stack, on a copy of the worker's thread, which is a plain thread:
//!               every call blocks, no ring is used, and at the end of the closure the process
//!               ends, as there is no loop to return to
//! ```
//!
//! Forks are detected by the handlers of `pthread_atfork`, which `vfork`, `posix_spawn` and a bare
//! `clone` do not call.

use std::sync::Once;

use crate::forked;
use crate::sched::worker::current;
use crate::sched::{caller, threads};

#[allow(unsafe_code, reason = "a call that no crate offers")]
unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        in_parent: Option<unsafe extern "C" fn()>,
        in_child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

/// Registers the handlers. Called before there are fibers, or threads that wait for each other.
#[allow(unsafe_code, reason = "a call that no crate offers")]
pub(crate) fn register_handlers() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // SAFETY: the handlers remain loaded as long as the program: a library with threads is not
        // unloaded.
        let result = unsafe { pthread_atfork(Some(before), None, Some(in_child)) };
        assert_eq!(result, 0, "pthread_atfork: no memory");
    });
}

/// Allocates the state that the child needs, as allocating in the child may not be safe.
extern "C" fn before() {
    caller::with_locals(|_| ());
}

/// Marks the process as a child and detaches the thread from its runtime. Called in the child
/// before `fork` returns there.
extern "C" fn in_child() {
    forked::mark_child();
    caller::with_locals(|locals| locals.mark_child());
    current::leave_for_good();
    threads::leave_for_good();
}
