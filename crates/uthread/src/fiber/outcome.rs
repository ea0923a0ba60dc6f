//! The outcome of a fiber or of a `oneshot` channel: written once, awaited by at most one joiner.
//!
//! ```text
//!   RUNNING --complete--> DONE          the joiner finds the value
//!   RUNNING --await-----> AWAITED --complete--> DONE + wake the waiter
//!                         AWAITED --withdraw--> RUNNING
//!   RUNNING --detach----> DETACHED --complete-> DONE, the value returns to its writer
//!   DONE    --take------> TAKEN
//! ```
//!
//! The state also tells whether there is a value (DONE) or a waiter (AWAITED), which takes no
//! memory beside it.
//!
//! The value of a detached fiber is dropped by the second of the two sides, so no value returned by
//! a scoped fiber outlives its scope.

use std::mem::{self, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};

use super::WakeHandle;
use crate::atomic::{AtomicU8, Ordering, UnsafeCell};

const RUNNING: u8 = 0;
const AWAITED: u8 = 1;
const DETACHED: u8 = 2;
const DONE: u8 = 3;
const TAKEN: u8 = 4;

pub(crate) struct Outcome<T> {
    state: AtomicU8,
    /// Initialized in the state DONE.
    value: UnsafeCell<MaybeUninit<T>>,
    /// Initialized in the state AWAITED.
    waiter: UnsafeCell<MaybeUninit<WakeHandle>>,
}

#[allow(unsafe_code, reason = "two cells guarded by the state")]
// SAFETY: `value` is written before and read after the change to DONE, `waiter` before and after
// the change to AWAITED, each by one side only.
unsafe impl<T: Send> Sync for Outcome<T> {}

#[allow(unsafe_code, reason = "two cells guarded by the state")]
impl<T> Outcome<T> {
    pub(crate) fn new() -> Outcome<T> {
        Outcome {
            state: AtomicU8::new(RUNNING),
            value: UnsafeCell::new(MaybeUninit::uninit()),
            waiter: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    /// Writes the outcome and drops it if the handle is gone. Called once, by the fiber.
    pub(crate) fn complete(&self, result: T) {
        if let Some(result) = self.deliver(result) {
            drop_quietly(result);
        }
    }

    /// Writes the outcome. Returns it if the handle is gone. Called once, by the writing side.
    #[inline]
    pub(crate) fn deliver(&self, result: T) -> Option<T> {
        self.value.with_mut(|value| {
            // SAFETY: before DONE, only the writer accesses the value.
            let value = unsafe { &mut *value };
            value.write(result);
        });
        // Release publishes the value to `is_done` and `detach`; acquire sees the waiter of
        // `await_done`.
        match self.state.swap(DONE, Ordering::AcqRel) {
            AWAITED => {
                self.waiter().wake();
                None
            }
            // The handle is gone, so the caller owns the value.
            DETACHED => self.take_value(),
            _ => None,
        }
    }

    /// Returns `true` if the value was taken, and nothing needs to be dropped. The caller is the
    /// only one left.
    #[allow(
        dead_code,
        reason = "the models, which include this file, have no fibers"
    )]
    pub(crate) fn is_taken(&mut self) -> bool {
        // Relaxed: there is no other reference.
        self.state.load(Ordering::Relaxed) == TAKEN
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with the release in `complete`.
        self.state.load(Ordering::Acquire) >= DONE
    }

    /// Registers `waiter` to be woken at completion. Returns `false` if the outcome is complete.
    /// The caller is the only holder of the join handle, and calls this once, or again after a
    /// withdrawal.
    pub(crate) fn await_done(&self, waiter: WakeHandle) -> bool {
        self.waiter.with_mut(|slot| {
            // SAFETY: before AWAITED, only the joiner accesses the waiter.
            let slot = unsafe { &mut *slot };
            slot.write(waiter);
        });
        // Release publishes the waiter to `complete`.
        let awaits = self
            .state
            .compare_exchange(RUNNING, AWAITED, Ordering::Release, Ordering::Acquire)
            .is_ok();
        if !awaits {
            drop(self.waiter());
        }
        awaits
    }

    /// Withdraws the waiter, unless the outcome is complete. The caller is the only holder of the
    /// join handle.
    pub(crate) fn withdraw(&self) {
        // Relaxed: the caller owns the waiter's cell again.
        let withdrawn = self
            .state
            .compare_exchange(AWAITED, RUNNING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if withdrawn {
            drop(self.waiter());
        }
    }

    /// Takes the value. The caller is the only holder of the join handle, and `is_done` has
    /// returned `true`.
    pub(crate) fn take(&self) -> T {
        debug_assert!(self.is_done(), "the outcome is taken after completion");
        self.take_value().expect("the outcome is taken once")
    }

    /// Records that the join handle is dropped without joining. A panic of the value's destructor
    /// is caught.
    pub(crate) fn detach(&self) {
        if let Some(value) = self.abandon() {
            drop_quietly(value);
        }
    }

    /// Records that the reading side is gone. Returns a value that was written and not taken.
    pub(crate) fn abandon(&self) -> Option<T> {
        // Checked first, as the outcome is done after a join. Acquire pairs with the release in
        // `complete`, to see the value if the fiber was first.
        if !self.is_done() && self.leave() {
            return None;
        }
        self.take_value()
    }

    /// Leaves the value to the writer. Returns `false` if the outcome is complete.
    #[inline]
    fn leave(&self) -> bool {
        let change = |from| {
            self.state
                .compare_exchange(from, DETACHED, Ordering::Acquire, Ordering::Acquire)
        };
        match change(RUNNING) {
            Ok(_) => true,
            // A joiner was unwound while it waited.
            Err(AWAITED) if change(AWAITED).is_ok() => {
                drop(self.waiter());
                true
            }
            Err(_) => false,
        }
    }

    /// Takes the value out of its cell, unless it was taken. Called after DONE, by the holder of
    /// the join handle or, if that is gone, by the writer.
    pub(crate) fn take_value(&self) -> Option<T> {
        // Relaxed: only the caller accesses it now, and has seen that it is done.
        if self.state.load(Ordering::Relaxed) != DONE {
            return None;
        }
        self.state.store(TAKEN, Ordering::Relaxed);
        Some(self.value.with_mut(|value| {
            // SAFETY: only one side is left to access the value.
            let value = unsafe { &*value };
            // SAFETY: the value was written before DONE, and is read once: the state has changed.
            unsafe { value.assume_init_read() }
        }))
    }

    /// Takes the waiter out of its cell. Called once after it was written, by the only side that
    /// accesses it.
    fn waiter(&self) -> WakeHandle {
        self.waiter.with_mut(|waiter| {
            // SAFETY: the joiner has written the waiter before AWAITED; from there, the side that
            // changes the state is the only one that accesses it.
            let waiter = unsafe { &*waiter };
            // SAFETY: the waiter was written, and is read once.
            unsafe { waiter.assume_init_read() }
        })
    }
}

impl<T> Drop for Outcome<T> {
    #[inline]
    fn drop(&mut self) {
        // Relaxed: there is no other reference.
        match self.state.load(Ordering::Relaxed) {
            AWAITED => drop(self.waiter()),
            DONE => drop(self.take_value()),
            _ => {}
        }
    }
}

/// Drops a value. If its destructor panics, the payload is leaked, as its destructor might panic as
/// well.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        mem::forget(payload);
    }
}
