//! Messages to one worker from others.

use crate::atomic::{AtomicBool, Mutex, MutexGuard, Ordering, lock};

/// A fiber is contained at most once as new or ready, and once per interrupt of its wait, and
/// requests to trim and probes are few, so the number of live fibers bounds the inbox. It accepts
/// nothing once the worker has ended, as nobody would empty it.
pub(crate) struct Inbox<T> {
    /// Saves the owner the lock while the inbox is empty. Modified under the lock, so that it
    /// agrees with the vector. Relaxed throughout: the lock orders the fibers' effects, and the
    /// fences of the idle protocol let the owner's last check see the items.
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
    /// Adds an item, or returns it if the owner has ended. The caller then wakes the owner if it
    /// sleeps (`Idle::claim_owner`).
    pub(crate) fn put(&self, item: T) -> Option<T> {
        let mut mail = self.lock();
        if mail.closed {
            return Some(item);
        }
        mail.items.push(item);
        self.filled.store(true, Ordering::Relaxed);
        None
    }

    /// Rejects further items if there are none now. Returns `false` if there are some. Called by
    /// the owner.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut mail = self.lock();
        mail.closed |= mail.items.is_empty();
        mail.closed
    }

    /// Rejects further items, and drops the current ones. Called by the owner at its end.
    pub(crate) fn close(&self) {
        let mut mail = self.lock();
        mail.closed = true;
        let items = std::mem::take(&mut mail.items);
        self.filled.store(false, Ordering::Relaxed);
        drop(mail);
        drop(items);
    }

    /// Returns `true` if there are items. Called by the owner; to others, it may be slightly old.
    pub(crate) fn has_mail(&self) -> bool {
        self.filled.load(Ordering::Relaxed)
    }

    /// Takes all items. Called by the owner.
    pub(crate) fn take(&self) -> Vec<T> {
        if !self.has_mail() {
            return Vec::new();
        }
        let mut mail = self.lock();
        self.filled.store(false, Ordering::Relaxed);
        std::mem::take(&mut mail.items)
    }

    /// Returns the number of items that are `counted`. Called by any thread.
    pub(crate) fn count(&self, counted: impl Fn(&T) -> bool) -> usize {
        if !self.has_mail() {
            return 0;
        }
        self.lock()
            .items
            .iter()
            .filter(|item| counted(item))
            .count()
    }

    /// Takes the first item that `is_wanted`. Called by any thread.
    pub(crate) fn take_one(&self, is_wanted: impl FnMut(&T) -> bool) -> Option<T> {
        let mut mail = self.lock();
        let index = mail.items.iter().position(is_wanted)?;
        let item = mail.items.remove(index);
        self.filled.store(!mail.items.is_empty(), Ordering::Relaxed);
        Some(item)
    }

    fn lock(&self) -> MutexGuard<'_, Mail<T>> {
        lock(&self.mail)
    }
}
