//! Virtual time for tests of blocking code, seeds that decide what may happen in several ways, and worlds of
//! hosts that crash, with networks that fail.
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
//! | the time-stamp counter (`rdtsc`), as in crate `quanta` | virtual, at the rate of the real one to three digits; each read takes some ticks, a random number of them |
//! | threads that a fiber creates, by `std` or by C | are fibers of the same runtime |
//! | sockets and pipes between the fibers of a test | no time: what was sent arrives before time goes on |
//! | files | no time: a call of `uthread::fs` is made at once |
//! | names, [`blocking`](uthread::blocking()) calls, and fibers that block their thread | no time: it stands still meanwhile |
//! | loops that read a clock until a deadline | virtual: after 100,000 reads at one time, each read takes a microsecond |
//! | peers outside of the runtime: processes, other hosts, threads that no fiber has created | real time, for which virtual time does not wait |
//! | timers of the kernel: retransmission, `TCP_CORK`, and Nagle's algorithm, which is off unless a program turns it on | real time, too |
//!
//! A timer expires up to 131 us late, as it does in real time.
//!
//! # Deadlocks and limits
//!
//! If no fiber can run, no timer is left and nothing outside has woken one for three seconds, the
//! fibers are cancelled, and the test fails with the cycle of those that wait for each other, and a list
//! of all. A test that takes longer than its `limit` of real time (60 s) fails with the same list; any
//! `#[uthread::test]` may have one:
//!
//! ```
//! # mod tests {
//! # use std::time::Duration;
//! #[uthread::test(virtual_time, limit = Duration::from_secs(10))]
//! # fn test() {}
//! # }
//! ```
//!
//! # Seeds
//!
//! With `seeds = 100`, a test runs a hundred times, each in another order: the seed decides which of the
//! fibers that can run goes on, whether a call that need not wait lets others run first, the random
//! numbers of the C library, and so the keys of each `HashMap`. A race is found by some seed, and again by
//! the same one:
//!
//! ```
//! # mod tests {
//! use uthread::sync::Mutex;
//!
//! #[uthread::test(virtual_time, seeds = 100)]
//! # #[should_panic]
//! fn two_payments_are_both_counted() {
//!     let total = Mutex::new(0);
//!     let pay = || {
//!         let before = *total.lock().unwrap(); // Unlocked again too early.
//!         *total.lock().unwrap() = before + 1;
//!     };
//!     uthread::join(pay, pay);
//!     assert_eq!(total.into_inner().unwrap(), 2);
//! }
//! # }
//! ```
//!
//! A run that fails prints its seed and the command that repeats it. `UTHREAD_SEED=7` runs one seed, and
//! `UTHREAD_SEEDS=100000` as many, by one process a CPU, up to the first that fails. `UTHREAD_SHRINK=1` then runs
//! that seed again and again without some of the faults of its [`World`], and prints the few that it takes to
//! fail; `UTHREAD_FAULTS=3,7-9` lets only these happen. `UTHREAD_TIMELINE=run.svg` [draws](World::write_timeline) a
//! run that fails. Time begins with the year 2000. A seed does not decide the numbers of fibers, descriptors,
//! processes and ports, addresses of memory, and what a program takes from outside of its [`World`].
//!
//! # What leaves a world
//!
//! A world notes what its hosts and the test do outside of it, once for each kind and place, with the line of the
//! program. A test that fails prints that, [`World::escapes`] returns it, and after [`World::deny_escapes`] such
//! calls fail with `EPERM`, and so does the test:
//!
//! ```text
//! outside of the world, where no seed decides:
//! server: changes a file outside of the world, `/tmp/state`, at src/server.rs:33
//! client: starts a process, at build-tool-1.2.0/src/lib.rs:101, called at src/client.rs:12
//! ```
//!
//! | | |
//! | --- | --- |
//! | files that are opened for writing, created, renamed or removed, outside of the host's [directory](World::directory) | reported |
//! | files of other hosts, `/dev/random`, `/dev/urandom`, abstract names of Unix sockets | reported |
//! | other files that are only read, such as `/etc/localtime` | in the [trace](World::trace): no run differs while they stay as they are |
//! | processes; other runtimes, dedicated fibers, [`blocking`](uthread::blocking()); threads of a lean fiber | reported |
//! | names that are not those of hosts; addresses of other computers, if the test itself uses them | reported; a host finds them unreachable |
//! | system calls by `syscall(2)` for random bytes and a clock | are the world's, as by the functions of C |
//! | others by `syscall(2)` that wait, send, change files, or make a thread | reported |
//! | those by the instruction `syscall`, as in crate `rustix` | reported on demand: [`World::trap_system_calls`] |
//! | the instruction `rdrand`, and a clock of the kernel's vDSO without a function of C | not seen |
//!
//! # Hosts, networks and disks
//!
//! A [`World`] has hosts, each of which runs a program as it is: with a name, an address, a disk and a clock. The
//! test crashes, restarts and [pauses](Host::pause) them, lets their clocks jump and [drift](Host::set_clock_drift),
//! cuts the links between them, and lets messages be late or lost. [`first_test`] is a chapter to follow, from an
//! empty project to a bug found.
//!
//! A [`Link`] is between a client and a server, with a latency, a rate, and faults: it can be cut in one
//! direction or both, healed, and reset. The time that it takes is virtual.
//!
//! # Where it works
//!
//! On one worker, by io_uring or epoll, on x86-64 with glibc. The crate defines functions of the C
//! library, as `uthread-interpose` does, which it includes: it is a dependency for tests.

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod clocks;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod contents;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod counter;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod descriptors;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod files;
pub mod first_test;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod instructions;
mod link;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod processes;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod random;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod real;
mod seeds;
#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod threads;
mod world;

mod chance;
mod faults;
mod lock;
mod place;

use uthread::runtime::Builder;
use uthread_interpose as _;

pub use self::link::{Direction, Link};
#[doc(hidden)]
pub use self::seeds::repeat;
pub use self::world::{Host, Links, World};

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
    uthread::interposition::virtual_time(builder, None, begin)
}

/// Makes the time of a runtime virtual like [`virtual_time`], and lets a seed decide what may happen in
/// several ways: what a run of `#[uthread::test(virtual_time, seeds = ..)]` does.
///
/// # Panics
///
/// As [`virtual_time`].
///
/// ```
/// let numbers = |seed| {
///     let builder = uthread_simulation::seeded(uthread::Runtime::builder(), seed);
///     let runtime = builder.build().unwrap();
///     let numbers = runtime.spawn(|| std::collections::HashSet::from([1, 2, 3, 4, 5, 6, 7, 8]));
///     numbers.join().unwrap().into_iter().collect::<Vec<_>>()
/// };
/// assert_eq!(numbers(1), numbers(1));
/// assert_ne!(numbers(1), numbers(2));
/// ```
#[must_use]
pub fn seeded(builder: Builder, seed: u64) -> Builder {
    uthread::interposition::virtual_time(virtual_time(builder), Some(seed), begin)
}

/// Prepares the thread of a worker.
fn begin() {
    #[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
    counter::begin();
}
