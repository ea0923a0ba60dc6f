//! A value that few fibers have, in a box that is created on demand.

use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The code that drops the value is not inlined: there it would save and restore registers for all
/// fibers.
pub(super) struct LazyBox<T> {
    /// Null, or a box. Any thread may read it, as any may ask for the name of a fiber, while the
    /// fiber creates the value.
    value: AtomicPtr<T>,
    owns: PhantomData<T>,
}

#[allow(unsafe_code, reason = "a box that is created later")]
impl<T> LazyBox<T> {
    /// Creates it with or without a value.
    pub(super) fn new(value: Option<T>) -> LazyBox<T> {
        let value = value.map_or_else(ptr::null_mut, |value| Box::into_raw(Box::new(value)));
        LazyBox {
            value: AtomicPtr::new(value),
            owns: PhantomData,
        }
    }

    #[inline]
    pub(super) fn get(&self) -> Option<&T> {
        // Acquire pairs with the release in `create`.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: if it is not null, it is a box that lives as long as this and is not accessed
        // exclusively.
        unsafe { value.as_ref() }
    }

    /// Returns `true` if there is no value.
    pub(super) fn is_empty(&mut self) -> bool {
        self.value.get_mut().is_null()
    }

    #[cold]
    fn clear(&mut self) {
        // SAFETY: the caller has checked that the pointer is not null, and has exclusive access.
        drop(unsafe { Box::from_raw(*self.value.get_mut()) });
    }
}

impl<T: Default> LazyBox<T> {
    /// Returns the value, which only the fiber itself creates, or a thread that has exclusive
    /// access to the fiber.
    pub(super) fn get_or_default(&self) -> &T {
        self.get().unwrap_or_else(|| self.create())
    }

    #[cold]
    #[allow(unsafe_code, reason = "a box that is created later")]
    fn create(&self) -> &T {
        let new = Box::into_raw(Box::<T>::default());
        // Release pairs with the acquire in `get`.
        let old = self.value.swap(new, Ordering::Release);
        debug_assert!(old.is_null(), "one thread creates it");
        // SAFETY: the value is in a box that lives as long as `self`.
        unsafe { &*new }
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> LazyBox<T> {
        LazyBox::new(None)
    }
}

impl<T> Drop for LazyBox<T> {
    fn drop(&mut self) {
        if !self.is_empty() {
            self.clear();
        }
    }
}
