//! How to end a fiber, a block or a scope, and what its calls return.
//!
//! | what ends it | what ends | error of its calls |
//! | --- | --- | --- |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | one fiber, and the fibers of its scopes | `ECANCELED` |
//! | [`timeout`](crate::timeout), [`deadline`](crate::time::deadline) | a block, and the fibers of its scopes | `ETIMEDOUT` ([`TimedOut`](std::io::ErrorKind::TimedOut)) |
//! | the first failure in a [`try_scope`](crate::try_scope) | the rest of the scope | `ECANCELED` |
//! | dropping a [`Runtime`](crate::Runtime#dropping), and so the end of [`run`](crate::run) | all of its fibers | `ECANCELED` |
//!
//! The end of a program with `#[uthread::main]` cancels nothing: its fibers vanish with the process.
//! [`Runtime::shutdown`](crate::Runtime::shutdown) ends a runtime in other ways: it waits for all fibers, or abandons them.
//!
//! # An error, not a panic
//!
//! The call in which the fiber waits returns the error, and every later call that would wait fails immediately. So `?` leaves the
//! work in the ordinary way, and destructors run:
//!
//! ```
//! use std::io::{self, Read, Write};
//! use uthread::net::TcpStream;
//!
//! /// Greets the peer, and reads until it closes the connection or the fiber is cancelled.
//! fn serve(mut stream: TcpStream) -> io::Result<()> {
//!     stream.write_all(b"hello")?;
//!     let mut buffer = [0; 1024];
//!     loop {
//!         match stream.read(&mut buffer)? { // `ECANCELED` returns here.
//!             0 => return Ok(()),
//!             _count => {}
//!         }
//!     }
//! }
//!
//! let listener = uthread::net::TcpListener::bind("127.0.0.1:0")?;
//! let mut client = TcpStream::connect(listener.local_addr()?)?;
//! let (server, _) = listener.accept()?;
//! let serving = uthread::spawn(move || serve(server));
//! client.read_exact(&mut [0; 5])?; // The fiber runs.
//! serving.cancel();
//! assert_eq!(serving.join().unwrap().unwrap_err().raw_os_error(), Some(125));
//! # io::Result::Ok(())
//! ```
//!
//! Some calls cannot return an error, because their counterparts in `std` return none, or because each possible error would be false. These
//! calls *unwind* the fiber without the message of a panic: destructors run, and joining the fiber returns
//! [`Cancelled`](crate::thread::Cancelled). Unwinding stops at the `timeout` or `try_scope` that caused it. A fiber that ignores the
//! errors, such as an accept loop that logs each error and continues, is unwound after a hundred failed calls.
//!
//! | call | once the caller is cancelled |
//! | --- | --- |
//! | every call that returns an `io::Result` | returns the error from the table above |
//! | `recv_timeout` of every channel, [`Condvar::wait_timeout`](crate::sync::Condvar::wait_timeout) and `wait_timeout_while`, [`Semaphore::acquire_timeout`](crate::sync::Semaphore::acquire_timeout), [`select::select_timeout`](crate::sync::select::select_timeout) | returns early, as if the time were over |
//! | `recv`, `send` to a full channel, `iter`, `select!` | unwinds: an error would claim that the other side is gone |
//! | [`JoinHandle::join`](crate::JoinHandle::join) | unwinds: a result would claim that the fiber has ended. After the end of the runtime it keeps waiting, because that fiber ends, too |
//! | `sleep`, `park`, `yield_now`, [`Barrier::wait`](crate::sync::Barrier::wait), [`Condvar::wait`](crate::sync::Condvar::wait), [`Semaphore::acquire`](crate::sync::Semaphore::acquire); `Once`, `OnceLock` and `LazyLock` while another fiber runs the initializer | unwinds |
//! | the end of a scope, `join(a, b)`, [`Runtime::run`](crate::Runtime::run), [`blocking`](crate::blocking()) in progress | keeps waiting for the fibers or the call that may borrow from the caller; these fibers are cancelled with the caller |
//! | a lock (`Mutex`, `RwLock`) | keeps waiting |
//!
//! A destructor that runs during unwinding cannot unwind again. There, such a call returns as if the other side were gone.
//! [`join`](crate::join) and [`Runtime::run`](crate::Runtime::run) cannot return without a result, so they wait for it, and their closures
//! are not cut short.
//!
//! The error is never `ErrorKind::Interrupted`, which retry loops swallow. In a program built with `panic = "abort"` nothing
//! unwinds, and these calls return immediately.
//!
//! # Nothing is lost, nothing is left behind
//!
//! - A call returns only after the kernel has completed or cancelled the operation. The kernel never writes to a buffer later.
//! - A result that has already arrived is returned: an accepted connection, bytes that were read. `timeout` keeps the value of its
//!   block however late it is.
//! - Cancellation ends a fiber, not the things it uses: sockets, files, channels and locks remain usable by others. A value that was about to
//!   be sent over a channel is either sent or dropped with the fiber.
//! - A scope always waits for its fibers, because they borrow from it.
//! - A call that runs on another thread cannot be stopped: a [`blocking`](crate::blocking) call, or a file operation that only
//!   blocks. The caller waits for it. If no thread has started the call yet, the call is withdrawn and dropped in the fiber: a call
//!   that can return an error returns it, and `blocking` unwinds.
//! - Locking is not a cancellation point, because clean-up code locks, too.
//!
//! # Inheritance
//!
//! A limit belongs to the fiber that set it, and ends with the block. The fibers of a [`scope`](crate::scope) are part of their caller's
//! work: they inherit the deadline of the fiber that spawns them, and are cancelled with it. A fiber spawned without a scope is
//! independent: it has no deadline, and lives until it ends or its runtime does.
//!
//! Deadlines nest, and the earliest one applies:
//!
//! ```
//! use std::time::Duration;
//! use uthread::{sleep, timeout};
//!
//! let both = timeout(Duration::from_millis(5), || {
//!     timeout(Duration::from_secs(3600), || sleep(Duration::from_secs(3600)))
//! });
//! assert!(both.is_err());
//! ```
//!
//! The timeout of a socket (`set_read_timeout`) is independent of all this. It limits each read, which then returns `WouldBlock` as with
//! `std`, and the socket remains usable.
//!
//! # Fibers that do not end
//!
//! A fiber can catch its unwinding and continue, as a loop around [`catch_unwind`](std::panic::catch_unwind) does that isolates the
//! panics of requests. It can also wait for a lock that it holds itself. The end of the runtime does not wait for such a fiber forever. After
//! a hundred unwindings, or when the whole runtime makes no progress for two seconds, the fiber is *abandoned*: it is never
//! resumed, its stack and all values on it are leaked, and a line on the standard error stream names the fiber and what it waits for.
//!
//! # Sections that must complete
//!
//! [`shield`](crate::shield) runs a closure as if the fiber were not cancelled and had no deadline. Even the end of the runtime waits for
//! it, so the closure must end by itself:
//!
//! ```
//! use std::io::Write;
//! use uthread::{shield, timeout};
//! # use std::time::Duration;
//!
//! # let path = std::env::temp_dir().join(format!("uthread-shield-{}", std::process::id()));
//! # let temporary = path.with_extension("new");
//! timeout(Duration::from_millis(20), || {
//!     shield(|| {
//!         uthread::fs::File::create(&temporary)?.write_all(b"whole")?;
//!         uthread::fs::rename(&temporary, &path)
//!     })
//! })??;
//! # assert_eq!(std::fs::read(&path)?, b"whole");
//! # std::fs::remove_file(&path)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Code that only computes
//!
//! A computation makes no call that could fail. Check [`thread::is_cancelled`](crate::thread::is_cancelled) in it now and then.
//!
//! # On ordinary threads
//!
//! Deadlines and `try_scope` also work on threads outside the runtime, with two limits. No handle can cancel such a thread. And a system
//! call that cannot be polled, such as a read from a disk or the opening of a FIFO, ignores the deadline. With
//! `UTHREAD_DRIVER=threads`, handles cancel calls by the signal SIGURG, and the second limit applies to deadlines as well.
//!
//! ---
//!
//! [Previous: blocking](super::blocking) | [Contents](super) | [Next: fault tolerance](super::fault_tolerance)
