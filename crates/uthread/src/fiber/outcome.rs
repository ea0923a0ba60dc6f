//! An outcome, of a fiber or sent by `oneshot`: written once, waited for by at most one joiner.
//!
//! ```text
//!   RUNNING --complete--> DONE          the joiner finds the value
//!   RUNNING --await-----> AWAITED --complete--> DONE + wake the waiter
//!                         AWAITED --withdraw--> RUNNING
//!   RUNNING --detach----> DETACHED --complete-> DONE, the value goes back to who wrote it
//! ```
//!
//! The value of a detached fiber is dropped by whoever comes second, so that nothing a scoped
//! fiber returned outlives its scope.

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
// SAFETY: `value` is written before and read after the change to DONE, `waiter` before and after
// the change to AWAITED; each by one side only.
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

    /// Called once, by the fiber: as [`deliver`](Outcome::deliver), and drops what nobody will take.
    pub(crate) fn complete(&self, result: T) {
        drop_quietly(self.deliver(result));
    }

    /// Called once, by the side that writes: the value again if nobody will take it.
    pub(crate) fn deliver(&self, result: T) -> Option<T> {
        self.value.with_mut(|value| {
            // SAFETY: before DONE only who writes touches the value.
            let value = unsafe { &mut *value };
            *value = Some(result);
        });
        // Release publishes the value to `is_done` and `detach`; Acquire sees the waiter of
        // `await_done`.
        match self.state.swap(DONE, Ordering::AcqRel) {
            AWAITED => {
                let waiter = self.waiter.with_mut(|waiter| {
                    // SAFETY: the joiner wrote the waiter before AWAITED and does not touch it again.
                    let waiter = unsafe { &mut *waiter };
                    waiter.take()
                });
                if let Some(waiter) = waiter {
                    waiter.wake();
                }
                None
            }
            // The handle is gone, so the value is the caller's alone.
            DETACHED => self.take_value(),
            _ => None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with the Release in `complete`.
        self.state.load(Ordering::Acquire) == DONE
    }

    /// Asks for `waiter` to be woken at completion; false if that has come already. The caller
    /// is the only holder of the join handle and asks once, or again after it has withdrawn.
    pub(crate) fn await_done(&self, waiter: WakeHandle) -> bool {
        self.waiter.with_mut(|slot| {
            // SAFETY: before AWAITED only the joiner touches the waiter.
            let slot = unsafe { &mut *slot };
            *slot = Some(waiter);
        });
        // Release publishes the waiter to `complete`.
        self.state
            .compare_exchange(RUNNING, AWAITED, Ordering::Release, Ordering::Acquire)
            .is_ok()
    }

    /// Takes the wish to be woken back, unless completion has come first. The caller is the only holder of
    /// the join handle.
    pub(crate) fn withdraw(&self) {
        // Relaxed: the waiter's cell is the caller's own again.
        let withdrawn = self
            .state
            .compare_exchange(AWAITED, RUNNING, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok();
        if withdrawn {
            self.waiter.with_mut(|waiter| {
                // SAFETY: who completes touches the waiter after AWAITED only, which it did not find.
                let waiter = unsafe { &mut *waiter };
                *waiter = None;
            });
        }
    }

    /// Takes the value. The caller is the only holder of the join handle and saw `is_done`.
    pub(crate) fn take(&self) -> T {
        assert!(self.is_done(), "the outcome is taken after completion");
        self.take_value().expect("the outcome is taken once")
    }

    /// The join handle is dropped unjoined.
    pub(crate) fn detach(&self) {
        // Looked at first: after a join it is done. Acquire pairs with the Release in `complete`: it sees
        // the value where the fiber came first.
        if self.is_done() || self.state.swap(DETACHED, Ordering::Acquire) == DONE {
            drop_quietly(self.take_value());
        }
    }

    /// Empties the value's cell: called after DONE, by the holder of the join handle or, once that
    /// is gone, by who wrote it.
    pub(crate) fn take_value(&self) -> Option<T> {
        self.value.with_mut(|value| {
            // SAFETY: the value is written, and only one side is left to touch it.
            let value = unsafe { &mut *value };
            value.take()
        })
    }
}

/// Drops a value nobody asked for. A panic of its destructor has nobody to go to, and what that panic
/// carries is leaked: its destructor might panic as well.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        mem::forget(payload);
    }
}
