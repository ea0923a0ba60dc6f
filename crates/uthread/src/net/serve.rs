//! A server loop that runs one fiber per connection and limits their number.
//!
//! The loop acquires a permit before it accepts. Connections above the limit stay in the kernel's
//! queue.

use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{SocketAddr, TcpListener, TcpStream, UnixListener, UnixStream, unix};
use crate::atomic::lock;
use crate::fiber::WakeHandle;
use crate::sched::caller::{self, cancellation, panics, wait};
use crate::thread;

/// Pause after `accept` has failed for lack of descriptors or memory. They become free when a
/// connection ends, here or in another process, so retrying at once would only burn CPU time.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);

/// A listener that [`serve`] accepts connections from. Programs may implement the trait for types
/// of their own.
///
/// ```
/// use std::io;
/// use uthread::net::{Listener, SocketAddr, TcpListener, TcpStream};
///
/// /// Its connections send what is small at once.
/// struct Prompt(TcpListener);
///
/// impl Listener for Prompt {
///     type Stream = TcpStream;
///     type Address = SocketAddr;
///
///     fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
///         let (stream, peer) = self.0.accept()?;
///         stream.set_nodelay(true)?;
///         Ok((stream, peer))
///     }
/// }
///
/// let listener = Prompt(TcpListener::bind("127.0.0.1:0")?);
/// let _client = TcpStream::connect(listener.0.local_addr()?)?;
/// assert!(listener.accept()?.0.nodelay()?);
/// # Ok::<(), io::Error>(())
/// ```
pub trait Listener {
    /// The type of an accepted connection.
    type Stream: Send;
    /// The type of the peer's address.
    type Address: Send;

    /// Waits for a connection and accepts it. See the example of [`Listener`].
    ///
    /// # Errors
    ///
    /// The errors of [`TcpListener::accept`].
    fn accept(&self) -> io::Result<(Self::Stream, Self::Address)>;
}

impl Listener for TcpListener {
    type Stream = TcpStream;
    type Address = SocketAddr;

    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        TcpListener::accept(self)
    }
}

impl Listener for UnixListener {
    type Stream = UnixStream;
    type Address = unix::SocketAddr;

    fn accept(&self) -> io::Result<(UnixStream, unix::SocketAddr)> {
        UnixListener::accept(self)
    }
}

/// Accepts connections and runs `handler` for each in a fiber of its own, until the listener is
/// shut down.
///
/// At most `connections_max` handlers run at once; further connections wait in the kernel's queue.
/// The function returns when all handlers have ended, also if it returns an error.
///
/// A panic of a handler ends only its own connection. If descriptors or memory run out, accepting
/// pauses until some are free. A connection that breaks before it is accepted is skipped.
///
/// # Errors
///
/// `InvalidInput` if `connections_max` is zero; `ECANCELED` if the calling fiber is cancelled; any
/// other error of [`accept`](TcpListener::accept), such as `WouldBlock` if the listener is
/// non-blocking.
///
/// ```
/// use std::io::{self, Read, Write};
/// use uthread::net::{self, TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let end = listener.try_clone()?;
/// let server = uthread::spawn(move || {
///     net::serve(&listener, 1000, |mut stream, _peer| {
///         // An error means that the peer has gone.
///         let _ = io::copy(&mut &stream, &mut &stream);
///     })
/// });
/// let mut stream = TcpStream::connect(address)?;
/// stream.write_all(b"hello")?;
/// let mut echo = [0; 5];
/// stream.read_exact(&mut echo)?;
/// assert_eq!(&echo, b"hello");
/// drop(stream);
/// end.shutdown()?;
/// server.join().unwrap()?;
/// # Ok::<(), io::Error>(())
/// ```
pub fn serve<L, F>(listener: &L, connections_max: usize, handler: F) -> io::Result<()>
where
    L: Listener,
    F: Fn(L::Stream, L::Address) + Sync,
{
    let permits = Permits::new(connections_max)?;
    thread::scope(|scope| {
        while let Some(connection) = permits.accept(listener)? {
            scope.spawn(|| connection.handle(&handler));
        }
        Ok(())
    })
}

/// Accepts connections like [`serve`], and cancels those handlers that have not ended `grace` after
/// the listener was shut down.
///
/// Their calls return `ECANCELED` from then on. The function returns when all handlers have ended.
///
/// # Errors
///
/// The errors of [`serve`].
///
/// ```
/// use std::io::{self, Read};
/// use std::time::Duration;
/// use uthread::net::{self, TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let _idle = TcpStream::connect(listener.local_addr()?)?;
/// let end = listener.try_clone()?;
/// let server = uthread::spawn(move || {
///     net::serve_with_grace(&listener, 1000, Duration::from_millis(10), |mut stream, _peer| {
///         // It waits for a request that does not come.
///         let _ = stream.read(&mut [0; 1024]);
///     })
/// });
/// end.shutdown()?;
/// server.join().unwrap()?;
/// # Ok::<(), io::Error>(())
/// ```
pub fn serve_with_grace<L, F>(
    listener: &L,
    connections_max: usize,
    grace: Duration,
    handler: F,
) -> io::Result<()>
where
    L: Listener,
    F: Fn(L::Stream, L::Address) + Sync,
{
    let permits = Permits::new(connections_max)?;
    let served = thread::try_scope(|scope| {
        while let Some(connection) = permits.accept(listener).map_err(Some)? {
            scope.spawn(|| {
                connection.handle(&handler);
                Ok(())
            });
        }
        if permits.await_all(grace).map_err(Some)? {
            Ok(())
        } else {
            Err(None)
        }
    });
    // Without an error, the time was over, and the others are cancelled.
    served.or_else(|error: Option<io::Error>| error.map_or(Ok(()), Err))
}

/// The kinds of errors of `accept`, by what a server does about them.
///
/// [`serve`] handles them itself; a server with an accept loop of its own asks
/// [`AcceptFailure::of`].
///
/// ```
/// use uthread::net::{AcceptFailure, TcpListener};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// listener.shutdown()?;
/// let error = listener.accept().unwrap_err();
/// assert_eq!(AcceptFailure::of(&error), AcceptFailure::Closed);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcceptFailure {
    /// A single connection broke before it was accepted. Accept the next one.
    Connection,
    /// Descriptors or memory have run out. Wait until a connection ends, or for a moment, then
    /// accept again.
    Shortage,
    /// The listener was shut down. No connection comes any more.
    Closed,
    /// Any other error. It may occur again immediately.
    Other,
}

impl AcceptFailure {
    /// Classifies an error of `accept`, by the list in `accept(2)`; see the example of
    /// [`AcceptFailure`].
    #[must_use]
    pub fn of(error: &io::Error) -> AcceptFailure {
        match Errno::from_io_error(error) {
            Some(Errno::INVAL) => AcceptFailure::Closed,
            Some(
                Errno::CONNABORTED
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::NONET,
            ) => AcceptFailure::Connection,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                AcceptFailure::Shortage
            }
            // EOPNOTSUPP among them: of a connection by `accept(2)`, but of every call if the
            // socket is no listener.
            _ => AcceptFailure::Other,
        }
    }
}

/// An accepted connection.
struct Connection<'a, L: Listener> {
    stream: L::Stream,
    address: L::Address,
    permit: Permit<'a>,
}

impl<L: Listener> Connection<'_, L> {
    fn handle(self, handler: &impl Fn(L::Stream, L::Address)) {
        let _permit = self.permit;
        // The panic hook has reported the panic; the other connections go on.
        let _ = panics::catch_unwind(|| handler(self.stream, self.address));
    }
}

/// Permits for connections, and the acceptor that waits for one.
struct Permits {
    connections_max: usize,
    state: Mutex<PermitCounts>,
    acceptor: WakeHandle,
}

struct PermitCounts {
    free: usize,
    /// Number of permits returned so far.
    returned: u64,
    /// `true` if the acceptor waits and has to be woken.
    is_awaited: bool,
}

impl Permits {
    /// Creates permits, which the calling fiber acquires.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `connections_max` is zero.
    fn new(connections_max: usize) -> io::Result<Permits> {
        if connections_max == 0 {
            let why = "the maximum number of connections must not be zero";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Permits {
            connections_max,
            state: Mutex::new(PermitCounts {
                free: connections_max,
                returned: 0,
                is_awaited: false,
            }),
            acceptor: caller::wake_handle(),
        })
    }

    /// Waits for a permit, and for a connection. Returns `None` if the listener was shut down.
    fn accept<L: Listener>(&self, listener: &L) -> io::Result<Option<Connection<'_, L>>> {
        loop {
            let permit = self.take()?;
            let error = match listener.accept() {
                Ok((stream, address)) => {
                    return Ok(Some(Connection {
                        stream,
                        address,
                        permit,
                    }));
                }
                Err(error) => error,
            };
            match AcceptFailure::of(&error) {
                AcceptFailure::Closed => return Ok(None),
                AcceptFailure::Connection => {}
                AcceptFailure::Shortage => {
                    drop(permit);
                    self.pause()?;
                }
                AcceptFailure::Other => return Err(error),
            }
        }
    }

    /// Waits until all permits are returned, at most for `time`. Returns `false` if some are not.
    fn await_all(&self, time: Duration) -> io::Result<bool> {
        let all_free = |state: &PermitCounts| state.free == self.connections_max;
        let deadline = caller::after(caller::now(), time);
        self.wait_until(Some(deadline), all_free)?;
        Ok(all_free(&self.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, PermitCounts> {
        lock(&self.state)
    }

    /// Acquires a permit, waiting until one is free.
    fn take(&self) -> io::Result<Permit<'_>> {
        self.wait_until(None, |state| state.free > 0)?;
        self.lock().free -= 1;
        Ok(Permit(self))
    }

    /// Waits until a permit is returned, at most for `SHORTAGE_PAUSE`.
    fn pause(&self) -> io::Result<()> {
        let before = self.lock().returned;
        let deadline = caller::after(caller::now(), SHORTAGE_PAUSE);
        self.wait_until(Some(deadline), |state| state.returned != before)
    }

    fn wait_until(
        &self,
        deadline: Option<Instant>,
        condition: impl Fn(&PermitCounts) -> bool,
    ) -> io::Result<()> {
        loop {
            let mut state = self.lock();
            let is_over =
                condition(&state) || deadline.is_some_and(|deadline| caller::now() >= deadline);
            state.is_awaited = !is_over;
            drop(state);
            if is_over {
                return Ok(());
            }
            cancellation::refuse_if_cancelled()?;
            match deadline {
                Some(deadline) => wait::park_deadline(deadline),
                None => drop(wait::park_unless_cancelled()),
            }
        }
    }
}

/// A permit for one connection, returned on drop.
struct Permit<'a>(&'a Permits);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.free += 1;
        state.returned += 1;
        if std::mem::take(&mut state.is_awaited) {
            drop(state);
            self.0.acceptor.wake();
        }
    }
}
