//! A lock that whoever has it may take again, as the standard outputs need: a value may be written to one while
//! its caller has it locked.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::fiber::WakeHandle;
use crate::sched::ticket_lock::{Ticket, TicketLock};
use crate::sched::wait;

pub(super) struct Reentrant {
    lock: TicketLock,
    owner: Mutex<Option<Owner>>,
}

/// Who has the lock, and how often.
struct Owner {
    who: WakeHandle,
    depth: usize,
    _ticket: Ticket<'static>,
}

/// Belongs to the fiber or thread that locked: as a guard of `std`, it may not be sent to another.
pub(super) struct Locked {
    lock: &'static Reentrant,
    not_send: PhantomData<*const ()>,
}

impl Reentrant {
    pub(super) const fn new() -> Reentrant {
        Reentrant {
            lock: TicketLock::new(),
            owner: Mutex::new(None),
        }
    }

    /// Waits for it: a fiber suspends, a thread blocks.
    pub(super) fn lock(&'static self) -> Locked {
        let locked = Locked {
            lock: self,
            not_send: PhantomData,
        };
        if let Some(owner) = &mut *self.owner()
            && wait::is_caller(&owner.who)
        {
            owner.depth += 1;
            return locked;
        }
        let ticket = self.lock.lock();
        *self.owner() = Some(Owner {
            who: wait::wake_handle(),
            depth: 1,
            _ticket: ticket,
        });
        locked
    }

    fn owner(&self) -> MutexGuard<'_, Option<Owner>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut owner = self.lock.owner();
        let depth = owner.as_mut().map_or(0, |owner| {
            owner.depth -= 1;
            owner.depth
        });
        let last = (depth == 0).then(|| owner.take());
        drop(owner);
        drop(last); // Wakes the next, and not under our lock.
    }
}
