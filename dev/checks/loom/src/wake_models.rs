//! A fiber that parks against threads that wake it.

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::check;
use crate::fiber::wake::WakeToken;
use crate::substitutes::Ring;

/// A fiber, and the queue of its worker.
struct Fiber {
    token: WakeToken,
    /// The work of each waker before it wakes. Relaxed, so that only the token can publish it.
    done: Vec<AtomicBool>,
    /// `true` once the fiber has left its stack. Relaxed likewise.
    off_stack: AtomicBool,
    /// How often the fiber is in the queue: `Scheduler::enqueue` adds, the worker takes.
    queued: Mutex<usize>,
    filled: Condvar,
}

impl Fiber {
    fn new(wakers: usize) -> Arc<Fiber> {
        Arc::new(Fiber {
            token: WakeToken::new(),
            done: (0..wakers).map(|_| AtomicBool::new(false)).collect(),
            off_stack: AtomicBool::new(false),
            queued: Mutex::new(0),
            filled: Condvar::new(),
        })
    }

    /// Wakes the fiber, like `fiber::wake`.
    fn wake(&self, waker: usize) {
        self.done[waker].store(true, Ordering::Relaxed);
        if self.token.leave() {
            assert!(
                self.off_stack.load(Ordering::Relaxed),
                "enqueued on its stack"
            );
            let mut queued = self.queued.lock().unwrap();
            *queued += 1;
            assert_eq!(*queued, 1, "enqueued twice");
            self.filled.notify_one();
        }
    }

    /// Parks the fiber, like `wait::park`, with its worker's `run_fiber` in place of the switch.
    fn park(&self) {
        if self.token.take() {
            return;
        }
        self.off_stack.store(true, Ordering::Relaxed);
        if self.token.settle_park() {
            let mut queued = self.queued.lock().unwrap();
            while *queued == 0 {
                queued = self.filled.wait(queued).unwrap();
            }
            *queued -= 1;
        }
        self.off_stack.store(false, Ordering::Relaxed);
        self.token.take();
    }

    /// Parks until all wakers are done, like `wait::park_until`.
    fn park_until_done(&self) {
        while !self.done.iter().all(|done| done.load(Ordering::Relaxed)) {
            self.park();
        }
    }
}

fn check_wakers(count: usize, preemptions_max: usize) {
    check(preemptions_max, move || {
        let fiber = Fiber::new(count);
        let wakers: Vec<_> = (0..count)
            .map(|waker| {
                let fiber = Arc::clone(&fiber);
                thread::spawn(move || fiber.wake(waker))
            })
            .collect();
        fiber.park_until_done();
        for waker in wakers {
            waker.join().unwrap();
        }
        let queued = *fiber.queued.lock().unwrap();
        assert_eq!(queued, 0, "enqueued by the waker and run by the worker");
    });
}

/// Catches a fiber that parks forever beside the token that was left for it, is resumed while it
/// is still on its stack, or runs without what its waker had done.
#[test]
fn a_parking_fiber_is_run_once_by_its_waker() {
    check_wakers(1, 5);
}

/// Catches two wakers that enqueue the fiber twice, and the loss of the second one's token.
#[test]
fn two_wakers_enqueue_a_fiber_once() {
    check_wakers(2, 4);
}

/// A fiber that is a thread, as `ThreadContext` in `sched::threads`: the same token, and a parker
/// in place of a queue.
struct ThreadContext {
    token: WakeToken,
    done: AtomicBool,
    resumed: AtomicBool,
    /// `true` once the deadline of one park has passed.
    late: AtomicBool,
    /// The token of `std::thread::park`.
    unparked: Ring,
}

impl ThreadContext {
    /// Wakes the thread, like `fiber::wake` with `Parker::enqueue`.
    fn wake(&self) {
        self.done.store(true, Ordering::Relaxed);
        if self.token.leave() {
            self.resumed.store(true, Ordering::Release);
            self.unparked.wake();
        }
    }

    /// Parks until woken or late, like `ThreadContext::park` with `ThreadContext::block`.
    fn park_until_late(&self) {
        if self.token.take() {
            return;
        }
        if self.token.settle_park() {
            self.block();
        }
        self.token.take();
    }
}

impl ThreadContext {
    fn block(&self) {
        let mut has_deadline = true;
        while !self.resumed.load(Ordering::Acquire) {
            if has_deadline && self.late.load(Ordering::Acquire) {
                self.late.store(false, Ordering::Relaxed);
                if self.token.leave() {
                    return;
                }
                has_deadline = false;
                continue;
            }
            self.unparked.wait();
            self.unparked.reap();
        }
        self.resumed.store(false, Ordering::Relaxed);
    }
}

/// Catches a wake-up that comes with the deadline and is taken for that of a later park, or is
/// lost.
#[test]
fn a_thread_that_parks_is_woken_or_late_but_not_both() {
    check(4, || {
        let context = Arc::new(ThreadContext {
            token: WakeToken::new(),
            done: AtomicBool::new(false),
            resumed: AtomicBool::new(false),
            late: AtomicBool::new(false),
            unparked: Ring::default(),
        });
        let waker = {
            let context = Arc::clone(&context);
            thread::spawn(move || context.wake())
        };
        let clock = {
            let context = Arc::clone(&context);
            thread::spawn(move || {
                context.late.store(true, Ordering::Release);
                context.unparked.wake();
            })
        };
        // Woken once and late once: after as many parks both have come.
        while !context.done.load(Ordering::Relaxed) {
            context.park_until_late();
        }
        waker.join().unwrap();
        clock.join().unwrap();
        assert!(
            !context.resumed.load(Ordering::Relaxed),
            "a resume is left over"
        );
    });
}
