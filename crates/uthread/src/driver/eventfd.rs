//! An eventfd that ends a wait which listens to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;
use rustix::io::Errno;

use super::Wake;

/// Handles to it may be cloned; all are the same.
pub(crate) struct Eventfd(OwnedFd);

impl Eventfd {
    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    pub(crate) fn new() -> io::Result<Eventfd> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Eventfd(rustix::event::eventfd(0, flags)?))
    }

    /// # Errors
    ///
    /// The kernel's: `EMFILE`.
    pub(super) fn try_clone(&self) -> io::Result<Eventfd> {
        Ok(Eventfd(self.0.try_clone()?))
    }

    /// Rings, which is heard once, however often it happens before.
    ///
    /// # Errors
    ///
    /// The kernel's; none is known.
    pub(super) fn ring(&self) -> rustix::io::Result<()> {
        match rustix::io::write(&self.0, &1_u64.to_ne_bytes()) {
            // So full that it rings already.
            Ok(_) | Err(Errno::AGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Forgets that it rang; whether it did.
    pub(crate) fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

/// A lost wake-up would be a hang that nobody could go on from.
impl Wake for Eventfd {
    fn wake(&self) {
        if let Err(errno) = self.ring() {
            eprintln!("uthread: nobody can be woken: {errno}: please report");
            std::process::abort();
        }
    }
}

impl AsFd for Eventfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
