//! Fork and join of two closures. An idle worker may steal the second one.

use std::panic::{self, Location};

use crate::fiber::{Cancelled, Fiber, Identity};
use crate::runtime::Runtime;
use crate::sched::caller::{self, cancellation, panics, spawn};
use crate::thread::JoinHandle;

/// Runs both closures, possibly in parallel, and returns both results. The closures may borrow from
/// the caller.
///
/// `b` is offered to idle workers while `a` runs in the calling fiber. If no worker takes it, `b`
/// runs in the calling fiber too, without a stack of its own. A recursion that splits its work in
/// two at each step therefore spreads over all workers, at little cost if they are busy. Outside
/// the runtime, both closures run in the process-wide default runtime.
///
/// # Panics
///
/// Panics with the payload of `a`, or else of `b`, once both have ended. If `a` panics before `b`
/// has started, `b` never runs.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = uthread::join(|| sum(left), || sum(right));
///     left + right
/// }
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// assert_eq!(sum(&numbers), 5_000_050_000);
/// ```
///
/// Data used by both closures must be safe to share:
///
/// ```compile_fail,E0277
/// let count = std::cell::Cell::new(0);
/// uthread::join(|| count.set(1), || count.set(2));
/// ```
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if !caller::in_fiber() {
        return Runtime::default_runtime().run(|| join(a, b));
    }
    if panics::is_panicking() && cancellation::is_shut_down() {
        // A new fiber would never start, and the caller, which is already unwinding, cannot
        // continue without the value.
        return (a(), b());
    }
    let identity = Identity::anonymous(Location::caller());
    let deadline = cancellation::deadline_to_inherit();
    let (fiber, joinable) = Fiber::borrowing(identity, deadline, b, None);
    let offered = fiber.clone();
    let second = JoinHandle::new(joinable);
    // The fiber's outcome holds the error as well; it is joined below.
    let _ = spawn::fork(fiber);
    let first = panics::catch_unwind(a);
    if spawn::take_back(&offered) {
        match first {
            Ok(_) => panics::contain(|| offered.run()),
            Err(_) => panics::contain(|| offered.abandon(Box::new(Cancelled))),
        }
    }
    // Soundness depends on this wait: no borrow of `b` is used after it.
    match (first, second.join_to_end()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(payload), _) | (_, Err(payload)) => panic::resume_unwind(payload),
    }
}
