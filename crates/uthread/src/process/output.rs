//! Reading what a child writes, on two streams as it comes: one that is not read from may hold the child up.
//!
//! Both are made non-blocking, which only concerns our ends, and one operation waits for either: an epoll
//! instance that watches the two becomes readable when one of them does.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

use crate::io::stream::Stream;

/// Read at a time: what a pipe holds.
const CHUNK_BYTES: usize = 64 * 1024;

/// All bytes of a stream that may not be there.
pub(super) fn read_all(stream: Option<Stream>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        (&stream).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// All bytes of both.
///
/// # Errors
///
/// The kernel's: `EMFILE`.
pub(super) fn read_both(first: &Stream, second: &Stream) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let either: Stream = epoll::create(CreateFlags::CLOEXEC).map(OwnedFd::into)?;
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
            // A file, which the caller has put in its place, never lets anybody wait.
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

    /// Reads what there is.
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
                    // An end would be reported again and again.
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
