//! A fiber for each connection, and a bound on how many there are.
//!
//! Whoever accepts holds a place before it does, so that what there is no place for stays in the kernel's queue.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::{SocketAddr, TcpListener, TcpStream, UnixListener, UnixStream, unix};
use crate::fiber::WakeHandle;
use crate::sched::wait;
use crate::thread;

/// Where descriptors or memory are short: they come back when some connection ends, here or in another
/// process, and not by asking faster.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(20);

/// What [`serve`] takes connections from.
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
    /// A connection.
    type Stream: Send;
    /// Where one comes from.
    type Address: Send;

    /// Waits for a connection. There is an example at [`Listener`].
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`].
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

/// Gives each connection a fiber that runs `handler`, until the listener is shut down; returns when all of
/// them have ended. At most `connections_max` run at once: more wait in the kernel's queue.
///
/// A handler that panics ends its own connection. Where descriptors or memory are short, new connections wait
/// until some are free; one that broke while it waited is passed over.
///
/// # Errors
///
/// `ECANCELED` once the caller is cancelled, `InvalidInput` for a bound of zero; and what
/// [`accept`](TcpListener::accept) says that is none of these, as `WouldBlock` of a non-blocking listener. The
/// handlers are waited for in any case.
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
    if connections_max == 0 {
        let why = "a server for no connection at all";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    let places = Places::new(connections_max);
    thread::scope(|scope| {
        loop {
            let place = places.take()?;
            let (stream, address) = match listener.accept() {
                Ok(connection) => connection,
                Err(error) => match Errno::from_io_error(&error).map(Trouble::of) {
                    Some(Trouble::Ended) => return Ok(()),
                    Some(Trouble::OfOne) => continue,
                    Some(Trouble::Shortage) => {
                        drop(place);
                        places.pause()?;
                        continue;
                    }
                    Some(Trouble::Other) | None => return Err(error),
                },
            };
            scope.spawn(|| {
                let _place = place;
                // Its panic has been reported, and is no concern of the others.
                let _ = wait::catch_unwind(|| handler(stream, address));
            });
        }
    })
}

/// What an error of `accept` means for the next.
enum Trouble {
    /// Nobody listens any more.
    Ended,
    /// The connection broke while it waited; the list is that of accept(2).
    OfOne,
    /// There is no room for one more.
    Shortage,
    Other,
}

impl Trouble {
    fn of(errno: Errno) -> Trouble {
        match errno {
            Errno::INVAL => Trouble::Ended,
            Errno::CONNABORTED
            | Errno::INTR
            | Errno::PERM
            | Errno::PROTO
            | Errno::NOPROTOOPT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
            | Errno::NONET => Trouble::OfOne,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Trouble::Shortage,
            _ => Trouble::Other,
        }
    }
}

/// Room for connections, and who waits for it.
struct Places {
    state: Mutex<State>,
    acceptor: WakeHandle,
}

struct State {
    free: usize,
    /// How many have been given back.
    returned: u64,
    /// Whether the acceptor is to be woken.
    is_awaited: bool,
}

impl Places {
    /// So many, of which the caller takes.
    fn new(count: usize) -> Places {
        Places {
            state: Mutex::new(State {
                free: count,
                returned: 0,
                is_awaited: false,
            }),
            acceptor: wait::wake_handle(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free one.
    fn take(&self) -> io::Result<Place<'_>> {
        self.wait_until(None, |state| state.free > 0)?;
        self.lock().free -= 1;
        Ok(Place(self))
    }

    /// Waits until one is given back, but not for long.
    fn pause(&self) -> io::Result<()> {
        let before = self.lock().returned;
        let deadline = wait::after(wait::now(), SHORTAGE_PAUSE);
        self.wait_until(Some(deadline), |state| state.returned != before)
    }

    fn wait_until(
        &self,
        deadline: Option<Instant>,
        condition: impl Fn(&State) -> bool,
    ) -> io::Result<()> {
        loop {
            let mut state = self.lock();
            let is_over =
                condition(&state) || deadline.is_some_and(|deadline| wait::now() >= deadline);
            state.is_awaited = !is_over;
            drop(state);
            if is_over {
                return Ok(());
            }
            wait::refuse_if_cancelled()?;
            match deadline {
                Some(deadline) => wait::park_deadline(deadline),
                None => drop(wait::park_unless_cancelled()),
            }
        }
    }
}

/// Room for one connection, given back in the end.
struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
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
