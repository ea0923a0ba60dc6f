//! The parts of the reduced runtime for which the library uses other crates or the kernel.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Condvar, Mutex};

/// A deque or the injector, as weak as one can be: a look may miss what was queued, unless
/// something else orders the two.
#[derive(Default)]
pub(crate) struct Queue {
    length: AtomicUsize,
}

impl Queue {
    pub(crate) fn push(&self) {
        self.length.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn pop(&self) -> bool {
        let mut length = self.length.load(Ordering::Relaxed);
        while length > 0 {
            match self.length.compare_exchange(
                length,
                length - 1,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(found) => length = found,
            }
        }
        false
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) == 0
    }
}

/// A driver: wake-ups and completions stay in it until the worker reaps them, awake or not.
#[derive(Default)]
pub(crate) struct Ring {
    entries: Mutex<Entries>,
    arrived: Condvar,
}

#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) woken: bool,
    pub(crate) completions: usize,
}

impl Ring {
    pub(crate) fn wake(&self) {
        self.entries.lock().unwrap().woken = true;
        self.arrived.notify_one();
    }

    pub(crate) fn complete(&self, count: usize) {
        self.entries.lock().unwrap().completions += count;
        self.arrived.notify_one();
    }

    pub(crate) fn wait(&self) {
        let mut entries = self.entries.lock().unwrap();
        while !entries.woken && entries.completions == 0 {
            entries = self.arrived.wait(entries).unwrap();
        }
    }

    pub(crate) fn reap(&self) -> Entries {
        std::mem::take(&mut self.entries.lock().unwrap())
    }
}

/// How many fibers have begun.
#[derive(Default)]
pub(crate) struct Latch {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Latch {
    pub(crate) fn begin_one(&self) {
        *self.count.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    pub(crate) fn wait_for(&self, wanted: usize) {
        let mut count = self.count.lock().unwrap();
        while *count < wanted {
            count = self.changed.wait(count).unwrap();
        }
    }
}
