//! Blocking calls that are kept waiting, and the threads that make such calls.

use std::sync::{Condvar, Mutex};

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
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread that has just ended has no status.
    tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")).ok())
}
