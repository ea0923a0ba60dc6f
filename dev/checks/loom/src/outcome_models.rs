//! The end of a fiber against the holder of its join handle.

use std::sync::Arc as Count;
use std::thread::Result;

use loom::sync::Arc;
use loom::thread;

use crate::check;
use crate::fiber::outcome::Outcome;
use crate::fiber::{WakeHandle, keep_wakes, park};

/// Absence of a bound: two threads of a few steps are explored in full.
const PREEMPTIONS_MAX: Option<usize> = None;

/// Completes an outcome in a thread of its own while `handle` does what a join handle does, then
/// sees that the value is gone.
fn check_handle(handle: fn(&Outcome<Result<Count<()>>>)) {
    check(PREEMPTIONS_MAX, move || {
        let witness = Count::new(());
        let value = Count::clone(&witness);
        let outcome: Arc<Outcome<Result<_>>> = Arc::new(Outcome::new());
        let fiber = {
            let outcome = Arc::clone(&outcome);
            thread::spawn(move || outcome.complete(Ok(value)))
        };
        handle(&outcome);
        fiber.join().unwrap();
        assert_eq!(Count::strong_count(&witness), 1, "the value is still there");
    });
}

/// Joins like `JoinHandle::join`, and drops the handle. Catches a joiner that sleeps forever, or
/// reads a value that is not yet written.
#[test]
fn a_joiner_is_woken_and_takes_the_value() {
    check_handle(|outcome| {
        if !outcome.is_done() && outcome.await_done(WakeHandle::current()) {
            while !outcome.is_done() {
                thread::park();
            }
        }
        let value = outcome.take().unwrap();
        assert_eq!(Count::strong_count(&value), 2, "the value was copied");
        outcome.detach();
    });
}

/// Catches a value of a scoped fiber that outlives its scope, or is dropped twice.
#[test]
fn a_detached_value_is_dropped_by_the_later_side() {
    check_handle(Outcome::detach);
}

/// Drops a handle that is awaited, as a joiner does that is unwound at shutdown. Catches a value
/// that stays, and a fiber and a joiner that take the waiter and the value from each other.
#[test]
fn a_joiner_may_give_up() {
    check_handle(|outcome| {
        outcome.await_done(WakeHandle::current());
        outcome.detach();
    });
}

/// Waits for a time, gives up, and waits again, like `oneshot::Receiver`. Otherwise the second wait
/// would not end, or the fiber and the joiner would race for the first waiter.
#[test]
fn a_joiner_may_give_up_and_wait_again() {
    check_handle(|outcome| {
        keep_wakes();
        outcome.await_done(WakeHandle::current());
        outcome.withdraw();
        while !outcome.is_done() && outcome.await_done(WakeHandle::current()) {
            park();
            outcome.withdraw();
        }
        assert!(outcome.take().is_ok());
        outcome.detach();
    });
}

/// Catches a value that comes back to its sender and is received as well.
#[test]
fn a_value_that_nobody_joins_is_returned() {
    check(PREEMPTIONS_MAX, || {
        let outcome = Arc::new(Outcome::new());
        let sending = {
            let outcome = Arc::clone(&outcome);
            thread::spawn(move || outcome.deliver(Count::new(())))
        };
        let received = outcome.is_done().then(|| outcome.take());
        outcome.detach();
        let back = sending.join().unwrap();
        assert!(received.is_none() || back.is_none(), "received, and back");
    });
}
