//! Waits for several descriptors at once, the last of which interrupts the wait.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::Deadline;
use crate::op::net::Poll;

/// Waits until one of the polls would complete or the interrupt is raised. Returns `true` if it is
/// raised. A signal and the deadline end the wait as well.
///
/// # Errors
///
/// `ENOMEM` if the kernel has no memory; `EINVAL` for more descriptors than `RLIMIT_NOFILE`.
pub(crate) fn wait_for_any<'a>(
    polls: impl Iterator<Item = Poll<'a>>,
    interrupt: BorrowedFd<'_>,
    deadline: Deadline,
) -> io::Result<bool> {
    let awaited = polls.map(|poll| PollFd::from_borrowed_fd(poll.descriptor.fd, poll.events));
    let mut awaited: Vec<_> = awaited.collect();
    awaited.push(PollFd::from_borrowed_fd(interrupt, PollFlags::IN));
    match rustix::event::poll(&mut awaited, deadline.remaining().as_ref()) {
        Ok(_) => Ok(awaited
            .last()
            .is_some_and(|interrupt| !interrupt.revents().is_empty())),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
