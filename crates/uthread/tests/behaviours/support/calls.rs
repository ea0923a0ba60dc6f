//! Blocking calls that are kept waiting, the threads that make such calls, and how long threads
//! wait for a CPU.

use std::fs;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::HANG;

/// Keeps calls waiting until it is opened.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Waits until the gate is open, but not forever: a test that fails by a hang ends too.
    pub(crate) fn pass(&self) {
        let open = self.open.lock().unwrap();
        let waited = self
            .opened
            .wait_timeout_while(open, HANG, |open| !*open)
            .unwrap();
        drop(waited);
    }

    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Returns the status of each thread of the process; see `proc_pid_stat(5)`.
pub(crate) fn stats_of_threads() -> impl Iterator<Item = String> {
    files_of_threads("stat")
}

/// Returns how long the threads of the process, together, have waited for a CPU so far. A test that
/// a worker without a CPU fails does not count if this has grown. `None` if the kernel has no such
/// statistics.
pub(crate) fn waits_for_cpu() -> Option<Duration> {
    // The time on a CPU, the time spent waiting for one, and the number of time slices.
    let wait_ns = |statistics: String| statistics.split_whitespace().nth(1)?.parse::<u64>().ok();
    let waits_ns = files_of_threads("schedstat").map(wait_ns);
    let sum = waits_ns.reduce(|sum, wait_ns| Some(sum? + wait_ns?))?;
    sum.map(Duration::from_nanos)
}

/// Returns the contents of this file of each thread of the process.
fn files_of_threads(name: &str) -> impl Iterator<Item = String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread that has just ended has no files.
    tasks.filter_map(move |task| fs::read_to_string(task.unwrap().path().join(name)).ok())
}
