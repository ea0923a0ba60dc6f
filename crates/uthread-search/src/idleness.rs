//! Measures whether a worker was idle, which tells whether files were in memory.

use std::time::{Duration, Instant};

use rustix::thread::{Pid, gettid};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time, and the CPU time of the worker's thread.
pub(crate) struct Times {
    now: Instant,
    cpu: Timespec,
    thread: Pid,
}

impl Times {
    pub(crate) fn now() -> Times {
        Times {
            now: Instant::now(),
            cpu: clock_gettime(ClockId::ThreadCPUTime),
            thread: gettid(),
        }
    }

    /// Returns `true` if the worker has been idle most of the time since: then the files were not
    /// in memory.
    pub(crate) fn was_idle(&self) -> bool {
        let end = Times::now();
        if end.thread != self.thread {
            // The reader's worker has moved, so the two are times of different threads.
            return false;
        }
        let cpu = end.cpu - self.cpu;
        let cpu = Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32);
        2 * cpu < end.now - self.now
    }
}
