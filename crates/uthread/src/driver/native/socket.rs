//! Operations on sockets, by one system call each.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};

use super::{Deadline, count_of, message, ready_now, wait_ready};
use crate::op::net::{SOCKET_FLAGS, SocketOperation};
use crate::op::peer_address::PeerAddress;

/// Performs an operation by one system call, which may block only if `wait` is set; an accept blocks if its
/// listener does.
///
/// # Errors
///
/// `EAGAIN` if the call would block; `EINPROGRESS` for a connect that would block; any other error that the
/// call reports.
#[inline(always)]
pub(in crate::driver) fn call(
    operation: &mut SocketOperation<'_>,
    wait: bool,
) -> rustix::io::Result<u32> {
    match operation {
        SocketOperation::Accept { listener, peer, .. } => accept(listener.fd, peer),
        SocketOperation::Connect { socket, address } if wait => {
            rustix::net::connect(socket.fd, *address).map(|()| 0)
        }
        SocketOperation::Connect { socket, address } => {
            connect_without_waiting(socket.fd, address).map(|()| 0)
        }
        SocketOperation::Receive {
            socket,
            buffer,
            peek,
            ..
        } => receive(socket.fd, buffer, *peek, wait),
        SocketOperation::Send { socket, buffer } => send(socket.fd, buffer, wait),
        SocketOperation::ReceiveMessage {
            socket,
            message,
            peek,
        } => message::receive(socket.fd, message, *peek, wait),
        SocketOperation::SendMessage { socket, message } => message::send(socket.fd, message, wait),
        SocketOperation::Poll { descriptor, events } => {
            let deadline = if wait {
                Deadline::Never
            } else {
                Deadline::Immediate
            };
            wait_ready(descriptor.fd, *events, deadline).map(|ready| ready.bits().into())
        }
    }
}

/// Performs an operation by a system call that does not block, retrying after signals. Returns `None` if it
/// would block.
#[inline(always)]
pub(in crate::driver) fn try_now(
    operation: &mut SocketOperation<'_>,
) -> Option<rustix::io::Result<u32>> {
    loop {
        match call(operation, false) {
            Err(Errno::INTR) => {}
            // A Unix socket that finds a full queue has no event to wait for: it reports `EAGAIN` to its caller.
            Err(Errno::AGAIN) if !matches!(operation, SocketOperation::Connect { .. }) => {
                return None;
            }
            Err(Errno::INPROGRESS) => return None,
            result => return Some(result),
        }
    }
}

fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
    peek: bool,
    wait: bool,
) -> rustix::io::Result<u32> {
    let mut flags = RecvFlags::empty();
    flags.set(RecvFlags::PEEK, peek);
    flags.set(RecvFlags::DONTWAIT, !wait);
    rustix::net::recv(socket, buffer, flags).map(|(count, _)| count_of(count))
}

fn send(socket: BorrowedFd<'_>, buffer: &[u8], wait: bool) -> rustix::io::Result<u32> {
    let mut flags = SendFlags::NOSIGNAL;
    flags.set(SendFlags::DONTWAIT, !wait);
    rustix::net::send(socket, buffer, flags).map(count_of)
}

/// Starts to connect, or queries the result. The socket is non-blocking until there is a result.
fn connect_without_waiting(
    socket: BorrowedFd<'_>,
    address: &SocketAddrAny,
) -> rustix::io::Result<()> {
    rustix::io::ioctl_fionbio(socket, true)?;
    let connected = match rustix::net::connect(socket, address) {
        Err(Errno::INPROGRESS | Errno::ALREADY) => return Err(Errno::INPROGRESS),
        Err(Errno::ISCONN) => Ok(()),
        result => result,
    };
    rustix::io::ioctl_fionbio(socket, false)?;
    connected
}

/// Connects a blocking socket until the deadline, which no flag of the call can limit.
pub(super) fn connect_until(
    socket: BorrowedFd<'_>,
    address: &SocketAddrAny,
    deadline: Deadline,
) -> rustix::io::Result<()> {
    loop {
        match connect_without_waiting(socket, address) {
            Err(Errno::INPROGRESS) => {
                if let Err(errno) = wait_ready(socket, PollFlags::OUT, deadline) {
                    rustix::io::ioctl_fionbio(socket, false)?;
                    return Err(errno);
                }
            }
            result => return result,
        }
    }
}

/// Fails with `EAGAIN` if there is no connection to accept.
pub(super) fn look_for_connection(listener: BorrowedFd<'_>) -> rustix::io::Result<()> {
    match ready_now(listener, PollFlags::IN)?.is_empty() {
        true => Err(Errno::AGAIN),
        false => Ok(()),
    }
}

#[allow(
    unsafe_code,
    reason = "the address goes into the operation's own storage"
)]
fn accept(listener: BorrowedFd<'_>, peer: &mut PeerAddress) -> rustix::io::Result<u32> {
    // SAFETY: the storage is live, writable and as long as `length` says.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            (&raw mut peer.storage).cast(),
            &mut peer.length,
            SOCKET_FLAGS.bits().cast_signed(),
        )
    };
    u32::try_from(fd)
        .map_err(|_| Errno::from_io_error(&io::Error::last_os_error()).expect("accept4 sets errno"))
}
