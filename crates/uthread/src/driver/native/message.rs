//! Messages by `recvmsg` and `sendmsg`, which `rustix` supports only with its own types of buffers
//! and addresses.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use crate::op::message::Message;
use crate::op::net::receive_message_flags;

/// Receives a message, waiting for it only if `wait` is set.
#[allow(unsafe_code, reason = "the header goes to the kernel as it is")]
pub(in crate::driver) fn receive(
    socket: BorrowedFd<'_>,
    message: &mut Message<'_>,
    peek: bool,
    wait: bool,
) -> rustix::io::Result<u32> {
    let flags = receive_message_flags(peek) | if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the message borrows everything that the header points to, mutably where the kernel
    // writes.
    let result = unsafe { libc::recvmsg(socket.as_raw_fd(), message.as_ptr(), flags) };
    count_or_errno(result)
}

/// Sends a message, waiting for space only if `wait` is set.
#[allow(unsafe_code, reason = "the header goes to the kernel as it is")]
pub(crate) fn send(
    socket: BorrowedFd<'_>,
    message: &mut Message<'_>,
    wait: bool,
) -> rustix::io::Result<u32> {
    let flags = libc::MSG_NOSIGNAL | if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: the message borrows everything that the header points to, and the kernel only reads
    // it.
    let result = unsafe { libc::sendmsg(socket.as_raw_fd(), message.as_ptr(), flags) };
    count_or_errno(result)
}

fn count_or_errno(result: libc::ssize_t) -> rustix::io::Result<u32> {
    let count = usize::try_from(result).map_err(|_| {
        Errno::from_io_error(&io::Error::last_os_error()).expect("the call has set it")
    })?;
    Ok(super::count_of(count))
}
