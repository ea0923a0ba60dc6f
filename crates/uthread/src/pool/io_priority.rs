//! The I/O priority of a thread, which its reads and writes of files have in the queue of the disk.

use crate::priorities::Priority;

/// The first argument of `ioprio_set(2)` for one thread. Its number follows; zero is that of the
/// caller.
const WHO_PROCESS: libc::c_int = 1;

/// The I/O priority of a thread.
pub(super) struct IoPriority {
    /// Inherited from the process, and normal.
    initial: libc::c_long,
    /// The priority that it stands for now.
    current: Priority,
}

impl IoPriority {
    /// Returns that of the calling thread, which has not changed it.
    #[allow(unsafe_code, reason = "a system call that no crate offers")]
    pub(super) fn of_thread() -> IoPriority {
        // SAFETY: the call accesses no memory.
        let initial = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
        IoPriority {
            // Zero stands for the priority of the process.
            initial: initial.max(0),
            current: Priority::Normal,
        }
    }

    /// Changes that of the calling thread. Does nothing if the kernel refuses it, as a filter may:
    /// the order of the disk's queue is all that depends on it.
    #[allow(unsafe_code, reason = "a system call that no crate offers")]
    pub(super) fn set(&mut self, priority: Priority) {
        if priority == self.current {
            return;
        }
        self.current = priority;
        let value = match priority {
            Priority::Normal => self.initial,
            Priority::Urgent | Priority::Background => priority.io_priority().into(),
        };
        // SAFETY: the call accesses no memory.
        unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, value) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::pool::{Config, Pool};

    /// A level of the class *best effort* that stands for no priority of a fiber.
    const OF_PROCESS: libc::c_long = (2 << 13) | 5;

    #[allow(unsafe_code, reason = "a system call that no crate offers")]
    fn of_thread() -> libc::c_long {
        // SAFETY: the call accesses no memory.
        unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) }
    }

    #[allow(unsafe_code, reason = "a system call that no crate offers")]
    fn check(sets_io_priority: bool, expected: [libc::c_long; 4]) {
        let check = move || {
            // SAFETY: the call accesses no memory.
            unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, OF_PROCESS) };
            let pool = Pool::new("of a test", Config::of(1), sets_io_priority);
            let priorities = [Priority::Background, Priority::Normal, Priority::Urgent];
            let seen = [0, 1, 2, 1].map(|index: usize| {
                let (sender, receiver) = channel();
                let job = Box::new(move || sender.send(of_thread()).unwrap());
                pool.run(job, priorities[index]);
                receiver.recv().unwrap()
            });
            assert_eq!(seen, expected);
        };
        // With a priority that the tests of other threads do not inherit.
        thread::spawn(check).join().unwrap();
    }

    #[test]
    fn a_call_on_a_file_has_the_priority_of_its_fiber() {
        check(true, [(2 << 13) | 7, OF_PROCESS, 2 << 13, OF_PROCESS]);
    }

    #[test]
    fn another_call_has_the_priority_of_the_process() {
        check(false, [OF_PROCESS; 4]);
    }
}
