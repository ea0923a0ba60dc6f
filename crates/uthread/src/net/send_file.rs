//! Sending a file through a socket without copying its bytes to user space.
//!
//! `sendfile` has no flag for a non-blocking call, so the descriptor is made non-blocking at its
//! first use. Calls of this crate still wait, and a conversion to the `std` type restores the mode.
//! Bytes that are not in the page cache are read through the driver first, as `sendfile` would
//! block the worker on the disk.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::socket::{Inner, Socket};
use super::{TcpStream, UnixStream};
use crate::driver::page_cache;
use crate::fs::File;
use crate::sched::caller::{self, turn};

/// Number of bytes sent before other fibers run: about 50 us of work for the worker.
const CHUNK_BYTES: u64 = 256 * 1024;

/// Number of bytes per read of a file that is not in the page cache.
const COLD_BYTES: usize = 128 * 1024;

impl TcpStream {
    /// Sends `length` bytes of `file`, starting at `offset`, without copying them to user space.
    ///
    /// Returns the number of bytes sent, which is smaller than `length` only if the file ends
    /// early. The file position is neither used nor moved. The write timeout limits the time
    /// without progress.
    ///
    /// # Errors
    ///
    /// Any error that `sendfile(2)` reports for the socket or the file; `WouldBlock` after the
    /// write timeout. After an error, an unknown number of bytes has been sent.
    ///
    /// If the peer has closed the connection, the kernel also raises `SIGPIPE`. Rust programs
    /// ignore that signal by default; a program that does not must ignore it before it calls this
    /// function.
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::{fs::File, net::{TcpListener, TcpStream}};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut client = TcpStream::connect(listener.local_addr()?)?;
    /// let (server, _) = listener.accept()?;
    /// let sent = server.send_file(&File::open("Cargo.toml")?, 0, 9)?;
    /// let mut text = [0; 9];
    /// client.read_exact(&mut text)?;
    /// assert_eq!((sent, &text), (9, b"[package]"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_file(&self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        self.socket.send_file(file, offset, length)
    }
}

impl UnixStream {
    /// Sends `length` bytes of `file`, starting at `offset`, without copying them to user space.
    /// See [`TcpStream::send_file`].
    ///
    /// # Errors
    ///
    /// The errors of [`TcpStream::send_file`].
    ///
    /// ```
    /// use std::io::Read;
    /// use uthread::{fs::File, net::UnixStream};
    ///
    /// let (ours, mut theirs) = UnixStream::pair()?;
    /// assert_eq!(ours.send_file(&File::open("Cargo.toml")?, 0, 9)?, 9);
    /// let mut text = [0; 9];
    /// theirs.read_exact(&mut text)?;
    /// assert_eq!(&text, b"[package]");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn send_file(&self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        self.socket.send_file(file, offset, length)
    }
}

impl<S: Inner> Socket<S> {
    fn send_file(&self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        turn::begin_call()?;
        let mut sent = 0;
        while sent < length {
            let count = self.send_part(file, offset + sent, length - sent)?;
            if count == 0 {
                break;
            }
            sent += count;
            if sent < length {
                turn::yield_within_call()?;
            }
        }
        Ok(sent)
    }

    /// Sends a part of the file, small enough for one turn on the worker and at most `bytes_max`
    /// bytes.
    pub(super) fn send_part(&self, file: &File, offset: u64, bytes_max: u64) -> io::Result<u64> {
        let length = bytes_max.min(CHUNK_BYTES);
        // In a simulated world, bytes that are sent pass through that.
        if caller::world().is_none() && page_cache::holds(file.as_fd(), offset, length) {
            self.send_cached(file, offset, length)
        } else {
            self.send_cold(file, offset, length)
        }
    }

    fn send_cached(&self, file: &File, mut offset: u64, length: u64) -> io::Result<u64> {
        // Repeated for each call: converting a clone to `std` restores the blocking mode.
        self.raise_nonblock()?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        loop {
            match rustix::fs::sendfile(&self.inner, file, Some(&mut offset), length) {
                Ok(count) => return Ok(count as u64),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !self.settings.is_nonblocking() => {
                    self.wait_for(PollFlags::OUT, self.settings.write_timeout())?;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn send_cold(&self, file: &File, offset: u64, length: u64) -> io::Result<u64> {
        let length = usize::try_from(length)
            .unwrap_or(usize::MAX)
            .min(COLD_BYTES);
        let mut buffer = vec![0; length];
        let count = file.read_at(&mut buffer, offset)?;
        self.send_all(&buffer[..count])?;
        Ok(count as u64)
    }
}
