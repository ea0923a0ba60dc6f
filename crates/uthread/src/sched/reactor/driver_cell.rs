//! The driver of a worker, which its worker alone uses: a `RefCell` without a count.

use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};

use crate::driver::Driver;

pub(crate) struct DriverCell {
    is_locked: Cell<bool>,
    driver: UnsafeCell<Box<dyn Driver>>,
}

impl DriverCell {
    pub(crate) fn new(driver: Box<dyn Driver>) -> DriverCell {
        DriverCell {
            is_locked: Cell::new(false),
            driver: UnsafeCell::new(driver),
        }
    }

    /// Returns the driver.
    ///
    /// # Panics
    ///
    /// Panics if it is in use.
    pub(crate) fn lock(&self) -> Guard<'_> {
        assert!(!self.is_locked.replace(true), "used once at a time");
        Guard(self)
    }
}

/// Access to the driver.
pub(crate) struct Guard<'a>(&'a DriverCell);

impl Deref for Guard<'_> {
    type Target = Box<dyn Driver>;

    fn deref(&self) -> &Box<dyn Driver> {
        // SAFETY: the owner of the guard has the lock.
        #[allow(unsafe_code, reason = "a cell with a lock")]
        unsafe {
            &*self.0.driver.get()
        }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Box<dyn Driver> {
        // SAFETY: the owner of the guard has the lock.
        #[allow(unsafe_code, reason = "a cell with a lock")]
        unsafe {
            &mut *self.0.driver.get()
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.is_locked.set(false);
    }
}
