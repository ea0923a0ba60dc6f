//! User-level threads for Linux: plain blocking code at io_uring speed.
//!
//! A *fiber* is a thread in user space. Every call of this crate that looks blocking is
//! *pseudo-blocking*: it becomes an io_uring request, the fiber is suspended, its worker runs
//! another, and the call returns with the result. Where io_uring is forbidden, epoll stands in
//! ([`Driver`]). The names and signatures are `std`'s; outside a runtime each call is the ordinary
//! blocking one.
//!
//! ```
//! use std::io::{Read, Write};
//! use uthread::net::{TcpListener, TcpStream};
//!
//! fn main() -> std::io::Result<()> {
//!     uthread::run(|| {
//!         let listener = TcpListener::bind("127.0.0.1:0")?;
//!         let address = listener.local_addr()?;
//!         uthread::spawn(move || {
//!             let (mut stream, _) = listener.accept()?;
//!             std::io::copy(&mut stream.try_clone()?, &mut stream)
//!         });
//!         let mut stream = TcpStream::connect(address)?;
//!         stream.write_all(b"hello")?;
//!         let mut echo = [0; 5];
//!         stream.read_exact(&mut echo)?;
//!         assert_eq!(&echo, b"hello");
//!         Ok(())
//!     })
//! }
//! ```

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
mod stack;

mod atomic;

#[cfg(test)]
mod simulation;

pub use diagnosis::{Diagnosis, Feature, Usage, diagnose};
pub use join::join;
pub use metrics::{Metrics, WorkerMetrics};
pub use runtime::{Builder, Driver, DriverInfo, ParseDriverError, Runtime};
pub use sched::watch::{Stall, StallCause};
pub use thread::{
    JoinHandle, blocking, current, scope, shield, sleep, spawn, try_scope, yield_now,
};
pub use time::timeout;

/// Runs `f` as the main fiber of a new runtime with the defaults, and drops the runtime after it:
/// what is left then is cancelled, as the threads of a process are when `main` returns.
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
