//! A fiber that is about to wait for an operation, against another thread that ends its wait.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::check;
use crate::fiber::last_worker::LastWorker;

/// Absence of a bound: two threads of a few steps are explored in full.
const PREEMPTIONS_MAX: Option<usize> = None;

/// A fiber, and the mailboxes of two workers.
struct Fiber {
    last_worker: LastWorker,
    /// Relaxed, like `Limits::cancelled`.
    cancelled: AtomicBool,
    mail: [(Mutex<bool>, Condvar); 2],
}

impl Fiber {
    /// Creates a fiber whose last operation was on this worker.
    fn on(worker: u32) -> Arc<Fiber> {
        let last_worker = LastWorker::new();
        last_worker.set(worker);
        Arc::new(Fiber {
            last_worker,
            cancelled: AtomicBool::new(false),
            mail: Default::default(),
        })
    }

    /// Cancels the fiber, like `fiber::cancel`.
    fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        let worker = self
            .last_worker
            .get()
            .expect("the fiber has set its last worker");
        let (mail, filled) = &self.mail[worker as usize];
        *mail.lock().unwrap() = true;
        filled.notify_one();
    }

    /// Performs an operation that ends only when it is cancelled, like `wait::perform`, with the
    /// iterations of the worker's loop before and after it.
    fn perform_on(&self, worker: u32) {
        let (mail, filled) = &self.mail[worker as usize];
        *mail.lock().unwrap() = false;
        self.last_worker.set(worker);
        if self.cancelled.load(Ordering::Relaxed) {
            return;
        }
        let mut arrived = mail.lock().unwrap();
        while !*arrived {
            arrived = filled.wait(arrived).unwrap();
        }
    }
}

/// Cancels a fiber that performs an operation on worker 1, after one on `last`. Catches an
/// operation that never ends.
fn check_cancelled(last: u32) {
    check(PREEMPTIONS_MAX, move || {
        let fiber = Fiber::on(last);
        let cancelling = {
            let fiber = Arc::clone(&fiber);
            thread::spawn(move || fiber.cancel())
        };
        fiber.perform_on(1);
        cancelling.join().unwrap();
    });
}

#[test]
fn a_fiber_that_stays_is_found_or_sees_that_it_is_cancelled() {
    check_cancelled(1);
}

#[test]
fn a_fiber_that_moves_is_found_or_sees_that_it_is_cancelled() {
    check_cancelled(0);
}
