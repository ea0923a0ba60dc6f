//! Links: what is between a client and a server, with faults.
//!
//! ```text
//!   client -- TCP --> link: reads, [`Chunk`]s wait for their time, writes -- TCP --> server
//!          <-- TCP --       .. and the same in the other direction        <-- TCP --
//! ```
//!
//! Sockets are those of the kernel, so that any crate can use them. A link reads what one side sends,
//! and passes it on later.

use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::net;
use uthread::net::{TcpListener, TcpStream};
use uthread::sync::mpsc::{self, Receiver, SyncSender};
use uthread::sync::{Condvar, Mutex, MutexGuard};
use uthread::thread::JoinHandle;

use crate::chance;

/// Number of bytes that travel together at most.
const CHUNK_BYTES: usize = 16 * 1024;

/// Number of chunks that a link holds in one direction; the sender waits for room.
const CHUNKS_MAX: usize = 64;

/// A link to a TCP server: clients connect to its [address](Link::address) instead.
///
/// At first everything passes at once. Faults can be set at any time, and concern present connections and
/// later ones. With a seed, that decides the latencies.
///
/// ```
/// use std::io::{Read, Write};
/// use std::time::{Duration, Instant};
/// use uthread::net::{TcpListener, TcpStream};
/// use uthread_simulation::{Direction, Link};
///
/// let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
/// runtime.run(|| -> std::io::Result<()> {
///     let server = TcpListener::bind("127.0.0.1:0")?;
///     let link = Link::to(server.local_addr()?)?;
///     link.set_latency(Duration::from_millis(50)..Duration::from_millis(60));
///     uthread::spawn(move || -> std::io::Result<()> {
///         let (mut client, _) = server.accept()?;
///         let mut byte = [0];
///         while client.read(&mut byte)? > 0 {
///             client.write_all(&byte)?;
///         }
///         Ok(())
///     });
///
///     let mut stream = TcpStream::connect(link.address())?;
///     let start = Instant::now();
///     stream.write_all(b"1")?;
///     stream.read_exact(&mut [0])?;
///     assert!(start.elapsed().as_millis() >= 100);
///
///     link.cut(Direction::ToServer);
///     stream.set_read_timeout(Some(Duration::from_secs(10)))?;
///     stream.write_all(b"2")?;
///     assert!(stream.read_exact(&mut [0]).is_err()); // After ten seconds.
///     link.heal();
///     stream.read_exact(&mut [0]) // It was not lost.
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It holds at most a MiB in each direction; then its senders wait. Dropping it resets the connections.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    network: Arc<Network>,
    acceptor: JoinHandle<()>,
}

/// A direction of a [`Link`], whose example shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there are two")]
pub enum Direction {
    /// From clients to the server.
    ToServer,
    /// From the server to clients.
    ToClient,
}

#[derive(Debug)]
struct Network {
    faults: Mutex<Faults>,
    healed: Condvar,
    /// `None` once the link has been dropped.
    connections: Mutex<Option<Vec<Weak<Connection>>>>,
}

#[derive(Debug, Clone)]
struct Faults {
    latency: Range<Duration>,
    bytes_per_second: Option<u64>,
    /// By direction.
    is_cut: [bool; 2],
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
}

/// Bytes, or the end of the stream if there are none.
struct Chunk {
    due: Instant,
    bytes: Vec<u8>,
}

impl Link {
    /// Creates a link to the server at this address. Called by a fiber of the test. See the example of
    /// [`Link`].
    ///
    /// # Errors
    ///
    /// Those of [`TcpListener::bind`].
    pub fn to(server: SocketAddr) -> io::Result<Link> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let network = Arc::new(Network {
            faults: Mutex::new(Faults {
                latency: Duration::ZERO..Duration::ZERO,
                bytes_per_second: None,
                is_cut: [false; 2],
            }),
            healed: Condvar::new(),
            connections: Mutex::new(Some(Vec::new())),
        });
        let own = Arc::clone(&network);
        let acceptor = uthread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let own = Arc::clone(&own);
                uthread::spawn(move || own.connect(client, server));
            }
        });
        Ok(Link {
            address,
            network,
            acceptor,
        })
    }

    /// Returns the address to which clients connect. See the example of [`Link`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets how long what is sent from now on takes in one direction: a random time of these, or the start
    /// of an empty range. Bytes stay in their order. See the example of [`Link`].
    pub fn set_latency(&self, latency: Range<Duration>) {
        self.network.faults().latency = latency;
    }

    /// Sets the number of bytes that pass in a second, for each connection and direction. `None` is no
    /// limit, as at first.
    ///
    /// # Panics
    ///
    /// Panics if the number is zero: [cut](Link::cut) the link instead.
    ///
    /// ```
    /// uthread::run(|| {
    ///     let link = uthread_simulation::Link::to("127.0.0.1:7000".parse().unwrap())?;
    ///     link.set_rate(Some(1_000_000));
    ///     std::io::Result::Ok(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_rate(&self, bytes_per_second: Option<u64>) {
        assert!(
            bytes_per_second != Some(0),
            "a link passes at least one byte a second, unless it is cut"
        );
        self.network.faults().bytes_per_second = bytes_per_second;
    }

    /// Lets nothing pass in this direction until the link is [healed](Link::heal). Nothing is lost, as TCP
    /// sends it again. A client still connects, but has no answer. See the example of [`Link`].
    pub fn cut(&self, direction: Direction) {
        self.network.faults().is_cut[direction as usize] = true;
    }

    /// Lets everything pass again. See the example of [`Link`].
    pub fn heal(&self) {
        self.network.faults().is_cut = [false; 2];
        self.network.healed.notify_all();
    }

    /// Ends the present connections: their sides get `ECONNRESET`.
    ///
    /// ```
    /// uthread::run(|| {
    ///     let link = uthread_simulation::Link::to("127.0.0.1:7000".parse().unwrap())?;
    ///     link.reset();
    ///     std::io::Result::Ok(())
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn reset(&self) {
        self.network.reset(Some(Vec::new()));
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.acceptor.cancel();
        self.network.reset(None);
        // What is held back has no way any more, and whoever holds it finds out.
        self.heal();
    }
}

impl Network {
    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("no panic")
    }

    /// Ends the present connections, and replaces their list.
    fn reset(&self, later: Option<Vec<Weak<Connection>>>) {
        let mut connections = self.connections.lock().expect("no panic");
        let present = mem::replace(&mut *connections, later);
        for connection in present.iter().flatten().filter_map(Weak::upgrade) {
            reset(&connection.client);
            reset(&connection.server);
        }
    }

    /// Passes on what a client and the server send each other.
    fn connect(self: &Arc<Network>, client: TcpStream, server: SocketAddr) {
        let Ok(server) = TcpStream::connect(server) else {
            return reset(&client);
        };
        // What a side has sent goes on at once.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let connection = Arc::new(Connection { client, server });
        if !self.add(&connection) {
            reset(&connection.server);
            return reset(&connection.client);
        }
        uthread::scope(|scope| {
            for direction in [Direction::ToServer, Direction::ToClient] {
                let (from, to) = match direction {
                    Direction::ToServer => (&connection.client, &connection.server),
                    Direction::ToClient => (&connection.server, &connection.client),
                };
                let (sender, receiver) = mpsc::sync_channel(CHUNKS_MAX);
                scope.spawn(move || self.read(from, &sender));
                scope.spawn(move || {
                    if self.write(direction, &receiver, to).is_err() {
                        // The other side finds out as it would from a peer that has gone.
                        reset(from);
                    }
                });
            }
        });
    }

    /// Adds a connection to those that a reset ends. Returns `false` if the link has been dropped.
    fn add(&self, connection: &Arc<Connection>) -> bool {
        let mut connections = self.connections.lock().expect("no panic");
        let Some(present) = &mut *connections else {
            return false;
        };
        present.retain(|other| other.strong_count() > 0);
        present.push(Arc::downgrade(connection));
        true
    }

    /// Reads until the end of the stream, which an error is as well.
    fn read(&self, mut from: &TcpStream, chunks: &SyncSender<Chunk>) {
        let (mut free_at, mut last_due) = (Instant::now(), Instant::now());
        let mut buffer = [0; CHUNK_BYTES];
        loop {
            let length = from.read(&mut buffer).unwrap_or(0);
            let faults = self.faults().clone();
            let takes = faults.bytes_per_second.map_or(Duration::ZERO, |rate| {
                Duration::from_secs_f64(length as f64 / rate as f64)
            });
            free_at = free_at.max(Instant::now()) + takes;
            last_due = last_due.max(free_at + chance::time(&faults.latency));
            let chunk = Chunk {
                due: last_due,
                bytes: buffer[..length].to_vec(),
            };
            if chunks.send(chunk).is_err() || length == 0 {
                return;
            }
        }
    }

    /// Writes chunks when they are due and the link is not cut.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    fn write(
        &self,
        direction: Direction,
        chunks: &Receiver<Chunk>,
        mut to: &TcpStream,
    ) -> io::Result<()> {
        for Chunk { due, bytes } in chunks {
            uthread::thread::sleep_until(due);
            let mut faults = self.faults();
            while faults.is_cut[direction as usize] {
                faults = self.healed.wait(faults).expect("no panic");
            }
            drop(faults);
            if bytes.is_empty() {
                return to.shutdown(Shutdown::Write);
            }
            to.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// Ends a connection at once: its peer gets `ECONNRESET`.
fn reset(stream: &TcpStream) {
    // It fails if the connection has ended.
    let _ = net::connect_unspec(stream);
}
