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
//!
//! # Taking the worker
//!
//! While a fiber runs code that is not the library's, its worker can be taken from it, for another
//! thread to go on with. The two agree by two words, without an atomic read-modify-write or a fence
//! on the fiber's side:
//!
//! ```text
//!   fiber                                   taker
//!     in_call = true                          worker = ASKED
//!     (the compiler keeps the order)          membarrier(2)
//!     look at worker                          look at in_call
//!       a worker: use it                        true: worker = what it was
//!       ASKED: look again                       false: worker = TAKEN
//!       TAKEN: suspend, to be handed back
//!     in_call = false
//! ```
//!
//! *Claim:* no worker is used and taken at once. *Proof:* the barrier orders the fiber's two
//! accesses before or after it. If the store was before it, the taker sees it, and takes nothing. If
//! not, the fiber's look comes after the barrier, and sees that it was asked.
//!
//! A suspended fiber is in a call, and so is the loop of a worker.

use std::cell::Cell;
use std::hint::black_box;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence};
use std::thread;

/// Somebody is about to take the worker.
const ASKED: *mut () = ptr::without_provenance_mut(1);

/// The worker was taken.
const TAKEN: *mut () = ptr::without_provenance_mut(2);

/// Not smaller than a cache line, as it is written at each switch.
#[repr(align(64))]
pub(crate) struct Record {
    worker: AtomicPtr<()>,
    pub(crate) fiber: Cell<*const ()>,
    pub(crate) kept: Cell<*const ()>,
    pub(crate) calls_left: Cell<i32>,
    /// `true` in new storage, also while that is reset.
    in_call: AtomicBool,
    /// The thread pointer by which the record is found, if it is that of a fiber.
    pub(crate) pointer: Cell<usize>,
    /// The thread pointer of the thread on which the fiber runs without a worker.
    thread: Cell<usize>,
}

thread_local! {
    static RECORD: Record = const {
        Record {
            worker: AtomicPtr::new(ptr::null_mut()),
            fiber: Cell::new(ptr::null()),
            kept: Cell::new(ptr::null()),
            calls_left: Cell::new(0),
            in_call: AtomicBool::new(true),
            pointer: Cell::new(0),
            thread: Cell::new(0),
        }
    };
}

/// The worker that a record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    None,
    Worker(NonNull<()>),
    /// The worker of the fiber was taken.
    Taken,
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
    let in_call = with(|record| record.in_call.load(Ordering::Relaxed));
    with(Record::begin_call);
    // Nobody takes the worker from here on.
    let worker = with(|record| match record.named() {
        Named::Worker(worker) => worker.as_ptr(),
        Named::Taken => TAKEN,
        Named::None => ptr::null_mut(),
    });
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
        record.worker.store(black_box(worker), Ordering::Relaxed);
        record.end_call(in_call);
    });
}

/// The side of the fiber, or of the thread.
impl Record {
    /// Begins a call of the library. Returns what [`end_call`](Record::end_call) restores.
    #[inline]
    pub(crate) fn begin_call(&self) -> bool {
        let outer = self.in_call.load(Ordering::Relaxed);
        self.in_call.store(true, Ordering::Relaxed);
        // The CPU's order is the affair of the taker.
        compiler_fence(Ordering::SeqCst);
        outer
    }

    #[inline]
    pub(crate) fn end_call(&self, outer: bool) {
        // Release pairs with the acquire in `take`: a taker sees all that the call has done.
        self.in_call.store(outer, Ordering::Release);
    }

    /// Returns the worker, in a call of the library.
    #[inline]
    pub(crate) fn named(&self) -> Named {
        match NonNull::new(self.worker.load(Ordering::Relaxed)) {
            Some(worker) if worker.as_ptr() > TAKEN => Named::Worker(worker),
            None => Named::None,
            Some(_) => self.wait_for_taker(),
        }
    }

    /// Returns the worker, in a call of the library, unless one is being taken.
    #[inline]
    pub(crate) fn worker(&self) -> Option<*const ()> {
        let worker = self.worker.load(Ordering::Relaxed);
        (worker > TAKEN).then_some(worker.cast_const())
    }

    #[cold]
    #[inline(never)]
    fn wait_for_taker(&self) -> Named {
        loop {
            // Acquire pairs with the release in `take`.
            match self.worker.load(Ordering::Acquire) {
                ASKED => thread::yield_now(),
                TAKEN => return Named::Taken,
                worker => return NonNull::new(worker).map_or(Named::None, Named::Worker),
            }
        }
    }

    /// Names another worker, or none. Called by the loop of that worker, before it resumes the
    /// fiber; or by the thread or fiber itself, in a call.
    pub(crate) fn name(&self, worker: *const ()) -> *const () {
        let before = match self.named() {
            Named::Worker(worker) => worker.as_ptr().cast_const(),
            Named::None | Named::Taken => ptr::null(),
        };
        self.worker.store(worker.cast_mut(), Ordering::Relaxed);
        before
    }

    /// Gives the fiber's worker away, whose thread has this thread pointer. Called by the fiber, in
    /// a call.
    pub(crate) fn give_worker(&self, thread: usize) {
        self.thread.set(thread);
        self.worker.store(TAKEN, Ordering::Relaxed);
    }

    /// Returns the thread pointer of the thread on which the fiber has run without a worker.
    pub(crate) fn thread(&self) -> usize {
        self.thread.get()
    }
}

/// The side of the taker, on another thread.
impl Record {
    /// Returns `true` if the fiber is in a call of the library now.
    pub(crate) fn is_in_call(&self) -> bool {
        self.in_call.load(Ordering::Relaxed)
    }

    /// Takes the worker, whose thread has this thread pointer. `barrier` is that of `membarrier(2)`.
    /// Returns `false` if another worker is named, or the fiber is in a call.
    pub(crate) fn take(
        &self,
        worker: *mut (),
        thread: usize,
        barrier: impl FnOnce() -> bool,
    ) -> bool {
        let swap = |from, to| {
            self.worker
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
        };
        if swap(worker, ASKED).is_err() {
            return false;
        }
        // Acquire pairs with the release in `end_call`.
        if !barrier() || self.in_call.load(Ordering::Acquire) {
            // The fiber may have become a plain thread meanwhile.
            let _ = swap(ASKED, worker);
            return false;
        }
        // Until it finds itself alone, the fiber accesses nothing but the word.
        self.thread.set(thread);
        // Release pairs with the acquire in `wait_for_taker`.
        swap(ASKED, TAKEN).is_ok()
    }
}
