//! Operations on sockets, by one system call each.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketAddrAny};

use super::{Deadline, count_of, message, ready_now, tcp, wait_ready};
use crate::op::net::{
    self, Accept, Connect, Poll, Receive, ReceiveMessage, SOCKET_FLAGS, SendMessage,
};
use crate::resource::descriptor::Descriptor;

/// A socket operation as the system call that performs it.
pub(in crate::driver) trait Call<'a> {
    /// `true` if the call reports `EAGAIN` where it would wait.
    const WAITS_AFTER_EAGAIN: bool = true;

    /// Returns the descriptor that the call is on.
    fn target(&self) -> Descriptor<'a>;

    /// Returns the events that the call waits for.
    fn events(&self) -> PollFlags;

    /// Makes the call, which may block only if `wait` is set; an accept blocks if its listener
    /// does.
    ///
    /// # Errors
    ///
    /// `EAGAIN` if the call would block; `EINPROGRESS` for a connect that would block; any other
    /// error that the call reports.
    fn call(&mut self, wait: bool) -> rustix::io::Result<u32>;

    /// Prepares the descriptor for calls that do not block, if they have no flag for that.
    fn make_nonblocking(&self) -> rustix::io::Result<()> {
        Ok(())
    }

    /// Returns `true` if the socket has no more data or space at the moment, as the call has
    /// transferred `count` bytes.
    fn has_drained(&self, _count: usize) -> bool {
        false
    }

    /// Returns the result of the call at the end of the stream; `None` if it waits nevertheless.
    fn result_at_end(&mut self) -> Option<rustix::io::Result<u32>> {
        None
    }
}

/// Makes a call that does not block, retrying after signals. Returns `None` if it would block.
pub(in crate::driver) fn try_now<'a, C: Call<'a>>(call: &mut C) -> Option<rustix::io::Result<u32>> {
    if let Err(errno) = call.make_nonblocking() {
        return Some(Err(errno));
    }
    loop {
        match call.call(false) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if C::WAITS_AFTER_EAGAIN => return None,
            Err(Errno::INPROGRESS) => return None,
            result => return Some(result),
        }
    }
}

impl<'a> Call<'a> for Accept<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.listener
    }

    fn events(&self) -> PollFlags {
        PollFlags::IN
    }

    #[allow(
        unsafe_code,
        reason = "the address goes into the operation's own storage"
    )]
    fn call(&mut self, _wait: bool) -> rustix::io::Result<u32> {
        // SAFETY: the storage is live, writable and as long as `length` says.
        let fd = unsafe {
            libc::accept4(
                self.listener.fd.as_raw_fd(),
                (&raw mut self.peer.storage).cast(),
                &mut self.peer.length,
                SOCKET_FLAGS.bits().cast_signed(),
            )
        };
        u32::try_from(fd).map_err(|_| {
            Errno::from_io_error(&io::Error::last_os_error()).expect("accept4 sets errno")
        })
    }

    /// Makes the listener non-blocking, as `accept` has no flag for a non-blocking call. Calls of
    /// this crate still wait, and a conversion to `std` restores the mode.
    fn make_nonblocking(&self) -> rustix::io::Result<()> {
        if !self.raised_nonblock.load(Ordering::Relaxed) {
            rustix::io::ioctl_fionbio(self.listener.fd, true)?;
            self.raised_nonblock.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn result_at_end(&mut self) -> Option<rustix::io::Result<u32>> {
        Some(Err(Errno::INVAL))
    }
}

impl<'a> Call<'a> for Connect<'a> {
    /// A Unix socket that finds a full queue has no event to wait for: it reports `EAGAIN` to its
    /// caller.
    const WAITS_AFTER_EAGAIN: bool = false;

    fn target(&self) -> Descriptor<'a> {
        self.socket
    }

    fn events(&self) -> PollFlags {
        PollFlags::OUT
    }

    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        if wait {
            rustix::net::connect(self.socket.fd, self.address)
        } else {
            connect_without_waiting(self.socket.fd, self.address)
        }
        .map(|()| 0)
    }
}

impl<'a> Call<'a> for Receive<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.socket
    }

    fn events(&self) -> PollFlags {
        PollFlags::IN
    }

    #[inline]
    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        let mut flags = RecvFlags::empty();
        flags.set(RecvFlags::PEEK, self.peek);
        flags.set(RecvFlags::DONTWAIT, !wait);
        rustix::net::recv(self.socket.fd, &mut *self.buffer, flags)
            .map(|(count, _)| count_of(count))
    }

    #[inline]
    fn has_drained(&self, count: usize) -> bool {
        self.drains
            && !self.peek
            && (1..self.buffer.len()).contains(&count)
            && tcp::drains(self.socket)
    }

    fn result_at_end(&mut self) -> Option<rustix::io::Result<u32>> {
        Some(Ok(0))
    }
}

impl<'a> Call<'a> for net::Send<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.socket
    }

    fn events(&self) -> PollFlags {
        PollFlags::OUT
    }

    #[inline]
    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        let mut flags = SendFlags::NOSIGNAL;
        flags.set(SendFlags::DONTWAIT, !wait);
        rustix::net::send(self.socket.fd, self.buffer, flags).map(count_of)
    }

    #[inline]
    fn has_drained(&self, count: usize) -> bool {
        (1..self.buffer.len()).contains(&count)
    }
}

impl<'a> Call<'a> for ReceiveMessage<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.socket
    }

    fn events(&self) -> PollFlags {
        PollFlags::IN
    }

    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        message::receive(self.socket.fd, &mut self.message, self.peek, wait)
    }

    fn result_at_end(&mut self) -> Option<rustix::io::Result<u32>> {
        self.message.clear();
        Some(Ok(0))
    }
}

impl<'a> Call<'a> for SendMessage<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.socket
    }

    fn events(&self) -> PollFlags {
        PollFlags::OUT
    }

    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        message::send(self.socket.fd, &mut self.message, wait)
    }
}

impl<'a> Call<'a> for Poll<'a> {
    fn target(&self) -> Descriptor<'a> {
        self.descriptor
    }

    fn events(&self) -> PollFlags {
        self.events
    }

    fn call(&mut self, wait: bool) -> rustix::io::Result<u32> {
        let deadline = if wait {
            Deadline::Never
        } else {
            Deadline::Immediate
        };
        poll_until(self, deadline)
    }
}

/// Waits for one of the events until the deadline, and returns those that have occurred.
pub(super) fn poll_until(poll: &Poll<'_>, deadline: Deadline) -> rustix::io::Result<u32> {
    let ready = wait_ready(poll.descriptor.fd, poll.events, deadline)?;
    Ok(ready.bits().into())
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
    if ready_now(listener, PollFlags::IN)?.is_empty() {
        Err(Errno::AGAIN)
    } else {
        Ok(())
    }
}
