//! A value that few fibers have, in a box that is created on demand.

use std::cell::OnceCell;
use std::mem::ManuallyDrop;

/// The code that drops the value is not inlined: there it would save and restore registers for all fibers.
pub(super) struct Seldom<T>(ManuallyDrop<OnceCell<Box<T>>>);

impl<T> Seldom<T> {
    /// Creates it with or without a value.
    #[inline(always)]
    pub(super) fn new(value: Option<T>) -> Seldom<T> {
        let cell = value.map_or_else(OnceCell::new, |value| OnceCell::from(Box::new(value)));
        Seldom(ManuallyDrop::new(cell))
    }

    #[inline(always)]
    pub(super) fn get(&self) -> Option<&T> {
        self.0.get().map(|value| &**value)
    }

    #[cold]
    fn clear(&mut self) {
        drop(self.0.take());
    }
}

impl<T: Default> Seldom<T> {
    pub(super) fn get_or_default(&self) -> &T {
        self.0.get_or_init(Box::default)
    }
}

impl<T> Default for Seldom<T> {
    #[inline(always)]
    fn default() -> Seldom<T> {
        Seldom::new(None)
    }
}

impl<T> Drop for Seldom<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.get().is_some() {
            self.clear();
        }
    }
}
