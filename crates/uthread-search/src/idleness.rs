//! Measures whether a worker was idle, which tells whether files were in memory.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time, and the CPU time of the worker.
pub(crate) struct Times {
    now: Instant,
    cpu: Timespec,
    worker: ThreadId,
}

impl Times {
    pub(crate) fn now() -> Times {
        Times {
            now: Instant::now(),
            cpu: clock_gettime(ClockId::ThreadCPUTime),
            worker: thread::current().id(),
        }
    }

    /// Returns `true` if the worker has been idle most of the time since: then the files were not
    /// in memory.
    pub(crate) fn was_idle(&self) -> bool {
        let end = Times::now();
        if end.worker != self.worker {
            // The reader has migrated, so the two are times of different workers.
            return false;
        }
        let cpu = end.cpu - self.cpu;
        let cpu = Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32);
        2 * cpu < end.now - self.now
    }
}
