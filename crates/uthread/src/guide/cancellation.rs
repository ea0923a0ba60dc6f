//! How a fiber, a block or a scope is ended, and what its calls do then.
//!
//! | what ends it | what is ended | the error of its calls |
//! | --- | --- | --- |
//! | [`JoinHandle::cancel`](crate::JoinHandle::cancel) | one fiber, with the fibers of its scopes | `ECANCELED` |
//! | [`timeout`](crate::timeout), [`deadline`](crate::time::deadline) | a block, with the fibers of its scopes | `ETIMEDOUT` ([`TimedOut`](std::io::ErrorKind::TimedOut)) |
//! | the first failure in a [`try_scope`](crate::try_scope) | what is left of the scope | `ECANCELED` |
//! | the drop of a [`Runtime`](crate::Runtime#dropping), so also the end of [`run`](crate::run) | all its fibers | `ECANCELED` |
//!
//! The end of a program with `#[uthread::main]` cancels nothing: its fibers vanish with the process.
//! [`Runtime::shutdown`](crate::Runtime::shutdown) ends a runtime in other ways: it waits for all fibers, or abandons them.
//!
//! # An error, not a panic
//!
//! The call in which the fiber waits returns the error, and every later call that could wait fails at once, so that `?` leads
//! out of the work in the ordinary way and destructors run:
//!
//! ```
//! use std::io::{self, Read, Write};
//! use uthread::net::TcpStream;
//!
//! /// Greets, and reads until the peer has no more, or this is cancelled.
//! fn serve(mut stream: TcpStream) -> io::Result<()> {
//!     stream.write_all(b"hello")?;
//!     let mut buffer = [0; 1024];
//!     loop {
//!         match stream.read(&mut buffer)? { // ECANCELED leaves here.
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
//! client.read_exact(&mut [0; 5])?; // It has begun.
//! serving.cancel();
//! assert_eq!(serving.join().unwrap().unwrap_err().raw_os_error(), Some(125));
//! # io::Result::Ok(())
//! ```
//!
//! Some calls have no error to return, as `std`'s have none, or none that would be true. They
//! unwind the fiber instead, without the message of a panic: destructors run, and who joins gets
//! [`Cancelled`](crate::thread::Cancelled). The unwinding of a `timeout` ends at that call, of a `try_scope` at that one. A
//! fiber that goes on regardless is unwound after a hundred refused calls, as an accept loop that logs each error and
//! goes on may be.
//!
//! | call | once its caller is cancelled |
//! | --- | --- |
//! | everything that returns an `io::Result` | returns the error of the table above |
//! | `recv_timeout` of each kind of channel, [`Condvar::wait_timeout`](crate::sync::Condvar::wait_timeout) and `wait_timeout_while`, [`Semaphore::acquire_timeout`](crate::sync::Semaphore::acquire_timeout), [`select::select_timeout`](crate::sync::select::select_timeout) | ends early, as if its time were over |
//! | `recv`, `send` into a full channel, `iter`, `select!` | unwinds: to say that the other side is gone would be wrong |
//! | [`JoinHandle::join`](crate::JoinHandle::join) | unwinds: to say that the fiber has ended would be wrong. After the end of the runtime it goes on to wait, as that fiber ends too |
//! | `sleep`, `park`, `yield_now`, [`Barrier::wait`](crate::sync::Barrier::wait), [`Condvar::wait`](crate::sync::Condvar::wait), [`Semaphore::acquire`](crate::sync::Semaphore::acquire), `Once`, `OnceLock` and `LazyLock` of which another fiber runs the initializer | unwinds |
//! | the end of a scope, `join(a, b)`, [`Runtime::run`](crate::Runtime::run), [`blocking`](crate::blocking()) under way | goes on to wait for what may borrow; the fibers are cancelled with the caller |
//! | a lock (`Mutex`, `RwLock`) | goes on to wait |
//!
//! A call that would unwind a fiber that unwinds already, in a destructor, cannot: it returns, as if the other side were gone.
//! [`join`](crate::join) and [`Runtime::run`](crate::Runtime::run) have nothing to return then: there they wait for their results, which
//! are not cut short.
//!
//! The error is never `ErrorKind::Interrupted`, which retry loops swallow. In a program built with `panic = "abort"` nothing
//! unwinds: such calls return at once then.
//!
//! # Nothing is lost, nothing is left behind
//!
//! - The kernel is asked to end the operation, and the call returns after it has: it writes to no buffer later.
//! - A result that is there already is returned: an accepted connection, bytes that were read. `timeout` keeps the value of
//!   its block however late it is.
//! - To be cancelled is not contagious: sockets, files, channels and locks can be used by others afterwards. A value that was
//!   to be sent through a channel was either sent or is dropped with the fiber.
//! - A scope waits for its fibers in any case, because they borrow from it.
//! - What runs on another thread cannot be stopped there: a [`blocking`](crate::blocking) call, or a file operation that only
//!   blocks, is waited for. While all threads are busy and none has begun the call, it is withdrawn: a call with an error
//!   in its signature returns that error, `blocking` unwinds, and what the call captured is dropped in the fiber.
//! - Taking a lock is no point of cancellation: clean-up code locks, too.
//!
//! # What is handed on
//!
//! A limit belongs to the fiber that set it, and ends with the block. Fibers of a [`scope`](crate::scope) are parts of their
//! caller's work: they have the deadline of whoever spawns them, and are cancelled with the caller. A fiber spawned
//! without a scope is nobody's part: it has no deadline, and lives until it ends or the runtime does.
//!
//! Deadlines nest, and the earliest counts:
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
//! A socket's own timeout (`set_read_timeout`) is another thing: it bounds each read, which returns `WouldBlock` then as in
//! `std`, and the socket may be read again.
//!
//! # What does not end
//!
//! A fiber may catch what unwinds it and go on, as a loop around [`catch_unwind`](std::panic::catch_unwind) does that isolates the
//! panics of requests, or wait for a lock that it has itself. The end of the runtime does not wait for such a fiber for ever: after a
//! hundred unwindings, or when nothing goes on in the whole runtime for two seconds, it is *abandoned*: it is never
//! resumed, its stack is leaked with all that is on it, and a line on the standard error stream names it and what it waits for.
//!
//! # What must not be cut in two
//!
//! [`shield`](crate::shield) runs a few lines as if nobody had cancelled anything. Even the end of the runtime waits for them,
//! so they must end by themselves:
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
//! It makes no call that could fail. Let it look at [`thread::is_cancelled`](crate::thread::is_cancelled) now and then.
//!
//! # On plain threads
//!
//! Deadlines and `try_scope` work on threads outside the runtime too, with two limits of such threads: there is no handle by
//! which one could be cancelled, and a system call that cannot be polled (a read from a disk, the opening of a FIFO) takes
//! as long as it takes. With `UTHREAD_DRIVER=threads` handles cancel by a signal, SIGURG, and the second limit is the same
//! for deadlines.
