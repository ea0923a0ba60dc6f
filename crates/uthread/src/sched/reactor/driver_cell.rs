//! The driver of a worker. Usually its worker alone uses it, and an access costs what that of a
//! `RefCell` costs. Where a fiber may block the worker's thread, the monitor uses it meanwhile, and
//! an access takes a lock.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use crate::driver::Driver;

/// The worker's end.
pub(crate) struct DriverCell {
    is_shared: bool,
    is_locked: AtomicBool,
    driver: UnsafeCell<Box<dyn Driver>>,
}

impl DriverCell {
    #[expect(
        clippy::arc_with_non_send_sync,
        reason = "other threads have a `SharedDriver`"
    )]
    pub(crate) fn new(driver: Box<dyn Driver>, is_shared: bool) -> Arc<DriverCell> {
        Arc::new(DriverCell {
            is_shared,
            is_locked: AtomicBool::new(false),
            driver: UnsafeCell::new(driver),
        })
    }

    /// Returns `true` if another thread may use the driver.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Locks the driver. Waits for another thread, which holds the lock for a system call at most.
    ///
    /// # Panics
    ///
    /// Panics if the worker itself uses the driver, and nobody else may.
    pub(crate) fn lock(&self) -> Guard<'_> {
        if self.is_shared {
            self.lock_shared();
        } else {
            assert!(
                !self.is_locked.load(Ordering::Relaxed),
                "used once at a time"
            );
            self.is_locked.store(true, Ordering::Relaxed);
        }
        Guard(self)
    }

    /// Waits for the lock. Never inlined: the caller would save the registers of the loop.
    #[inline(never)]
    fn lock_shared(&self) {
        while !self.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        // Acquire pairs with the release in `Guard::drop`.
        let locked =
            (self.is_locked).compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        locked.is_ok()
    }
}

/// The monitor's end, which does not keep the driver.
pub(crate) struct SharedDriver(Weak<DriverCell>);

#[allow(unsafe_code, reason = "a cell with a lock")]
// SAFETY: only the lock gives access to the driver, which may be sent, and only if the worker takes
// the lock, too.
unsafe impl Send for SharedDriver {}

#[allow(unsafe_code, reason = "a cell with a lock")]
// SAFETY: as above.
unsafe impl Sync for SharedDriver {}

impl SharedDriver {
    /// Returns the other end of the cell of a driver that is shared.
    pub(crate) fn new(cell: &Arc<DriverCell>) -> SharedDriver {
        assert!(cell.is_shared);
        SharedDriver(Arc::downgrade(cell))
    }

    /// Calls `action` with the driver, unless the worker uses it or has ended.
    pub(crate) fn try_with<R>(&self, action: impl FnOnce(&mut dyn Driver) -> R) -> Option<R> {
        let cell = self.0.upgrade()?;
        if !cell.try_lock() {
            return None;
        }
        let mut guard = Guard(&cell);
        Some(action(&mut **guard))
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
        // Release pairs with the acquire in `try_lock`.
        self.0.is_locked.store(false, Ordering::Release);
    }
}
