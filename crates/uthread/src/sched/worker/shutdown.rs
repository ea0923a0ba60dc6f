//! How a worker ends: all that waits is cancelled, and new calls are refused.

use std::sync::Arc;

use super::Worker;
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
}
