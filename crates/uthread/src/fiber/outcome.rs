//! The outcome of a fiber or of a `oneshot` channel: written once, awaited by at most one joiner.
//!
//! ```text
//!   RUNNING --complete--> DONE          the joiner finds the value
//!   RUNNING --await-----> AWAITED --complete--> DONE + wake the waiter
//!                         AWAITED --withdraw--> RUNNING
//!   RUNNING --detach----> DETACHED --complete-> DONE, the value returns to its writer
//! ```
//!
//! The value of a detached fiber is dropped by the second of the two sides, so no value returned by a scoped
//! fiber outlives its scope.

use std::mem;
use std::panic::{self, AssertUnwindSafe};

use super::WakeHandle;
use crate::atomic::{AtomicU8, Ordering, UnsafeCell};

const RUNNING: u8 = 0;
const AWAITED: u8 = 1;
const DETACHED: u8 = 2;
const DONE: u8 = 3;

pub(crate) struct Outcome<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
    waiter: UnsafeCell<Option<WakeHandle>>,
}

#[allow(unsafe_code, reason = "two cells guarded by the state")]
// SAFETY: `value` is written before and read after the change to DONE, `waiter` before and after the change
// to AWAITED, each by one side only.
unsafe impl<T: Send> Sync for Outcome<T> {}

#[allow(unsafe_code, reason = "two cells guarded by the state")]
impl<T> Outcome<T> {
    pub(crate) fn new() -> Outcome<T> {
        Outcome {
            state: AtomicU8::new(RUNNING),
            value: UnsafeCell::new(None),
            waiter: UnsafeCell::new(None),
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
            debug_assert!(value.is_none(), "it is written once");
            mem::forget(value.replace(result));
        });
        // Release publishes the value to `is_done` and `detach`; acquire sees the waiter of `await_done`.
        match self.state.swap(DONE, Ordering::AcqRel) {
            AWAITED => {
                let waiter = self.waiter.with_mut(|waiter| {
                    // SAFETY: the joiner has written the waiter before AWAITED and does not access it again.
                    let waiter = unsafe { &mut *waiter };
                    waiter.take()
                });
                if let Some(waiter) = waiter {
                    waiter.wake();
                }
                None
            }
            // The handle is gone, so the caller owns the value.
            DETACHED => self.take_value(),
            _ => None,
        }
    }

    /// Returns `true` if nothing in it needs to be dropped. The caller is the only one left.
    #[inline(always)]
    #[allow(
        dead_code,
        reason = "the models, which include this file, have no fibers"
    )]
    pub(crate) fn is_empty(&mut self) -> bool {
        // SAFETY: by the exclusive reference.
        let has_value = self.value.with_mut(|value| unsafe { &*value }.is_some());
        // SAFETY: as above.
        let has_waiter = self.waiter.with_mut(|waiter| unsafe { &*waiter }.is_some());
        !has_value && !has_waiter
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with the release in `complete`.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Registers `waiter` to be woken at completion. Returns `false` if the outcome is complete. The caller
    /// is the only holder of the join handle, and calls this once, or again after a withdrawal.
    pub(crate) fn await_done(&self, waiter: WakeHandle) -> bool {
        self.waiter.with_mut(|slot| {
            // SAFETY: before AWAITED, only the joiner accesses the waiter.
            let slot = unsafe { &mut *slot };
            *slot = Some(waiter);
        });
        // Release publishes the waiter to `complete`.
        self.state
            .compare_exchange(RUNNING, AWAITED, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    /// Withdraws the waiter, unless the outcome is complete. The caller is the only holder of the join
    /// handle.
    pub(crate) fn withdraw(&self) {
        // Relaxed: the caller owns the waiter's cell again.
        let withdrawn = self
            .state
            .compare_exchange(AWAITED, RUNNING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if withdrawn {
            self.waiter.with_mut(|waiter| {
                // SAFETY: the writer accesses the waiter only in the state AWAITED, which it did not find.
                let waiter = unsafe { &mut *waiter };
                *waiter = None;
            });
        }
    }

    /// Takes the value. The caller is the only holder of the join handle, and `is_done` has returned `true`.
    pub(crate) fn take(&self) -> T {
        debug_assert!(self.is_done(), "the outcome is taken after completion");
        self.take_value().expect("the outcome is taken once")
    }

    /// Records that the join handle is dropped without joining.
    pub(crate) fn detach(&self) {
        // Checked first, as the outcome is done after a join. Acquire pairs with the release in `complete`,
        // to see the value if the fiber was first.
        let is_done = self.is_done() || self.state.swap(DETACHED, Ordering::Acquire) == DONE;
        if is_done && let Some(value) = self.take_value() {
            drop_quietly(value);
        }
    }

    /// Takes the value out of its cell. Called after DONE, by the holder of the join handle or, if that is
    /// gone, by the writer.
    pub(crate) fn take_value(&self) -> Option<T> {
        self.value.with_mut(|value| {
            // SAFETY: the value is written, and only one side is left to access it.
            let value = unsafe { &mut *value };
            value.take()
        })
    }
}

/// Drops a value. If its destructor panics, the payload is leaked, as its destructor might panic as well.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        mem::forget(payload);
    }
}
