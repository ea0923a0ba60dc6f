//! The I/O priority of a thread, which its reads and writes of files have in the queue of the disk.

use crate::priorities::Priority;

/// The first argument of `ioprio_set(2)` for one thread. Its number follows; zero is that of the
/// caller.
const WHO_PROCESS: libc::c_int = 1;

/// Sets the I/O priority of the calling thread. Does nothing if the kernel refuses it, as a filter
/// may: the order of the disk's queue is all that depends on it.
#[allow(unsafe_code, reason = "a system call that no crate offers")]
pub(super) fn set(priority: Priority) {
    let value = libc::c_int::from(priority.io_priority());
    // SAFETY: the call accesses no memory.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[allow(unsafe_code, reason = "a system call that no crate offers")]
    fn of_thread() -> libc::c_long {
        // SAFETY: the call accesses no memory.
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
    }

    #[test]
    fn a_call_has_the_priority_of_its_fiber() {
        let initial = of_thread();
        let expected = [2 << 13, initial, (2 << 13) | 7];
        for (priority, expected) in Priority::ALL.into_iter().zip(expected) {
            let (sender, receiver) = channel();
            let job = Box::new(move || sender.send(of_thread()).unwrap());
            crate::pool::files().run(job, priority);
            assert_eq!(receiver.recv().unwrap(), expected, "{priority:?}");
        }
    }
}
