//! Using async crates: which crate to choose, how a fiber waits for a future, and what Tokio needs for that.
//!
//! # Which crate to choose
//!
//! | crate | use it |
//! | --- | --- |
//! | takes any `Read` and `Write`, such as rustls, tungstenite, redis | as it is, on streams of [`net`](crate::net) |
//! | blocks by itself, such as ureq, postgres | with [`own_tls`](crate::Builder::own_tls), or in [`blocking`](crate::blocking()) |
//! | is `async`, and needs no runtime | by [`block_on`](crate::block_on) |
//! | is `async`, and needs Tokio | by [`block_on`](crate::block_on), with a Tokio runtime beside |
//!
//! If a crate comes in both forms, a form that blocks in a stream of yours is the cheapest: a wait is one request to the kernel, and
//! no thread beside the workers is involved.
//!
//! # Waiting for a future
//!
//! [`block_on`](crate::block_on) polls a future on the calling fiber until it is ready. While it waits, the worker runs other fibers. Another
//! fiber, a thread or the reactor of another runtime wakes it:
//!
//! ```
//! let (sender, receiver) = futures_channel::oneshot::channel();
//! std::thread::spawn(move || sender.send(42));
//! assert_eq!(uthread::block_on(receiver), Ok(42));
//! ```
//!
//! To start a future as a fiber of its own, spawn the call. Unlike a task of Tokio, such a fiber stays on its worker, so that only what it
//! captures has to be `Send`, and no state of the future:
//!
//! ```
//! let (sender, receiver) = futures_channel::oneshot::channel();
//! let fiber = uthread::spawn(|| uthread::block_on(async { receiver.await.map(|number: i32| number + 1) }));
//! sender.send(41).unwrap();
//! assert_eq!(fiber.join().unwrap(), Ok(42));
//! ```
//!
//! The macros and functions of `futures`, such as `join!` and `select!`, combine futures within one call. Only calls of `.await` let
//! the others go on: a call that waits as fibers do, such as [`sleep`](crate::sleep) or a read, suspends the whole fiber, with all futures of the
//! task.
//!
//! # Crates that need Tokio
//!
//! A crate written for Tokio creates its sockets, timers and tasks in the runtime that is the *context* of the calling thread. Start one
//! runtime for the process, with threads of its own, where its reactor runs:
//!
//! ```text
//! static TOKIO: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
//!     let mut builder = tokio::runtime::Builder::new_multi_thread();
//!     builder.worker_threads(1).enable_all().build().expect("a Tokio runtime")
//! });
//! ```
//!
//! Then hand the future over as a task. It runs in the runtime, and the fiber waits for the handle, which needs no context:
//!
//! ```text
//! let page = block_on(TOKIO.spawn(async { reqwest::get(url).await?.text().await }))??;
//! ```
//!
//! A future that is not `Send`, or borrows from the fiber, cannot be a task. The crate `tokio-util` (feature `rt`) wraps it so that
//! the context is entered for each poll, and left before the fiber waits:
//!
//! ```text
//! use tokio_util::context::RuntimeExt;
//!
//! let (client, connection) = block_on(TOKIO.wrap(tokio_postgres::connect(&parameters, NoTls)))?;
//! TOKIO.spawn(connection);
//! let rows = block_on(client.query(statement, &[&number]))?;
//! ```
//!
//! The last line needs no context: the client only exchanges messages with its connection, which is a task.
//!
//! Both ways work in every mode of the runtime. These do not:
//!
//! - `let _context = TOKIO.enter()` at the start of a fiber or of `main`. The context belongs to a thread, and other fibers run on it while this
//!   one waits. If they enter and leave it in another order, Tokio panics. With [thread-local storage of their
//!   own](crate::Builder::own_tls), fibers may do so.
//! - `TOKIO.block_on(future)` in a fiber, for the same reason. Besides, it blocks the worker.
//! - A call that waits as fibers do, within a future that [`wrap`] polls: it keeps the context entered for the other fibers of its worker.
//!   Within a task, such a call blocks a thread of Tokio.
//!
//! [`wrap`]: https://docs.rs/tokio-util/latest/tokio_util/context/trait.RuntimeExt.html
//!
//! The study `checks/crates` of the repository runs reqwest, tokio-postgres, hyper and tonic in these ways, in each mode; its
//! results are in `docs/results/crates.md`. The example `tokio_client` runs tasks with a deadline.
//!
//! # Streams: the crate `uthread-futures`
//!
//! A crate that is generic over the stream can have one of uthread's, and needs no reactor of its own. `Async` makes an async stream of a
//! socket, and `Blocking` makes `Read` and `Write` of an async stream:
//!
//! ```text
//! use uthread_futures::{Async, Blocking};
//!
//! let stream = Async::new(TcpStream::connect(address)?);       // futures::io::{AsyncRead, AsyncWrite}
//! let stream = Async::new(stream).compat();                    // tokio::io::{AsyncRead, AsyncWrite}, by tokio_util::compat
//! let stream = TokioIo::new(Async::new(stream).compat());      // hyper::rt::{Read, Write}, by hyper_util::rt
//! let stream = Blocking::new(async_stream);                    // std::io::{Read, Write}
//! ```
//!
//! A poll of `Async` never waits: it makes one attempt, and has a helper fiber wait for the socket. So a reader and a writer in one task do not
//! wait for each other, a read that is dropped takes no bytes, and any executor may poll the stream. This is a server of `hyper`
//! without Tokio's reactor, with a fiber per connection:
//!
//! ```text
//! for stream in listener.incoming() {
//!     let stream = TokioIo::new(Async::new(stream?).compat());
//!     uthread::spawn(|| block_on(http1::Builder::new().serve_connection(stream, service_fn(answer))));
//! }
//! ```
//!
//! # What it costs
//!
//! Each wait of an `Async` starts a fiber, which takes a page for its stack until it ends. A round trip of 16 bytes takes 4 us more of CPU
//! time than with blocking calls on one worker (20 us instead of 16, for both ends), and 4 to 8 us more on two (24 us instead of 16 to 20):
//! `cargo run --release -p uthread-futures --example round_trips`, two CPUs of an AMD EPYC, Linux 6.18. A task of Tokio is woken in a thread of
//! Tokio and wakes the fiber from there, so that each result crosses threads.
//!
//! # Cancellation and deadlines
//!
//! If the fiber is cancelled or its deadline passes, `block_on` drops the future and unwinds the fiber, up to the
//! [`timeout`](crate::timeout) if there is one. [`try_block_on`](crate::thread::try_block_on) returns an error instead, which `?` passes on.
//! In both cases the future ends as it does in an async runtime: in the middle of an `.await`, so its crate has to be cancel safe there.
//!
//! A task of Tokio is not dropped with its handle. Abort it, if it must not go on:
//!
//! ```text
//! let task = TOKIO.spawn(future);
//! let abort = task.abort_handle();
//! if timeout(LIMIT, || block_on(task)).is_err() {
//!     abort.abort();
//! }
//! ```
//!
//! ---
//!
//! [Previous: from async](super::from_async) | [Contents](super) | [Next: porting](super::porting)
