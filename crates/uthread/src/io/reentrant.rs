//! A reentrant lock. The standard outputs need one: a value may be written to an output while the
//! caller holds its lock.

use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard};

use crate::atomic::lock;
use crate::fiber::WakeHandle;
use crate::sched::caller;
use crate::sync::exclusive::{Exclusive, Held};

pub(super) struct Reentrant {
    lock: Exclusive,
    owner: Mutex<Option<Owner>>,
}

/// The holder of the lock, and how often it has acquired it.
struct Owner {
    who: WakeHandle,
    depth: usize,
    _held: Held<'static>,
}

/// The guard. It is not `Send`, like the guards of `std`: it belongs to the fiber or thread that
/// acquired the lock.
pub(super) struct Locked {
    lock: &'static Reentrant,
    not_send: PhantomData<*const ()>,
}

impl Reentrant {
    pub(super) const fn new() -> Reentrant {
        Reentrant {
            lock: Exclusive::new(),
            owner: Mutex::new(None),
        }
    }

    /// Acquires the lock: a fiber waits suspended, a thread blocks.
    pub(super) fn lock(&'static self) -> Locked {
        let locked = Locked {
            lock: self,
            not_send: PhantomData,
        };
        if let Some(owner) = &mut *self.owner()
            && caller::is_caller(&owner.who)
        {
            owner.depth += 1;
            return locked;
        }
        let held = self.lock.lock();
        *self.owner() = Some(Owner {
            who: caller::wake_handle(),
            depth: 1,
            _held: held,
        });
        locked
    }

    fn owner(&self) -> MutexGuard<'_, Option<Owner>> {
        lock(&self.owner)
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
        drop(last); // Wakes the next waiter, after the lock is released.
    }
}
