//! How often a fiber may call what could suspend it before it lets the others run.

use std::cell::Cell;

/// Calls of a fiber between two switches: a yield costs as much as one call or two, and so long a neighbour waits for
/// some microseconds.
const CALLS_MAX: u32 = 128;

/// Of such calls one that enters the kernel makes so many: it takes a microsecond or several.
const CALLS_OF_A_SYSTEM_CALL: u32 = 16;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Another fiber goes on, which has made none.
pub(crate) fn renew() {
    CALLS.set(0);
}

/// Counts a call; whether it is the one after which the caller yields.
pub(crate) fn is_used_up() -> bool {
    is_used_up_by(1)
}

/// The same of one that entered the kernel.
pub(crate) fn is_used_up_by_system_call() -> bool {
    is_used_up_by(CALLS_OF_A_SYSTEM_CALL)
}

/// Never inlined, as every access to a thread-local that fibers make.
#[inline(never)]
fn is_used_up_by(spent: u32) -> bool {
    let calls = CALLS.get() + spent;
    let used_up = calls >= CALLS_MAX;
    CALLS.set(if used_up { 0 } else { calls });
    used_up
}
