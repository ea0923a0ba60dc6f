//! Locks of what the runtimes of a process share.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks for a moment. A fiber that found the lock taken by the thread of another runtime would let others
/// run, which is nothing that its seed decides: it keeps its thread instead.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return PoisonError::into_inner(poisoned),
            Err(TryLockError::WouldBlock) => rustix::thread::sched_yield(),
        }
    }
}
