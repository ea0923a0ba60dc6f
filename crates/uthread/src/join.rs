//! Fork and join: two closures, of which an idle worker may take the second.

use std::panic::{self, Location};
use std::sync::Arc;

use crate::fiber::{Cancelled, Control, Fiber, Identity};
use crate::runtime::Runtime;
use crate::sched::wait;
use crate::thread::JoinHandle;

/// Runs both closures, perhaps in parallel, and returns both results. They may borrow from the caller.
///
/// `b` is offered to idle workers while `a` runs here; if none took it, it runs here too, without a
/// stack of its own. So a recursion that splits its work in two at each step spreads over all workers,
/// and costs little where they are busy. Outside the runtime both run on the process-wide default one.
///
/// # Panics
///
/// With the panic of `a`, else of `b`, once both have ended. After a panic of `a`, a `b` that has not
/// started never does.
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
/// What the closures share must be safe to share:
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
    if !wait::in_fiber() {
        return Runtime::default_runtime().run(|| join(a, b));
    }
    if wait::is_panicking() && wait::is_shut_down() {
        // A new fiber would never start, and without its value the caller cannot go on: it unwinds already.
        return (a(), b());
    }
    let identity = Identity::anonymous(Location::caller());
    let control = Control::with_deadline(identity, wait::deadline_to_inherit());
    let (fiber, joinable) = Fiber::borrowing(control, b, None);
    let offered = Arc::clone(&fiber);
    let second = JoinHandle::new(joinable);
    // An error is the fiber's end as well, which is joined below.
    let _ = wait::fork_here(fiber);
    let first = wait::catch_unwind(a);
    if wait::take_back(&offered) {
        match first {
            Ok(_) => wait::contain(|| offered.run()),
            Err(_) => wait::contain(|| offered.abandon(Box::new(Cancelled))),
        }
    }
    // Soundness rests on this wait: nothing that `b` borrows is used after it.
    match (first, second.join_to_end()) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(payload), _) | (_, Err(payload)) => panic::resume_unwind(payload),
    }
}
