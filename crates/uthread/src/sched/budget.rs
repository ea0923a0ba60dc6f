//! How often a fiber may call what could suspend it before it lets the others run.

use std::cell::Cell;

/// Calls of all fibers of a worker between two yields: a yield costs as much as one call or two, and so
/// long a neighbour waits for some microseconds.
const CALLS_MAX: u32 = 128;

/// Counts a call; whether it is the one after which the caller yields. Fibers of a worker share the count:
/// whoever never suspends comes upon the last one in time, and the others lose little by it. Never
/// inlined, as every access to a thread-local that fibers make.
#[inline(never)]
pub(crate) fn is_used_up() -> bool {
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    let calls = CALLS.get() + 1;
    let used_up = calls == CALLS_MAX;
    CALLS.set(if used_up { 0 } else { calls });
    used_up
}
