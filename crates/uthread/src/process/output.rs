//! Reading both output streams of a child concurrently: a child may block on a stream that is not
//! read.
//!
//! The parent's ends are made non-blocking, which does not affect the child's ends. One operation
//! waits for either stream: it polls an epoll instance that contains both.

use std::io::{self, Read};
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::io::stream::Stream;
use crate::resource::standard;

/// Number of bytes per read: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads all bytes of a stream, if there is one.
pub(super) fn read_all(stream: Option<Stream>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        (&stream).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Reads all bytes of both streams.
///
/// # Errors
///
/// `EMFILE` if the process has no free descriptor; any other error that `epoll_create1(2)`,
/// `epoll_ctl(2)` or `read(2)` reports.
pub(super) fn read_both(first: &Stream, second: &Stream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let either: Stream = standard::avoid(epoll::create(CreateFlags::CLOEXEC)?)?.into();
    let mut sources = [Source::new(first, &either)?, Source::new(second, &either)?];
    loop {
        for source in &mut sources {
            source.read()?;
        }
        if sources.iter().all(|source| source.ended) {
            let [first, second] = sources.map(|source| source.bytes);
            return Ok((first, second));
        }
        either.wait_for(PollFlags::IN)?;
    }
}

struct Source<'a> {
    stream: &'a Stream,
    either: &'a Stream,
    bytes: Vec<u8>,
    ended: bool,
}

impl<'a> Source<'a> {
    fn new(stream: &'a Stream, either: &'a Stream) -> io::Result<Source<'a>> {
        rustix::io::ioctl_fionbio(stream.as_fd(), true)?;
        match epoll::add(
            either.as_fd(),
            stream.as_fd(),
            EventData::new_u64(0),
            EventFlags::IN,
        ) {
            // A regular file, which the caller may have put in place of the pipe, never blocks.
            Ok(()) | Err(Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Source {
            stream,
            either,
            bytes: Vec::new(),
            ended: false,
        })
    }

    /// Reads the available bytes.
    fn read(&mut self) -> io::Result<()> {
        while !self.ended {
            let filled = self.bytes.len();
            self.bytes.try_reserve(CHUNK_BYTES)?;
            self.bytes.resize(filled + CHUNK_BYTES, 0);
            let result = rustix::io::read(self.stream.as_fd(), &mut self.bytes[filled..]);
            self.bytes.truncate(filled + result.unwrap_or(0));
            match result {
                Ok(0) => {
                    self.ended = true;
                    // Otherwise epoll would report the end again and again.
                    let _ = epoll::delete(self.either.as_fd(), self.stream.as_fd());
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}
