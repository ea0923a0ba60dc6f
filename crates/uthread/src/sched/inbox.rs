//! What one worker is handed by others.

use std::sync::PoisonError;

use crate::atomic::{AtomicBool, Mutex, MutexGuard, Ordering};

/// A fiber is in it at most once to run, and once for each end of what it waits in, so the number of live
/// fibers bounds it.
pub(crate) struct Inbox<T> {
    /// Spares the owner the lock while nothing is there. Changed only under the lock, so that it
    /// agrees with the vector. Relaxed throughout: the lock orders what the fibers did, and the
    /// fences of the idle protocol let the owner's last look see what is there.
    filled: AtomicBool,
    mail: Mutex<Vec<T>>,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox {
            filled: AtomicBool::new(false),
            mail: Mutex::new(Vec::new()),
        }
    }
}

impl<T> Inbox<T> {
    /// Adds one. The caller then wakes the owner if it sleeps (`Idle::claim_owner`).
    pub(crate) fn put(&self, item: T) {
        let mut mail = self.lock();
        mail.push(item);
        self.filled.store(true, Ordering::Relaxed);
    }

    /// Whether something is there. Called by the owner.
    pub(crate) fn has_mail(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// Takes all there is. Called by the owner.
    pub(crate) fn take(&self) -> Vec<T> {
        if !self.has_mail() {
            return Vec::new();
        }
        let mut mail = self.lock();
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut mail)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
