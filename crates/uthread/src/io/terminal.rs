//! Terminals, and waiting for standard streams that may be terminals.
//!
//! A call on a ready terminal may still block: another process may read the line, and a write may
//! be longer than the available space. io_uring executes such a call on the worker. A fiber
//! therefore waits for readiness through its driver, where the wait can be cancelled, and a pool
//! thread makes the call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use crate::op::Operation;
use crate::op::net::{self, SocketOperation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::{self, wait};

/// Tests whether a descriptor is a terminal; the counterpart of [`std::io::IsTerminal`], which only
/// `std` types can implement. This trait is implemented for everything that has a descriptor, `std`
/// types included, and cannot be implemented for other types. See the example of
/// [`is_terminal`](IsTerminal::is_terminal).
pub trait IsTerminal: AsFd {
    /// Returns `true` if the descriptor refers to a terminal.
    ///
    /// ```
    /// use uthread::io::{self, IsTerminal};
    /// let (reader, _writer) = io::pipe()?;
    /// assert!(!reader.is_terminal());
    /// # Ok::<(), io::Error>(())
    /// ```
    fn is_terminal(&self) -> bool;
}

impl<T: AsFd + ?Sized> IsTerminal for T {
    fn is_terminal(&self) -> bool {
        std::io::IsTerminal::is_terminal(&self.as_fd())
    }
}

/// Returns `true` if a call on the descriptor may block the worker although the descriptor is
/// ready.
pub(super) fn may_stop_worker(fd: BorrowedFd<'_>) -> bool {
    caller::is_on_worker() && fd.is_terminal()
}

/// Waits until one of `events` occurs.
pub(super) fn await_ready(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    let mut ready = Operation::Socket(SocketOperation::Poll(net::Poll {
        // New for each operation: the number of a standard stream may come to refer to another
        // file.
        descriptor: Descriptor {
            fd,
            state: &FdState::new(),
        },
        events,
    }));
    wait::perform(&mut ready, None)?;
    Ok(())
}
