//! A first server: from an accept loop to bounds, timeouts and a graceful shutdown.
//!
//! # One fiber per connection
//!
//! Write the server as you would with threads. [`spawn`](crate::spawn) starts a fiber instead of a thread, and each `read` and
//! `write` suspends the fiber until the kernel has completed it. A fiber takes a few KiB, so one for each connection is fine,
//! with a hundred connections or a hundred thousand.
//!
//! ```no_run
//! use std::io::{self, Read, Write};
//! use uthread::net::{TcpListener, TcpStream};
//!
//! fn echo(mut stream: TcpStream) -> io::Result<()> {
//!     let mut buffer = [0; 1024]; // On the fiber's stack: the kernel reads into it directly.
//!     loop {
//!         let count = stream.read(&mut buffer)?;
//!         if count == 0 {
//!             return Ok(());
//!         }
//!         stream.write_all(&buffer[..count])?;
//!     }
//! }
//!
//! #[uthread::main]
//! fn main() -> io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:7000")?;
//!     for stream in listener.incoming() {
//!         let stream = stream?;
//!         uthread::spawn(move || echo(stream));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`#[uthread::main]`](macro@crate::main) starts a runtime with one worker per CPU and runs the body of `main` in a fiber. Try it
//! with `nc 127.0.0.1 7000`.
//!
//! # Bound the number of connections
//!
//! The loop above accepts as many connections as clients open, and a single failed `accept` ends it.
//! [`net::serve`](crate::net::serve) solves both: it runs at most the given number of handlers at once, leaves further connections in
//! the kernel's queue, and keeps accepting when file descriptors run out. A handler that panics ends its own connection only.
//!
//! ```
//! use std::io::{self, Read, Write};
//! use std::net::Shutdown;
//! use uthread::net::{self, TcpListener, TcpStream};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let stop = listener.try_clone()?;
//! let server = uthread::spawn(move || {
//!     net::serve(&listener, 10_000, |stream, _peer| {
//!         // An error means that the client has disconnected.
//!         let _ = io::copy(&mut &stream, &mut &stream);
//!     })
//! });
//!
//! let mut client = TcpStream::connect(address)?;
//! client.write_all(b"hello")?;
//! client.shutdown(Shutdown::Write)?;
//! let mut echoed = String::new();
//! client.read_to_string(&mut echoed)?;
//! assert_eq!(echoed, "hello");
//!
//! stop.shutdown()?; // Ends `serve` once the running handlers have returned.
//! server.join().unwrap()?;
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Time out slow clients
//!
//! [`timeout`](crate::timeout) limits a whole block: every call inside fails with [`TimedOut`](std::io::ErrorKind::TimedOut) once
//! the time is over. A client that sends one byte per second cannot extend it. To limit each single `read` instead, use
//! [`TcpStream::set_read_timeout`](crate::net::TcpStream::set_read_timeout) as with `std`.
//!
//! ```
//! use std::io::{self, BufRead, BufReader};
//! use std::time::Duration;
//! use uthread::net::{TcpListener, TcpStream};
//! use uthread::timeout;
//!
//! fn read_command(stream: &TcpStream) -> io::Result<String> {
//!     let mut line = String::new();
//!     // The outer `?` is for the timeout, the inner one for `read_line`.
//!     timeout(Duration::from_millis(50), || BufReader::new(stream).read_line(&mut line))??;
//!     Ok(line)
//! }
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let _silent_client = TcpStream::connect(listener.local_addr()?)?;
//! let (stream, _) = listener.accept()?;
//! assert_eq!(read_command(&stream).unwrap_err().kind(), io::ErrorKind::TimedOut);
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Shut down gracefully
//!
//! When `main` returns, the remaining fibers vanish with the process, as threads do. To let running requests finish, stop
//! accepting on a signal and wait for the handlers. [`TcpListener::shutdown`](crate::net::TcpListener::shutdown) ends every `accept` on
//! the listener, and `serve` then returns after the last handler:
//!
//! ```no_run
//! use std::io;
//! use uthread::net::{self, TcpListener};
//! use uthread::signal::{Signal, Signals};
//!
//! #[uthread::main]
//! fn main() -> io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:7000")?;
//!     let stop = listener.try_clone()?;
//!     let mut signals = Signals::new([Signal::INT, Signal::TERM])?;
//!     uthread::spawn(move || {
//!         signals.recv()?;
//!         stop.shutdown()
//!     });
//!     net::serve(&listener, 10_000, |stream, _peer| {
//!         let _ = io::copy(&mut &stream, &mut &stream);
//!     })
//! }
//! ```
//!
//! A handler may take long. To limit the wait, run `serve` in a fiber of its own, and [cancel](crate::JoinHandle::cancel) that fiber
//! after a grace period: its handlers are cancelled with it. See [`cancellation`](super::cancellation).
//!
//! # Share state
//!
//! Use the locks and channels of [`uthread::sync`](crate::sync). They suspend the fiber that waits, where a lock of `std` would block the
//! worker and all of its fibers. [`blocking`](super::blocking) explains when a lock of `std` is fine.
//!
//! ```
//! use std::sync::Arc;
//! use uthread::sync::Mutex;
//!
//! let hits = Arc::new(Mutex::new(0));
//! let handlers: Vec<_> = (0..10)
//!     .map(|_| {
//!         let hits = Arc::clone(&hits);
//!         uthread::spawn(move || *hits.lock().unwrap() += 1)
//!     })
//!     .collect();
//! for handler in handlers {
//!     handler.join().unwrap();
//! }
//! assert_eq!(*hits.lock().unwrap(), 10);
//! ```
//!
//! [`channels`](super::channels) introduces channels and `select!`.
//!
//! # Test it
//!
//! [`#[uthread::test]`](macro@crate::test) runs the body of a test in a fiber. Bind to port 0, and ask the listener for its address.
//!
//! ---
//!
//! [Contents](super) | [Next: channels](super::channels)
