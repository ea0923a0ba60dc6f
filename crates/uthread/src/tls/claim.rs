//! The protocol by which another thread takes the worker of a fiber.
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

use std::mem::offset_of;
use std::ptr::{self, NonNull};

use crate::atomic::{
    AtomicBool, AtomicPtr, Ordering, const_outside_of_models, fence_of_compiler, yield_now,
};

/// Somebody is about to take the worker.
const ASKED: *mut () = ptr::without_provenance_mut(1);

/// The worker was taken.
const TAKEN: *mut () = ptr::without_provenance_mut(2);

/// The worker that a record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    None,
    Worker(NonNull<()>),
    /// The worker of the fiber was taken.
    Taken,
}

/// The part of a record that both sides access.
pub(crate) struct Claim {
    worker: AtomicPtr<()>,
    /// `true` in new storage, also while that is reset.
    in_call: AtomicBool,
}

impl Claim {
    const_outside_of_models! {
        /// Returns that of new storage: a call without a worker.
        pub(crate) fn new() -> Claim {
            Claim {
                worker: AtomicPtr::new(ptr::null_mut()),
                in_call: AtomicBool::new(true),
            }
        }
    }
}

/// Where the word is in which a debugger finds [`TAKEN`].
#[allow(
    dead_code,
    reason = "the models, which include this file, do not use it"
)]
pub(crate) const WORKER_AT: usize = offset_of!(Claim, worker);

/// The side of the fiber, or of the thread.
impl Claim {
    /// Begins a call of the library. Returns what [`end_call`](Claim::end_call) restores.
    #[inline]
    pub(crate) fn begin_call(&self) -> bool {
        let outer = self.in_call.load(Ordering::Relaxed);
        self.in_call.store(true, Ordering::Relaxed);
        // The CPU's order is the affair of the taker.
        fence_of_compiler();
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
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
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
                ASKED => yield_now(),
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

    /// Names no worker. Called in a forked child: a thread that has asked for the worker is not there
    /// to be waited for.
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
    pub(crate) fn forget(&self) {
        self.worker.store(ptr::null_mut(), Ordering::Relaxed);
    }

    /// Gives the worker away. Called by the fiber, in a call.
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
    pub(crate) fn give(&self) {
        self.worker.store(TAKEN, Ordering::Relaxed);
    }

    /// Begins to reset the storage in which this is. Returns what [`end_reset`](Claim::end_reset)
    /// restores.
    pub(crate) fn begin_reset(&self) -> (bool, *mut ()) {
        let outer = self.begin_call();
        // Nobody takes the worker from here on.
        let worker = match self.named() {
            Named::Worker(worker) => worker.as_ptr(),
            Named::Taken => TAKEN,
            Named::None => ptr::null_mut(),
        };
        (outer, worker)
    }

    pub(crate) fn end_reset(&self, (outer, worker): (bool, *mut ())) {
        self.worker.store(worker, Ordering::Relaxed);
        self.end_call(outer);
    }
}

/// The side of the taker, on another thread.
impl Claim {
    /// Returns `true` if the fiber is in a call of the library now.
    #[allow(
        dead_code,
        reason = "the models, which include this file, do not call it"
    )]
    pub(crate) fn is_in_call(&self) -> bool {
        self.in_call.load(Ordering::Relaxed)
    }

    /// Takes the worker, and calls `prepare` before the fiber can see that. `barrier` is that of
    /// `membarrier(2)`. Returns `false` if another worker is named, or the fiber is in a call.
    pub(crate) fn take(
        &self,
        worker: *mut (),
        barrier: impl FnOnce() -> bool,
        prepare: impl FnOnce(),
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
        prepare();
        // Release pairs with the acquire in `wait_for_taker`.
        swap(ASKED, TAKEN).is_ok()
    }
}
