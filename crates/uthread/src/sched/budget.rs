//! The number of calls after which a fiber lets others run.

use crate::tls::record::{self, Record};

/// Maximum number of calls of a fiber between two switches. A yield costs as much as one or two
/// calls, and another fiber waits for a few microseconds at most.
pub(in crate::sched) const CALLS_MAX: i32 = 128;

/// Number of such calls that a call which enters the kernel counts as; it takes one or several
/// microseconds.
const CALLS_OF_A_SYSTEM_CALL: i32 = 16;

/// Number of bytes that count as one such call: they are copied in half a microsecond. So a turn
/// ends after some 50 microseconds, also if each call transfers many.
const BYTES_OF_A_CALL: u32 = 2048;

/// Resets the budget, as another fiber runs.
pub(crate) fn renew() {
    set(CALLS_MAX);
}

/// Sets the budget of the fiber that has this record, as that runs.
#[inline]
pub(in crate::sched) fn set_in(record: &Record, calls: i32) {
    record.calls_left.set(calls);
}

/// Sets the budget, as another fiber runs.
pub(in crate::sched) fn set(calls: i32) {
    record::with(|record| record.calls_left.set(calls));
}

/// Uses up the budget, so that the running fiber yields after its present call. Never inlined, like
/// every access to a thread-local that fibers make.
#[inline(never)]
pub(crate) fn use_up() {
    set(0);
}

/// Counts a call. Returns `true` if the caller has to yield after it.
#[inline]
pub(crate) fn is_used_up() -> bool {
    is_used_up_by(1)
}

/// Counts a call. Returns `true` like [`is_used_up`], and the address of the running fiber, or zero.
/// Never inlined, like every access to a thread-local that fibers make.
#[inline(never)]
pub(crate) fn is_used_up_at() -> (bool, usize) {
    record::with(|record| {
        let (left, address) = (record.calls_left.get() - 1, record.fiber.get().addr());
        if left < 0 {
            return (renew_used_up(), address);
        }
        record.calls_left.set(left);
        (false, address)
    })
}

/// Counts a call that has entered the kernel. Returns `true` like [`is_used_up`].
pub(crate) fn is_used_up_by_system_call() -> bool {
    is_used_up_by(CALLS_OF_A_SYSTEM_CALL)
}

/// Counts a call that has entered the kernel and transferred a number of bytes. Returns `true` like
/// [`is_used_up`].
pub(crate) fn is_used_up_by_transfer(bytes: u32) -> bool {
    is_used_up_by(CALLS_OF_A_SYSTEM_CALL + (bytes / BYTES_OF_A_CALL).cast_signed())
}

/// Counts `spent` calls. Returns `true` like [`is_used_up`]. Never inlined, like every access to a
/// thread-local that fibers make.
#[inline(never)]
fn is_used_up_by(spent: i32) -> bool {
    let left = record::with(|record| record.calls_left.get()) - spent;
    if left < 0 {
        return renew_used_up();
    }
    set(left);
    false
}

/// Renews the budget and returns `true`. A function of its own, so that a call that leaves
/// something does not choose between two values.
#[cold]
#[inline(never)]
fn renew_used_up() -> bool {
    renew();
    true
}
