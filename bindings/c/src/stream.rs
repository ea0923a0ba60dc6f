//! Requests with many results: accepting connections, receiving, and waiting for events.
//!
//! A stream delivers as many items as it has credit for, so that a program that is slower than its
//! peers is not flooded. What arrives meanwhile waits in the library and in the kernel, both of
//! which are bounded.

use std::io;
use std::os::fd::{BorrowedFd, IntoRawFd, RawFd};
use std::sync::{Arc, OnceLock};

use uthread::net::TcpListener;
use uthread::os::unix::net::UnixListener;
use uthread::ring::{self, BufferRing};
use uthread::sync::Semaphore;

use crate::completion::{Completion, errno};
use crate::fallback;

/// The kernel's flag of a completion that is not the last one of its request.
const MORE: u32 = 1 << 1;

/// A request with many results.
pub(crate) struct Stream {
    pub(crate) fd: RawFd,
    pub(crate) kind: Kind,
    credit: Arc<Semaphore>,
}

pub(crate) enum Kind {
    Accept,
    Receive(Arc<Buffers>),
    Poll(ring::Events),
}

/// Buffers for received data, which the ring of the manager gets with the first stream that uses
/// them.
#[derive(Debug)]
pub(crate) struct Buffers {
    count: u16,
    size: usize,
    ring: OnceLock<BufferRing>,
}

impl Buffers {
    /// Describes `count` buffers of `size` bytes each.
    ///
    /// # Errors
    ///
    /// `InvalidInput` as [`BufferRing::new`].
    pub(crate) fn new(count: u16, size: usize) -> io::Result<Buffers> {
        // Made outside of a ring, which takes nothing and checks the numbers.
        BufferRing::new(count, size)?;
        Ok(Buffers {
            count,
            size,
            ring: OnceLock::new(),
        })
    }

    /// Returns the buffers. Called by fibers of the manager, which is the only one that uses them.
    fn ring(&self) -> io::Result<&BufferRing> {
        match self.ring.get() {
            Some(ring) => Ok(ring),
            None => {
                BufferRing::new(self.count, self.size).map(|made| self.ring.get_or_init(|| made))
            }
        }
    }
}

impl Stream {
    /// Describes a stream that may deliver `credit` items.
    pub(crate) fn new(fd: RawFd, kind: Kind, credit: u32) -> Stream {
        Stream {
            fd,
            kind,
            credit: Arc::new(Semaphore::new(credit as usize)),
        }
    }

    pub(crate) fn credit(&self) -> Arc<Semaphore> {
        Arc::clone(&self.credit)
    }

    /// Delivers items, in the calling fiber, until the stream ends or is cancelled.
    pub(crate) fn run(&self, completion: Completion) {
        let result = match &self.kind {
            Kind::Accept => self.accept(&completion),
            Kind::Receive(buffers) => self.receive(buffers, &completion),
            Kind::Poll(events) => self.poll(*events, &completion),
        };
        let result = result.map_or_else(|error| errno(&error), |()| 0);
        completion.end(result, 0);
    }

    fn accept(&self, completion: &Completion) -> io::Result<()> {
        let tell = |fd: RawFd| completion.tell(fd, MORE);
        if fallback::is_unix(self.fd)? {
            let listener = fallback::borrow::<UnixListener>(self.fd);
            self.each(ring::accept(&*listener), |stream| {
                tell(stream.into_raw_fd())
            })
        } else {
            let listener = fallback::borrow::<TcpListener>(self.fd);
            self.each(ring::accept(&*listener), |stream| {
                tell(stream.into_raw_fd())
            })
        }
    }

    #[allow(unsafe_code, reason = "a descriptor that the program keeps open")]
    fn receive(&self, buffers: &Buffers, completion: &Completion) -> io::Result<()> {
        // SAFETY: promised by the submitter.
        let socket = unsafe { BorrowedFd::borrow_raw(self.fd) };
        self.each(ring::receive(&socket, buffers.ring()?), |chunk| {
            completion.give(chunk)
        })
    }

    #[allow(unsafe_code, reason = "a descriptor that the program keeps open")]
    fn poll(&self, events: ring::Events, completion: &Completion) -> io::Result<()> {
        // SAFETY: promised by the submitter.
        let fd = unsafe { BorrowedFd::borrow_raw(self.fd) };
        self.each(ring::poll(&fd, events), |events| {
            completion.tell(i32::from(events.bits()), MORE)
        })
    }

    /// Takes items while there is credit for them.
    fn each<T>(
        &self,
        mut items: impl Iterator<Item = io::Result<T>>,
        tell: impl Fn(T),
    ) -> io::Result<()> {
        loop {
            self.credit.acquire().expect("nobody closes it").forget();
            let item = loop {
                match items.next() {
                    // The library leaves a socket alone that the program has made non-blocking.
                    Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                        fallback::wait(self.fd, ring::Events::READABLE)?;
                    }
                    item => break item,
                }
            };
            match item {
                Some(item) => tell(item?),
                None => return Ok(()),
            }
        }
    }
}
