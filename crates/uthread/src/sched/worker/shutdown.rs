//! How a worker ends: all that waits is cancelled, and new calls are refused.

use std::io;
use std::sync::Arc;

use super::{Expiry, Worker};
use crate::fiber::Cancelled;
use crate::op;

/// Calls that fail with `ECANCELED`, and fibers spawned in vain, before a fiber is unwound: one that
/// handles the errors ends long before; a loop that only tries again would never.
const REFUSALS_MAX: u32 = 100;

impl Worker {
    pub(super) fn has_ended(&self) -> bool {
        self.cancelled_all.get()
            && self.live.borrow().is_empty()
            && self.operations.borrow().is_empty()
    }

    /// Cancels what is left, once: operations, sleeps, parked fibers. New calls are refused.
    pub(super) fn cancel_all(&self) {
        if self.cancelled_all.replace(true) {
            return;
        }
        for token in self.operations.borrow().tokens() {
            self.driver.borrow_mut().cancel(token);
        }
        self.operations.borrow_mut().forget_timers();
        for expiry in self.timers.borrow_mut().drain() {
            if let Expiry::Resume(fiber) = expiry {
                self.make_ready(fiber);
            }
        }
        let live: Vec<_> = self
            .live
            .borrow()
            .iter()
            .map(|(_, fiber)| Arc::clone(fiber))
            .collect();
        live.iter().for_each(crate::fiber::wake);
    }

    /// Ends a fiber whose call cannot return an error, once the runtime is shut down. Where panics
    /// abort, nothing can: the call returns at once.
    #[inline]
    pub(in crate::sched) fn unwind_if_shut_down(&self) {
        if self.shared.is_shut_down() {
            unwind();
        }
    }

    /// The error for a call after shutdown.
    pub(in crate::sched) fn refusal(&self) -> Option<io::Error> {
        if !self.shared.is_shut_down() {
            return None;
        }
        let fiber = self.running_fiber();
        let refusals = &fiber.control().refusals;
        refusals.set(refusals.get() + 1);
        if refusals.get() > REFUSALS_MAX {
            self.unwind_if_shut_down();
        }
        Some(io::Error::from_raw_os_error(op::CANCELLED))
    }
}

#[cold]
fn unwind() {
    // A second panic in a destructor would abort the process.
    if cfg!(panic = "unwind") && !std::thread::panicking() {
        std::panic::resume_unwind(Box::new(Cancelled));
    }
}
