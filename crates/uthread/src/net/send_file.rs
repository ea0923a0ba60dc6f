//! A file's bytes to a socket without a copy in user space.
//!
//! `sendfile` has no flag for "do not wait", so the descriptor is made non-blocking at first use;
//! our own calls do not notice, and a conversion to `std` undoes it. Bytes that are not in the page
//! cache are read through the driver first: `sendfile` would block the worker on the disk.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::event::PollFlags;
use rustix::io::Errno;

use super::socket::{Inner, Socket};
use super::{TcpStream, UnixStream};
use crate::driver::page_cache;
use crate::fs::File;
use crate::sched::wait;

/// Bytes sent before other fibers get a turn: about 50 us of work for the worker.
const CHUNK_BYTES: u64 = 256 * 1024;

/// Bytes read at once of a file that is not in the page cache.
const COLD_BYTES: usize = 128 * 1024;

impl TcpStream {
    /// Sends `length` bytes of `file` from `offset` on and returns how many were sent: fewer only
    /// where the file ends early. The file's position is neither used nor moved. The write timeout
    /// bounds the time without progress.
    ///
    /// # Errors
    ///
    /// The kernel's, of the socket or of the file. How much was sent before is then unknown. Towards a
    /// peer that has gone the kernel also raises `SIGPIPE`, which Rust programs ignore: in a program
    /// that does not, ignore it.
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
    /// As [`TcpStream::send_file`].
    ///
    /// # Errors
    ///
    /// As there.
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
        let mut sent = 0;
        while sent < length {
            let count = self.send_part(file, offset + sent, length - sent)?;
            if count == 0 {
                break;
            }
            sent += count;
            if sent < length {
                wait::yield_within_call()?;
            }
        }
        Ok(sent)
    }

    /// Sends as much of a file as is good for one turn, and at most so many bytes.
    pub(super) fn send_part(&self, file: &File, offset: u64, bytes_max: u64) -> io::Result<u64> {
        let length = bytes_max.min(CHUNK_BYTES);
        match page_cache::holds(file.as_fd(), offset, length) {
            true => self.send_cached(file, offset, length),
            false => self.send_cold(file, offset, length),
        }
    }

    fn send_cached(&self, file: &File, mut offset: u64, length: u64) -> io::Result<u64> {
        // Each time: a clone that was converted to `std` meanwhile has undone it.
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
