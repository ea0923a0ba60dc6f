//! Panic hooks that run now. To print a backtrace takes long, and is no stall.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of hooks that run. Relaxed: nothing else depends on it.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Records that a hook runs, until it is dropped.
pub(crate) struct RunningHook(());

impl RunningHook {
    pub(crate) fn begin() -> RunningHook {
        RUNNING.fetch_add(1, Ordering::Relaxed);
        RunningHook(())
    }
}

impl Drop for RunningHook {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns `true` if a hook runs.
pub(super) fn is_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}
