//! The number of calls after which a fiber lets others run.

use std::cell::Cell;

/// Maximum number of calls of a fiber between two switches. A yield costs as much as one or two calls, and
/// another fiber waits for a few microseconds at most.
const CALLS_MAX: u32 = 128;

/// Number of such calls that a call which enters the kernel counts as; it takes one or several microseconds.
const CALLS_OF_A_SYSTEM_CALL: u32 = 16;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Resets the budget, as another fiber runs.
pub(crate) fn renew() {
    CALLS.set(0);
}

/// Uses up the budget, so that the running fiber yields after its present call.
#[inline(never)]
pub(crate) fn use_up() {
    CALLS.set(CALLS_MAX);
}

/// Counts a call. Returns `true` if the caller has to yield after it.
pub(crate) fn is_used_up() -> bool {
    is_used_up_by(1)
}

/// Counts a call that has entered the kernel. Returns `true` if the caller has to yield after it.
pub(crate) fn is_used_up_by_system_call() -> bool {
    is_used_up_by(CALLS_OF_A_SYSTEM_CALL)
}

/// Never inlined, like every access to a thread-local that fibers make.
#[inline(never)]
fn is_used_up_by(spent: u32) -> bool {
    let calls = CALLS.get() + spent;
    let used_up = calls >= CALLS_MAX;
    CALLS.set(if used_up { 0 } else { calls });
    used_up
}
