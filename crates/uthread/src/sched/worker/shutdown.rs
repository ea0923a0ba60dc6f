//! How a worker ends: all that waits is cancelled, and new calls are refused.

use std::sync::Arc;
use std::{io, panic, thread};

use super::{Expiry, Worker};
use crate::fiber::{Cancelled, Control, Pause, Started};
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

    /// Ends a fiber whose call cannot return an error, once the runtime is shut down. Where it cannot be
    /// ended, because panics abort or it unwinds already, the call lets others run and returns.
    #[inline]
    pub(in crate::sched) fn unwind_if_shut_down(&self) {
        if self.shared.is_shut_down() {
            self.unwind();
        }
    }

    #[cold]
    fn unwind(&self) {
        let fiber = self.running_fiber();
        let control = fiber.control();
        if cfg!(panic = "unwind") && self.may_unwind(control) {
            if !control.unwinding.replace(true) {
                self.unwinding.update(|count| count + 1);
            }
            panic::resume_unwind(Box::new(Cancelled));
        }
        // Whoever is waited for must be able to go on.
        self.requeue_running();
        self.suspend(Pause::Held);
    }

    /// Whether a panic of the running fiber would be its first: a second one, in a destructor, aborts
    /// the process. `panicking` speaks of the thread, and so of every fiber that is suspended here while
    /// it unwinds. Beside such fibers a guess is left: one that was refused a hundred times is not on its
    /// way to an end.
    fn may_unwind(&self, control: &Control) -> bool {
        if !thread::panicking() {
            return true;
        }
        if control.unwinding.get() {
            return false;
        }
        let refused = control.refusals.get();
        control.refusals.set(refused + 1);
        self.unwinding.get() > 0 && refused > REFUSALS_MAX
    }

    /// Keeps count of the fibers that wait while they unwind: called when one waits. Beside others it is
    /// not known of one that panics by itself.
    pub(in crate::sched) fn note_unwinding(&self, fiber: Started) {
        if thread::panicking() || self.unwinding.get() > 0 {
            self.recount_unwinding(fiber);
        }
    }

    #[cold]
    fn recount_unwinding(&self, fiber: Started) {
        let known = &fiber.control().unwinding;
        let others = self.unwinding.get() - usize::from(known.get());
        known.set(thread::panicking() && (known.get() || others == 0));
        self.unwinding.set(others + usize::from(known.get()));
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
