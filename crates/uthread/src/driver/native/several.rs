//! Waits for several descriptors at once, the last of which interrupts the wait.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::Deadline;
use crate::op::Operation;
use crate::op::net::SocketOperation;

/// Waits until one of the polls would complete or the interrupt is raised. Returns `true` if it is raised. A
/// signal and the deadline end the wait as well.
///
/// # Errors
///
/// `ENOMEM` if the kernel has no memory; `EINVAL` for more descriptors than `RLIMIT_NOFILE`.
pub(crate) fn wait_for_any<'a, 'b: 'a>(
    polls: impl Iterator<Item = &'a Operation<'b>>,
    interrupt: BorrowedFd<'_>,
    deadline: Deadline,
) -> io::Result<bool> {
    let mut awaited: Vec<_> = polls.map(awaited_of).collect();
    awaited.push(PollFd::from_borrowed_fd(interrupt, PollFlags::IN));
    match rustix::event::poll(&mut awaited, deadline.remaining().as_ref()) {
        Ok(_) => Ok(awaited
            .last()
            .is_some_and(|interrupt| !interrupt.revents().is_empty())),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

fn awaited_of<'a>(poll: &'a Operation<'_>) -> PollFd<'a> {
    match poll {
        Operation::Socket(SocketOperation::Poll(poll)) => {
            PollFd::from_borrowed_fd(poll.descriptor.fd, poll.events)
        }
        _ => unreachable!("only polls are waited for beside others"),
    }
}
