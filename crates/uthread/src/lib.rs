//! User-level threads for Linux: plain blocking code at io_uring speed.
//!
//! A *fiber* is a thread in user space. Every call of this crate that looks blocking is
//! *pseudo-blocking*: it becomes an io_uring request, the fiber is suspended, its worker runs
//! another, and the call returns with the result. Where io_uring is forbidden, epoll stands in
//! ([`Driver`]). The names and signatures are `std`'s; outside a runtime each call is the ordinary
//! blocking one.
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
//! # A tour
//!
//! - [`thread`]: fibers are spawned, joined and scoped as threads are; [`join()`] splits work, [`local!`](mod@local) keeps a
//!   value per fiber, and [`blocking()`] runs on another thread what waits in a way of its own.
//! - [`net`], [`fs`], [`io`], [`process`]: what `std` has there, on borrowed buffers, and what goes beyond it, as
//!   [`net::serve`], [`fs::Dir`] and [`io::splice`].
//! - [`sync`]: locks, conditions and channels between fibers and threads in any mix; [`select!`] waits for one of several.
//! - [`time`] and [`signal`]: intervals, and signals as a stream.
//! - Cancellation: [`JoinHandle::cancel`], [`timeout`], [`try_scope`] and [`shield`], which [`guide::cancellation`] explains.
//! - [`ring`]: what only io_uring has, any request of it among that.
//! - [`Runtime`] and its [`Builder`]: workers, drivers, [`Metrics`]; [`diagnose`] tells what the machine offers.
//!
//! The [`guide`] says how to [port](guide::porting) a program, what each [item](guide::items) of `std` is here, what still
//! [blocks](guide::blocking) a worker, and why all this is [sound](guide::soundness).

mod diagnosis;
pub mod fs;
pub mod guide;
pub mod io;
mod join;
pub mod local;
mod metrics;
pub mod net;
pub mod os;
pub mod process;
pub mod ring;
mod runtime;
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

mod atomic;
mod forked;

#[cfg(test)]
mod simulation;

pub use diagnosis::{Diagnosis, Feature, Usage, diagnose};
pub use join::join;
pub use metrics::{Metrics, WorkerMetrics};
pub use runtime::{Builder, Driver, DriverInfo, ParseDriverError, Runtime, Shutdown};
pub use sched::monitor::{Stall, StallCause};
pub use thread::{
    JoinHandle, blocking, current, scope, shield, sleep, spawn, try_scope, yield_now,
};
pub use time::timeout;

/// Makes a function the program's main fiber: its body runs as [`run`] runs it, in a runtime of its own.
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
/// The options are those of the [`Builder`] of the same names, each optional: `driver` is `"uring"`, `"epoll"` or
/// `"threads"`, and goes before `UTHREAD_DRIVER`; the others are constants.
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
/// The result may be of any type that `main` may have, also one that is not `Send`. It is reported in the
/// fiber, and the function returns the [`ExitCode`](std::process::ExitCode) of that, whatever its name is. Where no
/// runtime can start, the message of [`Builder::build`] goes to the standard error stream, and the exit code is 1.
///
/// A function with parameters or an `async` one is refused, and so is what no runtime can have:
///
/// ```compile_fail,E0080
/// #[uthread::main(workers = 0)]
/// fn main() {}
/// ```
///
/// # The end of the program
///
/// The program ends as one of `std` does: what is in the buffer of the standard output is written, and the fibers that
/// nobody has joined vanish with the process, like threads. Nothing of theirs is dropped or unwound, also when the body
/// panics. The runtime lives as long as the process; what has to end in order before that is joined, scoped, or run in a
/// [`Runtime`] that is [shut down](Runtime::shutdown).
///
/// # Panics
///
/// With the panic of the body, as any `main`.
#[doc(inline)]
pub use uthread_macros::main;

/// Makes a function a test whose body runs in a fiber, with a runtime of its own: as [`macro@main`], with the same
/// options, and as `#[test]`, with the attributes that go along with it. What a test has left
/// is [abandoned](Shutdown::Abandon) and not unwound, also where the test fails: threads that a test leaves are not unwound
/// either.
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

/// Runs `f` as the main fiber of a new runtime with the defaults, and [drops](Runtime#dropping) the runtime after it:
/// what is left then is cancelled, and unwound where no error can end it. At the end of a program with
/// [`#[uthread::main]`](macro@main) nothing is.
///
/// # Panics
///
/// With the panic of `f`, or when the kernel allows no runtime, with its reason and the remedy.
/// To handle that, use [`Runtime::new`].
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

/// The example of the README, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
