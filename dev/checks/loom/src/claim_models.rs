//! A fiber that uses its worker, against a thread that takes it.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{Ordering, fence};
use loom::thread;

use crate::check;
use crate::tls::claim::{Claim, Named};

/// Absence of a bound: two threads of a few steps are explored in full.
const PREEMPTIONS_MAX: Option<usize> = None;

/// A fiber with its worker, whose state is a number.
struct Fiber {
    claim: Claim,
    worker: UnsafeCell<u32>,
}

#[allow(unsafe_code, reason = "a cell whose accesses loom checks")]
// SAFETY: the protocol gives the cell one user at a time, and loom checks it.
unsafe impl Sync for Fiber {}
#[allow(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl Send for Fiber {}

impl Fiber {
    fn new() -> Arc<Fiber> {
        let fiber = Arc::new(Fiber {
            claim: Claim::new(),
            worker: UnsafeCell::new(0),
        });
        fiber.claim.name(fiber.address().cast_const());
        fiber.claim.end_call(false);
        fiber
    }

    fn address(&self) -> *mut () {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn add(&self, number: u32) {
        // SAFETY: loom checks that nobody else accesses the cell.
        #[allow(unsafe_code, reason = "a cell whose accesses loom checks")]
        self.worker.with_mut(|worker| unsafe { *worker += number });
    }

    /// Uses the worker in a call, unless it was taken.
    fn call(&self) -> bool {
        let outer = self.claim.begin_call();
        let has_worker = matches!(self.claim.named(), Named::Worker(_));
        if has_worker {
            self.add(1);
        }
        self.claim.end_call(outer);
        has_worker
    }

    fn take(&self) -> bool {
        let barrier = || {
            fence(Ordering::SeqCst);
            true
        };
        let is_taken = self.claim.take(self.address(), barrier, || ());
        if is_taken {
            self.add(10);
        }
        is_taken
    }
}

/// Catches a worker that both use, and one that neither has.
#[test]
fn a_worker_is_used_by_its_fiber_or_taken() {
    check(PREEMPTIONS_MAX, || {
        let fiber = Fiber::new();
        let taker = {
            let fiber = Arc::clone(&fiber);
            thread::spawn(move || fiber.take())
        };
        let calls = [fiber.call(), fiber.call()];
        let is_taken = taker.join().unwrap();
        assert_eq!(fiber.call(), !is_taken);
        assert!(is_taken || calls == [true; 2]);
        assert!(calls[0] || !calls[1], "a worker comes back by itself");
    });
}

/// Catches a request that is left in a record which was reset meanwhile.
#[test]
fn a_reset_keeps_the_worker() {
    check(PREEMPTIONS_MAX, || {
        let fiber = Fiber::new();
        let taker = {
            let fiber = Arc::clone(&fiber);
            thread::spawn(move || fiber.take())
        };
        let claim = fiber.claim.begin_reset();
        // What the reset writes over it.
        fiber.claim.name(std::ptr::null());
        fiber.claim.end_reset(claim);
        let is_taken = taker.join().unwrap();
        assert_eq!(fiber.call(), !is_taken);
    });
}
