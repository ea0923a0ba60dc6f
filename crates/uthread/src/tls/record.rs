//! What the library finds by the thread pointer: one variable, on one cache line, of each thread
//! and of each fiber with thread-local storage of its own.
//!
//! | field | of a thread | of a fiber with storage of its own |
//! | --- | --- | --- |
//! | `worker` | the worker that it runs | the worker that runs it |
//! | `fiber` | the fiber that it runs now | itself |
//! | `kept` | what it keeps of released fibers | what the thread of its worker keeps |
//! | `calls_left` | the rest of the running fiber's budget | the rest of its own |
//!
//! The pointers are without their types, which this layer does not know.
//!
//! [`claim`](super::claim) has the protocol by which a worker is taken from its fiber.

use std::cell::Cell;
use std::hint::black_box;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use super::claim::{self, Claim};

/// Not smaller than a cache line, as it is written at each switch.
#[repr(align(64))]
pub(crate) struct Record {
    /// The worker, and whether it may be taken.
    pub(crate) claim: Claim,
    pub(crate) fiber: Cell<*const ()>,
    pub(crate) kept: Cell<*const ()>,
    pub(crate) calls_left: Cell<i32>,
    /// The thread pointer by which the record is found, if it is that of a fiber.
    pub(crate) pointer: Cell<usize>,
    /// The thread pointer of the thread on which the fiber runs without a worker.
    thread: Cell<usize>,
}

/// Where a debugger finds whether the worker was taken.
pub(crate) const CLAIM_AT: usize = offset_of!(Record, claim) + claim::WORKER_AT;

thread_local! {
    static RECORD: Record = const {
        Record {
            claim: Claim::new(),
            fiber: Cell::new(ptr::null()),
            kept: Cell::new(ptr::null()),
            calls_left: Cell::new(0),
            pointer: Cell::new(0),
            thread: Cell::new(0),
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

/// Returns the address of the record of the calling thread or fiber.
#[inline(never)]
pub(crate) fn own() -> NonNull<Record> {
    with(NonNull::from_ref)
}

/// Calls `reset`, which resets the thread-local storage of the calling fiber, but keeps its record.
#[inline(never)]
pub(crate) fn across(reset: impl FnOnce()) {
    let claim = with(|record| record.claim.begin_reset());
    let cells = with(
        |Record {
             fiber,
             kept,
             calls_left,
             pointer,
             thread,
             ..
         }| {
            (
                fiber.get(),
                kept.get(),
                calls_left.get(),
                pointer.get(),
                thread.get(),
            )
        },
    );
    reset();
    with(|record| {
        // Opaque values: the compiler must not find that they are stored already.
        let (fiber, kept, calls_left, pointer, thread) = black_box(cells);
        record.fiber.set(fiber);
        record.kept.set(kept);
        record.calls_left.set(calls_left);
        record.pointer.set(pointer);
        record.thread.set(thread);
        record.claim.end_reset(black_box(claim));
    });
}

impl Record {
    /// Gives the fiber's worker away, whose thread has this thread pointer. Called by the fiber, in
    /// a call.
    pub(crate) fn give_worker(&self, thread: usize) {
        self.thread.set(thread);
        self.claim.give();
    }

    /// Takes the worker, whose thread has this thread pointer, by the protocol of [`Claim`]. Called
    /// on another thread.
    pub(crate) fn take_worker(
        &self,
        worker: *mut (),
        thread: usize,
        barrier: impl FnOnce() -> bool,
    ) -> bool {
        // Until it finds itself alone, the fiber does not access the cell.
        self.claim.take(worker, barrier, || self.thread.set(thread))
    }

    /// Returns the thread pointer of the thread on which the fiber has run without a worker.
    pub(crate) fn thread(&self) -> usize {
        self.thread.get()
    }
}
