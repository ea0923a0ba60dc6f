//! Accepting connections through one multishot request.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::OFlags;

use super::repeated::{Next, Repeated};
use crate::net::{Listener, TcpListener, TcpStream, UnixListener, UnixStream};
use crate::op::Operation;
use crate::op::multishot::{Accepted, MultishotOperation};
use crate::resource::descriptor::{Descriptor, FdState};
use crate::sched::caller::spawn;
use crate::sched::features::multishot_queue::Decode;

/// Listeners of this crate. Other crates cannot name the trait, and so not implement it.
pub trait Accepts: Listener + AsFd {
    /// Wraps a connection that the kernel has just accepted.
    fn wrap(fd: OwnedFd) -> Self::Stream;
}

impl Accepts for TcpListener {
    fn wrap(fd: OwnedFd) -> TcpStream {
        TcpStream::from_fd(fd)
    }
}

impl Accepts for UnixListener {
    fn wrap(fd: OwnedFd) -> UnixStream {
        UnixStream::from_fd(fd)
    }
}

/// Returns an endless iterator over the connections of a [`TcpListener`] or [`UnixListener`],
/// accepted through a single multishot request. Without a ring, or if the kernel does not support
/// the request, each connection is accepted by a call of its own.
///
/// The kernel accepts connections before they are asked for. When 64 accepted connections are
/// queued, the request is cancelled; it is submitted again once they are taken. Dropping the
/// iterator closes the connections in the queue: call [`stop`](Accept::stop) first to take them.
///
/// # Errors
///
/// The items are the errors of [`TcpListener::accept`]: for example `EMFILE` if no descriptor is
/// free, or `ECANCELED` if the fiber is cancelled. The listener remains usable, and the iterator
/// can continue after an error.
///
/// ```
/// use std::io::{Read, Write};
/// use uthread::{net::{TcpListener, TcpStream}, ring};
///
/// uthread::run(|| {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     let address = listener.local_addr()?;
///     uthread::spawn(move || TcpStream::connect(address)?.write_all(b"hello"));
///     let mut connections = ring::accept(&listener);
///     let mut text = String::new();
///     connections.next().unwrap()?.read_to_string(&mut text)?;
///     assert_eq!(text, "hello");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn accept<L: Accepts>(listener: &L) -> Accept<'_, L> {
    Accept {
        listener,
        state: FdState::new(),
        repeated: Repeated::new(Connections),
        is_stopped: false,
    }
}

/// An iterator over the connections of a listener. See the example of [`accept`].
///
/// Dropping it cancels the request and closes accepted connections that were not taken. To take
/// them, call [`stop`](Accept::stop) first.
///
/// It is not `Send`, as the request belongs to the worker of its fiber:
///
/// ```compile_fail,E0277
/// use uthread::{net::TcpListener, ring};
///
/// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
/// let mut connections = ring::accept(&listener);
/// uthread::scope(|scope| {
///     scope.spawn(move || connections.next());
/// });
/// ```
///
/// It borrows the listener:
///
/// ```compile_fail,E0505
/// use uthread::{net::TcpListener, ring};
///
/// let listener = TcpListener::bind("127.0.0.1:0").unwrap();
/// let mut connections = ring::accept(&listener);
/// drop(listener);
/// connections.next();
/// ```
pub struct Accept<'a, L: Accepts> {
    listener: &'a L,
    state: FdState,
    repeated: Repeated<Connections>,
    is_stopped: bool,
}

impl<L: Accepts> Accept<'_, L> {
    /// Cancels the request and returns when the kernel accepts no more connections. The connections
    /// accepted before can still be taken; after them the iterator returns `None`. Later
    /// connections remain in the kernel's queue.
    ///
    /// ```
    /// use uthread::{net::{TcpListener, TcpStream}, ring};
    ///
    /// uthread::run(|| {
    ///     let listener = TcpListener::bind("127.0.0.1:0")?;
    ///     let clients = [(); 3].map(|()| TcpStream::connect(listener.local_addr().unwrap()));
    ///     let mut connections = ring::accept(&listener);
    ///     let first = connections.next().unwrap()?;
    ///     connections.stop();
    ///     let others = connections.count();
    ///     // The rest is still in the kernel's queue.
    ///     listener.incoming().take(2 - others).try_for_each(|stream| stream.map(drop))?;
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn stop(&mut self) {
        self.is_stopped = true;
        self.repeated.end();
    }
}

impl<L: Accepts> fmt::Debug for Accept<'_, L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Accept")
            .field("listener", &self.listener.as_fd())
            .finish_non_exhaustive()
    }
}

impl<L: Accepts> Iterator for Accept<'_, L> {
    type Item = io::Result<L::Stream>;

    fn next(&mut self) -> Option<io::Result<L::Stream>> {
        if self.is_stopped {
            let Accepted(fd) = self.repeated.take_rest()?;
            return Some(Ok(L::wrap(fd)));
        }
        let listener = Descriptor {
            fd: self.listener.as_fd(),
            state: &self.state,
        };
        let operation = || {
            // On a non-blocking listener the request would wait all the same.
            let flags = rustix::fs::fcntl_getfl(listener.fd);
            let blocks = flags.is_ok_and(|flags| !flags.contains(OFlags::NONBLOCK));
            blocks.then_some(Operation::Multishot(MultishotOperation::Accept {
                listener,
            }))
        };
        Some(match self.repeated.next(operation, None) {
            Next::Item(Accepted(fd)) => {
                spawn::spread_next();
                Ok(L::wrap(fd))
            }
            Next::Single => self.listener.accept().map(|(stream, _)| stream),
            Next::Failed(error) => Err(error),
        })
    }
}

struct Connections;

impl Decode for Connections {
    type Item = Accepted;

    /// About as many as a batch of fibers takes in one round of the worker. Each holds a
    /// descriptor, which are scarce.
    const BACKLOG_MAX: usize = 64;

    fn decode(&self, result: u32, _: Option<u16>, _: Option<&mut Accepted>) -> Option<Accepted> {
        Some(Accepted::new(result))
    }
}
