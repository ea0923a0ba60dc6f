//! Terminals, and waiting for what a standard stream may be.
//!
//! A terminal that is ready does not promise that a call returns at once: another process may take the line, and a
//! write may be longer than what there is room for. A ring makes such a call nevertheless, and on the worker. So
//! a fiber waits for readiness through its driver, where that wait can be cancelled, and a thread of the pool
//! makes the call.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::PollFlags;

use crate::op::Operation;
use crate::op::net::SocketOperation;
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::wait;

/// Tells whether a descriptor is a terminal, as [`std::io::IsTerminal`], which only `std`'s own types can
/// implement; this one is there for all that has a descriptor, `std`'s types among them.
/// See the example of [`is_terminal`](IsTerminal::is_terminal).
pub trait IsTerminal {
    /// Whether it refers to a terminal.
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

/// Whether a call on it may stop a worker although it is ready.
pub(super) fn may_stop_worker(fd: BorrowedFd<'_>) -> bool {
    wait::is_on_worker() && fd.is_terminal()
}

/// Waits until one of the events is there.
pub(super) fn await_ready(fd: BorrowedFd<'_>, events: PollFlags) -> io::Result<()> {
    let mut ready = Operation::Socket(SocketOperation::Poll {
        // For this operation only: the number of a standard stream may come to mean another file.
        descriptor: Descriptor {
            fd,
            state: &FdState::new(),
        },
        events,
    });
    wait::perform(&mut ready, None)?;
    Ok(())
}
