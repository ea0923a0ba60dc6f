//! For users of `async`: the concepts of Tokio and their counterparts.
//!
//! A fiber is to a task what a thread is to a state machine: it waits in the middle of any function, so functions need no `async`, calls
//! no `.await`, and traits no boxed futures. Remove both keywords, and most code compiles against `uthread`.
//!
//! | Tokio | uthread |
//! | --- | --- |
//! | `#[tokio::main]`, `#[tokio::test]` | [`#[uthread::main]`](macro@crate::main), [`#[uthread::test]`](macro@crate::test) |
//! | `runtime::Builder` | [`Runtime::builder`](crate::Runtime::builder) |
//! | `tokio::spawn` | [`spawn`](crate::spawn) |
//! | `JoinHandle::await`, `JoinHandle::abort` | [`JoinHandle::join`](crate::JoinHandle::join), [`JoinHandle::cancel`](crate::JoinHandle::cancel) |
//! | `JoinSet` | [`scope`](crate::scope), or [`try_scope`](crate::try_scope), which cancels the others after the first error |
//! | `tokio::join!`, `try_join!` | [`join`](crate::join()), [`try_scope`](crate::try_scope) |
//! | `tokio::select!` | [`select!`](crate::select) |
//! | `Handle::block_on` | [`block_on`](crate::block_on), [`try_block_on`](crate::thread::try_block_on) |
//! | `spawn_blocking`, `block_in_place` | [`blocking`](crate::blocking()) |
//! | `yield_now` | [`yield_now`](crate::yield_now) |
//! | `time::sleep`, `timeout`, `interval` | [`sleep`](crate::sleep), [`timeout`](crate::timeout), [`time::interval`](crate::time::interval) |
//! | `CancellationToken` | [`JoinHandle::cancel`](crate::JoinHandle::cancel), [`timeout`](crate::timeout), or a [`promise`](mod@crate::sync::promise) |
//! | `sync::{mpsc, oneshot, broadcast}` | [`sync::mpsc`](crate::sync::mpsc), [`sync::oneshot`](mod@crate::sync::oneshot), [`sync::broadcast`](mod@crate::sync::broadcast) |
//! | `sync::watch` | [`sync::watch`](mod@crate::sync::watch), which returns snapshots instead of guards |
//! | `sync::OnceCell`, `sync::SetOnce` | [`OnceLock`](crate::sync::OnceLock), [`promise`](mod@crate::sync::promise) |
//! | `sync::{Mutex, RwLock, Barrier, Semaphore}` | the same names in [`sync`](crate::sync) |
//! | `sync::Notify` | [`Condvar`](crate::sync::Condvar), or [`park`](crate::thread::park) and `unpark` |
//! | `task_local!` | [`local!`](mod@crate::local) |
//! | `net::*`, `fs::*`, `process::Command`, `signal` | [`net`](crate::net), [`fs`](crate::fs), [`process`](crate::process), [`signal`](crate::signal) |
//! | `AsyncRead`, `AsyncWrite`, `tokio_util::codec` | `std::io::{Read, Write, BufRead}` |
//! | `Stream` | [`Iterator`] |
//! | `Pin`, `Box<dyn Future>`, `Send + 'static` on every future | nothing: a fiber never moves in memory, and only what enters it has to be `Send` |
//!
//! # Cancellation
//!
//! Dropping a future ends it at the `.await` where it waits, and runs nothing but destructors. A fiber is never dropped: the call in which it waits
//! returns an error, and the code decides what to do with it, which usually is `?`. A value that has arrived is never lost, so there is no
//! question of "cancel safety". See [`cancellation`](super::cancellation).
//!
//! Detached work behaves alike: dropping a [`JoinHandle`](crate::JoinHandle) detaches its fiber, as dropping Tokio's does its task.
//!
//! # Buffers
//!
//! An `async` runtime on io_uring takes ownership of each buffer, because a future can be dropped while the kernel writes.
//! A fiber cannot, so `read(&mut buffer)` borrows any slice, also one on the stack. See [`soundness`](super::soundness).
//!
//! # An example
//!
//! With Tokio:
//!
//! ```text
//! async fn fetch(address: SocketAddr) -> io::Result<String> {
//!     let mut stream = TcpStream::connect(address).await?;
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text).await?;
//!     Ok(text)
//! }
//!
//! let (first, second) = tokio::try_join!(fetch(address), fetch(address))?;
//! ```
//!
//! With uthread:
//!
//! ```
//! use std::io::{self, Read, Write};
//! use uthread::net::{SocketAddr, TcpListener, TcpStream};
//!
//! fn fetch(address: SocketAddr) -> io::Result<String> {
//!     let mut stream = TcpStream::connect(address)?;
//!     let mut text = String::new();
//!     stream.read_to_string(&mut text)?;
//!     Ok(text)
//! }
//!
//! # let listener = TcpListener::bind("127.0.0.1:0")?;
//! # let address = listener.local_addr()?;
//! # uthread::spawn(move || {
//! #     for stream in listener.incoming().take(2) {
//! #         stream?.write_all(b"hello")?;
//! #     }
//! #     Ok::<(), io::Error>(())
//! # });
//! let (first, second) = uthread::try_scope(|scope| {
//!     let first = scope.spawn(|| fetch(address));
//!     let second = scope.spawn(|| fetch(address));
//!     Ok::<_, io::Error>((first.join()?, second.join()?))
//! })?;
//! assert_eq!((first.as_str(), second.as_str()), ("hello", "hello"));
//! # Ok::<(), io::Error>(())
//! ```
//!
//! # Using async crates
//!
//! [`block_on`](crate::block_on) waits for a future in a fiber, while the worker runs other fibers. The chapter
//! [`async_crates`](super::async_crates) shows how, also for crates that need Tokio.
//!
//! # What to watch for
//!
//! - **Work stealing.** Tokio moves a task between threads at any `.await`. A fiber that has started stays on its worker, so `Rc` and guards
//!   may live across calls. Spawn fibers early, so that idle workers can take them before they start.
//! - **No cooperative budget in computations.** As with `async`, a loop that never waits keeps its worker.
//! - **A lock may be held across calls that wait**, if it is one of [`uthread::sync`](crate::sync).
//!
//! ---
//!
//! [Previous: from threads](super::from_threads) | [Contents](super) | [Next: async crates](super::async_crates)
