//! User-level threads for Linux: plain blocking code at io_uring speed.
//!
//! A *fiber* is a thread in user space. Calls of this crate look blocking but
//! are *pseudo-blocking*: if a call has to wait, its fiber is suspended, the worker thread runs
//! other fibers, and the call returns once its result is there. The kernel performs most calls as
//! io_uring requests. A call that can complete at once, such as a send, is tried directly first.
//! Where io_uring is not permitted, epoll takes its place (see [`Driver`]).
//!
//! Names and signatures are those of `std`. Outside a runtime, each call blocks the thread, as in
//! `std`.
//!
//! ```sh
//! cargo add uthread
//! ```
//!
//! ```
//! use uthread::io::{self, Read, Write};
//! use uthread::net::{TcpListener, TcpStream};
//! use uthread::thread;
//!
//! #[uthread::main]
//! fn main() -> io::Result<()> {
//!     let listener = TcpListener::bind("127.0.0.1:0")?;
//!     let address = listener.local_addr()?;
//!     thread::spawn(move || {
//!         let (mut stream, _) = listener.accept()?;
//!         io::copy(&mut stream.try_clone()?, &mut stream)
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"hello")?;
//!     let mut echo = [0; 5];
//!     stream.read_exact(&mut echo)?;
//!     assert_eq!(&echo, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! # When to use it
//!
//! Use it for servers, proxies and clients with many connections or files at once that should read
//! like programs with threads, for programs that use threads and need more of them, and for
//! libraries that are written against [`Read`](io::Read) and [`Write`](io::Write).
//!
//! Use something else for
//!
//! - a few hundred connections at most: threads of `std`;
//! - computations without I/O: a pool such as `rayon`;
//! - a program built around `async` crates: their runtime. For single ones in a program of fibers
//!   there is [`block_on`] ([how](guide::async_crates));
//! - systems other than Linux.
//!
//! # Platforms
//!
//! | | needed | tested |
//! | --- | --- | --- |
//! | Linux | 5.11 or newer for io_uring, best from 6.13 on; epoll elsewhere | 5.10 (Debian's), 6.1, 6.12, 6.18, 7.3 |
//! | CPU | x86-64, aarch64 | x86-64; on aarch64 some tests, emulated |
//! | C library | glibc, musl | glibc 2.36; by hand musl, and glibc 2.41 and 2.43 |
//! | Rust | 1.89 | 1.95; its unit tests on 1.89 |
//!
//! Features of the kernel are detected, and replaced where they are missing; [`runtime::diagnose`]
//! lists them.
//!
//! # Drivers
//!
//! | driver | mechanism | when |
//! | --- | --- | --- |
//! | [`Uring`](Driver::Uring) | one io_uring instance per worker | by default, where the kernel allows it |
//! | [`Epoll`](Driver::Epoll) | one epoll instance per worker, and threads for files | where io_uring is forbidden, as in most containers |
//! | [`Threads`](Driver::Threads) | one OS thread per fiber | on request: to debug, and to compare |
//!
//! The runtime chooses; the variable `UTHREAD_DRIVER` and
//! [`Builder::driver`](runtime::Builder::driver) overrule it ([how](guide::drivers)).
//!
//! # Other crates in a fiber
//!
//! Crates that read and write through [`Read`](io::Read) and [`Write`](io::Write), such as rustls,
//! tungstenite, redis, flate2, tar and csv, work unchanged on the streams of [`net`] and [`fs`].
//! The others work, too, as a fiber is a thread to all code: it has thread-local storage of its own,
//! and when it blocks its worker's thread, or computes, the worker goes on with other fibers on
//! another thread. [Lean](runtime::Builder::lean) fibers take half the memory and are no threads:
//!
//! | crates that | fibers | lean fibers |
//! | --- | --- | --- |
//! | keep a value per thread: rand, arc-swap, env_logger | work | work |
//! | wait by themselves for another fiber: flume, parking_lot, dashmap, r2d2, rayon | work | hang |
//! | block by themselves: postgres, mysql | work | stop other fibers meanwhile; use [`blocking()`] |
//! | use sockets of `std`, to a server in the same program: ureq, native-tls | work | hang |
//! | keep a context per thread: scoped-tls, tracing without `uthread-tracing` | work | wrong results |
//! | are async, in [`block_on`]: reqwest, hyper, tokio-postgres | work | work |
//!
//! Where fibers cannot have thread-local storage of their own, as with an unknown C library, all are
//! lean: [`Runtime::is_lean`] tells. Of 40 uses of unpatched crates that block, all 40 end right,
//! and 3 on lean fibers. The file `docs/results/crates.md` of the repository lists them, and
//! [`guide::blocking`] describes what a call that blocks costs.
//!
//! # A tour
//!
//! - [`thread`]: spawn, join and scope fibers like threads, or take results as fibers end with
//!   [`JoinSet`](thread::JoinSet). [`join()`] splits work, [`local!`](mod@local) declares
//!   fiber-local values, and [`blocking()`] runs a blocking call on another thread. [`block_on`]
//!   waits for a future.
//! - [`net`], [`fs`], [`io`], [`process`]: the counterparts of the `std` modules, with borrowed
//!   buffers, and additions such as [`net::serve`], [`fs::Dir`] and [`io::splice`].
//! - [`sync`]: locks, condition variables and channels, shared by fibers and threads in any
//!   combination. [`select!`] waits for one of several events.
//! - [`time`] and [`signal`]: deadlines and intervals, and signals as a stream.
//! - Cancellation: [`JoinHandle::cancel`], [`timeout`], [`try_scope`] and [`shield`], explained in
//!   [`guide::cancellation`].
//! - [`ring`]: io_uring features that `std` has no counterpart for, including raw requests.
//! - [`priority`]: urgent, normal and background work, in one process without starving any of it.
//! - [`runtime`]: the [`Builder`](runtime::Builder) of a [`Runtime`], with its workers and drivers,
//!   [`Metrics`](runtime::Metrics), the report of [stalls](runtime::Stall), and the kernel features
//!   available on this machine.
//!
//! # The guide
//!
//! - Start: [first server](guide::first_server), [first service](guide::first_service),
//!   [channels](guide::channels), [five programs](guide::programs), [drivers](guide::drivers), for
//!   users of [threads](guide::from_threads) and of [`async`](guide::from_async), [async
//!   crates](guide::async_crates).
//! - Port a program: [porting](guide::porting), [items of `std`](guide::items).
//! - Go further: [blocking calls](guide::blocking), [cancellation](guide::cancellation), [fault
//!   tolerance](guide::fault_tolerance), [services](guide::services),
//!   [production](guide::production), [tuning](guide::tuning), [soundness](guide::soundness).

#![deny(clippy::exhaustive_enums, clippy::exhaustive_structs)]

pub mod fs;
pub mod guide;
pub mod io;
mod join;
pub mod local;
pub mod net;
pub mod os;
pub mod priority;
pub mod process;
pub mod ring;
pub mod runtime;
pub mod signal;
pub mod sync;
pub mod thread;
pub mod time;

mod op;
mod sched;

mod driver;
mod fiber;
mod pool;
mod resource;
mod stack;
mod tls;

mod atomic;
mod cache;
mod clock;
mod forked;
#[doc(hidden)]
pub mod interposition;
mod priorities;
#[doc(hidden)]
pub mod root;
mod world;

#[cfg(test)]
mod simulation;

pub use join::join;
pub use runtime::{Driver, Runtime};
pub use thread::{
    JoinHandle, block_on, blocking, current, scope, shield, sleep, spawn, try_scope, yield_now,
};
pub use time::timeout;

/// Turns `main` into the main fiber of a new runtime.
///
/// ```
/// use uthread::net::TcpListener;
/// use uthread::{fs, io};
///
/// #[uthread::main]
/// fn main() -> io::Result<()> {
///     let listener = TcpListener::bind("127.0.0.1:0")?;
///     println!("{} on {}", fs::read_to_string("/proc/version")?, listener.local_addr()?);
///     Ok(())
/// }
/// ```
///
/// All options are optional and correspond to the methods of [`runtime::Builder`]. `driver` is
/// `"uring"`, `"epoll"` or `"threads"`, and takes precedence over `UTHREAD_DRIVER`; the values of
/// the others are constant expressions.
///
/// ```
/// use std::error::Error;
///
/// #[uthread::main(workers = 2, driver = "epoll", stack_size = 1 << 20)]
/// fn main() -> Result<(), Box<dyn Error>> {
///     let answer: u32 = uthread::spawn(|| "42".parse()).join().unwrap()?;
///     assert_eq!(answer, 42);
///     Ok(())
/// }
/// ```
///
/// The body may return any type that `main` may return, even if it is not `Send`. The result is
/// reported in the fiber, and the function returns its [`ExitCode`](std::process::ExitCode),
/// whatever its name is. If the runtime cannot start, the error of
/// [`Builder::build`](runtime::Builder::build) is printed to standard error and the exit code is 1.
///
/// A function with parameters, an `async` function, and options that no runtime can have are
/// compile errors:
///
/// ```compile_fail,E0080
/// #[uthread::main(workers = 0)]
/// fn main() {}
/// ```
///
/// # The end of the program
///
/// The program ends like a program with threads. The buffered standard output is written, and
/// fibers that were not joined vanish with the process: they are neither unwound nor dropped, also
/// if the body panics. The runtime lives as long as the process. Fibers that must end in order
/// before that have to be joined or scoped, or run in a [`Runtime`] that is [shut
/// down](Runtime::shutdown).
///
/// # Panics
///
/// Panics with the payload of the body, like any `main`.
#[doc(inline)]
pub use uthread_macros::main;

/// Turns a function into a test that runs in the main fiber of a new runtime.
///
/// The options are those of [`macro@main`], and three more:
///
/// | option | |
/// | --- | --- |
/// | `limit = Duration::from_secs(5)` | the real time that the test may take. After that it fails, with a list of its fibers, which are cancelled; a process whose test goes on nevertheless is aborted five seconds later |
/// | `virtual_time` | time stands still while a fiber can run, and jumps to the next timer when all wait. Requires the package `uthread-simulation`, which describes it. The limit is 60 s by default |
/// | `seeds = 100` | the test runs with so many seeds, each in another order, in virtual time. The limit is that of each run |
///
/// The attributes that go with `#[test]` apply. Fibers
/// that the test leaves behind are [abandoned](runtime::Shutdown::Abandon) and not unwound, also if
/// the test fails, like threads that a test leaves behind. The harness does not capture what fibers
/// print, unless they are [lean](runtime::Builder::lean).
///
/// ```
/// #[uthread::test(workers = 1)]
/// fn a_value_is_received() {
///     let (sender, receiver) = uthread::sync::mpsc::channel();
///     uthread::spawn(move || sender.send(5));
///     assert_eq!(receiver.recv(), Ok(5));
/// }
///
/// #[uthread::test]
/// #[should_panic = "on purpose"]
/// fn a_panic_is_that_of_the_test() {
///     panic!("on purpose");
/// }
/// # fn main() {}
/// ```
#[doc(inline)]
pub use uthread_macros::test;

/// Runs `f` as the main fiber of a new runtime with default settings.
///
/// The runtime is [dropped](Runtime#dropping) after `f` returns: remaining fibers are cancelled,
/// and unwound if no error can end them. [`#[uthread::main]`](macro@main) differs in this: at the
/// end of the program it leaves them alone.
///
/// # Panics
///
/// Panics with the payload of `f` if it panics. Panics with the reason and a remedy if the runtime
/// cannot start; use [`Runtime::new`] to handle that error.
///
/// ```
/// let sum = uthread::run(|| {
///     let half = uthread::spawn(|| (1..=50).sum::<u32>());
///     (51..=100).sum::<u32>() + half.join().unwrap()
/// });
/// assert_eq!(sum, 5050);
/// ```
#[track_caller]
pub fn run<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    match Runtime::new() {
        Ok(runtime) => runtime.run(f),
        Err(error) => panic!("the runtime cannot start: {error}"),
    }
}

/// The examples of the package's README, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
