//! How a worker ends: all that waits is cancelled, and new calls are refused.

use std::sync::Arc;
use std::{io, panic, thread};

use super::{Worker, calls};
use crate::fiber::{Cancelled, Control, Pause, Started};
use crate::op;
use crate::sched::held::lock;
use crate::sched::{current, threads};

/// Calls that fail with `ECANCELED`, and fibers spawned in vain, before a fiber is unwound: one that
/// handles the errors ends long before; a loop that only tries again would never.
const REFUSALS_MAX: u32 = 100;

impl Worker {
    pub(super) fn has_ended(&self) -> bool {
        // Where fibers migrate, one that started elsewhere may yet come here.
        self.cancelled_all.get()
            && self.desk.lock().is_deserted()
            && self.shared.victims(self.index).all(|remote| {
                let desk = remote.desk.get();
                desk.is_none_or(|desk| lock(desk).is_deserted())
            })
    }

    /// Cancels what is left, once: operations, sleeps, parked fibers. New calls are refused.
    pub(super) fn cancel_all(&self) {
        if self.cancelled_all.replace(true) {
            return;
        }
        let mut desk = self.desk.lock();
        desk.cancel_all(|fiber| self.make_ready(fiber));
        let live: Vec<_> = desk.fibers().map(Arc::clone).collect();
        drop(desk);
        self.cancel_late();
        live.iter().for_each(crate::fiber::wake);
    }

    /// Whether the running fiber can be ended by unwinding it, of which it takes note then.
    fn begin_unwinding(&self) -> bool {
        let fiber = self.running_fiber();
        let control = fiber.control();
        let begins = cfg!(panic = "unwind") && self.may_unwind(control);
        if begins && !control.unwinding.replace(true) {
            self.unwinding.update(|count| count + 1);
        }
        begins
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

    /// Keeps count of the fibers that wait while they unwind: called when one has left its stack. Beside
    /// others it is not known of one that panics by itself.
    pub(super) fn note_unwinding(&self, fiber: Started) {
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
}

/// Counts a call after shutdown: how many the fiber has made.
fn count_refusal(control: &Control) -> u32 {
    control.refusals.update(|count| count + 1);
    control.refusals.get()
}

/// Ends the calling fiber once its runtime is shut down, for a call that cannot return an error. Where it
/// cannot be ended, because panics abort or it unwinds already, the call lets others run and returns.
#[inline]
pub(crate) fn unwind_if_shut_down() {
    if is_shut_down() {
        unwind();
    }
}

#[cold]
fn unwind() {
    let begins = current::with_fiber(Worker::begin_unwinding)
        .unwrap_or_else(|| cfg!(panic = "unwind") && !thread::panicking());
    if begins {
        panic::resume_unwind(Box::new(Cancelled));
    }
    // Whoever is waited for must be able to go on.
    match current::with_fiber(Worker::running_fiber) {
        Some(fiber) => calls::suspend(fiber, Pause::Yielded),
        None => thread::yield_now(),
    }
}

/// Whether the caller is a fiber whose runtime is shut down.
#[inline]
pub(crate) fn is_shut_down() -> bool {
    current::with_fiber(|worker| worker.shared.is_shut_down())
        .unwrap_or_else(|| threads::current().is_some_and(|seat| seat.is_shut_down()))
}

/// The error for a call of a fiber whose runtime is shut down.
pub(crate) fn refusal() -> Option<io::Error> {
    if !is_shut_down() {
        return None;
    }
    let refused = current::with_fiber(|worker| count_refusal(worker.running_fiber().control()));
    let refused = refused.or_else(|| threads::current().map(|seat| count_refusal(seat.control())));
    if refused > Some(REFUSALS_MAX) {
        unwind();
    }
    Some(io::Error::from_raw_os_error(op::CANCELLED))
}
