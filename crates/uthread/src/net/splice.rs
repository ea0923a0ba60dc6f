//! Sockets as source and destination of transfers that copy nothing to user space.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::socket::{Inner, Socket};
use super::{TcpStream, UnixStream};
use crate::fs::File;
use crate::io::splice::{End, Sealed, Splice, StreamSocket};

impl<S: Inner> StreamSocket for Socket<S> {
    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }

    fn raise_nonblock(&self) -> io::Result<()> {
        self.raise_nonblock()
    }

    fn is_nonblocking(&self) -> bool {
        self.settings.is_nonblocking()
    }

    fn await_bytes(&self) -> io::Result<()> {
        self.wait_for(PollFlags::IN, self.settings.read_timeout())
    }

    fn await_room(&self) -> io::Result<()> {
        self.wait_for(PollFlags::OUT, self.settings.write_timeout())
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.receive(buffer, false)
    }

    fn send_all(&self, buffer: &[u8]) -> io::Result<()> {
        self.send_all(buffer)
    }

    fn send_part(&self, file: &File, offset: u64, bytes_max: u64) -> io::Result<u64> {
        self.send_part(file, offset, bytes_max)
    }
}

macro_rules! impl_splice {
    ($($socket:ident),*) => {$(
        impl Sealed for $socket {
            fn end(&self) -> End<'_> {
                End::Socket(&self.socket)
            }
        }

        impl Splice for $socket {}
    )*};
}

impl_splice!(TcpStream, UnixStream);
