//! How to write a service that survives slow, silent and failing peers.
//!
//! Blocking code makes failures local: a call that fails or takes too long returns an error, and `?` leads out of the block that it was
//! for. This chapter forwards TCP connections as `uthread tunnel` does, whose
//! sources (`crates/uthread-cli/src/tunnel`) are the complete program: an HTTP proxy with an allow-list, cached names, limits, a log and a graceful shutdown.
//!
//! # A deadline for a block, not for each call
//!
//! A timeout of each read does not bound a request: a peer that sends a byte now and then keeps a connection for ever. A
//! [`timeout`](crate::timeout) around the block bounds all of it, however many calls it makes:
//!
//! ```
//! use std::io::{self, Read};
//! use std::time::Duration;
//! use uthread::net::TcpStream;
//! use uthread::timeout;
//!
//! /// Reads a line of at most 100 bytes within `time`.
//! fn read_line(stream: &TcpStream, time: Duration) -> io::Result<String> {
//!     let mut line = String::new();
//!     timeout(time, || io::BufRead::read_line(&mut io::BufReader::new(stream.take(100)), &mut line))??;
//!     Ok(line)
//! }
//! # let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
//! # let silent = TcpStream::connect(listener.local_addr()?)?;
//! # let error = read_line(&silent, Duration::from_millis(10)).unwrap_err();
//! # assert_eq!(error.kind(), io::ErrorKind::TimedOut);
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Work that nothing can interrupt
//!
//! The system's resolver cannot be cancelled. A deadline would wait for it. So give such work a fiber of its own and wait for its result: the
//! waiting ends at the deadline, and the work ends when it can. Its result is there for the next one who asks:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use uthread::net::{SocketAddr, ToSocketAddrs};
//! use uthread::sync::OnceLock;
//! use uthread::{spawn, timeout};
//!
//! let answer: Arc<OnceLock<Vec<SocketAddr>>> = Arc::default();
//! let resolver = Arc::clone(&answer);
//! spawn(move || {
//!     let addresses = "localhost:80".to_socket_addrs();
//!     let _ = resolver.set(addresses.map(Vec::from_iter).unwrap_or_default());
//! });
//! let addresses = timeout(Duration::from_secs(10), || answer.wait().clone());
//! # let _ = addresses;
//! ```
//!
//! # Two directions, one fate
//!
//! Each direction of a connection has a fiber. The end of one stream becomes the end of the other, and the second direction continues: HTTP
//! clients and database tools rely on such half-closed connections. An error is different. It must end both directions, and the peers
//! must not mistake it for a regular end. [`try_scope`](crate::try_scope) cancels the other direction, and closing without lingering
//! resets the connections:
//!
//! ```
//! use std::io;
//! use std::time::Duration;
//! use uthread::io::splice;
//! use uthread::net::{Shutdown, TcpStream};
//! use uthread::try_scope;
//!
//! fn relay(client: &TcpStream, target: &TcpStream) -> io::Result<()> {
//!     let one_way = |from: &TcpStream, to: &TcpStream| {
//!         splice(from, to, None)?;
//!         to.shutdown(Shutdown::Write)
//!     };
//!     let relayed = try_scope(|scope| {
//!         scope.spawn(|| one_way(target, client));
//!         one_way(client, target)
//!     });
//!     if relayed.is_err() {
//!         client.set_linger(Some(Duration::ZERO))?;
//!         target.set_linger(Some(Duration::ZERO))?;
//!     }
//!     relayed
//! }
//! # use std::io::{Read, Write};
//! # use uthread::net::TcpListener;
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! # let mut client = TcpStream::connect(listener.local_addr()?)?;
//! # let (front, _) = listener.accept()?;
//! # let back = TcpStream::connect(listener.local_addr()?)?;
//! # let (mut target, _) = listener.accept()?;
//! # let relaying = uthread::spawn(move || relay(&front, &back));
//! # client.write_all(b"question")?;
//! # client.shutdown(Shutdown::Write)?;
//! # let mut text = String::new();
//! # target.read_to_string(&mut text)?;
//! # assert_eq!(text, "question");
//! # target.write_all(b"answer")?;
//! # drop(target);
//! # let mut text = String::new();
//! # client.read_to_string(&mut text)?;
//! # assert_eq!(text, "answer");
//! # relaying.join().unwrap()?;
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Idle connections
//!
//! A connection is idle if neither direction moves bytes, so the timeout of one direction's reads cannot tell. Count the bytes of each
//! connection, let one fiber compare the counters now and then, and end what has not moved by [`JoinHandle::cancel`](crate::JoinHandle::cancel).
//! The same handle serves a maximum lifetime and the shutdown. The connections themselves pay one addition.
//!
//! # Limits
//!
//! - **Connections**: [`net::serve`](crate::net::serve) lets further clients wait. A proxy refuses them instead and says why, so that they
//!   can try another.
//! - **Descriptors**: an `accept` that fails for lack of descriptors must neither end the server nor be repeated at once.
//!   [`AcceptFailure`](crate::net::AcceptFailure) tells such errors from those of a single connection.
//! - **Waiting for a response to arrive**: closing a socket with unread bytes resets the connection, and the reset can overtake the response. Shut
//!   down the sending side, and read for a bounded time and number of bytes before closing.
//! - **Lines of a log** go through a bounded buffer: a slow reader slows the service down, and loses nothing.
//!
//! # Shutdown
//!
//! The first SIGTERM cancels the fiber that accepts. [`TcpListener::shutdown`](crate::net::TcpListener::shutdown) would also make its
//! `accept` return, but in every process that shares the socket. Connections may end for a grace period; then, or at a second signal,
//! their fibers are cancelled. What must happen all the same, such as a line of the log, is in a [`shield`](crate::shield).
//!
//! ---
//!
//! [Previous: cancellation](super::cancellation) | [Contents](super) | [Next: production](super::production)
