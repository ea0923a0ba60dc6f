//! How a worker ends: all that waits is cancelled, and new calls are refused.

use std::sync::Arc;
use std::thread;

use super::Worker;
use crate::fiber::{Control, Started};
use crate::sched::cancellation::REFUSALS_MAX;
use crate::sched::held::lock;

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

    /// Called when a desk has got empty.
    pub(super) fn note_deserted(&self) {
        if self.migrating && self.shared.is_shut_down() {
            // Others may have stayed only for what was there.
            self.shared.wake_all();
        }
    }

    /// Cancels what is left and not shielded, once: operations, parked fibers. New calls are refused.
    pub(super) fn cancel_all(&self) {
        if self.cancelled_all.replace(true) {
            return;
        }
        let mut desk = self.desk.lock();
        desk.cancel_of(|fiber| fiber.limits.is_cancelled(true));
        let live: Vec<_> = desk.fibers().map(Arc::clone).collect();
        drop(desk);
        self.cancel_late();
        live.iter().for_each(crate::fiber::wake);
    }

    /// Whether the running fiber can be ended by unwinding it, of which it takes note then.
    pub(in crate::sched) fn begin_unwinding(&self) -> bool {
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
        let refused = control.limits.count_refusal();
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
