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
    forked::await_starts();
}

/// Marks the process as a child and detaches the thread from its runtime. Called in the child
/// before `fork` returns there.
extern "C" fn in_child() {
    forked::mark_child();
    caller::with_locals(|locals| locals.mark_child());
    current::leave_in_child();
    threads::leave_for_good();
}

#[cfg(test)]
mod tests {
    use std::ptr;
    use std::time::{Duration, Instant};

    use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

    use super::*;
    use crate::tls::record::{self, Record};

    /// Forks when another thread has asked for the worker of the caller, and expects that the child
    /// ends. Catches one that waits for the answer of that thread.
    #[test]
    fn a_child_does_not_wait_for_a_thread_that_takes_its_worker() {
        const HANG: Duration = Duration::from_secs(10);
        register_handlers();
        let worker = ptr::without_provenance_mut(64);
        let mut child = None;
        let fork = || {
            child = fork_and_exit();
            false
        };
        record::with(|record: &Record| {
            record.claim.name(worker);
            assert!(!record.claim.take(worker, fork, || ()));
            record.claim.name(ptr::null());
        });
        let begin = Instant::now();
        while waitpid(child, WaitOptions::NOHANG).unwrap().is_none() {
            if begin.elapsed() > HANG {
                kill_process(child.unwrap(), Signal::KILL).unwrap();
                panic!("the child hangs");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[allow(unsafe_code, reason = "calls that no crate offers")]
    fn fork_and_exit() -> Option<Pid> {
        // SAFETY: the child only exits.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: the call ends the process.
            unsafe { libc::_exit(0) }
        }
        Pid::from_raw(pid)
    }
}
