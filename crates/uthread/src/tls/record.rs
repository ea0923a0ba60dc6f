//! What the library finds by the thread pointer: one variable, on one cache line, of each thread
//! and of each fiber with thread-local storage of its own.
//!
//! | field | of a thread | of a fiber with storage of its own |
//! | --- | --- | --- |
//! | `worker` | the worker that it runs | the worker that runs it |
//! | `fiber` | the fiber that it runs now | itself |
//! | `kept` | what it keeps of released fibers | what its worker keeps |
//! | `calls_left` | the rest of the running fiber's budget | the rest of its own |
//!
//! The pointers are without their types, which this layer does not know.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr;

#[repr(align(64))]
pub(crate) struct Record {
    pub(crate) worker: Cell<*const ()>,
    pub(crate) fiber: Cell<*const ()>,
    pub(crate) kept: Cell<*const ()>,
    pub(crate) calls_left: Cell<i32>,
}

thread_local! {
    static RECORD: Record = const {
        Record {
            worker: Cell::new(ptr::null()),
            fiber: Cell::new(ptr::null()),
            kept: Cell::new(ptr::null()),
            calls_left: Cell::new(0),
        }
    };
}

/// Calls `action` with the record of the calling thread or fiber. The caller is a function that is
/// not inlined, unless it stays on its thread: otherwise the compiler could keep the address across
/// a switch.
#[inline]
pub(crate) fn with<R>(action: impl FnOnce(&Record) -> R) -> R {
    RECORD.with(action)
}

/// Calls `reset`, which resets the thread-local storage of the calling fiber, but keeps its record.
#[inline(never)]
pub(crate) fn across(reset: impl FnOnce()) {
    let (worker, fiber, kept) =
        with(|record| (record.worker.get(), record.fiber.get(), record.kept.get()));
    reset();
    // Opaque values: the compiler must not find that they are stored already.
    with(|record| {
        record.worker.set(black_box(worker));
        record.fiber.set(black_box(fiber));
        record.kept.set(black_box(kept));
    });
}
