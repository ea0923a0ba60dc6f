//! What becomes of a fiber that calls `fork`: the only thread of the child, and a plain one.
//!
//! ```text
//!   parent   fork -------------------------------------------> the fiber goes on as ever
//!              \
//!   child       the copy of its stack, on the copy of the worker's thread, which is no worker any more:
//!               every call is the ordinary one, nothing reaches a ring, and at the end of the closure
//!               the process ends, as there is no loop to return to
//! ```
//!
//! `fork` tells of children by the handlers of `pthread_atfork`; `vfork`, `posix_spawn` and a bare `clone` do not.

use std::sync::Once;

use super::worker::current;
use super::{threads, wait};
use crate::forked;

#[allow(unsafe_code, reason = "a call that no crate offers")]
unsafe extern "C" {
    fn pthread_atfork(
        before: Option<unsafe extern "C" fn()>,
        in_parent: Option<unsafe extern "C" fn()>,
        in_child: Option<unsafe extern "C" fn()>,
    ) -> libc::c_int;
}

/// Has the C library tell of forks from now on. Called before there are fibers, or threads that wait for one another.
#[allow(unsafe_code, reason = "a call that no crate offers")]
pub(crate) fn attend() {
    static ATTENDED: Once = Once::new();
    ATTENDED.call_once(|| {
        // SAFETY: the handlers are there as long as the program: it does not unload what has threads.
        let result = unsafe { pthread_atfork(Some(before), None, Some(in_child)) };
        assert_eq!(result, 0, "pthread_atfork: no memory");
    });
}

/// Makes what the child's end is noted in, while memory may be allocated without a thought.
extern "C" fn before() {
    wait::with_locals(|_| ());
}

/// Called in the child before `fork` returns there.
extern "C" fn in_child() {
    forked::mark_child();
    wait::with_locals(|locals| locals.mark_child());
    current::leave_for_good();
    threads::leave_for_good();
}
