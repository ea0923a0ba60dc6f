//! Virtual time for tests of blocking code.
//!
//! ```
//! # mod tests {
//! use std::time::{Duration, Instant};
//!
//! #[uthread::test(virtual_time)]
//! fn an_hour_passes_at_once() {
//!     let start = Instant::now();
//!     std::thread::sleep(Duration::from_secs(3600));
//!     assert_eq!(start.elapsed().as_secs(), 3600);
//! }
//! # }
//! ```
//!
//! Time stands still while a fiber can run, and jumps to the next timer when all fibers wait. So a
//! test of timeouts, retries or leases takes as long as its fibers compute, and does not depend on
//! how fast the machine is. The code under test is not changed: [`std::time`], the clocks of the C
//! library and whatever a dependency reads by them are virtual, and what waits by the C library
//! suspends its fiber. A multi-threaded runtime of Tokio in a test has virtual time, too: its threads
//! are fibers then.
//!
//! # What takes virtual time
//!
//! | | |
//! | --- | --- |
//! | sleeps, timeouts, deadlines and intervals, of `uthread`, `std` and C | virtual |
//! | `Instant::now`, `SystemTime::now`, `clock_gettime`, `gettimeofday`, `time` | virtual; those of CPU time are not |
//! | threads that a fiber creates, by `std` or by C | are fibers of the same runtime |
//! | sockets and pipes between the fibers of a test | no time: what was sent arrives before time goes on |
//! | files, names, [`blocking`](uthread::blocking()) calls, and fibers that block their thread | no time: it stands still meanwhile |
//! | peers outside of the runtime: processes, other hosts, threads that no fiber has created | real time, for which virtual time does not wait |
//! | timers of the kernel: retransmission, and delayed acknowledgements with Nagle's algorithm | real time, too: set `TCP_NODELAY` |
//!
//! A timer expires up to 131 us late, as it does in real time.
//!
//! # Deadlocks and limits
//!
//! If no fiber can run, no timer is left and nothing outside has woken one for three seconds, the
//! test fails with the cycle of those that wait for each other, and a list of all. A test that takes
//! longer than its `limit` of real time (60 s) fails with the same list; any `#[uthread::test]` may
//! have one:
//!
//! ```
//! # mod tests {
//! # use std::time::Duration;
//! #[uthread::test(virtual_time, limit = Duration::from_secs(10))]
//! # fn test() {}
//! # }
//! ```
//!
//! # Where it works
//!
//! On one worker, by io_uring or epoll, on x86-64 with glibc. The crate defines functions of the C
//! library, as `uthread-interpose` does, which it includes: it is a dependency for tests.

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod clocks;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod threads;

use uthread::runtime::Builder;
use uthread_interpose as _;

/// Makes the time of a runtime virtual: what `#[uthread::test(virtual_time)]` does. The runtime has
/// one worker.
///
/// Building it fails with `InvalidInput` for more workers, and with `Unsupported` for
/// [`Driver::Threads`](uthread::Driver::Threads).
///
/// # Panics
///
/// Panics without glibc, and on other CPUs than x86-64.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// let runtime = uthread_simulation::virtual_time(uthread::Runtime::builder()).build()?;
/// let elapsed = runtime.run(|| {
///     let start = Instant::now();
///     uthread::sleep(Duration::from_secs(60));
///     start.elapsed()
/// });
/// assert_eq!(elapsed.as_secs(), 60);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn virtual_time(builder: Builder) -> Builder {
    if cfg!(not(all(target_env = "gnu", target_arch = "x86_64"))) {
        panic!("there is virtual time only with glibc on x86-64");
    }
    uthread::interposition::virtual_time(builder)
}
