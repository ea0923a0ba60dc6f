//! An open descriptor, with what drivers remember of it.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// What an operation is on.
#[derive(Clone, Copy)]
pub(crate) struct Descriptor<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) watcher: &'a Watcher,
}

#[cfg(test)]
impl<'a> Descriptor<'a> {
    /// One for drivers that watch none.
    pub(crate) fn unwatched(fd: BorrowedFd<'a>) -> Descriptor<'a> {
        static WATCHER: Watcher = Watcher::new();
        Descriptor {
            fd,
            watcher: &WATCHER,
        }
    }
}

/// Which driver watches a descriptor for readiness. Kept beside the descriptor, by whoever owns it: its
/// number may come to mean another file, and no driver hears of that.
///
/// Relaxed throughout: a driver acts only on its own number, which it wrote itself.
#[derive(Debug)]
pub(crate) struct Watcher(AtomicU32);

impl Watcher {
    const NOBODY: u32 = 0;
    const IMPOSSIBLE: u32 = u32::MAX;

    /// For a descriptor that no driver has met.
    pub(crate) const fn new() -> Watcher {
        Watcher(AtomicU32::new(Self::NOBODY))
    }

    /// Whether it is the driver of this number, which is neither zero nor the highest.
    pub(crate) fn is(&self, driver: u32) -> bool {
        debug_assert!(driver != Self::NOBODY && driver != Self::IMPOSSIBLE);
        self.0.load(Ordering::Relaxed) == driver
    }

    pub(crate) fn set(&self, driver: u32) {
        self.0.store(driver, Ordering::Relaxed);
    }

    /// Whether no driver can: it is a file that is always ready.
    pub(crate) fn is_impossible(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::IMPOSSIBLE
    }

    pub(crate) fn set_impossible(&self) {
        self.set(Self::IMPOSSIBLE);
    }
}
