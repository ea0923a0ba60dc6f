//! Waiting for futures.

use std::future::{self, Future};
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use rustix::io::Errno;
use uthread::sync::mpsc;
use uthread::thread::{Cancelled, current, park_timeout, try_block_on};
use uthread::time::Elapsed;
use uthread::{block_on, shield, sleep, spawn, timeout};

use crate::fixtures::dedicated::{dedicated, waiting};
use crate::fixtures::fiber_or_thread::{Side, assert_ends_with_runtime, is_cancelled, mixed};
use crate::harness::place::Place;
use crate::harness::turns::one_worker_lets_others_run;
use crate::harness::{EVERYWHERE, IN_FIBERS, ON_WORKERS, behaviours};
use crate::support::{HANG, HOUR, SHORT, errno};

behaviours![
    (
        EVERYWHERE,
        [
            a_waker_of_another_fiber_or_thread_wakes_the_caller,
            a_wake_up_before_the_wait_is_not_lost,
            calls_nest,
            a_future_that_wakes_itself_is_polled_again,
            a_deadline_drops_the_future,
            a_shield_waits_beyond_the_deadline,
            a_panic_passes_through,
            a_deadline_is_an_error_of_try_block_on,
        ]
    ),
    (
        ON_WORKERS,
        [
            other_fibers_run_meanwhile,
            a_future_that_yields_lets_other_fibers_run
        ]
    ),
    (
        IN_FIBERS,
        [
            an_unpark_is_kept_for_the_next_park,
            cancellation_drops_the_future,
            cancellation_is_an_error_of_try_block_on,
            the_end_of_the_runtime_ends_the_wait,
            a_waker_of_a_fiber_or_thread_wakes_a_dedicated_fiber,
            dedicated_fibers_drop_a_future_that_is_cancelled_or_late,
        ]
    ),
];

/// A future that is ready once it has been opened.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gate {
    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Future for Gate {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A future that never ends, and records that it was dropped.
struct Endless(Arc<AtomicBool>);

impl Future for Endless {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Returns a future that wakes itself `count` times before it is ready.
fn yields(mut count: u32) -> impl Future<Output = ()> {
    future::poll_fn(move |context| {
        if count == 0 {
            return Poll::Ready(());
        }
        count -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

fn a_waker_of_another_fiber_or_thread_wakes_the_caller(place: Place) {
    mixed(place, |waking, waiting| {
        for _ in 0..50 {
            let gate = Gate::default();
            let opened = gate.clone();
            let waiter = waiting.start(move || block_on(gate));
            waking.start(move || opened.open()).join();
            waiter.join();
        }
    });
}

fn a_wake_up_before_the_wait_is_not_lost(place: Place) {
    place.run(|| {
        for _ in 0..20 {
            // The waker is called by another fiber while the future is being polled.
            let mut polls = 0;
            let output = block_on(future::poll_fn(|context| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(7);
                }
                let waker = context.waker().clone();
                spawn(move || waker.wake()).join().unwrap();
                Poll::Pending
            }));
            assert_eq!((output, polls), (7, 2));
        }
    });
}

fn calls_nest(place: Place) {
    place.run(|| {
        let gates = [Gate::default(), Gate::default()];
        let opened = gates.clone();
        let opener = spawn(move || opened.into_iter().rev().for_each(|gate| gate.open()));
        let [inner, outer] = gates;
        let output = block_on(async {
            block_on(inner);
            outer.await;
            5
        });
        assert_eq!(output, 5);
        opener.join().unwrap();
    });
}

fn a_future_that_wakes_itself_is_polled_again(place: Place) {
    place.run(|| block_on(yields(1000)));
}

fn an_unpark_is_kept_for_the_next_park(place: Place) {
    place.run(|| {
        let gate = Gate::default();
        let opened = gate.clone();
        let waiter = current();
        let opener = spawn(move || {
            waiter.unpark();
            sleep(SHORT);
            opened.open();
        });
        block_on(gate);
        opener.join().unwrap();
        // Returns at once: the token is still there.
        let start = std::time::Instant::now();
        park_timeout(HANG);
        assert!(start.elapsed() < HANG);
    });
}

fn a_deadline_drops_the_future(place: Place) {
    place.run(|| {
        let dropped = Arc::new(AtomicBool::new(false));
        let endless = Endless(Arc::clone(&dropped));
        assert!(timeout(SHORT, || block_on(endless)).is_err());
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(block_on(async { 3 }), 3);
    });
}

fn a_shield_waits_beyond_the_deadline(place: Place) {
    place.run(|| {
        let gate = Gate::default();
        let opened = gate.clone();
        let opener = spawn(move || {
            sleep(2 * SHORT);
            opened.open();
        });
        let output = timeout(SHORT, || {
            shield(|| block_on(gate));
            9
        });
        assert_eq!(output.ok(), Some(9));
        opener.join().unwrap();
    });
}

fn a_panic_passes_through(place: Place) {
    place.run(|| {
        let panicked = spawn(|| block_on(async { panic!("on purpose") })).join();
        let payload: Box<dyn std::any::Any + Send> = panicked.map(|(): ()| ()).unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"on purpose"));
    });
}

fn other_fibers_run_meanwhile(place: Place) {
    one_worker_lets_others_run(place, || {
        let gate = Gate::default();
        let opened = gate.clone();
        let opener = spawn(move || opened.open());
        block_on(gate);
        opener.join().unwrap();
    });
}

fn a_future_that_yields_lets_other_fibers_run(place: Place) {
    one_worker_lets_others_run(place, || block_on(yields(1)));
}

fn cancellation_drops_the_future(place: Place) {
    place.run(|| {
        let dropped = Arc::new(AtomicBool::new(false));
        let endless = Endless(Arc::clone(&dropped));
        let (started, start) = mpsc::channel();
        let fiber = spawn(move || {
            started.send(()).unwrap();
            block_on(endless);
        });
        start.recv().unwrap();
        fiber.cancel();
        assert!(is_cancelled(fiber));
        assert!(dropped.load(Ordering::SeqCst));
    });
}

fn a_deadline_is_an_error_of_try_block_on(place: Place) {
    place.run(|| {
        let dropped = Arc::new(AtomicBool::new(false));
        let endless = Endless(Arc::clone(&dropped));
        let kinds = timeout(SHORT, || {
            let during_wait = try_block_on(endless).unwrap_err().kind();
            let after_deadline =
                try_block_on(future::poll_fn(|_| -> Poll<()> { panic!("polled") }));
            [during_wait, after_deadline.unwrap_err().kind()]
        });
        assert_eq!(kinds, Ok([ErrorKind::TimedOut; 2]));
        assert!(dropped.load(Ordering::SeqCst));
        let never_waits = timeout(SHORT, || try_block_on(yields(u32::MAX)).is_err());
        assert_eq!(never_waits, Ok(true));
        assert_eq!(try_block_on(yields(3)).ok(), Some(()));
    });
}

fn cancellation_is_an_error_of_try_block_on(place: Place) {
    place.run(|| {
        let (started, start) = mpsc::channel();
        let fiber = spawn(move || {
            started.send(()).unwrap();
            try_block_on(future::pending::<()>()).unwrap_err()
        });
        start.recv().unwrap();
        fiber.cancel();
        let error = fiber.join().unwrap();
        assert_eq!(errno::<()>(Err(error)), Errno::CANCELED);
    });
}

fn the_end_of_the_runtime_ends_the_wait(place: Place) {
    assert_ends_with_runtime(place, || {
        block_on(async {
            future::pending::<()>().await;
            sleep(HOUR);
        });
    });
}

fn a_waker_of_a_fiber_or_thread_wakes_a_dedicated_fiber(place: Place) {
    let runtime = place.runtime();
    for waking in [Side::Fiber(&runtime), Side::Thread] {
        for is_asleep in [true, false] {
            for _ in 0..20 {
                let gate = Gate::default();
                let opened = gate.clone();
                let wait = move || {
                    block_on(gate);
                    block_on(yields(3));
                    7
                };
                let waiter = if is_asleep {
                    waiting(&runtime, wait)
                } else {
                    runtime.run(|| dedicated(wait))
                };
                waking.start(move || opened.open()).join();
                assert_eq!(waiter.join().unwrap(), 7);
            }
        }
    }
}

fn dedicated_fibers_drop_a_future_that_is_cancelled_or_late(place: Place) {
    let runtime = place.runtime();
    let dropped = Arc::new(AtomicBool::new(false));
    let endless = || Endless(Arc::clone(&dropped));
    let is_dropped = || dropped.swap(false, Ordering::SeqCst);

    let future = endless();
    let cancelled = waiting(&runtime, || block_on(future));
    cancelled.cancel();
    assert!(cancelled.join().unwrap_err().is::<Cancelled>());
    assert!(is_dropped());

    let future = endless();
    let refused = waiting(&runtime, || try_block_on(future));
    refused.cancel();
    assert_eq!(errno(refused.join().unwrap()), Errno::CANCELED);
    assert!(is_dropped());

    let future = endless();
    let late = runtime.run(|| dedicated(|| timeout(SHORT, || block_on(future))));
    assert_eq!(late.join().unwrap(), Err(Elapsed));
    assert!(is_dropped());
}
