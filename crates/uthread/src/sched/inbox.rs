//! What one worker is handed by others.

use crate::atomic::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// A fiber is in it at most once to run, and once for each end of what it waits in, so the number of live
/// fibers bounds it. Once the worker has ended it takes nothing: nobody would empty it.
pub(crate) struct Inbox<T> {
    /// Spares the owner the lock while nothing is there. Changed only under the lock, so that it
    /// agrees with the vector. Relaxed throughout: the lock orders what the fibers did, and the
    /// fences of the idle protocol let the owner's last look see what is there.
    filled: AtomicBool,
    mail: Mutex<Mail<T>>,
}

struct Mail<T> {
    items: Vec<T>,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Inbox<T> {
        Inbox {
            filled: AtomicBool::new(false),
            mail: Mutex::new(Mail {
                items: Vec::new(),
                closed: false,
            }),
        }
    }
}

impl<T> Inbox<T> {
    /// Adds one, or drops it if the owner has ended. The caller then wakes the owner if it sleeps
    /// (`Idle::claim_owner`).
    pub(crate) fn put(&self, item: T) {
        let mut mail = self.lock();
        if mail.closed {
            drop(mail);
            // Without the lock: it may be the last reference to a fiber, with a value of the program.
            return drop(item);
        }
        mail.items.push(item);
        self.filled.store(true, Ordering::Relaxed);
    }

    /// Takes nothing more from now on, and drops what is there. Called by the owner at its end.
    pub(crate) fn close(&self) {
        let mut mail = self.lock();
        mail.closed = true;
        let items = std::mem::take(&mut mail.items);
        self.filled.store(false, Ordering::Relaxed);
        drop(mail);
        drop(items);
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
        std::mem::take(&mut mail.items)
    }

    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        lock(&self.mail)
    }
}
