//! A part of a worker: its own alone, or one that other workers may come to take from.

use std::cell::{RefCell, RefMut};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What only its worker touches costs no atomic operation; what is shared has a lock, which is free nearly
/// always.
pub(crate) enum Held<T> {
    Alone(RefCell<T>),
    Shared(Arc<Mutex<T>>),
}

impl<T> Held<T> {
    /// Takes it for as long as the result lives: a short time, in which nothing else of the kind is
    /// taken.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        match self {
            Held::Alone(cell) => Guard::Alone(cell.borrow_mut()),
            Held::Shared(mutex) => Guard::Shared(lock(mutex)),
        }
    }
}

/// Poisoned or not: a panic of the scheduler ends the process.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) enum Guard<'a, T> {
    Alone(RefMut<'a, T>),
    Shared(MutexGuard<'a, T>),
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self {
            Guard::Alone(guard) => guard,
            Guard::Shared(guard) => guard,
        }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Guard::Alone(guard) => guard,
            Guard::Shared(guard) => guard,
        }
    }
}
