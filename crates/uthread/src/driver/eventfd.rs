//! An eventfd that ends a wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

use super::Wake;
use crate::resource::standard;

/// A handle to an eventfd. Clones refer to the same eventfd.
pub(crate) struct Eventfd(OwnedFd);

impl Eventfd {
    /// Creates a non-blocking eventfd.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor.
    pub(crate) fn new() -> io::Result<Eventfd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Eventfd(standard::avoid(rustix::event::eventfd(0, flags)?)?))
    }

    /// Creates another handle to this eventfd.
    ///
    /// # Errors
    ///
    /// `EMFILE` if the process has no free descriptor.
    pub(super) fn try_clone(&self) -> io::Result<Eventfd> {
        Ok(Eventfd(self.0.try_clone()?))
    }

    /// Notifies the eventfd. Several notifications before a wait count as one.
    ///
    /// # Errors
    ///
    /// Any error that `write(2)` reports; none is known.
    pub(super) fn ring(&self) -> rustix::io::Result<()> {
        match rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            // The counter is full, so the eventfd is notified already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Clears the notification. Returns `true` if there was one.
    pub(crate) fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

impl Wake for Eventfd {
    fn wake(&self) {
        if let Err(errno) = self.ring() {
            super::abort_unwoken(&errno);
        }
    }
}

impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
