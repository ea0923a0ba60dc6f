//! A part of a worker that it owns alone, or that other workers take from, too.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::atomic::lock;

/// A local value costs no atomic operation; a shared one has a lock, which is nearly always free.
pub(crate) enum LocalOrShared<T> {
    Local(RefCell<T>),
    Shared(Arc<Mutex<T>>),
}

impl<T> LocalOrShared<T> {
    /// Returns the value of a worker that owns it alone.
    pub(crate) fn local(&self) -> Option<&RefCell<T>> {
        match self {
            LocalOrShared::Local(cell) => Some(cell),
            LocalOrShared::Shared(_) => None,
        }
    }

    /// Calls `action` with the value, which the caller accesses in no other way meanwhile.
    #[inline]
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        match self {
            LocalOrShared::Local(cell) => action(&mut cell.borrow_mut()),
            LocalOrShared::Shared(mutex) => action(&mut lock(mutex)),
        }
    }

    /// Locks the value for a short time, in which the caller locks no other value of the kind.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self {
            LocalOrShared::Local(cell) => Guard::Local(cell.borrow_mut()),
            LocalOrShared::Shared(mutex) => Guard::Shared(lock(mutex)),
        }
    }
}

pub(crate) enum Guard<'a, T> {
    Local(RefMut<'a, T>),
    Shared(MutexGuard<'a, T>),
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Guard::Local(guard) => guard,
            Guard::Shared(guard) => guard,
        }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Guard::Local(guard) => guard,
            Guard::Shared(guard) => guard,
        }
    }
}
